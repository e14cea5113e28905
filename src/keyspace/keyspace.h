// The keyspace: one for all threads. 256 stripes; a key belongs to the stripe of its hash, in every database.
// KeyAccess is the way in: it locks the stripes of a command's keys, makes changes, appends one record with their effects
// before it unlocks, and tells which record a reply must wait for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "keyspace/effects.h"
#include "keyspace/eviction.h"
#include "keyspace/keyspace_scope.h"
#include "keyspace/page_pool.h"
#include "keyspace/shard.h"
#include "keyspace/stripe_lock.h"
#include "keyspace/stripe_set.h"
#include "keyspace/waiters.h"
#include "keyspace/watch_registry.h"
#include "storage/storage.h"

namespace pion {

class KeyAccess;

// A key as a command names it, hashed once.
struct Key {
  std::string_view bytes;
  KeyHash hash;
};

struct DatabaseStats {
  uint64_t keys = 0, volatile_keys = 0;
  int64_t average_ttl_ms = 0;
};

struct KeyspaceStats {
  std::array<DatabaseStats, kDatabases> databases{};
  uint64_t hits = 0, misses = 0, expired = 0, evicted = 0;
  uint64_t memory_bytes = 0;        // live blocks, heap strings, tables and indexes
  uint64_t resident_bytes = 0;      // pages taken for them
  uint64_t peak_bytes = 0;          // the most memory_bytes, as measured every 100 ms
  uint64_t corrupt_values = 0;      // reads that a checksum refused
  uint64_t lazyfree_waiting = 0, lazyfreed = 0;  // values and flushed keys that are freed in the background
  uint64_t longest_checkpoint_hold_us = 0;       // of a stripe's lock, since the last reset
};

// CONFIG SET may change them at any time.
struct KeyspaceSettings {
  std::atomic<uint64_t> maxmemory{0};
  std::atomic<EvictionPolicy> policy{EvictionPolicy::kNoEviction};
  std::atomic<uint32_t> samples{5};
  std::atomic<uint32_t> lfu_log_factor{10};
  std::atomic<uint32_t> lfu_decay_minutes{1};
  std::atomic<bool> active_expire{true};
  std::atomic<uint32_t> expire_effort{1};        // 1 to 10
  std::atomic<uint32_t> eviction_tenacity{10};   // 0 to 100
  // On base/clock.h's monotonic_ms(); while it lies ahead (CLIENT PAUSE) nothing is removed because it expired, and nothing is evicted.
  std::atomic<int64_t> keeps_all_until_ms{0};
  std::atomic<uint32_t> events{0};  // KeyEvents that somebody wants to hear of; 0: none
  std::atomic<uint64_t> hll_sparse_max_bytes{3000};
};

// The classes of notify-keyspace-events.
enum class KeyEvent : uint32_t {
  kGeneric = 1,         // g
  kString = 2,          // $
  kList = 4,            // l
  kSet = 8,             // s
  kHash = 16,           // h
  kSortedSet = 32,      // z
  kStream = 64,         // t
  kExpired = 128,       // x
  kEvicted = 256,       // e
  kNew = 512,           // n
  kMiss = 1024,         // m
  kModule = 2048,       // d: nothing here tells it
  kOverwritten = 4096,  // o
  kTypeChanged = 8192,  // c
};

// Whoever wants to know what commands do to keys (keyspace notifications). Called by any thread under the locks of the keys' stripes:
// must be short, and must not come back to the keyspace.
class KeyspaceObserver {
 public:
  virtual ~KeyspaceObserver() = default;
  // A command's effect on a key by its name: "set", "hdel", "expired". `name` lasts for ever. False: of no interest.
  virtual bool event(KeyEvent kind, std::string_view name, int database, std::string_view key) = 0;
  // What this thread told since the last time has its record now, if it has one: it may be shown once the journal wrote `required`.
  // The locks are still held, so the order of these calls is the order of the changes of any one key.
  virtual void journalled(Lsn required) = 0;
};

class Keyspace : public Plane {
 public:
  explicit Keyspace(Storage& storage);
  ~Keyspace() override;

