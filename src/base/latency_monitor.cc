#include "base/latency_monitor.h"

#include <algorithm>

namespace pion {

void LatencyMonitor::add(std::string_view event, int64_t duration_ms, int64_t wall_s) {
  const auto ms = static_cast<uint32_t>(std::min<int64_t>(duration_ms, UINT32_MAX));
  std::lock_guard lock(mutex_);
  auto found = events_.find(event);
  if (found == events_.end()) found = events_.emplace(std::string(event), Event{}).first;
  Event& entry = found->second;
  entry.worst_ms = std::max(entry.worst_ms, ms);
  if (!entry.samples.empty() && entry.samples.back().wall_s == wall_s) {
    entry.samples.back().ms = std::max(entry.samples.back().ms, ms);
    return;
  }
  if (entry.samples.size() == kKept) entry.samples.erase(entry.samples.begin());
  entry.samples.push_back({wall_s, ms});
}

std::map<std::string, LatencyMonitor::Event, std::less<>> LatencyMonitor::events() const {
  std::lock_guard lock(mutex_);
  return events_;
}

bool LatencyMonitor::forget(std::string_view event) {
  std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  events_.erase(found);
  return true;
}

size_t LatencyMonitor::forget_all() {
  std::lock_guard lock(mutex_);
  const size_t count = events_.size();
  events_.clear();
  return count;
}

LatencyMonitor& latency_monitor() {
  static LatencyMonitor monitor;
  return monitor;
}

}  // namespace pion
