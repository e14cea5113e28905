// The server as commands about it see it. Implemented by server/. Methods may be called from any thread unless said.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "command/session.h"

namespace pion {

struct ServerStats {
  int64_t start_wall_ms = 0;
  uint64_t connections_received = 0, commands_processed = 0, rejected_connections = 0;
  uint64_t net_input_bytes = 0, net_output_bytes = 0;
  uint64_t ticks = 0, busy_us = 0, longest_tick_us = 0;  // of the reactors
  double commands_per_s = 0, input_kib_per_s = 0, output_kib_per_s = 0;  // lately
  uint64_t connected_clients = 0, blocked_clients = 0, output_limit_disconnections = 0, max_clients = 0;
  uint64_t startup_memory_bytes = 0;  // that malloc had given out before there was any key
  int tcp_port = 0;
  unsigned threads = 0;
  std::string unix_socket, config_file, executable, run_id;
};

// A snapshot of one client for CLIENT LIST / INFO / KILL.
struct ClientInfo {
  uint64_t id = 0;
  std::string address, local_address, name, lib_name, lib_ver, user;
  int fd = -1, database = 0, protocol = 2;
  int64_t age_s = 0, idle_s = 0;
  uint64_t query_buffer_bytes = 0, query_buffer_free_bytes = 0, reply_buffer_bytes = 0, memory_bytes = 0;
  uint64_t output_bytes = 0, output_parts = 0, commands = 0, net_input_bytes = 0, net_output_bytes = 0;
  int64_t queued = -1;  // commands in MULTI; -1: not in it
  uint64_t queued_bytes = 0, watched = 0;
  bool watched_changed = false;
  uint64_t channels = 0, patterns = 0, shard_channels = 0;  // subscribed to
  std::string last_command;
  unsigned thread = 0;
  bool closing = false, reads = true;
  bool unix_socket = false, subscriber = false, monitor = false, no_evict = false, no_touch = false, blocked = false;
};

struct ConfigValue { std::string name, value; };

class ServerControl {
 public:
  virtual ~ServerControl() = default;
  virtual ServerStats stats() const = 0;
  virtual void reset_stats() = 0;

  // Parameters whose name matches the glob, by the one table of options.
  virtual std::vector<ConfigValue> config_get(std::string_view pattern) const = 0;
  // All or none. The error names the parameter.
  virtual Status config_set(const std::vector<ConfigValue>& values) = 0;
  virtual Status config_rewrite() = 0;

  virtual bool check_password(std::string_view user, std::string_view password) const = 0;
  virtual bool password_required() const = 0;

  // Every client, in order of id. Gathers over the reactors; `done` runs on the caller's reactor thread.
  virtual void clients(std::function<void(std::vector<ClientInfo>)> done) = 0;
  // Closes the client with this id (a client that kills itself still gets its reply). False: no such client.
  virtual bool kill_client(uint64_t id) = 0;

  // CLIENT PAUSE, for so long from now: all commands wait, or those that write. A pause under way is only made longer and stricter.
  virtual void pause_clients(int64_t duration_ms, bool only_writes) = 0;
  virtual void unpause_clients() = 0;
  // Ends a client's wait for keys as if its time was up, or with an error. `done`, on any thread: whether it did wait.
  virtual void unblock_client(uint64_t id, bool error, std::function<void(bool)> done) = 0;

  // SIGTERM's way: stop accepting, write and sync, end. `save`: a checkpoint first.
  virtual void shutdown(bool save) = 0;
};

}  // namespace pion
