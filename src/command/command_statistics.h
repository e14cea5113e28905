// What commands did: calls, time, failures, refusals, a histogram of their durations, and the errors that were answered. Each thread
// counts for itself, without locked instructions and without sharing a cache line; whoever reads adds the threads up. One for the
// process, since threads count wherever they run a command: reactors, workers, EXEC within either.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cycle_clock.h"
#include "command/latency_histogram.h"
#include "command/table.h"
#include "resp/reply.h"

namespace pion {

struct CommandTotals {
  uint64_t calls = 0, ns = 0, rejected = 0, failed = 0;
};

class CommandStatistics;

// One thread's counters. Only that thread writes.
class ThreadStatistics {
 public:
  explicit ThreadStatistics(CommandStatistics& all);
  ~ThreadStatistics();

  // A command ran for so long, or a part of it that counts as the whole. True: it may have been slow enough for somebody to be told.
  bool called(const CommandSpec& spec, uint64_t ticks, bool failed) {
    Counters& counters = counters_[spec.id];
    add(counters.calls, 1);
    add(counters.ticks, ticks);
    if (failed) [[unlikely]] add(counters.failed, 1);
    if (tracking_.load(std::memory_order_relaxed)) histogram(counters).add(ticks);
    return ticks >= slow_ticks_.load(std::memory_order_relaxed);
  }
  void rejected(const CommandSpec& spec) { add(counters_[spec.id].rejected, 1); }
  // An error reply; its first word is what is counted.
  void error(std::string_view text);

 private:
  friend class CommandStatistics;

  struct alignas(64) Counters {
    std::atomic<uint64_t> calls{0}, ticks{0}, rejected{0}, failed{0};
    std::atomic<LatencyHistogram*> histogram{nullptr};  // owned
  };

  static void add(std::atomic<uint64_t>& counter, uint64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  LatencyHistogram& histogram(Counters& counters) {
    LatencyHistogram* const known = counters.histogram.load(std::memory_order_relaxed);
    return known ? *known : make_histogram(counters);
  }
  static LatencyHistogram& make_histogram(Counters& counters);

  const std::unique_ptr<Counters[]> counters_;  // by CommandSpec::id
  const std::atomic<bool>& tracking_;
  const std::atomic<uint64_t>& slow_ticks_;
  mutable std::mutex errors_mutex_;
  std::map<std::string, uint64_t, std::less<>> errors_;
};

class CommandStatistics {
 public:
  static constexpr size_t kErrorCodes = 128;  // of one thread; more are counted together

  CommandStatistics();

  // The calling thread's. It stays when the thread ends: what was counted is not forgotten.
  ThreadStatistics& local();

  // CONFIG SET latency-tracking.
  void set_tracking(bool on) { tracking_.store(on, std::memory_order_relaxed); }
  // From here on somebody wants to know what was called (the slow log, the latency monitor). UINT64_MAX: nobody.
  void set_slow_ns(uint64_t ns) { slow_ticks_.store(ns == UINT64_MAX ? ns : CycleClock::from_ns(ns), std::memory_order_relaxed); }

  // Since the last reset; by CommandSpec::id.
  std::vector<CommandTotals> totals() const;
  uint64_t calls() const;
  uint64_t calls_ever() const;  // resets do not matter
  // False: the command was not called.
  bool histogram(const CommandSpec& spec, LatencyHistogram::Counts& counts) const;
  std::map<std::string, uint64_t> errors() const;
  uint64_t error_replies() const;
  void reset();

 private:
  friend class ThreadStatistics;

  void sum_histogram(size_t id, LatencyHistogram::Counts& counts) const;
  std::vector<CommandTotals> sum() const;

  std::atomic<bool> tracking_{true};
  std::atomic<uint64_t> slow_ticks_{UINT64_MAX};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadStatistics>> threads_;
  // The threads' counters only grow; what they stood at when they were reset is taken off.
  std::vector<CommandTotals> base_;
  std::map<size_t, std::unique_ptr<LatencyHistogram::Counts>> base_histograms_;
};

CommandStatistics& command_statistics();

// Measures a row of commands on one thread: the end of one is the beginning of the next, so there is one reading of the clock to
// each.
class CommandClock {
 public:
  void begin() { begun_ = CycleClock::now(); }
  // Ticks since begin() or the last lap.
  uint64_t lap() {
    const uint64_t now = CycleClock::now();
    return now - std::exchange(begun_, now);
  }

 private:
  uint64_t begun_ = 0;
};

}  // namespace pion
