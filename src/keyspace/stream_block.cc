#include "keyspace/stream_block.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/bytes.h"
#include "keyspace/collection_limits.h"
#include "keyspace/listpack_size.h"
#include "keyspace/entry.h"

namespace pion {
namespace {

using stream_block::read_item;
using stream_block::read_varint;

constexpr uint8_t kSameFields = 1, kSameSeq = 2;
constexpr uint32_t kFirstCapacity = 128;
constexpr int64_t kIntegerLimit = 1LL << 61;  // above it an integer's head would not fit

void write_item(ByteWriter& out, std::string_view text) {
  int64_t number = 0;
  if (text.size() <= 20 && parse_canonical_integer(text, number) && number > -kIntegerLimit && number < kIntegerLimit) {
    out.varint(zigzag(static_cast<uint64_t>(number)) << 1 | 1);
  } else {
    out.varint(static_cast<uint64_t>(text.size()) << 1).raw(text);
  }
}

// The entry with its size in front.
std::string& entry_bytes(StreamId base, StreamId id, StreamFields fields, bool same_fields) {
  thread_local std::string body, whole;
  body.clear();
  ByteWriter out(body);
  out.put(static_cast<uint8_t>((same_fields ? kSameFields : 0) | (id.seq == base.seq ? kSameSeq : 0)));
  out.varint(id.ms - base.ms);
  if (id.seq != base.seq) out.varint(zigzag(id.seq - base.seq));
  if (!same_fields) out.varint(fields.size() / 2);
  for (size_t i = same_fields ? 1 : 0; i < fields.size(); i += same_fields ? 2 : 1) write_item(out, fields[i]);
  whole.clear();
  ByteWriter(whole).bytes(body);
  return whole;
}

bool same_names(const char* names, StreamFields fields) {
  if (read_varint(names) != fields.size() / 2) return false;
  for (size_t i = 0; i < fields.size(); i += 2) {
    char room[20];
    if (read_item(names).view(room) != fields[i]) return false;
  }
  return true;
}

// What an element takes in Redis' listpack.
uint64_t listpack_element(std::string_view text) {
  int64_t number = 0;
  uint64_t bytes = 0;
  if (text.size() < 21 && parse_canonical_integer(text, number)) {
    const auto fits = [&](unsigned bits) { return number >= -(1LL << (bits - 1)) && number < 1LL << (bits - 1); };
    bytes = number >= 0 && number < 128 ? 1 : fits(13) ? 2 : fits(16) ? 3 : fits(24) ? 4 : fits(32) ? 5 : 9;
  } else {
    bytes = text.size() + (text.size() < 64 ? 1 : text.size() < 4096 ? 2 : 5);
  }
  return bytes + listpack_back_bytes(bytes);
}

uint64_t listpack_number(uint64_t number) {
  char text[20];
  return listpack_element({text, format_integer(static_cast<int64_t>(number), text)});
}

uint64_t listpack_entry(StreamId base, StreamId id, StreamFields fields, bool same_fields) {
  uint64_t bytes = 2 + listpack_number(id.ms - base.ms) + listpack_number(id.seq - base.seq);
  if (!same_fields) bytes += listpack_number(fields.size() / 2);
  for (size_t i = same_fields ? 1 : 0; i < fields.size(); i += same_fields ? 2 : 1) bytes += listpack_element(fields[i]);
  return bytes + listpack_number(fields.size() / 2 + (same_fields ? 3 : fields.size() / 2 + 4));
}

uint32_t as_u32(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)); }

}  // namespace

StreamBlock* StreamBlock::make(uint32_t capacity) {
  void* memory = std::malloc(sizeof(StreamBlock) + capacity);
  if (!memory) throw std::bad_alloc();
  auto* block = new (memory) StreamBlock;
  block->capacity = capacity;
  return block;
}

void StreamBlock::destroy(StreamBlock* block) { std::free(block); }

StreamBlock* StreamBlock::begin(StreamFields fields) {
  std::string names;
  ByteWriter out(names);
  out.varint(fields.size() / 2);
  uint64_t master = 6 + 1 + 2 + 2 + listpack_number(fields.size() / 2) + 2;  // header, end, counters, terminator
  for (size_t i = 0; i < fields.size(); i += 2) {
    write_item(out, fields[i]);
    master += listpack_element(fields[i]);
  }
  StreamBlock* block = make(std::max(kFirstCapacity, as_u32(names.size() + 64)));
  copy_bytes(block->data(), names);
  block->size = static_cast<uint32_t>(names.size());
  block->listpack_bytes = as_u32(master);
  return block;
}

StreamBlock* StreamBlock::first(StreamId id, StreamFields fields) { return append(begin(fields), id, id, fields); }

