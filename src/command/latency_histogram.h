// How often durations occurred, to 1 %: the slots of an HdrHistogram with two significant digits, 256 of one unit, then 128 to each
// doubling.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/cycle_clock.h"

namespace pion {

// What falls into one slot: from the value itself up to what differs from it by less than 1 %.
inline unsigned histogram_slot(uint64_t value) {
  const auto shift = static_cast<unsigned>(std::bit_width(value | 255)) - 8;
  return shift * 128 + static_cast<unsigned>(value >> shift);
}
inline uint64_t histogram_highest(unsigned slot) {
  if (slot < 256) return slot;
  const unsigned shift = slot / 128 - 1;
  return ((uint64_t{slot} - shift * 128 + 1) << shift) - 1;
}

// Of one command on one thread, in ticks of the CycleClock: counting costs no conversion. Written by that thread, read by any.
class LatencyHistogram {
 public:
  static constexpr uint64_t kMostNs = 1'000'000'000;
  static constexpr unsigned kSlots = 3072;  // of nanoseconds up to kMostNs
  using Counts = std::array<uint64_t, kSlots>;

  void add(uint64_t ticks) {
    std::atomic<uint64_t>& slot = counts_[histogram_slot(std::min(ticks, kMostTicks))];
    slot.store(slot.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // In nanoseconds: a slot counts as what is in its middle.
  void add_to(Counts& sum) const {
    for (unsigned i = 0; i < kTickSlots; ++i) {
      const uint64_t count = counts_[i].load(std::memory_order_relaxed);
      if (count == 0) continue;
      const uint64_t width = i < 256 ? 1 : uint64_t{1} << (i / 128 - 1);
      sum[histogram_slot(std::min(CycleClock::to_ns(histogram_highest(i) - width / 2), kMostNs))] += count;
    }
  }

 private:
  static constexpr uint64_t kMostTicks = (uint64_t{1} << 33) - 1;
  static constexpr unsigned kTickSlots = 26 * 128 + 128;

  std::array<std::atomic<uint64_t>, kTickSlots> counts_{};
};

}  // namespace pion
