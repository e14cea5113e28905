// The hash table of large values: linear hashing as in Shard (one bucket split or merged at a time, so that no operation is
// long), over elements that somebody else owns. A bucket is one cache line of 8 slots {tag of 16 hash bits, 48-bit pointer};
// a full one chains in its last slot. Traits::key(const void* element) gives an element's key.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "keyspace/bits.h"

namespace pion {

// Seeded once per process: what lies in a table cannot be chosen to collide.
uint64_t element_hash(std::string_view key);

template <typename Traits>
class LinearTable {
 public:
  LinearTable() = default;
  ~LinearTable() {
    for (uint64_t b = 0; b < buckets_; ++b) drop_links(*bucket(b));
    for (Bucket* segment : segments_) std::free(segment);
  }
  LinearTable(const LinearTable&) = delete;
  LinearTable& operator=(const LinearTable&) = delete;

  // Where an element stands; valid until the next insert or remove.
  using Slot = uint64_t*;
  static void* element(Slot slot) { return reinterpret_cast<void*>(*slot & kPointerMask); }

  // Null when there is none.
  Slot find(std::string_view key, uint64_t hash) const {
    if (buckets_ == 0) return nullptr;
    const uint64_t tag = hash >> 48;
    for (Bucket* b = bucket(index_of(hash)); b; b = link_of(b->slots[7])) {
      for (uint64_t& word : b->slots) {
        if (word >> 48 == tag && word != 0 && !(word & kLink) && Traits::key(pointer(word)) == key) return &word;
      }
    }
    return nullptr;
  }
  // Any element of this hash (or one that looks like it) that `is_it` takes.
  template <typename Is>
  Slot find_if(uint64_t hash, Is&& is_it) const {
    if (buckets_ == 0) return nullptr;
    const uint64_t tag = hash >> 48;
    for (Bucket* b = bucket(index_of(hash)); b; b = link_of(b->slots[7])) {
      for (uint64_t& word : b->slots) {
        if (word >> 48 == tag && word != 0 && !(word & kLink) && is_it(pointer(word))) return &word;
      }
    }
    return nullptr;
  }
  // The key is not there yet.
  void insert(void* element, uint64_t hash) {
    if (buckets_ == 0) add_bucket();
    put(bucket(index_of(hash)), word_of(element, hash));
    if (++count_ > buckets_ * kGrowLoad) grow();
  }
  // Another element with the same key.
  void replace(Slot slot, void* element) { *slot = (*slot & ~kPointerMask) | reinterpret_cast<uint64_t>(element); }
  void remove(Slot slot, uint64_t hash) {
    take_out(bucket(index_of(hash)), slot);
    --count_;
    if (buckets_ > 1 && count_ * 4 < buckets_ * kGrowLoad) shrink();
  }

  uint64_t count() const { return count_; }
  uint64_t memory_bytes() const {
    return (segments_.size() > 1 ? segments_.size() * kSegmentBuckets : first_capacity_) * sizeof(Bucket) + links_ * sizeof(Bucket) +
           segments_.capacity() * sizeof(Bucket*);
  }

