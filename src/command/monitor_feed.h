// MONITOR: every command that any connection runs, told to those who watch. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "command/pubsub.h"
#include "resp/request.h"

namespace pion {

struct CommandSpec;
struct Session;

class MonitorFeed {
 public:
  bool watched() const { return count_.load(std::memory_order_relaxed) > 0; }
  // All watchers get the lines in the same order.
  void tell(std::string line);

 private:
  friend class MonitorMembership;

  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::unordered_set<Subscriber*> watchers_;
};

// A connection in MONITOR mode; it ends with this.
class MonitorMembership {
 public:
  MonitorMembership(MonitorFeed& feed, std::unique_ptr<Subscriber> subscriber);
  ~MonitorMembership();
  MonitorMembership(const MonitorMembership&) = delete;
  MonitorMembership& operator=(const MonitorMembership&) = delete;

 private:
  MonitorFeed& feed_;
  std::unique_ptr<Subscriber> subscriber_;
};

// The arguments as a line of MONITOR shows them; empty: this command is not shown. Passwords are left out. Before the handler runs,
// which may move arguments away.
std::string monitored_arguments(const CommandSpec& spec, const Arguments& arguments);
// After it ran: the line tells the database that the connection is in then.
void tell_monitors(MonitorFeed& feed, const Session& session, const std::string& arguments);

// One argument, quoted: backslashes for what does not print.
void append_quoted(std::string& out, std::string_view bytes);
// For each argument whether it is a secret: passwords of AUTH, HELLO, MIGRATE and CONFIG SET, everything of ACL SETUSER and its kin.
std::vector<bool> secret_arguments(const CommandSpec& spec, const Arguments& arguments);

}  // namespace pion
