// Shard's index of expiry times: a heap of {time, hash} that is corrected lazily. An item is stale when no entry of that hash
// has that expiry any more; stale items are dropped when they come due, or all at once when they outnumber the live ones.
#include <algorithm>

#include "keyspace/shard.h"
#include "keyspace/value_types.h"

namespace pion {

void Shard::note_expiry(int64_t at_ms, KeyHash hash) {
  const size_t before = due_.capacity();
  if (due_.size() > 2 * volatile_count_ + 64) {
    rebuild_due();  // includes this entry
  } else {
    due_.push_back({at_ms, hash.value});
    std::push_heap(due_.begin(), due_.end());
  }
  memory_ += due_.capacity() * sizeof(DueItem);
  memory_ -= before * sizeof(DueItem);
}

void Shard::rebuild_due() {
  due_.clear();
  due_.reserve(volatile_count_ + volatile_count_ / 4 + 16);
  each([&](Entry& entry) {
    if (entry.has_expiry()) due_.push_back({entry.expiry(), hash(entry.key(), seed_).value});
  });
  std::make_heap(due_.begin(), due_.end());
}

Found Shard::find_due(const DueItem& item) {
  if (buckets_ == 0) return {};
  const uint64_t tag = item.hash >> 48;
  for (Bucket* b = bucket(index_of({item.hash})); b; b = link_of(b->slots[7])) {
    for (uint64_t& word : b->slots) {
      if (word >> 48 != tag || word == 0 || word & kLink) continue;
      Entry* entry = entry_of(word);
      // Another key of the same bucket, tag and millisecond is as due as the one meant.
      if (entry->has_expiry() && entry->expiry() == item.at_ms) return {&word, entry};
    }
  }
  return {};
}

Found Shard::take_due(KeyHash& hash_of) {
  std::pop_heap(due_.begin(), due_.end());
  const DueItem item = due_.back();
  due_.pop_back();
  const Found found = find_due(item);
  if (found) hash_of = hash(found.entry->key(), seed_);
  return found;
}

void Shard::note_element_expiry(int64_t at_ms, KeyHash hash) {
  const size_t before = element_due_.capacity();
  element_due_.push_back({at_ms, hash.value});
  std::push_heap(element_due_.begin(), element_due_.end());
  if (element_due_.size() > element_due_limit_) {
    element_due_.clear();
    each([&](Entry& entry) {
      const int64_t next = next_element_due(entry);
      if (next != INT64_MAX) element_due_.push_back({next, Shard::hash(entry.key(), seed_).value});
    });
    std::make_heap(element_due_.begin(), element_due_.end());
    element_due_limit_ = 2 * element_due_.size() + 64;
  }
  memory_ += element_due_.capacity() * sizeof(DueItem);
  memory_ -= before * sizeof(DueItem);
}

Found Shard::take_element_due(KeyHash& hash_of) {
  std::pop_heap(element_due_.begin(), element_due_.end());
  const DueItem item = element_due_.back();
  element_due_.pop_back();
  if (buckets_ == 0) return {};
  const uint64_t tag = item.hash >> 48;
  for (Bucket* b = bucket(index_of({item.hash})); b; b = link_of(b->slots[7])) {
    for (uint64_t& word : b->slots) {
      if (word >> 48 != tag || word == 0 || word & kLink) continue;
      Entry* entry = entry_of(word);
      hash_of = hash(entry->key(), seed_);
      if (hash_of.value == item.hash && next_element_due(*entry) != INT64_MAX) return {&word, entry};
    }
  }
  return {};
}

size_t Shard::sample_volatile(uint64_t random, Entry** to, size_t limit) {
  constexpr size_t kTriesForEach = 4;  // items may be stale
  size_t filled = 0;
  for (size_t tries = 0; tries < limit * kTriesForEach && filled < limit && !due_.empty(); ++tries) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const Found found = find_due(due_[(random >> 33) % due_.size()]);
    if (found) to[filled++] = found.entry;
  }
  return filled;
}

Found Shard::first_to_expire(KeyHash& hash_of) {
  while (!due_.empty()) {
    const Found found = find_due(due_.front());
    if (found) {
      hash_of = hash(found.entry->key(), seed_);
      return found;
    }
    std::pop_heap(due_.begin(), due_.end());
    due_.pop_back();
  }
  return {};
}

}  // namespace pion