  // Before any thread starts. It hears of the kinds in settings.events.
  void set_observer(KeyspaceObserver* observer) { observer_ = observer; }

  // After a command, a transaction or a piece of upkeep, without any lock: serves whoever waits for keys that it changed. Asked by
  // `if (ready_keys != 0)` first.
  void serve_waiters();
  // What KeyAccess::wait() began. Any thread, no lock.
  void stop_waiting(int database, const Key& key, uint64_t ticket);
  uint64_t next_waiting_ticket() { return waiters_.next_ticket(); }

  KeyspaceSettings settings;

  const LongHolds& long_holds() const { return long_holds_; }

  // For objects that are made before a key takes them.
  PagePool& pool() { return pool_; }

  Key key(std::string_view bytes) const { return {bytes, Shard::hash(bytes, seed_)}; }

  // A batch of commands hides its cache misses: step one for each key, then step two, then step three for the keys where two
  // answered false, then the commands. Any thread, no lock.
  void prefetch_bucket(int database, KeyHash hash) const;
  bool prefetch_entry(int database, KeyHash hash) const;
  void prefetch_chained_entry(int database, KeyHash hash) const;

  // Asked before a change, for about this many bytes of record; see Journal::admit. kTooLarge: no record can hold it. What a
  // thread asks for adds up until its KeyAccess finishes: that makes one record.
  Status admit(uint64_t record_bytes, WriteKind kind);

  // Keys of a database; expired ones that were not removed yet are counted, as DBSIZE does it.
  uint64_t size(int database) const;
  KeyspaceStats stats() const;
  uint64_t memory_bytes() const;
  void reset_stats();
  void count_corrupt_value() { corrupt_values_.fetch_add(1, std::memory_order_relaxed); }

  // Brings memory below maxmemory. False: it is above, and nothing may be evicted (the caller answers -OOM). Holds no lock while
  // it returns; long work goes on in maintain(). Call without locks, before a command that may grow memory.
  bool ensure_memory();

  // What KeyAccess::watch() began. Any thread, no lock.
  void unwatch(int database, const Key& key, WatchToken& token);

  // Background work in small steps: expiry, eviction, freeing what FLUSH detached, the clock. Every 100 ms, from one thread at a
  // time. Returns true when it ran out of time and wants to be called again soon.
  bool maintain(int64_t budget_us);

  // Copies of keys, for KEYS, SCAN and RANDOMKEY. Expired keys are left out. `visible` becomes the lsn a reply must wait for.
  struct ScanFilter {
    std::function<bool(std::string_view key)> matches;  // empty: all
    ValueType type = ValueType::kNone;                  // kNone: all
  };
  // Walks from `cursor` (0 starts) until `count` keys were looked at or so; returns the next cursor, 0 at the end.
  uint64_t scan(int database, uint64_t cursor, uint64_t count, const ScanFilter& filter, std::vector<std::string>& keys, Lsn& visible);
  bool random_key(int database, std::string& key, Lsn& visible);

  // Moves all keys out in constant time (per stripe); they are freed by maintain(). database -1: all. Returns the record's lsn.
  Lsn flush(int database);
  Lsn swap_databases(int a, int b);

  // DEBUG RELOAD: the stripe's keys are thrown away and made anew from its sections of a checkpoint. False, and nothing done:
  // the stripe changed after it. Any thread.
  Result<bool> reload_stripe(uint32_t number, Lsn lsn, std::span<const std::string> bodies);

  // CLIENT PAUSE: nothing expires and nothing is evicted.
  bool keeps_all() const {
    const int64_t until_ms = settings.keeps_all_until_ms.load(std::memory_order_relaxed);
    return until_ms != 0 && monotonic_ms() < until_ms;
  }

