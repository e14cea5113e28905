#include "command/command_statistics.h"

#include <algorithm>

namespace pion {
namespace {

constexpr std::string_view kOtherErrors = "ERRORSTATS_OVERFLOW";

void tell_error(std::string_view text) { command_statistics().local().error(text); }

}  // namespace

ThreadStatistics::ThreadStatistics(CommandStatistics& all)
    : counters_(std::make_unique<Counters[]>(command_count())), tracking_(all.tracking_), slow_ticks_(all.slow_ticks_) {}

ThreadStatistics::~ThreadStatistics() {
  for (size_t id = 0; id < command_count(); ++id) delete counters_[id].histogram.load();
}

LatencyHistogram& ThreadStatistics::make_histogram(Counters& counters) {
  auto made = std::make_unique<LatencyHistogram>();
  counters.histogram.store(made.get(), std::memory_order_release);
  return *made.release();
}

void ThreadStatistics::error(std::string_view text) {
  std::string_view code = text.substr(0, text.find(' '));
  std::lock_guard lock(errors_mutex_);
  auto found = errors_.find(code);
  if (found == errors_.end()) {
    if (errors_.size() >= CommandStatistics::kErrorCodes || code.size() > 64) code = kOtherErrors;
    found = errors_.try_emplace(std::string(code), 0).first;
  }
  found->second++;
}

CommandStatistics::CommandStatistics() : base_(command_count()) {}

ThreadStatistics& CommandStatistics::local() {
  static thread_local ThreadStatistics* mine = nullptr;
  if (!mine) [[unlikely]] {
    auto made = std::make_unique<ThreadStatistics>(*this);
    mine = made.get();
    std::lock_guard lock(mutex_);
    threads_.push_back(std::move(made));
  }
  return *mine;
}

std::vector<CommandTotals> CommandStatistics::sum() const {
  std::vector<CommandTotals> sums(command_count());
  for (const auto& thread : threads_) {
    for (size_t id = 0; id < sums.size(); ++id) {
      const ThreadStatistics::Counters& counters = thread->counters_[id];
      sums[id].calls += counters.calls.load(std::memory_order_relaxed);
      sums[id].ns += CycleClock::to_ns(counters.ticks.load(std::memory_order_relaxed));
      sums[id].rejected += counters.rejected.load(std::memory_order_relaxed);
      sums[id].failed += counters.failed.load(std::memory_order_relaxed);
    }
  }
  return sums;
}

std::vector<CommandTotals> CommandStatistics::totals() const {
  std::lock_guard lock(mutex_);
  std::vector<CommandTotals> totals = sum();
  for (size_t id = 0; id < totals.size(); ++id) {
    totals[id].calls -= base_[id].calls;
    totals[id].ns -= std::min(base_[id].ns, totals[id].ns);  // rounded anew for each thread
    totals[id].rejected -= base_[id].rejected;
    totals[id].failed -= base_[id].failed;
  }
  return totals;
}

uint64_t CommandStatistics::calls() const {
  uint64_t calls = 0;
  for (const CommandTotals& command : totals()) calls += command.calls;
  return calls;
}

uint64_t CommandStatistics::calls_ever() const {
  std::lock_guard lock(mutex_);
  uint64_t calls = 0;
  for (const auto& thread : threads_) {
    for (size_t id = 0; id < command_count(); ++id) calls += thread->counters_[id].calls.load(std::memory_order_relaxed);
  }
  return calls;
}

void CommandStatistics::sum_histogram(size_t id, LatencyHistogram::Counts& counts) const {
  for (const auto& thread : threads_) {
    const LatencyHistogram* const histogram = thread->counters_[id].histogram.load(std::memory_order_acquire);
    if (histogram) histogram->add_to(counts);
  }
}

bool CommandStatistics::histogram(const CommandSpec& spec, LatencyHistogram::Counts& counts) const {
  counts = {};
  std::lock_guard lock(mutex_);
  sum_histogram(spec.id, counts);
  if (const auto base = base_histograms_.find(spec.id); base != base_histograms_.end()) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] -= (*base->second)[i];
  }
  return std::any_of(counts.begin(), counts.end(), [](uint64_t count) { return count > 0; });
}

std::map<std::string, uint64_t> CommandStatistics::errors() const {
  std::map<std::string, uint64_t> sums;
  std::lock_guard lock(mutex_);
  for (const auto& thread : threads_) {
    std::lock_guard errors_lock(thread->errors_mutex_);
    for (const auto& [code, count] : thread->errors_) sums[code] += count;
  }
  return sums;
}

uint64_t CommandStatistics::error_replies() const {
  uint64_t replies = 0;
  for (const auto& [code, count] : errors()) replies += count;
  return replies;
}

void CommandStatistics::reset() {
  std::lock_guard lock(mutex_);
  base_ = sum();
  for (size_t id = 0; id < command_count(); ++id) {
    auto counts = std::make_unique<LatencyHistogram::Counts>();
    sum_histogram(id, *counts);
    if (std::any_of(counts->begin(), counts->end(), [](uint64_t count) { return count > 0; })) base_histograms_[id] = std::move(counts);
  }
  for (const auto& thread : threads_) {
    std::lock_guard errors_lock(thread->errors_mutex_);
    thread->errors_.clear();
  }
}

CommandStatistics& command_statistics() {
  static CommandStatistics statistics;
  static const bool told = (on_error_written(tell_error), true);
  static_cast<void>(told);
  return statistics;
}

}  // namespace pion
