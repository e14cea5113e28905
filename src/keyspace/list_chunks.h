// A large list: a row of runs of packed items ("chunks"). Where one chunk ends and the next begins follows Redis' rules for the
// nodes of its quicklist, sizes counted as it counts them, because that decides when a list that shrinks is called listpack again.
//
// Both ends are cheap: a chunk has spare room in front as well as behind, and so has the row of chunks. An element by its index
// costs a walk over the row from the nearer end (32 bytes a chunk) and one over a chunk.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "keyspace/object.h"
#include "keyspace/packed.h"

namespace pion {

// list-max-listpack-size as a limit of one chunk.
struct ListLimit {
  uint64_t bytes;  // as a listpack
  uint64_t count;

  static ListLimit now();
  bool exceeded(uint64_t listpack_bytes, uint64_t elements) const { return listpack_bytes > bytes || elements > count; }
};

// What a listpack without elements takes, and one element in it, in bytes.
inline constexpr uint32_t kListpackFrame = 7;
uint32_t listpack_item_bytes(const ShortText& text);

class ChunkedList final : public Object {
 public:
  struct Chunk {
    char* data = nullptr;
    uint32_t begin = 0, end = 0, capacity = 0;  // items lie in [begin, end)
    uint32_t count : 31 = 0;
    uint32_t plain : 1 = 0;  // one element that is too large to share a chunk
    uint32_t listpack_bytes = kListpackFrame;

    const char* first() const { return data + begin; }
    const char* last() const { return data + end; }
    std::string_view items() const { return {first(), end - begin}; }
  };

  ChunkedList() = default;
  ~ChunkedList() override;

  uint64_t memory_bytes() const override { return sizeof(*this) + row_.capacity() * sizeof(Chunk) + chunk_bytes_; }
  bool quick_to_free() const override { return count_ <= 128; }

  uint64_t size() const { return length_; }
  size_t chunks() const { return count_; }
  const Chunk& chunk(size_t number) const { return row_[first_ + number]; }

  // A whole chunk at the end, made of packed items.
  void append_chunk(std::string_view items, uint32_t count, uint32_t listpack_bytes, bool plain);

  void push(bool front, std::string_view element);
  // Beside the element at `index`. 0 <= index < size(), here and below.
  void insert(uint64_t index, bool after, std::string_view element);
  void replace(uint64_t index, std::string_view element);
  void remove(uint64_t index, uint64_t count);
  // Those whose indexes `next` answers, in ascending order, until it answers none (UINT64_MAX).
  template <typename Next>
  void remove_each(Next&& next);
  // Takes the element at one end and puts it to one, maybe the same: even then chunks may change.
  void rotate(bool from_front, bool to_front);

 private:
  struct Place {
    size_t chunk;
    uint32_t within;  // the element's number in it
  };
  Place find(uint64_t index) const;

  Chunk& at(size_t number) { return row_[first_ + number]; }
  Chunk& insert_chunk(size_t number);
  void drop_chunk(size_t number);
  void make_room(bool front);

  // Bytes of one chunk.
  void put(Chunk& chunk, uint32_t offset, std::string_view items);
  void cut(Chunk& chunk, uint32_t offset, uint32_t bytes);
  void shrink(Chunk& chunk, bool room_in_front);
  template <typename Keep>
  void keep_items(Chunk& chunk, Keep&& keep);
  void move_to(Chunk& chunk, uint32_t capacity, bool room_in_front);
  void free_data(Chunk& chunk);
  static uint32_t offset_of(const Chunk& chunk, uint32_t within);

  void add_item(Chunk& chunk, uint32_t within, const ShortText& text);
  void remove_items(Chunk& chunk, uint32_t within, uint32_t count);
  void new_chunk(size_t number, std::string_view element, bool plain);
  void split(size_t number, uint32_t within);
  void merge_around(size_t number);
  bool merge(size_t left);

  std::vector<Chunk> row_;  // chunks in [first_, first_ + count_)
  size_t first_ = 0, count_ = 0;
  uint64_t length_ = 0;
  uint64_t chunk_bytes_ = 0;
};

template <typename Next>
void ChunkedList::remove_each(Next&& next) {
  // One pass: what stays of a chunk closes up, then the chunks that are left do.
  uint64_t before = 0, index = next();
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    Chunk& chunk = at(i);
    const uint64_t elements = chunk.count;
    if (index < before + elements) {
      keep_items(chunk, [&](uint32_t within) {
        if (before + within != index) return true;
        index = next();
        return false;
      });
    }
    before += elements;
    if (chunk.count == 0) {
      free_data(chunk);
    } else {
      at(kept++) = chunk;
    }
  }
  count_ = kept;
}

// The elements whose numbers `keep` wants; all are asked in ascending order.
template <typename Keep>
void ChunkedList::keep_items(Chunk& chunk, Keep&& keep) {
  char* to = chunk.data + chunk.begin;
  const uint32_t elements = chunk.count;
  const char* from = to;
  for (uint32_t within = 0; within < elements; ++within) {
    const PackedItem item = packed_item(from);
    if (keep(within)) {
      if (to != from) std::memmove(to, from, item.size);
      to += item.size;
    } else {
      chunk.listpack_bytes -= listpack_item_bytes(item.text);
      chunk.count = chunk.count - 1;
      --length_;
    }
    from += item.size;
  }
  chunk.end = static_cast<uint32_t>(to - chunk.data);
  shrink(chunk, false);
}

}  // namespace pion
