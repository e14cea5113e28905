// The lock of one stripe: 4 bytes, held for well under a microsecond. Spins briefly, then sleeps in the kernel (futex).
// States: 0 free, 1 held, 2 held and somebody may sleep (U. Drepper, "Futexes Are Tricky", mutex 2).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/limits.h"

namespace pion {

class StripeLock {
 public:
  void lock() {
    uint32_t free = 0;
    if (state_.compare_exchange_strong(free, 1, std::memory_order_acquire)) return;
    lock_slow();
  }

  bool try_lock() {
    uint32_t free = 0;
    return state_.compare_exchange_strong(free, 1, std::memory_order_acquire);
  }

  void unlock() {
    if (state_.exchange(0, std::memory_order_release) == 2) wake_one();
  }

 private:
  void lock_slow();
  void wake_one();

  std::atomic<uint32_t> state_{0};
};

// Set on a thread that may hold the stripes it locks for long: a worker with a huge value, say. See LongHolds.
extern constinit thread_local bool holds_long;

// For a piece of work on such a thread.
class HoldsLong {
 public:
  explicit HoldsLong(bool so = true) : before_(holds_long) { holds_long = so; }
  ~HoldsLong() { holds_long = before_; }
  HoldsLong(const HoldsLong&) = delete;
  HoldsLong& operator=(const HoldsLong&) = delete;

 private:
  const bool before_;
};

// Which stripes are held by threads that may hold them for long. A reactor asks before it runs a command, and leaves one that would
// wait to a thread that may. An answer is a hint: it may be old by the time the lock is asked for.
class LongHolds {
 public:
  bool any() const { return held_.load(std::memory_order_relaxed) != 0; }
  bool at(unsigned stripe) const { return stripes_[stripe].load(std::memory_order_relaxed) != 0; }
  void begin(unsigned stripe) {
    stripes_[stripe].fetch_add(1, std::memory_order_relaxed);
    held_.fetch_add(1, std::memory_order_relaxed);
  }
  void end(unsigned stripe) {
    held_.fetch_sub(1, std::memory_order_relaxed);
    stripes_[stripe].fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  alignas(64) std::atomic<uint32_t> held_{0};
  alignas(64) std::array<std::atomic<uint16_t>, kStripes> stripes_{};
};

// A stripe's lock, held for long.
class StripeHoldForLong {
 public:
  StripeHoldForLong(StripeLock& lock, LongHolds& holds, unsigned stripe) : lock_(lock), holds_(holds), stripe_(stripe) {
    holds_.begin(stripe_);
    lock_.lock();
  }
  ~StripeHoldForLong() {
    lock_.unlock();
    holds_.end(stripe_);
  }
  StripeHoldForLong(const StripeHoldForLong&) = delete;
  StripeHoldForLong& operator=(const StripeHoldForLong&) = delete;

 private:
  StripeLock& lock_;
  LongHolds& holds_;
  const unsigned stripe_;
};

}  // namespace pion
