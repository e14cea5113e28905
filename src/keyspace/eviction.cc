#include "keyspace/eviction.h"

#include <array>
#include <utility>

namespace pion {
namespace {

constexpr std::array<std::pair<std::string_view, EvictionPolicy>, 8> kNames{{
    {"noeviction", EvictionPolicy::kNoEviction},
    {"allkeys-lru", EvictionPolicy::kAllKeysLru},
    {"allkeys-lfu", EvictionPolicy::kAllKeysLfu},
    {"allkeys-random", EvictionPolicy::kAllKeysRandom},
    {"volatile-lru", EvictionPolicy::kVolatileLru},
    {"volatile-lfu", EvictionPolicy::kVolatileLfu},
    {"volatile-random", EvictionPolicy::kVolatileRandom},
    {"volatile-ttl", EvictionPolicy::kVolatileTtl},
}};

}  // namespace

std::optional<EvictionPolicy> eviction_policy_of(std::string_view name) {
  for (const auto& [known, policy] : kNames) {
    if (known == name) return policy;
  }
  return std::nullopt;
}

std::string_view eviction_policy_name(EvictionPolicy policy) {
  for (const auto& [name, known] : kNames) {
    if (known == policy) return name;
  }
  return "";
}

uint32_t lfu_counter(uint32_t clock, uint32_t now_minutes, uint32_t decay_minutes) {
  const uint32_t counter = clock & 0xff;
  if (decay_minutes == 0) return counter;
  const uint32_t periods = ((now_minutes - (clock >> 8)) & 0xffff) / decay_minutes;
  return periods > counter ? 0 : counter - periods;
}

uint32_t lfu_touched(uint32_t clock, uint32_t now_minutes, uint64_t random, uint32_t factor, uint32_t decay_minutes) {
  uint32_t counter = lfu_counter(clock, now_minutes, decay_minutes);
  if (counter < 255) {
    const uint64_t above = counter > kLfuInitial ? counter - kLfuInitial : 0;
    const uint64_t one_in = above * factor + 1;
    if (random % one_in == 0) ++counter;
  }
  return (now_minutes & 0xffff) << 8 | counter;
}

}  // namespace pion
