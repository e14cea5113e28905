// Events that took longer than `latency-monitor-threshold`: what LATENCY shows. One for the process, since those who have
// something to tell (the journal, the keyspace, commands) share no other room. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace pion {

// Names of events are constants of ours; there are few. Of each the last kKept seconds with an event are kept, the worst of each.
class LatencyMonitor {
 public:
  static constexpr size_t kKept = 160;

  struct Sample {
    int64_t wall_s = 0;
    uint32_t ms = 0;
  };
  struct Event {
    std::vector<Sample> samples;  // oldest first
    uint32_t worst_ms = 0;        // since the last reset
  };

  // 0: nothing is kept.
  void set_threshold_ms(int64_t ms) { threshold_ms_.store(ms, std::memory_order_relaxed); }
  int64_t threshold_ms() const { return threshold_ms_.load(std::memory_order_relaxed); }

  void note(std::string_view event, int64_t duration_ms) {
    const int64_t threshold = threshold_ms();
    if (threshold > 0 && duration_ms >= threshold) add(event, duration_ms, wall_ms() / 1000);
  }
  // The same, at a given second.
  void add(std::string_view event, int64_t duration_ms, int64_t wall_s);

  std::map<std::string, Event, std::less<>> events() const;
  // Whether there was such an event.
  bool forget(std::string_view event);
  size_t forget_all();

 private:
  std::atomic<int64_t> threshold_ms_{0};
  mutable std::mutex mutex_;
  std::map<std::string, Event, std::less<>> events_;
};

LatencyMonitor& latency_monitor();

// Measures a piece of work and tells it, when the monitor is on.
class LatencyProbe {
 public:
  explicit LatencyProbe(std::string_view event) : event_(event), begin_us_(latency_monitor().threshold_ms() > 0 ? monotonic_us() : -1) {}
  ~LatencyProbe() {
    if (begin_us_ >= 0) latency_monitor().note(event_, (monotonic_us() - begin_us_) / 1000);
  }
  LatencyProbe(const LatencyProbe&) = delete;
  LatencyProbe& operator=(const LatencyProbe&) = delete;

 private:
  const std::string_view event_;
  const int64_t begin_us_;
};

}  // namespace pion
