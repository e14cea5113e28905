// Time. Wall time for expiry and records, monotonic time for durations and deadlines.
#pragma once

#include <cstdint>
#include <ctime>

namespace pion {

inline int64_t clock_ns(clockid_t id) {
  timespec now;
  clock_gettime(id, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

inline int64_t wall_ms() { return clock_ns(CLOCK_REALTIME) / 1'000'000; }
inline int64_t wall_us() { return clock_ns(CLOCK_REALTIME) / 1'000; }
inline int64_t monotonic_ms() { return clock_ns(CLOCK_MONOTONIC) / 1'000'000; }
inline int64_t monotonic_us() { return clock_ns(CLOCK_MONOTONIC) / 1'000; }

}  // namespace pion
