// A connection as commands see it. Implemented by server/; lives on its reactor's thread, and a handler that runs on a worker
// has it to itself until it returns (the connection waits).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "command/monitor_feed.h"
#include "command/pubsub.h"

namespace pion {

// Something of a plane's that ends with the connection (leases, claims). Destroyed on the connection's end.
class SessionAttachment {
 public:
  virtual ~SessionAttachment() = default;
};

// Descriptors that came with the command's bytes; closed by whoever destroys the holder.
class PassedDescriptors {
 public:
  PassedDescriptors() = default;
  PassedDescriptors(PassedDescriptors&& other) noexcept : fds_(std::move(other.fds_)) { other.fds_.clear(); }
  PassedDescriptors& operator=(PassedDescriptors&& other) noexcept {
    std::swap(fds_, other.fds_);
    return *this;
  }
  ~PassedDescriptors();
  void add(int fd) { fds_.push_back(fd); }
  void take_all(PassedDescriptors& other) {
    fds_.insert(fds_.end(), other.fds_.begin(), other.fds_.end());
    other.fds_.clear();
  }
  void close_all();
  const std::vector<int>& fds() const { return fds_; }

 private:
  std::vector<int> fds_;
};

class Transaction;
class WatchedKeys;

struct Session {
  Session();
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  uint64_t id = 0;
  int database = 0;
  int protocol = 2;
  bool authenticated = false;       // true from the start when no password is set
  bool unix_socket = false;
  std::string name;                 // CLIENT SETNAME
  std::string lib_name, lib_ver;    // CLIENT SETINFO
  std::string peer_address;         // "127.0.0.1:5" or "/path/pion.sock:0"
  std::string local_address;
  int fd = -1;
  int64_t created_wall_ms = 0;
  int64_t last_command_wall_ms = 0;
  const char* last_command = "";    // name in the table
  uint64_t commands = 0;
  bool no_evict = false;
  bool no_touch = false;
  enum class ReplyMode { kOn, kOff, kSkipNext, kSkipThis } reply_mode = ReplyMode::kOn;
  bool close_after_reply = false;   // QUIT, CLIENT KILL of itself, protocol errors
  // PromptStore::revocations() when the first bytes of a command came that was not whole then; for the next command only.
  std::optional<uint64_t> begun_at;
  PassedDescriptors descriptors;    // of the command being run; what a command leaves is closed after it
  std::unique_ptr<SessionAttachment> prompt;  // prompt memory's leases and claims of this connection
  std::unique_ptr<Subscriptions> subscriptions;  // null: none
  std::unique_ptr<MonitorMembership> monitor;    // null: not in MONITOR mode
  std::unique_ptr<Transaction> transaction;      // null: not in MULTI
  std::unique_ptr<WatchedKeys> watched;          // null: none

  bool receives_messages() const { return subscriptions || monitor; }
  // In RESP2 a subscriber's replies could not be told from messages, so it may send a few commands only.
  bool subscribed_mode() const { return subscriptions && protocol == 2; }
};

}  // namespace pion
