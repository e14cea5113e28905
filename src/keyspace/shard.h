// One database's part of one stripe: a hash table over entries, their memory, and an index of expiry times.
//
// The table grows and shrinks by linear hashing (W. Litwin, 1980): one bucket at a time, so no operation is long and memory
// follows the number of keys. A bucket is one cache line of 8 slots {tag of 16 hash bits, 48-bit pointer}; a full one chains.
// Used under its stripe's lock, except the two prefetch functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "keyspace/entry.h"
#include "keyspace/page_pool.h"
#include "keyspace/slab.h"

namespace pion {

// Seeded XXH3 of a key. Low 8 bits: stripe; above: bucket; top 16: tag.
struct KeyHash {
  uint64_t value = 0;
  unsigned stripe() const { return static_cast<unsigned>(value & 0xff); }
};

// Where a key stands. Valid until the next change to the same shard.
struct Found {
  uint64_t* slot = nullptr;
  Entry* entry = nullptr;
  explicit operator bool() const { return entry != nullptr; }
};

class Shard {
 public:
  // Without a graveyard, large objects are freed at once.
  Shard(PagePool& pool, uint64_t seed, Graveyard* graveyard = nullptr)
      : pool_(&pool), graveyard_(graveyard), seed_(seed), slab_(pool) {}
  ~Shard() { clear([](ExtentRef) {}); }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  static KeyHash hash(std::string_view key, uint64_t seed);

  Found find(KeyHash hash, std::string_view key);

  // `found` is find()'s answer for this key, possibly empty. Stores the value with an expiry (wall ms) or none (0). The value
  // may be borrowed from another entry, not from this one. An extent that was there is the caller's to free. `clock`: of a
  // key that is new; an old one keeps its own.
  Entry* store(Found found, KeyHash hash, std::string_view key, const NewValue& value, int64_t expiry_ms, uint32_t clock);
  void erase(Found found, KeyHash hash);
  // 0: no expiry any more. The entry may move.
  Entry* set_expiry(Found found, KeyHash hash, int64_t expiry_ms);
  // The value becomes a raw string with `size` bytes at least (zeros where new), on the heap or in the block. Not for extents.
  // Returns where its bytes lie, writable.
  struct Writable { Entry* entry; char* bytes; };
  Writable make_writable(Found found, KeyHash hash, uint64_t size);

  // Replaces `removed` bytes at `at` of packed bytes. The entry may move, and `found` with it.
  void splice(Found& found, KeyHash hash, size_t at, size_t removed, std::string_view inserted);
  // After a change to the entry's object, if it has one: its memory counts here.
  void count_object(Entry& entry);
  // The entry's object is no more its own: the entry must be erased or stored to next.
  std::unique_ptr<Object> take_object(Entry& entry);
  // An element in this key's value expires at this time, before any other one that was noted for the key.
  void note_element_expiry(int64_t at_ms, KeyHash hash);
  int64_t next_element_expiry_ms() const { return element_due_.empty() ? INT64_MAX : element_due_.front().at_ms; }
  // Removes the earliest item; a key of that hash whose elements expire, if there is one.
  Found take_element_due(KeyHash& hash);
  PagePool& pool() { return *pool_; }

  uint64_t count() const { return count_; }
  uint64_t volatile_count() const { return volatile_count_; }
  uint64_t memory_bytes() const { return memory_; }
  bool has_table() const { return buckets_ > 0; }

  // The buckets' walk for SCAN: position 0 starts, the answer 0 says the shard is through. An element that is there during
  // the whole walk is visited at least once, however the table grows and shrinks in between: positions are bit-reversed
  // hash prefixes, and a bucket is an interval of them.
  uint64_t scan(uint64_t position, const std::function<void(Entry&)>& visit);
  template <typename Visit>
  void each(Visit&& visit) const {
    for (uint64_t b = 0; b < buckets_; ++b) {
      if (b + kWalkAhead < buckets_) prefetch_entries(*bucket(b + kWalkAhead));
      each_in(*bucket(b), visit);
    }
  }
  // Any entry, about evenly; null when there is none.
  Entry* random(uint64_t random);
  // Up to `limit` entries from neighbouring buckets at a random place.
  size_t sample(uint64_t random, Entry** to, size_t limit);

  // The earliest time in the index, or INT64_MAX. It may be stale (the key was changed since): then take_due() finds nothing.
  int64_t next_expiry_ms() const { return due_.empty() ? INT64_MAX : due_.front().at_ms; }
  // Removes the earliest item; the entry if it is still there with that expiry, else null.
  Found take_due(KeyHash& hash);
  // The entry that expires first; null when there is none. Drops stale items on the way.
  Found first_to_expire(KeyHash& hash);

  // Up to `limit` entries that expire, from random places of the index.
  size_t sample_volatile(uint64_t random, Entry** to, size_t limit);

  // Expiry times of up to `limit` items spread over the index.
  template <typename Visit>
  void sample_expiry(size_t limit, Visit&& visit) const {
    const size_t step = due_.size() / limit + 1;
    for (size_t i = 0; i < due_.size(); i += step) visit(due_[i].at_ms);
  }

