#include "keyspace/shard.h"

#include <algorithm>
#include <cassert>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pion {

KeyHash Shard::hash(std::string_view key, uint64_t seed) { return {XXH3_64bits_withSeed(key.data(), key.size(), seed)}; }

Found Shard::find(KeyHash hash, std::string_view key) {
  if (buckets_ == 0) return {};
  const uint64_t tag = hash.value >> 48;
  for (Bucket* b = bucket(index_of(hash)); b; b = link_of(b->slots[7])) {
    for (uint64_t& word : b->slots) {
      if (word >> 48 != tag || word == 0 || word & kLink) continue;
      Entry* entry = entry_of(word);
      if (entry->key() == key) return {&word, entry};
    }
  }
  return {};
}

Entry* Shard::store(Found found, KeyHash hash, std::string_view key, const NewValue& value, int64_t expiry_ms, uint32_t clock) {
  Encoding encoding = Encoding::kInline;
  size_t size = value.bytes.size();
  const bool kept = value.moved || (found && found.entry->has_expiry());
  const ExpiryRoom room = expiry_ms == 0 ? ExpiryRoom::kNone : kept ? ExpiryRoom::kKept : ExpiryRoom::kGained;
  switch (value.kind) {
    case NewValue::Kind::kInteger: encoding = Encoding::kInt, size = sizeof(int64_t); break;
    case NewValue::Kind::kExtent: encoding = Encoding::kExtent, size = Entry::kExtentBytes; break;
    case NewValue::Kind::kTyped:
      encoding = value.object ? Encoding::kObject : size > Entry::kLargestInline ? Encoding::kHeap : Encoding::kInlineRaw;
      if (value.object) size = sizeof(Object*);
      break;
    case NewValue::Kind::kBytes:
    case NewValue::Kind::kRawBytes:
      if (size > Entry::kLargestInline) {
        encoding = Encoding::kHeap;
      } else if (value.kind == NewValue::Kind::kRawBytes || !counts_as_embedded(key.size(), size, room)) {
        encoding = Encoding::kInlineRaw;
      }
      break;
  }
  HeapBytes* heap = nullptr;
  if (encoding == Encoding::kHeap) {
    heap = HeapBytes::make(size);
    heap->size = size;
    std::memcpy(heap->data(), value.bytes.data(), size);
    memory_ += heap->memory_bytes();
    size = sizeof(HeapBytes*);
  }

  Entry* entry = found.entry;
  const size_t block = Slab::rounded(Entry::bytes_for(key.size(), size, expiry_ms != 0));
  if (entry && entry->has_expiry() == (expiry_ms != 0) && Slab::rounded(entry->block_bytes()) == block) {
    drop_value(*entry);
    entry->reuse(value.type, encoding, size);
  } else {
    Entry* fresh = allocate(key, value.type, encoding, size, expiry_ms != 0);
    if (entry) {
      fresh->set_clock(entry->clock());
      if (entry->has_expiry()) --volatile_count_;
      drop_value(*entry);
      release(entry);
      *found.slot = word_of(fresh, hash);
    } else {
      fresh->set_clock(clock);
      if (buckets_ == 0) add_bucket();
      insert(bucket(index_of(hash)), word_of(fresh, hash));
      ++count_;
      if (count_ > buckets_ * kGrowLoad) grow();
    }
    if (expiry_ms != 0) ++volatile_count_;
    entry = fresh;
  }
  place_value(*entry, encoding, value, heap);
  if (expiry_ms != 0) {
    entry->set_expiry(expiry_ms);
    note_expiry(expiry_ms, hash);
  }
  return entry;
}

void Shard::place_value(Entry& entry, Encoding encoding, const NewValue& value, HeapBytes* heap) {
  switch (encoding) {
    case Encoding::kInt: store_le(entry.value(), value.integer); break;
    case Encoding::kHeap: store_le(entry.value(), heap); break;
    case Encoding::kExtent:
      store_le(entry.value(), value.extent);
      store_le(entry.value() + sizeof(ExtentRef), value.extent_size);
      break;
    case Encoding::kInline:
    case Encoding::kInlineRaw: copy_bytes(entry.value(), value.bytes); break;
    case Encoding::kObject:
      store_le(entry.value(), value.object);
      value.object->counted_bytes = value.object->memory_bytes();
      memory_ += value.object->counted_bytes;
      break;
  }
}

void Shard::erase(Found found, KeyHash hash) {
  if (found.entry->has_expiry()) --volatile_count_;
  drop_value(*found.entry);
  release(found.entry);
  remove(bucket(index_of(hash)), found.slot);
  --count_;
  if (buckets_ > 1 && count_ * 4 < buckets_ * kGrowLoad) shrink();
}

