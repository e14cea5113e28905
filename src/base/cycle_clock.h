// The cheapest clock: the processor's time-stamp counter where it runs at one rate, else the monotonic clock. For durations of
// single commands, where a call of clock_gettime() for each would be felt.
#pragma once

#include <cstdint>

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace pion {

class CycleClock {
 public:
  // Ticks of a unit that to_ns() knows. Only differences mean something.
  static uint64_t now() {
#if defined(__x86_64__)
    if (uses_counter_) [[likely]] return __rdtsc();
#endif
    return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
  }
  static uint64_t to_ns(uint64_t ticks) { return static_cast<uint64_t>(static_cast<Wide>(ticks) * ns_per_tick_ >> kShift); }
  static uint64_t from_ns(uint64_t ns);

  // Measures the counter against the monotonic clock, for a few milliseconds. Once, before threads start; until then the monotonic
  // clock is read.
  static void calibrate();

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr unsigned kShift = 32;
  static bool uses_counter_;
  static uint64_t ns_per_tick_;  // fixed point
};

}  // namespace pion
