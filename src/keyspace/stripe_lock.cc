#include "keyspace/stripe_lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pion {

constinit thread_local bool holds_long = false;
namespace {

// A holder is rarely off the processor; with few cores long spinning only takes time from it.
constexpr int kSpins = 64;

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void StripeLock::lock_slow() {
  for (int spin = 0; spin < kSpins; ++spin) {
    cpu_relax();
    if (state_.load(std::memory_order_relaxed) == 0 && try_lock()) return;
  }
  while (state_.exchange(2, std::memory_order_acquire) != 0) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAIT_PRIVATE, 2, nullptr, nullptr, 0);
  }
}

void StripeLock::wake_one() { syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace pion
