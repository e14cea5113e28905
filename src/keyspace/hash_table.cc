#include "keyspace/hash_table.h"

#include <algorithm>

#include "base/bytes.h"
#include "keyspace/random.h"
#include "keyspace/varint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pion {

uint64_t element_hash(std::string_view key) {
  static const uint64_t seed = random64();
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

namespace {

// A block: flags | varint name size | varint value size | [expiry] | name | value. Flags, from the low bit: it has an
// expiry, it lies in a slab's page.
constexpr uint8_t kExpiry = 1, kFromPage = 2;

struct Block {
  bool from_page = false;
  int64_t expiry_ms = 0;
  std::string_view name, value;
  char* expiry_at = nullptr;
  char* value_at = nullptr;
  size_t size = 0;
};

Block read_block(const void* element) {
  Block block;
  const char* const start = static_cast<const char*>(element);
  const char* at = start;
  const auto flags = static_cast<uint8_t>(*at++);
  block.from_page = flags & kFromPage;
  const uint64_t name_size = read_varint(at), value_size = read_varint(at);
  if (flags & kExpiry) {
    block.expiry_at = const_cast<char*>(at);
    block.expiry_ms = load_le<int64_t>(at);
    at += sizeof(int64_t);
  }
  block.name = {at, name_size};
  block.value = {at + name_size, value_size};
  block.value_at = const_cast<char*>(block.value.data());
  block.size = static_cast<size_t>(block.value.data() + value_size - start);
  return block;
}

size_t block_bytes(size_t name_size, size_t value_size, bool expiry) {
  return 1 + varint_size(name_size) + varint_size(value_size) + (expiry ? sizeof(int64_t) : 0) + name_size + value_size;
}

}  // namespace

std::string_view HashTable::Traits::key(const void* element) {
  const char* at = static_cast<const char*>(element);
  const auto flags = static_cast<uint8_t>(*at++);
  const uint64_t name_size = read_varint(at);
  read_varint(at);
  return {at + (flags & kExpiry ? sizeof(int64_t) : 0), name_size};
}

HashTable::~HashTable() {
  if (from_malloc_ == 0) return;
  table_.each([&](void* element) {
    const Block block = read_block(element);
    if (block.from_page) return true;
    slab_.free(element, block.size, false);
    return --from_malloc_ > 0;
  });
}

uint64_t HashTable::memory_bytes() const {
  return sizeof *this + blocks_bytes_ + table_.memory_bytes() + due_.capacity() * sizeof(DueItem);
}

HashField HashTable::field_of(const void* element) {
  const Block block = read_block(element);
  return {ShortText::raw(block.name), ShortText::raw(block.value), block.expiry_ms};
}

bool HashTable::get(std::string_view name, HashField& field) const {
  const auto slot = table_.find(name, element_hash(name));
  if (!slot) return false;
  field = field_of(table_.element(slot));
  return true;
}

HashField HashTable::random() const { return field_of(table_.random(random64)); }

void* HashTable::make(std::string_view name, std::string_view value, int64_t expiry_ms) {
  const size_t size = block_bytes(name.size(), value.size(), expiry_ms != 0);
  const Slab::Block block = slab_.allocate(size);
  char* at = static_cast<char*>(block.bytes);
  *at++ = static_cast<char>((expiry_ms != 0 ? kExpiry : 0) | (block.from_page ? kFromPage : 0));
  at = write_varint(write_varint(at, name.size()), value.size());
  if (expiry_ms != 0) {
    store_le(at, expiry_ms);
    at += sizeof(int64_t);
    ++volatile_;
  }
  copy_bytes(at, name);
  copy_bytes(at + name.size(), value);
  blocks_bytes_ += Slab::rounded(size);
  from_malloc_ += !block.from_page;
  return block.bytes;
}

void HashTable::free(void* element) {
  const Block block = read_block(element);
  blocks_bytes_ -= Slab::rounded(block.size);
  from_malloc_ -= !block.from_page;
  volatile_ -= block.expiry_ms != 0;
  slab_.free(element, block.size, block.from_page);
}

void HashTable::set(std::string_view name, std::string_view value, int64_t expiry_ms) {
  const uint64_t hash = element_hash(name);
  const auto slot = table_.find(name, hash);
  if (!slot) {
    table_.insert(make(name, value, expiry_ms), hash);
  } else {
    void* element = table_.element(slot);
    const Block block = read_block(element);
    if (block.value.size() == value.size() && (block.expiry_ms != 0) == (expiry_ms != 0)) {
      std::memmove(block.value_at, value.data(), value.size());
      if (expiry_ms == 0 || expiry_ms == block.expiry_ms) return;
      store_le(block.expiry_at, expiry_ms);
    } else {
      table_.replace(slot, make(name, value, expiry_ms));  // before the old one goes: `value` may lie in it
      free(element);
      if (expiry_ms == 0 || expiry_ms == block.expiry_ms) return;
    }
  }
  if (expiry_ms != 0) note_due(expiry_ms, hash);
}

bool HashTable::remove(std::string_view name) {
  const uint64_t hash = element_hash(name);
  const auto slot = table_.find(name, hash);
  if (!slot) return false;
  void* element = table_.element(slot);
  table_.remove(slot, hash);
  free(element);
  return true;
}

void HashTable::note_due(int64_t at_ms, uint64_t hash) {
  due_.push_back({at_ms, hash});
  std::push_heap(due_.begin(), due_.end());
  if (due_.size() <= 2 * volatile_ + 64) return;
  due_.clear();  // more stale items than live ones: anew
  table_.each([&](void* element) {
    const Block block = read_block(element);
    if (block.expiry_ms != 0) due_.push_back({block.expiry_ms, element_hash(block.name)});
    return true;
  });
  std::make_heap(due_.begin(), due_.end());
}

// Null: the earliest item was stale.
const void* HashTable::pop_due() {
  std::pop_heap(due_.begin(), due_.end());
  const DueItem item = due_.back();
  due_.pop_back();
  const auto slot = table_.find_if(item.hash, [&](const void* element) {
    const Block block = read_block(element);
    return block.expiry_ms == item.at_ms && element_hash(block.name) == item.hash;
  });
  return slot ? table_.element(slot) : nullptr;
}

}  // namespace pion
