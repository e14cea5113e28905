// Shard's table: linear hashing, chains, the walk of SCAN, random picks.
#include <algorithm>
#include <cstring>

#include "keyspace/bits.h"
#include "keyspace/shard.h"

namespace pion {

void Shard::add_bucket() {
  if (buckets_ % kSegmentBuckets == 0) {
    const uint64_t number = buckets_ / kSegmentBuckets;
    if (number >= kFirstSegments && (number - kFirstSegments) % kPerDirectoryPage == 0) {
      directory_[(number - kFirstSegments) / kPerDirectoryPage] = static_cast<Bucket**>(pool_->take());
      memory_ += PagePool::kPage;
    }
    segment(number) = static_cast<Bucket*>(pool_->take());
    memory_ += PagePool::kPage;
  }
  std::memset(bucket(buckets_), 0, sizeof(Bucket));
  ++buckets_;
  if (buckets_ > high_mask_) high_mask_ = high_mask_ * 2 + 1;
}

void Shard::drop_bucket() {
  --buckets_;
  if (buckets_ <= high_mask_ >> 1) high_mask_ >>= 1;
  if (buckets_ % kSegmentBuckets != 0) return;
  const uint64_t number = buckets_ / kSegmentBuckets;
  pool_->give(segment(number));
  memory_ -= PagePool::kPage;
  if (number >= kFirstSegments && (number - kFirstSegments) % kPerDirectoryPage == 0) {
    pool_->give(directory_[(number - kFirstSegments) / kPerDirectoryPage]);
    memory_ -= PagePool::kPage;
  }
}

// Splits the next bucket in turn: its keys go to it and to a new last bucket.
void Shard::grow() {
  if (buckets_ >= kMaxBuckets) return;
  const uint64_t added = buckets_;
  add_bucket();
  // After adding, high_mask_ covers the new number; its sibling lacks the highest bit.
  const uint64_t mask = added > high_mask_ >> 1 ? high_mask_ : high_mask_ >> 1;
  Bucket* low = bucket(added & (mask >> 1));
  Bucket* high = bucket(added);
  thread_local std::vector<uint64_t> words;
  words.clear();
  take_chain(low, words);
  for (uint64_t word : words) __builtin_prefetch(entry_of(word));
  for (uint64_t word : words) {
    const KeyHash h = hash(entry_of(word)->key(), seed_);
    insert(((h.value >> 8) & mask) == added ? high : low, word);
  }
}

// Merges the last bucket into its sibling.
void Shard::shrink() {
  thread_local std::vector<uint64_t> words;
  words.clear();
  take_chain(bucket(buckets_ - 1), words);
  const uint64_t dropped = buckets_ - 1;
  drop_bucket();
  uint64_t top = 1;
  while (top * 2 <= dropped) top *= 2;
  Bucket* low = bucket(dropped - top);
  for (uint64_t word : words) insert(low, word);
}

void Shard::insert(Bucket* b, uint64_t word) {
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
    const Slab::Block block = slab_.allocate(sizeof(Bucket));
    memory_ += sizeof(Bucket);
    auto* next = static_cast<Bucket*>(block.bytes);
    std::memset(next, 0, sizeof(Bucket));
    next->slots[0] = b->slots[7];
    next->slots[1] = word;
    b->slots[7] = reinterpret_cast<uint64_t>(next) | kLink | (block.from_page ? kLinkFromPage : 0);
    return;
  }
}

// Fills the hole with an entry of the chain's last bucket, which goes when it is empty.
void Shard::remove(Bucket* first, uint64_t* slot) {
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
  const bool from_page = before->slots[7] & kLinkFromPage;
  before->slots[7] = 0;
  slab_.free(last, sizeof(Bucket), from_page);
  memory_ -= sizeof(Bucket);
}

// Empties a chain.
void Shard::take_chain(Bucket* first, std::vector<uint64_t>& words) {
  uint64_t link = 0;
  Bucket* b = first;
  while (b) {
    const uint64_t following = b->slots[7];
    for (uint64_t word : b->slots) {
      if (word != 0 && !(word & kLink)) words.push_back(word);
    }
    if (b != first) {
      slab_.free(b, sizeof(Bucket), link & kLinkFromPage);
      memory_ -= sizeof(Bucket);
    }
    link = following;
    b = link_of(following);
  }
  std::memset(first, 0, sizeof(Bucket));
}