  // The second and minute that entries' clocks count in, updated by maintain().
  uint32_t clock_s() const { return clock_s_.load(std::memory_order_relaxed); }
  uint32_t idle_s(const Entry& entry) const;
  uint32_t access_frequency(const Entry& entry) const;
  // RESTORE says how long ago a key was used, or how often (0 to 255). Under the stripe's lock; of no effect under policies that go
  // by the other.
  void set_idle_s(Entry& entry, uint64_t seconds) const;
  void set_access_frequency(Entry& entry, uint8_t frequency) const;

  // Plane.
  std::string_view name() const override { return "keyspace"; }
  std::pair<uint8_t, uint8_t> record_types() const override {
    return {static_cast<uint8_t>(RecordType::kKeyspace), static_cast<uint8_t>(static_cast<uint8_t>(RecordType::kPrompt) - 1)};
  }
  Status load_section(uint32_t number, Lsn lsn, std::string_view body) override;
  Status apply(Lsn lsn, uint8_t type, std::string_view body) override;
  void record_extents(uint8_t type, std::string_view body, const std::function<void(ExtentRef)>& visit) override;
  void live_extents(const std::function<void(ExtentRef)>& visit) override;
  Status write_checkpoint(CheckpointSink& sink) override;

 private:
  const Shard* shard_to_prefetch(int database, KeyHash hash) const;
  friend class KeyAccess;
  friend class KeyspaceScope;

  struct alignas(64) Stripe {
    StripeLock lock;
    std::atomic<uint32_t> watchers{0};  // of its keys: while there are none, changes are told to nobody
    Lsn last_lsn = 0;          // of the last record that touched it
    uint64_t hits = 0, misses = 0;
    int64_t unreported = 0;    // memory not yet in memory_estimate_
    uint64_t expired = 0, evicted = 0;
    Lsn loaded_lsn = 0;        // recovery: what its checkpoint section holds
    std::array<Shard*, kDatabases> shards{};
  };

  // A stripe tells changes of its keys (KeyAccess::tell_change) as long as any of them is listened to.
  void listen_to(const Key& key) { (*stripes_)[key.hash.stripe()].watchers.fetch_add(1, std::memory_order_relaxed); }
  void stop_listening(const Key& key) { (*stripes_)[key.hash.stripe()].watchers.fetch_sub(1, std::memory_order_relaxed); }

  Shard& shard(Stripe& stripe, int database);  // makes it
  Shard* shard_if(const Stripe& stripe, int database) const { return stripe.shards[static_cast<size_t>(database)]; }
  uint32_t new_clock() const;
  void touch(Entry& entry) const;
  void report_memory(Stripe& stripe, int64_t delta);
  // The end of an access or a scope: the record of the thread's effects, if any (0: none), then the stripes are let go. Returns the
  // last record that any of them shows.
  Lsn append_effects(std::vector<ExtentRef>& freed, std::vector<std::unique_ptr<Shard>>& detached);
  void lock_stripes(const StripeSet& stripes);
  Lsn release(const StripeSet& stripes, Lsn lsn);
  void release_events(Lsn visible);
  // keyspace_evict.cc
  bool evict_one();
  bool evict(const EvictionCandidate& candidate, EvictionPolicy policy);
  int64_t eviction_score(const Entry& entry, EvictionPolicy policy) const;
  size_t sample_stripe(unsigned number, EvictionPolicy policy, size_t most, std::vector<EvictionCandidate>& candidates);
  std::vector<EvictionCandidate> sample_keys(EvictionPolicy policy);
  uint64_t expire_due(unsigned stripe_number, int64_t now_ms, uint64_t limit);
  uint64_t expire_elements(unsigned stripe_number, int64_t now_ms, uint64_t limit);
  bool free_garbage(int64_t deadline_us);
  void tend_memory(int64_t deadline_us);
  void note_checkpoint_hold(int64_t us);
  void note_peak(uint64_t bytes) const;
  void apply_to(Stripe& stripe, const Effect& effect, KeyHash hash);  // the hash of its key, if it has one
  Status check_section(uint32_t number, std::string_view body) const;
  void apply_section(Stripe& stripe, std::string_view body);
  void serve_key(int database, const Key& key);
  Status check_effect(Lsn lsn, const Effect& effect);
  void apply_effect(Lsn lsn, const Effect& effect);