  // As Shard::scan: position 0 starts, the answer 0 says the table is through; an element that is there all the while is
  // visited, however the table grows and shrinks in between.
  template <typename Visit>
  uint64_t scan(uint64_t position, Visit&& visit) const {
    if (buckets_ == 0) return 0;
    uint64_t index = position & high_mask_;
    if (index >= buckets_) index &= high_mask_ >> 1;
    const uint64_t half = (high_mask_ >> 1) + 1;
    const bool split = index >= half || index + half < buckets_;
    const auto bits = static_cast<unsigned>(__builtin_popcountll(split ? high_mask_ : high_mask_ >> 1));
    each_in(*bucket(index), visit);
    if (bits == 0) return 0;
    const uint64_t next = reverse32(index) + (1ULL << (32 - bits));
    return next >> 32 ? 0 : reverse32(next);
  }
  // Stops when the visit answers false.
  template <typename Visit>
  bool each(Visit&& visit) const {
    for (uint64_t b = 0; b < buckets_; ++b) {
      if (b + kWalkAhead < buckets_) {
        for (uint64_t word : bucket(b + kWalkAhead)->slots) __builtin_prefetch(pointer(word));
      }
      bool going = true;
      each_in(*bucket(b), [&](void* element) { going = going && visit(element); });
      if (!going) return false;
    }
    return true;
  }
  // Each element with the same chance; null when there is none. `random` gives 64 random bits.
  template <typename Random>
  void* random(Random&& random) const {
    if (count_ == 0) return nullptr;
    while (true) {
      // A bucket is taken with a chance in proportion to what lies in it.
      const uint64_t dice = random();
      const Bucket& b = *bucket((dice & 0xffffffff) % buckets_);
      uint64_t pick = dice >> 32 & (kRandomRoom - 1);
      void* chosen = nullptr;
      each_in(b, [&](void* element) {
        if (pick-- == 0) chosen = element;
      });
      if (chosen) return chosen;
    }
  }

 private:
  struct Bucket {
    uint64_t slots[8];
  };
  static constexpr uint64_t kPointerMask = (1ULL << 48) - 8;
  static constexpr uint64_t kLink = 1;
  static constexpr uint64_t kGrowLoad = 6;          // elements per bucket
  static constexpr uint64_t kSegmentBuckets = 64;   // 4 KiB
  static constexpr uint64_t kWalkAhead = 4;
  static constexpr uint64_t kRandomRoom = 32;       // more than a chain ever holds, but for odds of one in millions

  static void* pointer(uint64_t word) { return reinterpret_cast<void*>(word & kPointerMask); }
  static uint64_t word_of(void* element, uint64_t hash) { return reinterpret_cast<uint64_t>(element) | (hash >> 48 << 48); }
  static Bucket* link_of(uint64_t word) { return word & kLink ? static_cast<Bucket*>(pointer(word)) : nullptr; }
  Bucket* bucket(uint64_t index) const { return segments_[index / kSegmentBuckets] + index % kSegmentBuckets; }
  uint64_t index_of(uint64_t hash) const {
    const uint64_t index = hash & high_mask_;
    return index < buckets_ ? index : index & (high_mask_ >> 1);
  }
  static Bucket* allocate(uint64_t count) {
    void* memory = std::aligned_alloc(sizeof(Bucket), count * sizeof(Bucket));
    if (!memory) std::abort();
    return static_cast<Bucket*>(memory);
  }

  template <typename Visit>
  static void each_in(const Bucket& first, Visit&& visit) {
    for (const Bucket* b = &first; b; b = link_of(b->slots[7])) {
      for (uint64_t word : b->slots) {
        if (word != 0 && !(word & kLink)) visit(pointer(word));
      }
    }
  }

  void add_bucket() {
    // The first segment grows by doubling: small tables are many.
    if (buckets_ == first_capacity_ && first_capacity_ < kSegmentBuckets) {
      const uint64_t capacity = first_capacity_ == 0 ? 1 : first_capacity_ * 2;
      Bucket* larger = allocate(capacity);
      if (segments_.empty()) segments_.push_back(nullptr);
      if (buckets_ > 0) std::memcpy(larger, segments_[0], buckets_ * sizeof(Bucket));
      std::free(segments_[0]);
      segments_[0] = larger;
      first_capacity_ = capacity;
    } else if (buckets_ % kSegmentBuckets == 0 && buckets_ > 0 && buckets_ / kSegmentBuckets == segments_.size()) {
      segments_.push_back(allocate(kSegmentBuckets));
    }
    std::memset(bucket(buckets_), 0, sizeof(Bucket));
    ++buckets_;
    if (buckets_ > high_mask_) high_mask_ = high_mask_ * 2 + 1;
  }

