#include "keyspace/keyspace.h"

#include <algorithm>

#include "base/clock.h"
#include "keyspace/random.h"

namespace pion {

Keyspace::Keyspace(Storage& storage)
    : storage_(storage), seed_(storage.seed()), stripes_(std::make_unique<std::array<Stripe, kStripes>>()) {
  clock_s_.store(static_cast<uint32_t>(wall_ms() / 1000), std::memory_order_relaxed);
}

Keyspace::~Keyspace() {
  garbage_.clear();
  for (Stripe& stripe : *stripes_) {
    for (Shard* shard : stripe.shards) delete shard;
  }
}

Shard& Keyspace::shard(Stripe& stripe, int database) {
  Shard*& place = stripe.shards[static_cast<size_t>(database)];
  if (!place) {
    auto* made = new Shard(pool_, seed_, &graveyard_);
    __atomic_store_n(&place, made, __ATOMIC_RELEASE);  // the prefetch functions look without the lock
  }
  return *place;
}

__attribute__((no_sanitize("thread"))) const Shard* Keyspace::shard_to_prefetch(int database, KeyHash hash) const {
  Shard* const* place = &(*stripes_)[hash.stripe()].shards[static_cast<size_t>(database)];
  return __atomic_load_n(place, __ATOMIC_ACQUIRE);
}

void Keyspace::prefetch_bucket(int database, KeyHash hash) const {
  if (const Shard* shard = shard_to_prefetch(database, hash)) shard->prefetch_bucket(hash);
}

bool Keyspace::prefetch_entry(int database, KeyHash hash) const {
  const Shard* shard = shard_to_prefetch(database, hash);
  return !shard || shard->prefetch_entry(hash);
}

void Keyspace::prefetch_chained_entry(int database, KeyHash hash) const {
  if (const Shard* shard = shard_to_prefetch(database, hash)) shard->prefetch_chained_entry(hash);
}

uint64_t Keyspace::size(int database) const {
  uint64_t sum = 0;
  for (Stripe& stripe : *stripes_) {
    StripeHold hold(stripe.lock);
    if (const Shard* shard = shard_if(stripe, database)) sum += shard->count();
  }
  return sum;
}

KeyspaceStats Keyspace::stats() const {
  KeyspaceStats stats;
  const int64_t now = wall_ms();
  std::array<int64_t, kDatabases> ttl_sums{};
  std::array<uint64_t, kDatabases> ttl_samples{};
  for (Stripe& stripe : *stripes_) {
    StripeHold hold(stripe.lock);
    stats.hits += stripe.hits;
    stats.misses += stripe.misses;
    stats.expired += stripe.expired;
    stats.evicted += stripe.evicted;
    for (size_t db = 0; db < kDatabases; ++db) {
      const Shard* shard = stripe.shards[db];
      if (!shard) continue;
      stats.databases[db].keys += shard->count();
      stats.databases[db].volatile_keys += shard->volatile_count();
      stats.memory_bytes += shard->memory_bytes();
      // The mean over stripes of the earliest expiry would be low; a few items of each index are a fair sample.
      shard->sample_expiry(8, [&](int64_t at_ms) {
        if (at_ms > now) ttl_sums[db] += at_ms - now;
        ++ttl_samples[db];
      });
    }
  }
  for (size_t db = 0; db < kDatabases; ++db) {
    if (ttl_samples[db] > 0) stats.databases[db].average_ttl_ms = ttl_sums[db] / static_cast<int64_t>(ttl_samples[db]);
  }
  stats.resident_bytes = pool_.taken_bytes();
  stats.corrupt_values = corrupt_values_.load(std::memory_order_relaxed);
  note_peak(stats.memory_bytes);
  stats.peak_bytes = peak_bytes_.load(std::memory_order_relaxed);
  stats.lazyfree_waiting = graveyard_.waiting() + flushed_waiting_.load(std::memory_order_relaxed);
  stats.lazyfreed = graveyard_.freed() + flushed_freed_.load(std::memory_order_relaxed);
  stats.longest_checkpoint_hold_us = longest_checkpoint_hold_us_.load(std::memory_order_relaxed);
  return stats;
}

void Keyspace::note_peak(uint64_t bytes) const {
  uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (bytes > peak && !peak_bytes_.compare_exchange_weak(peak, bytes, std::memory_order_relaxed)) {
  }
}

uint64_t Keyspace::memory_bytes() const {
  uint64_t sum = 0;
  for (Stripe& stripe : *stripes_) {
    StripeHold hold(stripe.lock);
    for (const Shard* shard : stripe.shards) {
      if (shard) sum += shard->memory_bytes();
    }
  }
  return sum;
}

void Keyspace::reset_stats() {
  for (Stripe& stripe : *stripes_) {
    StripeHold hold(stripe.lock);
    stripe.hits = stripe.misses = stripe.expired = stripe.evicted = 0;
  }
  graveyard_.reset_freed();
  flushed_freed_.store(0, std::memory_order_relaxed);
  longest_checkpoint_hold_us_.store(0, std::memory_order_relaxed);
}

uint32_t Keyspace::new_clock() const {
  const uint32_t now_s = clock_s();
  return uses_lfu(settings.policy.load(std::memory_order_relaxed)) ? lfu_new(now_s / 60) : now_s & 0xffffff;
}

void Keyspace::touch(Entry& entry) const {
  const uint32_t now_s = clock_s();
  uint32_t clock = now_s & 0xffffff;
  if (uses_lfu(settings.policy.load(std::memory_order_relaxed))) {
    clock = lfu_touched(entry.clock(), now_s / 60, random64(), settings.lfu_log_factor.load(std::memory_order_relaxed),
                        settings.lfu_decay_minutes.load(std::memory_order_relaxed));
  }
  if (clock != entry.clock()) entry.set_clock(clock);  // a clean cache line stays clean
}

uint32_t Keyspace::idle_s(const Entry& entry) const {
  return lru_idle_s(entry.clock(), static_cast<uint32_t>(wall_ms() / 1000) & 0xffffff);
}

uint32_t Keyspace::access_frequency(const Entry& entry) const {
  return lfu_counter(entry.clock(), static_cast<uint32_t>(wall_ms() / 60000),
                     settings.lfu_decay_minutes.load(std::memory_order_relaxed));
}

void Keyspace::set_idle_s(Entry& entry, uint64_t seconds) const {
  if (uses_lfu(settings.policy.load())) return;
  constexpr uint64_t kLongest = 0xfffffe;  // seconds count in 24 bits
  const auto now_s = static_cast<uint32_t>(wall_ms() / 1000);
  entry.set_clock((now_s - static_cast<uint32_t>(std::min(seconds, kLongest))) & 0xffffff);
}

void Keyspace::set_access_frequency(Entry& entry, uint8_t frequency) const {
  if (!uses_lfu(settings.policy.load())) return;
  const auto now_minutes = static_cast<uint32_t>(wall_ms() / 60000);
  entry.set_clock((now_minutes & 0xffff) << 8 | frequency);
}

void Keyspace::report_memory(Stripe& stripe, int64_t delta) {
  stripe.unreported += delta;
  if (stripe.unreported > 1024 || stripe.unreported < -1024) {
    memory_estimate_.fetch_add(stripe.unreported, std::memory_order_relaxed);
    stripe.unreported = 0;
  }
}

uint64_t Keyspace::scan(int database, uint64_t cursor, uint64_t count, const ScanFilter& filter, std::vector<std::string>& keys,
                        Lsn& visible) {
  const int64_t now = wall_ms();
  uint64_t looked = 0, buckets = 0;
  const uint64_t most_buckets = count > UINT64_MAX / 10 ? UINT64_MAX : count * 10;
  auto stripe_number = static_cast<unsigned>(cursor & 0xff);
  uint64_t position = cursor >> 8;
  for (; stripe_number < kStripes; ++stripe_number, position = 0) {
    Stripe& stripe = (*stripes_)[stripe_number];
    StripeHold hold(stripe.lock);
    Shard* shard = shard_if(stripe, database);
    visible = std::max(visible, stripe.last_lsn);
    if (!shard || shard->count() == 0) continue;
    do {
      if (looked >= count || buckets >= most_buckets) return position << 8 | stripe_number;
      position = shard->scan(position, [&](Entry& entry) {
        ++looked;
        if (filter.type != ValueType::kNone && entry.type() != filter.type) return;
        if (entry.has_expiry() && now > entry.expiry()) return;
        if (filter.matches && !filter.matches(entry.key())) return;
        keys.emplace_back(entry.key());
      });
      ++buckets;
    } while (position != 0);
  }
  return 0;
}

bool Keyspace::random_key(int database, std::string& key_out, Lsn& visible) {
  while (true) {
    std::array<uint64_t, kStripes> counts;
    uint64_t total = 0;
    for (unsigned i = 0; i < kStripes; ++i) {
      Stripe& stripe = (*stripes_)[i];
      StripeHold hold(stripe.lock);
      const Shard* shard = shard_if(stripe, database);
      counts[i] = shard ? shard->count() : 0;
      total += counts[i];
      visible = std::max(visible, stripe.last_lsn);
    }
    if (total == 0) return false;
    uint64_t pick = random64() % total;
    unsigned i = 0;
    while (pick >= counts[i]) pick -= counts[i++];
    std::string candidate;
    {
      Stripe& stripe = (*stripes_)[i];
      StripeHold hold(stripe.lock);
      Shard* shard = shard_if(stripe, database);
      const Entry* entry = shard->random(random64());
      if (!entry) continue;
      candidate = entry->key();
    }
    // An expired one is removed on the way and another is picked.
    const Key found_key = key(candidate);
    KeyAccess access(*this, found_key);
    const bool alive = static_cast<bool>(access.find(database, found_key, KeyAccess::Lookup::kPeek));
    visible = std::max(visible, access.finish());
    if (!alive) continue;
    key_out = std::move(candidate);
    return true;
  }
}

Lsn Keyspace::flush(int database) {
  KeyAccess access(*this, KeyAccess::All::kAll);
  access.watched_databases_change(database, database);
  for (Stripe& stripe : *stripes_) {
    for (int db = 0; db < static_cast<int>(kDatabases); ++db) {
      Shard* shard = shard_if(stripe, db);
      if ((database >= 0 && db != database) || !shard || !shard->has_table()) continue;
      report_memory(stripe, -static_cast<int64_t>(shard->memory_bytes()));
      access.detached_.push_back(shard->detach());
    }
  }
  write_effect(access.effects_, {.kind = database < 0 ? EffectKind::kFlushAll : EffectKind::kFlushDatabase, .database = database});
  access.databases_change(database, database);
  return access.finish();
}

Lsn Keyspace::swap_databases(int a, int b) {
  KeyAccess access(*this, KeyAccess::All::kAll);
  if (a != b) access.watched_databases_change(a, b);
  for (Stripe& stripe : *stripes_) std::swap(stripe.shards[static_cast<size_t>(a)], stripe.shards[static_cast<size_t>(b)]);
  access.databases_change(a, b);
  write_effect(access.effects_, {.kind = EffectKind::kSwapDatabases, .database = a, .other_database = b});
  return access.finish();
}

}  // namespace pion