  struct Garbage {
    std::unique_ptr<Shard> shard;
    Lsn freed_by;
  };

  Storage& storage_;
  KeyspaceObserver* observer_ = nullptr;
  KeyWaiters waiters_;
  const uint64_t seed_;
  PagePool pool_;
  Graveyard graveyard_;
  std::unique_ptr<std::array<Stripe, kStripes>> stripes_;
  LongHolds long_holds_;
  std::atomic<int64_t> memory_estimate_{0};
  std::atomic<uint32_t> clock_s_{0};
  std::atomic<uint64_t> corrupt_values_{0};
  mutable std::atomic<uint64_t> peak_bytes_{0};
  std::atomic<uint64_t> flushed_waiting_{0}, flushed_freed_{0};  // keys of detached shards
  std::atomic<uint64_t> longest_checkpoint_hold_us_{0};
  // Of maintain()'s thread.
  unsigned next_expiry_stripe_ = 0;
  Lsn quiet_lsn_ = 0;
  int64_t quiet_since_us_ = 0;
  bool trimmed_ = true;

  WatchRegistry watches_;
  EvictionPool evictions_;

  std::mutex garbage_mutex_;
  std::vector<Garbage> garbage_;
};

// A key's way in, for the thread that made it; at most one at a time per thread.
class KeyAccess {
 public:
  enum class All { kAll };
  enum class Lookup {
    kRead,     // counts a hit or a miss, and is an access
    kWrite,    // an access
    kNoTouch,  // counts, is no access
    kPeek,     // neither
  };

  KeyAccess(Keyspace& keyspace, const Key& key);
  KeyAccess(Keyspace& keyspace, std::span<const Key> keys);
  KeyAccess(Keyspace& keyspace, All);
  ~KeyAccess() {
    if (locked_) finish();
  }
  KeyAccess(const KeyAccess&) = delete;
  KeyAccess& operator=(const KeyAccess&) = delete;

  // Appends the record of the changes, if any, and unlocks. The answer is what a reply must wait for, a reader's too. Inside a
  // scope all of that is the scope's, and the answer 0.
  Lsn finish();

  // Empty when there is no such key, or when it expired (it is removed then, with a record; under CLIENT PAUSE it is only hidden). Views into the entry last until
  // the next change or finish().
  Found find(int database, const Key& key, Lookup lookup = Lookup::kRead);
  // A hit or a miss of a key that was looked for with another Lookup.
  void count_lookup(int database, const Key& key, bool hit) {
    if (hit) {
      ++stripe(key).hits;
    } else {
      ++stripe(key).misses;
      event(KeyEvent::kMiss, "keymiss", database, key);
    }
  }

  // Where a key stands now that others were changed: as find(), without a look at times.
  Found find_again(int database, const Key& key) { return keyspace_.shard(stripe(key), database).find(key.hash, key.bytes); }

  // Changes. `found` is find()'s latest answer for this key. expiry_ms 0: none.
  Entry* set(int database, const Key& key, Found found, const NewValue& value, int64_t expiry_ms);
  void erase(int database, const Key& key, Found found);
  Entry* set_expiry(int database, const Key& key, Found found, int64_t expiry_ms);
  // Not for extents. The length after.
  uint64_t append(int database, const Key& key, Found found, std::string_view tail);
  uint64_t set_range(int database, const Key& key, Found found, uint64_t offset, std::string_view bytes);
  // Another type's value, by a delta as that type writes it (value_types.h), which the record takes. The caller has checked
  // the type. What is there afterwards: empty when the value has no elements any more, then the key is gone.
  Found change(int database, const Key& key, Found found, ValueType type, std::string_view delta);
  // A whole value of another type under another key (RENAME, COPY ...): `value.encoded` is what the record takes; without
  // packed bytes or an object it is decoded.
  Entry* set_typed(int database, const Key& key, Found found, const NewValue& value, int64_t expiry_ms);

