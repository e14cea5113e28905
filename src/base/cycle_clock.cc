#include "base/cycle_clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pion {
namespace {

constexpr int64_t kMeasuredNs = 4'000'000;

#if defined(__x86_64__)
// Whether the counter runs at one rate through sleep states and changes of frequency (CPUID 8000_0007, EDX bit 8).
bool counter_is_steady() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}

struct Reading {
  uint64_t ticks;
  int64_t ns;
};

// Both clocks at one moment: of several readings the one that was interrupted least.
Reading read_both() {
  Reading best{};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = __rdtsc();
    const int64_t ns = clock_ns(CLOCK_MONOTONIC);
    const uint64_t after = __rdtsc();
    if (after - before < least) least = after - before, best = {before + (after - before) / 2, ns};
  }
  return best;
}
#endif

}  // namespace

bool CycleClock::uses_counter_ = false;
uint64_t CycleClock::ns_per_tick_ = uint64_t{1} << kShift;

uint64_t CycleClock::from_ns(uint64_t ns) {
  const Wide ticks = (static_cast<Wide>(ns) << kShift) / ns_per_tick_;
  return ticks > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(ticks);
}

void CycleClock::calibrate() {
#if defined(__x86_64__)
  if (!counter_is_steady()) return;
  const Reading begin = read_both();
  while (clock_ns(CLOCK_MONOTONIC) - begin.ns < kMeasuredNs) {
  }
  const Reading end = read_both();
  if (end.ticks <= begin.ticks || end.ns <= begin.ns) return;
  ns_per_tick_ = static_cast<uint64_t>((static_cast<Wide>(end.ns - begin.ns) << kShift) / (end.ticks - begin.ticks));
  uses_counter_ = ns_per_tick_ > 0;
#endif
}

}  // namespace pion