uint64_t Shard::scan(uint64_t position, const std::function<void(Entry&)>& visit) {
  if (buckets_ == 0) return 0;
  uint64_t index = position & high_mask_;
  if (index >= buckets_) index &= high_mask_ >> 1;
  // Bits of the hash that this bucket stands for: all of high_mask_ if it or its sibling came from a split at this level.
  const uint64_t half = (high_mask_ >> 1) + 1;
  const bool split = index >= half || index + half < buckets_;
  const unsigned bits = static_cast<unsigned>(__builtin_popcountll(split ? high_mask_ : high_mask_ >> 1));
  each_in(*bucket(index), visit);
  const uint64_t next = reverse32(index) + (1ULL << (32 - bits));
  return next >> 32 ? 0 : reverse32(next);
}

Entry* Shard::random(uint64_t random) {
  if (count_ == 0) return nullptr;
  for (uint64_t b = random % buckets_;; b = (b + 1) % buckets_) {
    size_t in_bucket = 0;
    each_in(*bucket(b), [&](Entry&) { ++in_bucket; });
    if (in_bucket == 0) continue;
    size_t pick = (random >> 32) % in_bucket;
    Entry* chosen = nullptr;
    each_in(*bucket(b), [&](Entry& entry) {
      if (pick-- == 0) chosen = &entry;
    });
    return chosen;
  }
}

size_t Shard::sample(uint64_t random, Entry** to, size_t limit) {
  size_t filled = 0;
  if (count_ == 0) return 0;
  for (uint64_t step = 0; step < buckets_ && filled < limit; ++step) {
    each_in(*bucket((random + step) % buckets_), [&](Entry& entry) {
      if (filled < limit) to[filled++] = &entry;
    });
  }
  return filled;
}

// Without the lock the numbers may be torn: then the bucket is another one, or none.
__attribute__((no_sanitize("thread"))) const Shard::Bucket* Shard::bucket_to_prefetch(KeyHash hash) const {
  const uint64_t buckets = __atomic_load_n(&buckets_, __ATOMIC_RELAXED);
  const uint64_t mask = __atomic_load_n(&high_mask_, __ATOMIC_RELAXED);
  uint64_t index = (hash.value >> 8) & mask;
  if (index >= buckets) index &= mask >> 1;
  const uint64_t number = index / kSegmentBuckets;
  if (number >= kFirstSegments) return nullptr;  // beyond a million keys the directory itself would have to be chased
  const Bucket* segment = __atomic_load_n(&first_[number], __ATOMIC_RELAXED);
  return segment ? segment + index % kSegmentBuckets : nullptr;
}

void Shard::prefetch_bucket(KeyHash hash) const {
  if (const Bucket* bucket = bucket_to_prefetch(hash)) __builtin_prefetch(bucket);
}

// The bucket that follows, to be prefetched: of those in pages, which may be read without the lock.
__attribute__((no_sanitize("thread"))) const Shard::Bucket* Shard::prefetch_in(const Bucket& bucket, KeyHash hash) {
  const uint64_t tag = hash.value >> 48;
  uint64_t word = 0;
  for (const uint64_t& slot : bucket.slots) {
    word = __atomic_load_n(&slot, __ATOMIC_RELAXED);
    if (word == 0 || word >> 48 != tag) continue;
    const char* entry = reinterpret_cast<const char*>(word & kPointerMask);
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + 64);
    __builtin_prefetch(entry + 87);  // the last byte of 16 bytes of key with 64 of value, which may lie on a third line
    return nullptr;
  }
  return word & kLinkFromPage ? link_of(word) : nullptr;
}

bool Shard::prefetch_entry(KeyHash hash) const {
  const Bucket* bucket = bucket_to_prefetch(hash);
  const Bucket* next = bucket ? prefetch_in(*bucket, hash) : nullptr;
  if (next) __builtin_prefetch(next);
  return !next;
}

__attribute__((no_sanitize("thread"))) void Shard::prefetch_chained_entry(KeyHash hash) const {
  const Bucket* bucket = bucket_to_prefetch(hash);
  if (!bucket) return;
  const uint64_t word = __atomic_load_n(&bucket->slots[7], __ATOMIC_RELAXED);
  if (word & kLinkFromPage && word & kLink) prefetch_in(*link_of(word), hash);
}

}  // namespace pion