  void drop_bucket() {
    --buckets_;
    if (buckets_ <= high_mask_ >> 1) high_mask_ >>= 1;
    if (buckets_ % kSegmentBuckets == 0 && buckets_ > 0) {
      std::free(segments_.back());
      segments_.pop_back();
    }
  }

  // Splits the next bucket in turn.
  void grow() {
    const uint64_t added = buckets_;
    add_bucket();
    const uint64_t mask = added > high_mask_ >> 1 ? high_mask_ : high_mask_ >> 1;
    Bucket* low = bucket(added & (mask >> 1));
    Bucket* high = bucket(added);
    std::vector<uint64_t>& words = words_of_thread();
    take_chain(low, words);
    for (uint64_t word : words) __builtin_prefetch(pointer(word));
    for (uint64_t word : words) put((element_hash(Traits::key(pointer(word))) & mask) == added ? high : low, word);
  }

  // Merges the last bucket into its sibling.
  void shrink() {
    std::vector<uint64_t>& words = words_of_thread();
    take_chain(bucket(buckets_ - 1), words);
    const uint64_t dropped = buckets_ - 1;
    drop_bucket();
    uint64_t top = 1;
    while (top * 2 <= dropped) top *= 2;
    Bucket* low = bucket(dropped - top);
    for (uint64_t word : words) put(low, word);
  }

  void put(Bucket* b, uint64_t word) {
    while (true) {
      for (uint64_t& slot : b->slots) {
        if (slot == 0) {
          slot = word;
          return;
        }
      }
      if (Bucket* next = link_of(b->slots[7])) {
        b = next;
        continue;
      }
      Bucket* next = allocate(1);
      ++links_;
      std::memset(next, 0, sizeof(Bucket));
      next->slots[0] = b->slots[7];
      next->slots[1] = word;
      b->slots[7] = reinterpret_cast<uint64_t>(next) | kLink;
      return;
    }
  }

  // Fills the hole with an element of the chain's last bucket, which goes when it is empty.
  void take_out(Bucket* first, Slot slot) {
    *slot = 0;
    Bucket* before = nullptr;
    Bucket* last = first;
    while (Bucket* next = link_of(last->slots[7])) {
      before = last;
      last = next;
    }
    if (!before) return;
    const bool hole_in_last = slot >= last->slots && slot < last->slots + 8;
    bool empty = true;
    for (uint64_t& word : last->slots) {
      if (word == 0) continue;
      if (!hole_in_last && *slot == 0) {
        *slot = word;
        word = 0;
      } else {
        empty = false;
      }
    }
    if (!empty) return;
    before->slots[7] = 0;
    std::free(last);
    --links_;
  }

  static std::vector<uint64_t>& words_of_thread() {
    thread_local std::vector<uint64_t> words;
    words.clear();
    return words;
  }

  void take_chain(Bucket* first, std::vector<uint64_t>& words) {
    for (Bucket* b = first; b;) {
      Bucket* next = link_of(b->slots[7]);
      for (uint64_t word : b->slots) {
        if (word != 0 && !(word & kLink)) words.push_back(word);
      }
      if (b != first) {
        std::free(b);
        --links_;
      }
      b = next;
    }
    std::memset(first, 0, sizeof(Bucket));
  }

  static void drop_links(const Bucket& first) {
    for (Bucket* b = link_of(first.slots[7]); b;) {
      Bucket* next = link_of(b->slots[7]);
      std::free(b);
      b = next;
    }
  }

  uint64_t buckets_ = 0;    // 2^L <= buckets_ < 2^(L+1)
  uint64_t high_mask_ = 0;  // 2^(L+1) - 1
  uint64_t count_ = 0;
  uint64_t links_ = 0;
  uint64_t first_capacity_ = 0;  // buckets there is room for in the first segment
  std::vector<Bucket*> segments_;
};

}  // namespace pion