  // Without the lock, any thread: step one brings the bucket, step two (some commands later) the entry, or, when it answers
  // false, the next bucket of the chain; then step three brings the entry. Reads memory that is never unmapped; what it reads
  // is only prefetched.
  void prefetch_bucket(KeyHash hash) const;
  bool prefetch_entry(KeyHash hash) const;
  void prefetch_chained_entry(KeyHash hash) const;

  // Everything moves into a new shard, in constant time.
  std::unique_ptr<Shard> detach();
  void swap(Shard& other);
  // Frees everything; visits the extents.
  void clear(const std::function<void(ExtentRef)>& visit);

 private:
  struct Bucket {  // those of the table lie on cache lines; those of chains, in slabs, need not
    uint64_t slots[8];
  };
  struct DueItem {
    int64_t at_ms;
    uint64_t hash;
    bool operator<(const DueItem& other) const { return at_ms > other.at_ms; }  // earliest on top of the heap
  };
  static constexpr uint64_t kSegmentBuckets = PagePool::kPage / sizeof(Bucket);
  static constexpr uint64_t kPointerMask = (1ULL << 48) - 8;
  static constexpr uint64_t kLink = 1, kLinkFromPage = 2;  // low bits of slot 7 when it leads to another bucket
  static constexpr uint64_t kWalkAhead = 4;                // buckets whose entries are on their way while one is visited
  static constexpr uint64_t kGrowLoad = 6;                 // keys per bucket
  static constexpr size_t kFirstSegments = 16, kDirectoryPages = 16, kPerDirectoryPage = PagePool::kPage / sizeof(void*);
  static constexpr uint64_t kMaxBuckets = (kFirstSegments + kDirectoryPages * kPerDirectoryPage) * kSegmentBuckets;

  static Entry* entry_of(uint64_t word) { return reinterpret_cast<Entry*>(word & kPointerMask); }
  static uint64_t word_of(Entry* entry, KeyHash hash) { return reinterpret_cast<uint64_t>(entry) | (hash.value >> 48 << 48); }
  static Bucket* link_of(uint64_t word) { return word & kLink ? reinterpret_cast<Bucket*>(word & kPointerMask) : nullptr; }

  template <typename Visit>
  static void each_in(const Bucket& first, Visit&& visit) {
    for (const Bucket* b = &first; b; b = link_of(b->slots[7])) {
      for (uint64_t word : b->slots) {
        if (word != 0 && !(word & kLink)) visit(*entry_of(word));
      }
    }
  }

  static void prefetch_entries(const Bucket& bucket) {
    for (uint64_t word : bucket.slots) {
      const uint64_t entry = word & kPointerMask;  // a number: no entry is no pointer to add to
      __builtin_prefetch(reinterpret_cast<const void*>(entry));
      __builtin_prefetch(reinterpret_cast<const void*>(entry + 64));
    }
  }

  Bucket*& segment(uint64_t number) {
    if (number < kFirstSegments) return first_[number];
    return directory_[(number - kFirstSegments) / kPerDirectoryPage][(number - kFirstSegments) % kPerDirectoryPage];
  }
  Bucket* bucket(uint64_t index) const {
    return const_cast<Shard*>(this)->segment(index / kSegmentBuckets) + index % kSegmentBuckets;
  }
  uint64_t index_of(KeyHash hash) const {
    const uint64_t index = (hash.value >> 8) & high_mask_;
    return index < buckets_ ? index : index & (high_mask_ >> 1);
  }

  const Bucket* bucket_to_prefetch(KeyHash hash) const;
  static const Bucket* prefetch_in(const Bucket& bucket, KeyHash hash);
  void add_bucket();
  void drop_bucket();
  void grow();
  void shrink();
  void insert(Bucket* bucket, uint64_t word);
  void remove(Bucket* first, uint64_t* slot);
  void take_chain(Bucket* first, std::vector<uint64_t>& words);
  Entry* allocate(std::string_view key, ValueType type, Encoding encoding, size_t value_size, bool expiry);
  void release(Entry* entry);
  void drop_value(Entry& entry);
  void place_value(Entry& entry, Encoding encoding, const NewValue& value, HeapBytes* heap);
  void note_expiry(int64_t at_ms, KeyHash hash);
  Found find_due(const DueItem& item);
  void rebuild_due();

  PagePool* pool_;
  Graveyard* graveyard_;
  uint64_t seed_;
  uint64_t buckets_ = 0;    // 2^L <= buckets_ < 2^(L+1)
  uint64_t high_mask_ = 0;  // 2^(L+1) - 1
  uint64_t count_ = 0;
  uint64_t volatile_count_ = 0;
  uint64_t memory_ = 0;  // live blocks, heap strings, objects, table
  Bucket* first_[kFirstSegments] = {};
  Bucket** directory_[kDirectoryPages] = {};
  Slab slab_;
  std::vector<DueItem> due_;  // a heap
  std::vector<DueItem> element_due_;
  size_t element_due_limit_ = 64;  // above it the stale items are dropped
};

}  // namespace pion