bool StreamBlock::full(StreamFields fields) const {
  const CollectionLimits& limits = collection_limits();
  constexpr uint64_t kLargest = 1 << 30;
  uint64_t most = limits.stream_node_bytes;
  if (most == 0 || most > kLargest) most = kLargest;
  uint64_t added = 0;  // Redis counts the bytes of names and values
  for (std::string_view text : fields) added += text.size();
  const uint64_t counters = (count > 127) + (removed > 127);  // they grow by a byte there
  if (listpack_bytes + counters + added >= most || size + added > kLargest) return true;
  const uint64_t entries = limits.stream_node_entries;
  return entries != 0 && static_cast<uint64_t>(count) + removed >= entries;
}

StreamBlock* StreamBlock::append(StreamBlock* block, StreamId base, StreamId id, StreamFields fields) {
  const bool same = same_names(block->data(), fields);
  const std::string& bytes = entry_bytes(base, id, fields, same);
  const uint64_t needed = block->size + bytes.size();
  if (needed > block->capacity) {
    const auto capacity = as_u32(std::max<uint64_t>(needed, block->capacity + block->capacity / 2));
    void* memory = std::realloc(static_cast<void*>(block), sizeof(StreamBlock) + capacity);
    if (!memory) throw std::bad_alloc();
    block = static_cast<StreamBlock*>(memory);
    block->capacity = capacity;
  }
  copy_bytes(block->data() + block->size, bytes);
  block->size = static_cast<uint32_t>(needed);
  block->last = id;
  ++block->count;
  block->listpack_bytes = as_u32(block->listpack_bytes + listpack_entry(base, id, fields, same));
  return block;
}

StreamBlock* StreamBlock::shrink(StreamBlock* block) {
  if (block->capacity - block->size < 32) return block;
  void* memory = std::realloc(static_cast<void*>(block), sizeof(StreamBlock) + block->size);
  if (!memory) return block;
  block = static_cast<StreamBlock*>(memory);
  block->capacity = block->size;
  return block;
}

const char* StreamBlock::entries() const {
  const char* at = data();
  for (uint64_t left = read_varint(at); left > 0; --left) read_item(at);
  return at;
}

const char* StreamBlock::read(StreamId base, const char* at, StreamEntry& entry) const {
  const uint64_t bytes = read_varint(at);
  const char* const end = at + bytes;
  const auto flags = static_cast<uint8_t>(*at++);
  entry.id.ms = base.ms + read_varint(at);
  entry.id.seq = base.seq;
  if (!(flags & kSameSeq)) entry.id.seq += unzigzag(read_varint(at));
  entry.names_ = flags & kSameFields ? data() : nullptr;
  entry.values_ = at;
  return end;
}

bool StreamBlock::find(StreamId base, StreamId id, StreamEntry& entry) const {
  if (id > last) return false;
  return !each(base, [&](const StreamEntry& seen) { return entry = seen, seen.id < id; });
}

bool StreamBlock::remove(StreamId base, StreamId id) {
  const char* at = entries();
  for (const char* const end = data() + size; at < end;) {
    StreamEntry entry;
    const char* const next = read(base, at, entry);
    if (entry.id > id) return false;
    if (entry.id == id) {
      std::memmove(data() + (at - data()), next, static_cast<size_t>(end - next));
      size -= static_cast<uint32_t>(next - at);
      --count;
      ++removed;
      return true;
    }
    at = next;
  }
  return false;
}

uint64_t StreamEntry::fields() const {
  const char* at = names_ ? names_ : values_;
  return read_varint(at);
}

namespace {

bool skip_item(ByteReader& in) {
  const uint64_t head = in.varint();
  if (!(head & 1)) in.raw(head >> 1);
  return !in.failed();
}

}  // namespace

bool StreamBlock::check(StreamId base, std::string_view bytes, StreamId last, uint64_t count) {
  ByteReader in(bytes);
  const uint64_t names = in.varint();
  for (uint64_t i = 0; i < names; ++i) {
    if (!skip_item(in)) return false;
  }
  StreamId previous;
  uint64_t found = 0;
  for (; !in.empty() && !in.failed(); ++found) {
    ByteReader entry(in.bytes());
    const auto flags = entry.get<uint8_t>();
    StreamId id{entry.varint(), base.seq};
    if (flags > (kSameFields | kSameSeq) || __builtin_add_overflow(id.ms, base.ms, &id.ms)) return false;
    if (!(flags & kSameSeq)) id.seq += unzigzag(entry.varint());
    if (entry.failed() || id < base || (found > 0 && id <= previous)) return false;
    previous = id;
    uint64_t items = flags & kSameFields ? names : entry.varint();
    if (items == 0 || items > bytes.size()) return false;
    if (!(flags & kSameFields)) items *= 2;
    for (; items > 0; --items) {
      if (!skip_item(entry)) return false;
    }
    if (!entry.complete()) return false;
  }
  return !in.failed() && found == count && found > 0 && previous <= last;
}

}  // namespace pion
