// Entries of a stream that follow each other, in one run of bytes.
//
//   names of the first entry's fields: varint count, item... | entry...
//   entry: varint size of the rest | u8 flags | varint ms since the block's first id | [varint zigzag seq] | fields
//   flags: 1: the fields are named as the first entry's were, only values follow; 2: same seq as the block's first id, not written
//   fields: item (the value)..., or varint count, {item name, item value}...
//   item: varint, low bit 1: zigzag of an integer; low bit 0: a length, and the bytes
//
// An entry that is removed leaves no bytes; the counters remember it, because Redis' limits count it. These bytes are made here
// or were looked through by check(), so reading them checks nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "keyspace/packed.h"
#include "keyspace/stream_id.h"

namespace pion {

// Field, value, field, value ...
using StreamFields = std::span<const std::string_view>;

struct StreamBlock;

// An entry where it lies; lasts until the stream changes.
class StreamEntry {
 public:
  StreamId id;

  uint64_t fields() const;
  // Does it have the fields of the block's first entry? Only values stand in it then.
  bool named_as_first() const { return names_ != nullptr; }
  // visit(const ShortText& name, const ShortText& value)
  template <typename Visit>
  void each(Visit&& visit) const;

 private:
  friend struct StreamBlock;
  const char* names_ = nullptr;   // the block's, null: with the values
  const char* values_ = nullptr;
};

struct StreamBlock {
  StreamId last;             // of the entries that are or were here: decides, as in Redis, whether XTRIM MINID ~ takes the block
  uint32_t size = 0;         // of the bytes
  uint32_t capacity = 0;
  uint32_t count = 0;        // entries
  uint32_t removed = 0;      // entries that were here
  uint32_t listpack_bytes = 0;  // what Redis' encoding of all entries that were here takes: decides when a block is full

  const char* data() const { return reinterpret_cast<const char*>(this + 1); }
  char* data() { return reinterpret_cast<char*>(this + 1); }
  uint64_t memory_bytes() const { return sizeof(StreamBlock) + capacity; }

  static StreamBlock* make(uint32_t capacity);
  static void destroy(StreamBlock* block);

  // A new block without entries yet, of entries that have these fields; only the names matter.
  static StreamBlock* begin(StreamFields fields);
  // A new block with one entry.
  static StreamBlock* first(StreamId id, StreamFields fields);
  // Would Redis begin a new block for this entry?
  bool full(StreamFields fields) const;
  // `id` is behind all others. The block may move.
  static StreamBlock* append(StreamBlock* block, StreamId base, StreamId id, StreamFields fields);
  // The block may move.
  static StreamBlock* shrink(StreamBlock* block);

  // The first entry at or behind `id`.
  bool find(StreamId base, StreamId id, StreamEntry& entry) const;
  bool remove(StreamId base, StreamId id);

  // The fields of the first entry that was here: visit(const ShortText& name).
  template <typename Visit>
  void each_name(Visit&& visit) const;

  // visit(const StreamEntry&) until it answers false; false: it did.
  template <typename Visit>
  bool each(StreamId base, Visit&& visit) const {
    const char* at = entries();
    for (const char* const end = data() + size; at < end;) {
      StreamEntry entry;
      at = read(base, at, entry);
      if (!visit(entry)) return false;
    }
    return true;
  }

  // What a file says is a block's bytes; counters beside it. Any bytes may come.
  static bool check(StreamId base, std::string_view bytes, StreamId last, uint64_t count);

 private:
  const char* entries() const;
  const char* read(StreamId base, const char* at, StreamEntry& entry) const;
};

namespace stream_block {

inline uint64_t read_varint(const char*& at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(*at++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

inline ShortText read_item(const char*& at) {
  const uint64_t head = read_varint(at);
  if (head & 1) return ShortText::of(static_cast<int64_t>(unzigzag(head >> 1)));
  const ShortText text = ShortText::raw({at, head >> 1});
  at += head >> 1;
  return text;
}

}  // namespace stream_block

template <typename Visit>
void StreamBlock::each_name(Visit&& visit) const {
  const char* at = data();
  for (uint64_t left = stream_block::read_varint(at); left > 0; --left) visit(stream_block::read_item(at));
}

template <typename Visit>
void StreamEntry::each(Visit&& visit) const {
  const char* names = names_;
  const char* values = values_;
  for (uint64_t left = stream_block::read_varint(names ? names : values); left > 0; --left) {
    const ShortText name = stream_block::read_item(names ? names : values);
    visit(name, stream_block::read_item(values));
  }
}

}  // namespace pion
