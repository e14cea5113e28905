// The server's settings, typed. The table of options (options_table.cc) says what each means, its range and its flag.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "storage/journal.h"

namespace pion {

// What a client may be owed: closed at once above the hard limit, and above the soft one after so many seconds. 0: no limit.
struct OutputLimitSetting {
  uint64_t hard_bytes = 0, soft_bytes = 0;
  int64_t soft_s = 0;
  bool operator==(const OutputLimitSetting&) const = default;
};
// Classes of clients. There are no replicas yet; theirs is kept for tools that set all three.
enum ClientClass : size_t { kNormalClients, kReplicaClients, kPubsubClients, kClientClasses };
using OutputLimitSettings = std::array<OutputLimitSetting, kClientClasses>;

struct Settings {
  // Network.
  int64_t port = 1974;                              // 0: no TCP
  std::vector<std::string> bind = {"127.0.0.1"};
  std::string unixsocket;                           // resolved at start: <dir>/pion.sock unless given; empty: none ("off" was given)
  int64_t unixsocketperm = 0600;
  int64_t tcp_backlog = 511;
  int64_t tcp_keepalive_s = 300;                    // 0: off
  int64_t timeout_s = 0;                            // idle clients are closed after; 0: never
  int64_t maxclients = 10000;
  uint64_t proto_max_bulk_bytes = kMaxBulkBytes;
  uint64_t client_query_buffer_bytes = kQueryBufferBytes;
  OutputLimitSettings output_limits = {{{0, 0, 0}, {256 * kMiB, 64 * kMiB, 60}, {32 * kMiB, 8 * kMiB, 60}}};
  int64_t workers = 0;                              // resolved at start: 0 becomes the number of cores

  // Security.
  std::string requirepass;
  std::string enable_debug_command = "local";

  // Data.
  std::string dir = "./pion-data";                  // made absolute at start
  bool appendonly = true;
  std::string appendfsync = "everysec";
  std::string save;                                 // "<seconds> <changes> ...": when checkpoints are taken beside the journal's own
  int64_t databases = kDatabases;

  // Memory.
  uint64_t maxmemory_bytes = 0;                     // 0: no limit
  std::string maxmemory_policy = "noeviction";
  int64_t maxmemory_samples = 5;
  int64_t lfu_log_factor = 10;
  int64_t lfu_decay_minutes = 1;
  bool active_expire = true;
  int64_t active_expire_effort = 1;
  int64_t maxmemory_eviction_tenacity = 10;
  int64_t hz = 10;
  int64_t hash_max_listpack_entries = 512;
  uint64_t hash_max_listpack_value = 64;
  int64_t list_max_listpack_size = -2;
  int64_t set_max_intset_entries = 512;
  int64_t set_max_listpack_entries = 128;
  uint64_t set_max_listpack_value = 64;
  uint64_t hll_sparse_max_bytes = 3000;
  int64_t zset_max_listpack_entries = 128;
  uint64_t zset_max_listpack_value = 64;
  uint64_t stream_node_max_bytes = 4096;
  int64_t stream_node_max_entries = 100;
  uint64_t prompt_budget_bytes = 0;                 // 0: chosen at start from the disk

  // Observing.
  int64_t slowlog_slower_than_us = 10'000;          // below 0: nothing
  int64_t slowlog_max_len = 128;
  int64_t latency_monitor_threshold_ms = 0;         // 0: off
  bool latency_tracking = true;
  std::vector<double> latency_percentiles = {50, 99, 99.9};
  // Events.
  int64_t notify_classes = 0;                       // KeyEvent bits and the forms, as parse_event_classes()

  // Logging.
  std::string loglevel = "notice";
  std::string logfile;                              // empty: standard error

  // Parameters that steer nothing, by name, when they are not at their initial value.
  std::map<std::string, std::string, std::less<>> kept;

  // What the original's users pass.
  std::string profile = "full";

  struct SavePoint {
    int64_t seconds, changes;
  };
  std::vector<SavePoint> save_points() const;

  SyncMode sync_mode() const {
    return appendfsync == "always" ? SyncMode::kAlways : appendfsync == "no" ? SyncMode::kNo : SyncMode::kEverySecond;
  }
  LogLevel log_level() const {
    return loglevel == "debug"     ? LogLevel::kDebug
           : loglevel == "verbose" ? LogLevel::kVerbose
           : loglevel == "warning" ? LogLevel::kWarning
                                   : LogLevel::kNotice;
  }
};

}  // namespace pion