Entry* Shard::set_expiry(Found found, KeyHash hash, int64_t expiry_ms) {
  Entry* entry = found.entry;
  if (entry->has_expiry() != (expiry_ms != 0)) {
    // The value's part is moved as it is: a pointer stays a pointer.
    Entry* fresh = allocate(entry->key(), entry->type(), entry->encoding(), entry->value_size(), expiry_ms != 0);
    std::memcpy(fresh->value(), entry->value(), entry->value_size());
    fresh->set_clock(entry->clock());
    release(entry);
    *found.slot = word_of(fresh, hash);
    entry = fresh;
    expiry_ms != 0 ? ++volatile_count_ : --volatile_count_;
    if (entry->encoding() == Encoding::kInline && expiry_ms != 0 &&
        !counts_as_embedded(entry->key().size(), entry->value_size(), ExpiryRoom::kGained)) {
      entry->reuse(ValueType::kString, Encoding::kInlineRaw, entry->value_size());
    }
  }
  if (expiry_ms != 0) {
    entry->set_expiry(expiry_ms);
    note_expiry(expiry_ms, hash);
  }
  return entry;
}

Shard::Writable Shard::make_writable(Found found, KeyHash hash, uint64_t size) {
  Entry* entry = found.entry;
  assert(entry->encoding() != Encoding::kExtent);
  char text[20];
  std::string_view old;
  if (entry->encoding() == Encoding::kInt) {
    old = {text, format_integer(entry->integer(), text)};
  } else {
    old = entry->bytes();
  }
  size = std::max<uint64_t>(size, old.size());
  if (entry->encoding() == Encoding::kHeap) {
    HeapBytes* heap = entry->heap();
    if (heap->capacity < size) {
      // As Redis' strings grow: twice the size, at most 1 MiB more than needed.
      HeapBytes* larger = HeapBytes::make(size + std::min<uint64_t>(size, 1 << 20));
      larger->size = heap->size;
      std::memcpy(larger->data(), heap->data(), heap->size);
      memory_ += larger->memory_bytes();
      memory_ -= heap->memory_bytes();
      HeapBytes::destroy(heap);
      heap = larger;
      store_le(entry->value(), heap);
    }
    if (size > heap->size) std::memset(heap->data() + heap->size, 0, size - heap->size);
    heap->size = size;
    return {entry, heap->data()};
  }
  const int64_t expiry_ms = entry->has_expiry() ? entry->expiry() : 0;
  if (size <= Entry::kLargestInline && entry->encoding() != Encoding::kInt &&
      Slab::rounded(entry->block_bytes() - entry->value_size() + size) == Slab::rounded(entry->block_bytes())) {
    std::memset(entry->value() + old.size(), 0, size - old.size());
    entry->reuse(ValueType::kString, Encoding::kInlineRaw, size);
    return {entry, entry->value()};
  }
  const bool heap_next = size > Entry::kLargestInline;
  Entry* fresh = allocate(entry->key(), ValueType::kString, heap_next ? Encoding::kHeap : Encoding::kInlineRaw,
                          heap_next ? sizeof(HeapBytes*) : size, expiry_ms != 0);
  char* bytes = fresh->value();
  if (heap_next) {
    HeapBytes* heap = HeapBytes::make(size + std::min<uint64_t>(size, 1 << 20));
    heap->size = size;
    memory_ += heap->memory_bytes();
    store_le(fresh->value(), heap);
    bytes = heap->data();
  }
  copy_bytes(bytes, old);
  std::memset(bytes + old.size(), 0, size - old.size());
  fresh->set_clock(entry->clock());
  if (expiry_ms != 0) fresh->set_expiry(expiry_ms);
  release(entry);
  *found.slot = word_of(fresh, hash);
  return {fresh, bytes};
}

Entry* Shard::allocate(std::string_view key, ValueType type, Encoding encoding, size_t value_size, bool expiry) {
  const size_t bytes = Entry::bytes_for(key.size(), value_size, expiry);
  const Slab::Block block = slab_.allocate(bytes);
  auto* entry = static_cast<Entry*>(block.bytes);
  entry->format(key, type, encoding, value_size, expiry, block.from_page);
  memory_ += Slab::rounded(bytes);
  return entry;
}

void Shard::release(Entry* entry) {
  const size_t bytes = entry->block_bytes();
  memory_ -= Slab::rounded(bytes);
  slab_.free(entry, bytes, entry->from_page());
}

void Shard::drop_value(Entry& entry) {
  if (entry.encoding() == Encoding::kHeap) {
    memory_ -= entry.heap()->memory_bytes();
    HeapBytes::destroy(entry.heap());
  } else if (entry.encoding() == Encoding::kObject && entry.object()) {
    std::unique_ptr<Object> object(entry.object());
    memory_ -= object->counted_bytes;
    if (graveyard_ && !object->quick_to_free()) graveyard_->take(std::move(object));
  }
}

