// CLIENT PAUSE: which commands wait, and until when. Set by any thread, asked by all before each command.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace pion {

class ClientPause {
 public:
  enum class Mode : int { kNone, kWrites, kAll };

  // A pause under way is only made longer and stricter.
  void pause(int64_t until_ms, Mode mode) {
    std::lock_guard lock(mutex_);
    const Mode before = current_mode();
    if (before != Mode::kNone) until_ms = std::max(until_ms, until_ms_.load(std::memory_order_relaxed));
    until_ms_.store(until_ms, std::memory_order_relaxed);
    mode_.store(std::max(mode, before), std::memory_order_release);
  }
  void end() {
    std::lock_guard lock(mutex_);
    mode_.store(Mode::kNone, std::memory_order_release);
  }
  // What waits now.
  Mode mode() const {
    if (mode_.load(std::memory_order_acquire) == Mode::kNone) [[likely]] return Mode::kNone;
    return current_mode();
  }
  int64_t until_ms() const { return until_ms_.load(std::memory_order_relaxed); }

 private:
  Mode current_mode() const {
    return monotonic_ms() < until_ms_.load(std::memory_order_relaxed) ? mode_.load(std::memory_order_acquire) : Mode::kNone;
  }

  std::mutex mutex_;
  std::atomic<int64_t> until_ms_{0};
  std::atomic<Mode> mode_{Mode::kNone};
};

}  // namespace pion
