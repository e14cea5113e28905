// Lists. A small one is packed: u16 elements | u32 bytes that Redis' listpack of them would take | elements; that is what
// OBJECT ENCODING calls listpack. A large one is a ChunkedList, called quicklist. When a list changes from one to the other
// follows list-max-listpack-size as in Redis, in both directions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "keyspace/entry.h"
#include "keyspace/list_chunks.h"

namespace pion {

// Reads a list in its entry. Views last until the next change.
class ListReader {
 public:
  explicit ListReader(const Entry& entry);

  uint64_t size() const { return size_; }
  // 0 <= index < size(), here and below.
  ShortText at(uint64_t index) const;
  // From `index` on to the end, or to the beginning, until visit(ShortText) answers false.
  template <typename Visit>
  void forward(uint64_t index, Visit&& visit) const {
    Place place = find(index);
    for (size_t number = place.run;; place.at = run(number).begin) {
      for (const char* const end = run(number).end; place.at < end;) {
        const PackedItem item = packed_item(place.at);
        if (!visit(item.text)) return;
        place.at = item.end();
      }
      if (++number == runs_) return;
    }
  }
  template <typename Visit>
  void backward(uint64_t index, Visit&& visit) const {
    const Place place = find(index);
    const char* end = packed_next(place.at);
    for (size_t number = place.run;; end = run(number).end) {
      for (const char* const begin = run(number).begin; end > begin;) {
        end = packed_before(end);
        if (!visit(packed_item(end).text)) return;
      }
      if (number-- == 0) return;
    }
  }
  // Would elements of these bytes together, added to it, make it a quicklist?
  bool outgrown_by(uint64_t bytes) const;

 private:
  struct Run {
    const char* begin;
    const char* end;
    uint64_t count;
  };
  struct Place {
    size_t run;
    const char* at;
  };
  Run run(size_t number) const {
    if (!chunks_) return packed_;
    const ChunkedList::Chunk& chunk = chunks_->chunk(number);
    return {chunk.first(), chunk.last(), chunk.count};
  }
  Place find(uint64_t index) const;

  const ChunkedList* chunks_ = nullptr;
  Run packed_{};
  uint32_t listpack_bytes_ = 0;
  size_t runs_ = 1;
  uint64_t size_ = 0;
};

// A delta: one change. Written into a string of the caller's.
class ListDelta {
 public:
  enum class Op : uint8_t {
    kPushFront = 1,   // bytes element...
    kPushBack = 2,    // bytes element...
    kRemove = 3,      // varint index, varint count
    kInsert = 4,      // varint index, u8 1: behind it, 0: before it, bytes element
    kReplace = 5,     // varint index, bytes element
    kRemoveEach = 6,  // varint index, then varint steps from one to the next
    kRotate = 7,      // u8: from one end (1: the first) to one (2: the first); both or neither leave the order as it is
    kUnpack = 8,      // nothing: it is a quicklist from now on
  };
  ListDelta(std::string& out, Op op) : out_(out) { out_.assign(1, static_cast<char>(op)); }
  ListDelta& element(std::string_view bytes);
  ListDelta& number(uint64_t value);
  ListDelta& flag(bool value);
  bool empty() const { return out_.size() == 1; }

 private:
  std::string& out_;
};

// A whole list that is to replace what a key holds, as ValueOps::encode writes it.
class ListBuilder {
 public:
  void add(std::string_view element) { list_.push(false, element); }
  uint64_t size() const { return list_.size(); }
  std::string encoded() const;

 private:
  ChunkedList list_;
};

}  // namespace pion
