// maxmemory policies, and the 24 bits of recency that an entry carries for them.
//
// LRU: the second of the last access, modulo 2^24. LFU: 16 bits of minutes and 8 bits of a logarithmic access counter
// (Redis' scheme: a new key starts at 5, grows with probability 1 / ((counter - 5) * factor + 1), loses one per decay time).
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pion {

enum class EvictionPolicy : uint8_t {
  kNoEviction,
  kAllKeysLru,
  kAllKeysLfu,
  kAllKeysRandom,
  kVolatileLru,
  kVolatileLfu,
  kVolatileRandom,
  kVolatileTtl,
};

std::optional<EvictionPolicy> eviction_policy_of(std::string_view name);  // "allkeys-lru" ..., as CONFIG SET takes them
std::string_view eviction_policy_name(EvictionPolicy policy);

inline bool uses_lfu(EvictionPolicy p) { return p == EvictionPolicy::kAllKeysLfu || p == EvictionPolicy::kVolatileLfu; }
inline bool volatile_only(EvictionPolicy p) {
  return p == EvictionPolicy::kVolatileLru || p == EvictionPolicy::kVolatileLfu || p == EvictionPolicy::kVolatileRandom ||
         p == EvictionPolicy::kVolatileTtl;
}

inline constexpr uint32_t kLfuInitial = 5;

// `random` is a fresh random number; factor and decay_minutes are lfu-log-factor and lfu-decay-time.
uint32_t lfu_touched(uint32_t clock, uint32_t now_minutes, uint64_t random, uint32_t factor, uint32_t decay_minutes);
uint32_t lfu_counter(uint32_t clock, uint32_t now_minutes, uint32_t decay_minutes);
inline uint32_t lfu_new(uint32_t now_minutes) { return (now_minutes & 0xffff) << 8 | kLfuInitial; }

// Seconds since the last access.
inline uint32_t lru_idle_s(uint32_t clock, uint32_t now_s) { return (now_s - clock) & 0xffffff; }

// A key that may go, as it was when it was looked at.
struct EvictionCandidate {
  int64_t score = 0;  // the highest goes
  unsigned stripe = 0;
  int database = 0;
  std::string key;
};

// The best candidates of the samples so far. Any thread.
class EvictionPool {
 public:
  // Takes `fresh` in, and gives the best of all out.
  std::optional<EvictionCandidate> best_with(EvictionPolicy policy, std::vector<EvictionCandidate>& fresh);

 private:
  static constexpr size_t kCandidates = 16;
  std::mutex mutex_;
  EvictionPolicy policy_ = EvictionPolicy::kNoEviction;
  std::vector<EvictionCandidate> candidates_;  // by score
};

}  // namespace pion
