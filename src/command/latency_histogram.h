// How often durations occurred, to 1 %: the slots of an HdrHistogram with two significant digits (256 of one nanosecond, then 128 to
// each doubling), up to a second. Written by one thread, read by any.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

namespace pion {

class LatencyHistogram {
 public:
  static constexpr uint64_t kMostNs = 1'000'000'000;
  static constexpr unsigned kSlots = 3072;
  using Counts = std::array<uint64_t, kSlots>;

  void add(uint64_t ns) {
    std::atomic<uint64_t>& slot = counts_[slot_of(ns)];
    slot.store(slot.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void add_to(Counts& sum) const {
    for (unsigned i = 0; i < kSlots; ++i) sum[i] += counts_[i].load(std::memory_order_relaxed);
  }

  static unsigned slot_of(uint64_t ns) {
    ns = std::min(ns, kMostNs);
    const auto shift = static_cast<unsigned>(std::bit_width(ns | 255)) - 8;
    return shift * 128 + static_cast<unsigned>(ns >> shift);
  }
  // The longest duration that falls into the slot.
  static uint64_t highest_ns(unsigned slot) {
    if (slot < 256) return slot;
    const unsigned shift = slot / 128 - 1;
    return ((uint64_t{slot} - shift * 128 + 1) << shift) - 1;
  }

 private:
  std::array<std::atomic<uint64_t>, kSlots> counts_{};
};

}  // namespace pion
