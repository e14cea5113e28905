// Eviction: which key goes, and how.
//
// A few keys are sampled, from as many stripes as that takes, and go into a pool of the best candidates so far; the best of the pool is
// evicted if it has not been used since (the scheme of Redis' approximated LRU).
#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/latency_monitor.h"
#include "keyspace/keyspace.h"
#include "keyspace/random.h"

namespace pion {
namespace {

constexpr size_t kMostSamples = 64;
constexpr int kRounds = 8;  // in which all candidates may turn out to have been used meanwhile

// In front of one command; maintain() does the rest. As Redis' maxmemory-eviction-tenacity.
int64_t eviction_time_us(uint32_t tenacity) {
  if (tenacity <= 10) return 50 * tenacity;
  if (tenacity >= 100) return INT64_MAX / 2;
  return static_cast<int64_t>(500 * std::pow(1.15, tenacity - 10));
}

bool at_random(EvictionPolicy policy) { return policy == EvictionPolicy::kAllKeysRandom || policy == EvictionPolicy::kVolatileRandom; }

}  // namespace

bool Keyspace::ensure_memory() {
  const uint64_t limit = settings.maxmemory.load(std::memory_order_relaxed);
  if (limit == 0 || memory_estimate_.load(std::memory_order_relaxed) <= static_cast<int64_t>(limit) || keeps_all()) return true;
  if (settings.policy.load(std::memory_order_relaxed) == EvictionPolicy::kNoEviction) return false;
  const int64_t until_us = monotonic_us() + eviction_time_us(settings.eviction_tenacity.load(std::memory_order_relaxed));
  const LatencyProbe probe("eviction-cycle");
  do {
    if (!evict_one()) return long_holds_.any();  // then it is too early to say that there is nothing
  } while (memory_estimate_.load(std::memory_order_relaxed) > static_cast<int64_t>(limit) && monotonic_us() < until_us);
  return true;
}

// The highest goes.
int64_t Keyspace::eviction_score(const Entry& entry, EvictionPolicy policy) const {
  if (policy == EvictionPolicy::kVolatileTtl) return -entry.expiry();
  if (uses_lfu(policy)) return 255 - lfu_counter(entry.clock(), clock_s() / 60, settings.lfu_decay_minutes.load(std::memory_order_relaxed));
  if (policy == EvictionPolicy::kAllKeysLru || policy == EvictionPolicy::kVolatileLru) return lru_idle_s(entry.clock(), clock_s() & 0xffffff);
  return static_cast<int64_t>(random64() >> 1);
}

// Some keys of a stripe, at most `most` of each database; the answer is how many.
size_t Keyspace::sample_stripe(unsigned number, EvictionPolicy policy, size_t most, std::vector<EvictionCandidate>& candidates) {
  if (long_holds_.at(number)) return 0;  // a reactor may be the one that evicts
  Stripe& stripe = (*stripes_)[number];
  StripeHold hold(stripe.lock);
  size_t sampled = 0;
  for (int db = 0; db < static_cast<int>(kDatabases); ++db) {
    Shard* shard = shard_if(stripe, db);
    if (!shard || shard->count() == 0 || (volatile_only(policy) && shard->volatile_count() == 0)) continue;
    Entry* entries[kMostSamples];
    size_t count = 0;
    if (volatile_only(policy)) {
      KeyHash unused;
      // The first to expire is known exactly, and is there also when the index holds mostly what is out of date.
      const Found first = shard->first_to_expire(unused);
      if (first) entries[count++] = first.entry;
      if (policy != EvictionPolicy::kVolatileTtl) count = std::max(count, shard->sample_volatile(random64(), entries, most));
    } else {
      // Any entry of its bucket, not the first ones, which are the oldest.
      while (count < most) {
        Entry* const entry = shard->random(random64());
        if (!entry) break;
        entries[count++] = entry;
      }
    }
    for (size_t i = 0; i < count; ++i) {
      candidates.push_back({eviction_score(*entries[i], policy), number, db, std::string(entries[i]->key())});
    }
    sampled += count;
  }
  return sampled;
}

// Keys of all databases and many stripes, as many as maxmemory-samples says if there are so many.
std::vector<EvictionCandidate> Keyspace::sample_keys(EvictionPolicy policy) {
  const size_t wanted = std::min<size_t>(settings.samples.load(std::memory_order_relaxed), kMostSamples);
  // From several stripes also when one has enough: its own earliest expiry is not that of all.
  const size_t from_each = std::max<size_t>(1, wanted / 4);
  std::vector<EvictionCandidate> candidates;
  const auto start = static_cast<unsigned>(random64() % kStripes);
  for (unsigned i = 0; i < kStripes && candidates.size() < wanted; ++i) {
    sample_stripe((start + i) % kStripes, policy, from_each, candidates);
  }
  return candidates;
}

bool Keyspace::evict_one() {
  const EvictionPolicy policy = settings.policy.load(std::memory_order_relaxed);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<EvictionCandidate> candidates = sample_keys(policy);
    if (candidates.empty()) return false;
    if (at_random(policy)) {
      if (evict(candidates[random64() % candidates.size()], policy)) return true;
      continue;
    }
    while (const auto best = evictions_.best_with(policy, candidates)) {
      if (evict(*best, policy)) return true;
    }
  }
  return false;
}

// False: it is gone, or was used since it was sampled.
bool Keyspace::evict(const EvictionCandidate& candidate, EvictionPolicy policy) {
  if (long_holds_.at(candidate.stripe)) return false;
  const Key victim = key(candidate.key);
  KeyAccess access(*this, victim);
  Shard* shard = shard_if((*stripes_)[candidate.stripe], candidate.database);
  const Found found = shard ? shard->find(victim.hash, victim.bytes) : Found{};
  if (!found || (volatile_only(policy) && !found.entry->has_expiry())) return false;
  if (!at_random(policy) && eviction_score(*found.entry, policy) < candidate.score) return false;
  (void)admit(victim.bytes.size() + 16, WriteKind::kFrees);
  access.event(KeyEvent::kEvicted, "evicted", candidate.database, victim);
  access.erase(candidate.database, victim, found);
  ++(*stripes_)[candidate.stripe].evicted;
  access.finish();
  return true;
}

std::optional<EvictionCandidate> EvictionPool::best_with(EvictionPolicy policy, std::vector<EvictionCandidate>& fresh) {
  std::lock_guard lock(mutex_);
  if (policy != policy_) candidates_.clear();
  policy_ = policy;
  for (EvictionCandidate& candidate : fresh) {
    const bool known = std::any_of(candidates_.begin(), candidates_.end(), [&](const EvictionCandidate& other) {
      return other.database == candidate.database && other.key == candidate.key;
    });
    if (known) continue;
    const auto place = std::upper_bound(candidates_.begin(), candidates_.end(), candidate,
                                        [](const EvictionCandidate& a, const EvictionCandidate& b) { return a.score < b.score; });
    candidates_.insert(place, std::move(candidate));
    if (candidates_.size() > kCandidates) candidates_.erase(candidates_.begin());
  }
  fresh.clear();
  if (candidates_.empty()) return std::nullopt;
  EvictionCandidate best = std::move(candidates_.back());
  candidates_.pop_back();
  return best;
}

}  // namespace pion