  // The value leaves its entry, which the caller erases next.
  std::unique_ptr<Object> take_object(int database, const Key& key, Found found);

  // Before a change that puts a whole value of this type in the place of another one, as SET does.
  void event_overwritten(int database, const Key& key, const Found& found, ValueType type) {
    if (!found) return;
    event(KeyEvent::kOverwritten, "overwritten", database, key);
    if (found.entry->type() != type) event(KeyEvent::kTypeChanged, "type_changed", database, key);
  }
  // What a command did to a key, as keyspace notifications name it ("hset", "del"); `name` is a literal. Costs a load while nobody
  // wants to hear of that kind.
  void event(KeyEvent kind, std::string_view name, int database, const Key& key) {
    if (keyspace_.settings.events.load(std::memory_order_relaxed) & static_cast<uint32_t>(kind)) [[unlikely]] {
      tell_event(kind, name, database, key);
    }
  }

  // The extent moves on to another key: the change that removes it here does not free it.
  void keep_extent(ExtentRef ref) { kept_ = ref; }

  // The token is marked by the first change of the key from here on, until Keyspace::unwatch().
  void watch(int database, const Key& key, WatchToken& token);

  void no_touch() { no_touch_ = true; }  // CLIENT NO-TOUCH

  // From here on the waiter is asked when the key changes, until Keyspace::stop_waiting() with the same ticket. A ticket is one
  // waiter's place in the order of arrival, for all its keys.
  void wait(int database, const Key& key, uint64_t ticket, std::shared_ptr<KeyWaiter> waiter);
  // Does anybody? Whoever comes later must not take what they wait for.
  bool others_wait(int database, const Key& key);
  // The key's waiters are asked after this thread's command although it did not change.
  static void serve_later(int database, const Key& key);

 private:
  friend class Keyspace;

  void expire(int database, const Key& key, Found found);
  Found expire_elements(int database, const Key& key, Found found);
  // In front of every change that makes a key.
  void make_way(int database, const Key& key) {
    if (keyspace_.settings.keeps_all_until_ms.load(std::memory_order_relaxed) != 0) [[unlikely]] drop_hidden(database, key);
    event(KeyEvent::kNew, "new", database, key);
  }
  void drop_hidden(int database, const Key& key);
  // Every change of a key passes here.
  void changed(Keyspace::Stripe& home, int database, const Key& key) {
    if (home.watchers.load(std::memory_order_relaxed) != 0) [[unlikely]] tell_change(database, key);
  }
  void tell_change(int database, const Key& key);
  void tell_event(KeyEvent kind, std::string_view name, int database, const Key& key);
  void databases_change(int a, int b);  // their keys that somebody waits for
  void watched_databases_change(int a, int b);

  Keyspace::Stripe& stripe(const Key& key) { return (*keyspace_.stripes_)[key.hash.stripe()]; }
  void drop_extent(const Found& found);

  Keyspace& keyspace_;
  std::string& effects_;               // of this thread, reused
  KeyspaceScope* const scope_ = KeyspaceScope::current();  // the transaction it is part of
  Keyspace::Stripe* single_ = nullptr;
  StripeSet stripes_;  // when several are locked
  std::vector<ExtentRef> freed_;
  std::vector<std::unique_ptr<Shard>> detached_;  // FLUSH: to be freed behind the record
  ExtentRef kept_;
  bool locked_ = true;
  bool no_touch_ = false;
};

}  // namespace pion