void Shard::count_object(Entry& entry) {
  if (entry.encoding() != Encoding::kObject) return;
  Object& object = *entry.object();
  const uint64_t now = object.memory_bytes();
  memory_ += now - object.counted_bytes;
  object.counted_bytes = now;
}

std::unique_ptr<Object> Shard::take_object(Entry& entry) {
  std::unique_ptr<Object> object(entry.object());
  memory_ -= object->counted_bytes;
  store_le<Object*>(entry.value(), nullptr);
  return object;
}

void Shard::splice(Found& found, KeyHash hash, size_t at, size_t removed, std::string_view inserted) {
  Entry* entry = found.entry;
  const std::string_view old = entry->bytes();
  const size_t size = old.size() - removed + inserted.size();
  const std::string_view behind = old.substr(at + removed);
  const bool on_heap = entry->encoding() == Encoding::kHeap;
  if (on_heap && size <= entry->heap()->capacity && entry->heap()->capacity <= 2 * size && size > Entry::kLargestInline / 2) {
    char* bytes = entry->heap()->data();
    std::memmove(bytes + at + inserted.size(), behind.data(), behind.size());
    copy_bytes(bytes + at, inserted);
    entry->heap()->size = size;
    return;
  }
  if (!on_heap && size <= Entry::kLargestInline &&
      Slab::rounded(entry->block_bytes() - old.size() + size) == Slab::rounded(entry->block_bytes())) {
    std::memmove(entry->value() + at + inserted.size(), behind.data(), behind.size());
    copy_bytes(entry->value() + at, inserted);
    entry->reuse(entry->type(), entry->encoding(), size);
    return;
  }
  // Another block. What is inserted must not lie in this value.
  const bool heap_next = size > Entry::kLargestInline;
  HeapBytes* heap = nullptr;
  if (heap_next) {
    heap = HeapBytes::make(size + (size > old.size() ? size / 8 : 0));
    heap->size = size;
    memory_ += heap->memory_bytes();
  }
  Entry* target = entry;
  if (!heap_next || !on_heap) {
    const int64_t expiry_ms = entry->has_expiry() ? entry->expiry() : 0;
    target = allocate(entry->key(), entry->type(), heap_next ? Encoding::kHeap : Encoding::kInlineRaw,
                      heap_next ? sizeof(HeapBytes*) : size, expiry_ms != 0);
    target->set_clock(entry->clock());
    if (expiry_ms != 0) target->set_expiry(expiry_ms);
  }
  char* bytes = heap_next ? heap->data() : target->value();
  std::memcpy(bytes, old.data(), at);
  copy_bytes(bytes + at, inserted);
  copy_bytes(bytes + at + inserted.size(), behind);
  drop_value(*entry);
  if (heap_next) store_le(target->value(), heap);
  if (target == entry) return;
  release(entry);
  *found.slot = word_of(target, hash);
  found.entry = target;
}

std::unique_ptr<Shard> Shard::detach() {
  auto other = std::make_unique<Shard>(*pool_, seed_, nullptr);  // what it holds is freed where it is freed
  swap(*other);
  return other;
}

void Shard::swap(Shard& other) {
  std::swap(buckets_, other.buckets_);
  std::swap(high_mask_, other.high_mask_);
  std::swap(count_, other.count_);
  std::swap(volatile_count_, other.volatile_count_);
  std::swap(memory_, other.memory_);
  std::swap(first_, other.first_);
  std::swap(directory_, other.directory_);
  slab_.swap(other.slab_);
  due_.swap(other.due_);
  element_due_.swap(other.element_due_);
  std::swap(element_due_limit_, other.element_due_limit_);
}

void Shard::clear(const std::function<void(ExtentRef)>& visit) {
  // Blocks that lie in pages go with their pages.
  each([&](Entry& entry) {
    if (entry.encoding() == Encoding::kExtent) visit(entry.extent());
    drop_value(entry);
    if (!entry.from_page()) slab_.free(&entry, entry.block_bytes(), false);
  });
  for (uint64_t b = 0; b < buckets_; ++b) {
    for (uint64_t link = bucket(b)->slots[7]; link & kLink;) {
      Bucket* next = link_of(link);
      const uint64_t following = next->slots[7];
      if (!(link & kLinkFromPage)) slab_.free(next, sizeof(Bucket), false);
      link = following;
    }
  }
  while (buckets_ > 0) drop_bucket();
  slab_.destroy();
  due_ = {};
  element_due_ = {};
  count_ = volatile_count_ = memory_ = 0;
}

}  // namespace pion
