// SLOWLOG: the last commands that took longer than `slowlog-log-slower-than`. Any thread; a lock is taken for slow commands only.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "resp/request.h"

namespace pion {

struct CommandSpec;
struct Session;

class SlowLog {
 public:
  struct Entry {
    uint64_t id = 0;
    int64_t wall_s = 0;
    int64_t duration_us = 0;
    std::vector<std::string> arguments;  // as shown
    std::string peer, client_name;
  };

  // Microseconds from which on a command is kept; 0: all, below 0: none.
  void set_threshold_us(int64_t us) { threshold_us_.store(us, std::memory_order_relaxed); }
  int64_t threshold_us() const { return threshold_us_.load(std::memory_order_relaxed); }
  void set_max_entries(uint64_t entries);

  void add(int64_t duration_us, std::vector<std::string> arguments, const Session& session);
  // Newest first.
  std::vector<Entry> newest(size_t count) const;
  size_t size() const;
  void reset();

 private:
  void trim();

  std::atomic<int64_t> threshold_us_{10'000};
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // newest first
  uint64_t max_entries_ = 128, bytes_ = 0;
  uint64_t next_id_ = 0;
};

// The arguments as the slow log shows them: 32 at most, of each 128 bytes at most, secrets left out.
std::vector<std::string> slow_log_arguments(const CommandSpec& spec, const Arguments& arguments);

}  // namespace pion
