#include "command/slow_command.h"

#include <algorithm>

#include "base/cycle_clock.h"
#include "base/latency_monitor.h"
#include "command/slow_log.h"
#include "command/table.h"

namespace pion {
namespace {

bool belongs_into_slow_log(const Services& services, const CommandSpec& spec, int64_t us) {
  const int64_t threshold_us = services.slow_log->threshold_us();
  return threshold_us >= 0 && us >= threshold_us && !(spec.flags & kSkipSlowlog);
}

void tell_monitor(const CommandSpec& spec, int64_t us) {
  latency_monitor().note(spec.flags & kFast ? "fast-command" : "command", us / 1000);
}

}  // namespace

uint64_t slow_ns_of(int64_t slow_log_us, int64_t monitor_ms) {
  constexpr uint64_t kNever = UINT64_MAX;
  const uint64_t log_ns = slow_log_us < 0 ? kNever : slow_log_us > INT64_MAX / 1000 ? kNever : static_cast<uint64_t>(slow_log_us) * 1000;
  const uint64_t monitor_ns = monitor_ms <= 0 || monitor_ms > INT64_MAX / 1'000'000 ? kNever : static_cast<uint64_t>(monitor_ms) * 1'000'000;
  return std::min(log_ns, monitor_ns);
}

void tell_slow_command(const Services& services, const CommandSpec& spec, const Arguments& arguments, const Session& session, uint64_t ticks) {
  const auto us = static_cast<int64_t>(CycleClock::to_ns(ticks) / 1000);
  tell_monitor(spec, us);
  if (belongs_into_slow_log(services, spec, us)) services.slow_log->add(us, slow_log_arguments(spec, arguments), session);
}

void tell_slow_command(const Services& services, const CommandSpec& spec, std::vector<std::string> shown, const Session& session,
                       uint64_t ticks) {
  const auto us = static_cast<int64_t>(CycleClock::to_ns(ticks) / 1000);
  tell_monitor(spec, us);
  if (belongs_into_slow_log(services, spec, us)) services.slow_log->add(us, std::move(shown), session);
}

}  // namespace pion
