// The lock of one stripe: 4 bytes, held for well under a microsecond. Spins briefly, then sleeps in the kernel (futex).
// States: 0 free, 1 held, 2 held and somebody may sleep (U. Drepper, "Futexes Are Tricky", mutex 2).
#pragma once

#include <atomic>
#include <cstdint>

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

}  // namespace pion
