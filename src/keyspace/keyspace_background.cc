// What the keyspace does beside commands: expiry, freeing, the clock; eviction is in keyspace_evict.cc.
#include <malloc.h>

#include <algorithm>
#include <mutex>

#include "base/clock.h"
#include "base/latency_monitor.h"
#include "keyspace/keyspace.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr uint64_t kExpirePerLock = 64;        // removals in one record and one hold of a stripe's lock
constexpr int64_t kLongestCommandMs = 60'000;  // holding its keys' locks
constexpr int64_t kQuietUs = 1'500'000;        // longer than unsynced records are kept in memory

}  // namespace

bool Keyspace::maintain(int64_t budget_us) {
  const LatencyProbe probe("expire-cycle");
  const int64_t deadline_us = monotonic_us() + budget_us;
  const int64_t now = wall_ms();
  clock_s_.store(static_cast<uint32_t>(now / 1000), std::memory_order_relaxed);
  note_peak(static_cast<uint64_t>(std::max<int64_t>(0, memory_estimate_.load(std::memory_order_relaxed))));
  bool more = free_garbage(deadline_us);
  if (graveyard_.free_some(deadline_us)) more = true;
  tend_memory(deadline_us);
  if (keeps_all()) return more;
  // No command that missed a key because it was hidden is still under way.
  int64_t kept_until_ms = settings.keeps_all_until_ms.load(std::memory_order_relaxed);
  if (kept_until_ms != 0 && monotonic_ms() - kept_until_ms > kLongestCommandMs) settings.keeps_all_until_ms.compare_exchange_strong(kept_until_ms, 0);
  if (settings.active_expire.load(std::memory_order_relaxed)) {
    for (unsigned walked = 0; walked < kStripes; ++walked) {
      const unsigned number = next_expiry_stripe_++ % kStripes;
      while (expire_due(number, now, kExpirePerLock) == kExpirePerLock && monotonic_us() < deadline_us) {
      }
      while (expire_elements(number, now, kExpirePerLock) == kExpirePerLock && monotonic_us() < deadline_us) {
      }
      if (monotonic_us() >= deadline_us) {
        more = true;
        break;
      }
    }
  }
  while (settings.maxmemory.load(std::memory_order_relaxed) > 0 &&
         memory_estimate_.load(std::memory_order_relaxed) > static_cast<int64_t>(settings.maxmemory.load(std::memory_order_relaxed)) &&
         settings.policy.load(std::memory_order_relaxed) != EvictionPolicy::kNoEviction) {
    if (monotonic_us() >= deadline_us) return true;
    if (!evict_one()) break;
  }
  return more;
}

void Keyspace::tend_memory(int64_t deadline_us) {
  while (pool_.collapse_one() && monotonic_us() < deadline_us) {
  }
  // Buffers of a burst of writes stay with malloc; once nothing was written for a while they go back to the system, once.
  const Lsn lsn = storage_.journal().appended_lsn();
  const int64_t now_us = monotonic_us();
  if (lsn != quiet_lsn_) {
    quiet_lsn_ = lsn;
    quiet_since_us_ = now_us;
    trimmed_ = false;
  } else if (!trimmed_ && now_us - quiet_since_us_ > kQuietUs) {
    malloc_trim(0);
    trimmed_ = true;
  }
}

uint64_t Keyspace::expire_due(unsigned stripe_number, int64_t now_ms, uint64_t limit) {
  KeyAccess access(*this, Key{{}, {stripe_number}});
  Stripe& stripe = (*stripes_)[stripe_number];
  uint64_t taken = 0;
  for (int db = 0; db < static_cast<int>(kDatabases); ++db) {
    Shard* shard = shard_if(stripe, db);
    while (shard && taken < limit && shard->next_expiry_ms() < now_ms) {
      KeyHash hash;
      const Found found = shard->take_due(hash);
      ++taken;
      if (!found) continue;
      const std::string_view key = found.entry->key();
      (void)admit(key.size() + 16, WriteKind::kFrees);
      access.event(KeyEvent::kExpired, "expired", db, {key, hash});
      access.erase(db, {key, hash}, found);
      ++stripe.expired;
    }
  }
  access.finish();
  return taken;
}

// Elements within values: fields of hashes. At most `limit` in one record; the answer is about how many.
uint64_t Keyspace::expire_elements(unsigned stripe_number, int64_t now_ms, uint64_t limit) {
  KeyAccess access(*this, Key{{}, {stripe_number}});
  Stripe& stripe = (*stripes_)[stripe_number];
  uint64_t taken = 0;
  std::string delta;
  for (int db = 0; db < static_cast<int>(kDatabases); ++db) {
    Shard* shard = shard_if(stripe, db);
    while (shard && taken < limit && shard->next_element_expiry_ms() < now_ms) {
      KeyHash hash;
      Found found = shard->take_element_due(hash);
      ++taken;
      if (!found) continue;
      const std::string name(found.entry->key());
      const Key key{name, hash};
      const ValueType type = found.entry->type();
      if (value_ops(type)->remove_due(*found.entry, now_ms, limit, delta)) {
        (void)admit(key.bytes.size() + delta.size() + 24, WriteKind::kFrees);
        found = access.change(db, key, found, type, delta);
        access.event(KeyEvent::kHash, "hexpired", db, key);
        if (!found) access.event(KeyEvent::kGeneric, "del", db, key);
        taken = limit;  // one key's worth a hold of the lock
      }
      // What is left in it comes due by itself.
      if (found) {
        if (const int64_t due = next_element_due(*found.entry); due != INT64_MAX) shard->note_element_expiry(due, hash);
      }
    }
  }
  access.finish();
  return taken;
}

bool Keyspace::free_garbage(int64_t deadline_us) {
  while (true) {
    Garbage garbage;
    {
      std::lock_guard lock(garbage_mutex_);
      if (garbage_.empty()) return false;
      garbage = std::move(garbage_.back());
      garbage_.pop_back();
    }
    const uint64_t keys = garbage.shard->count();
    garbage.shard->clear([&](ExtentRef ref) { storage_.extents().free(ref, garbage.freed_by); });
    garbage.shard.reset();
    flushed_waiting_.fetch_sub(keys, std::memory_order_relaxed);
    flushed_freed_.fetch_add(keys, std::memory_order_relaxed);
    if (monotonic_us() >= deadline_us) {
      std::lock_guard lock(garbage_mutex_);
      return !garbage_.empty();
    }
  }
}

}  // namespace pion
