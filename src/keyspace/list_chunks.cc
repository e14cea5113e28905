#include "keyspace/list_chunks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/limits.h"
#include "keyspace/collection_limits.h"
#include "keyspace/listpack_size.h"

namespace pion {
namespace {

constexpr uint64_t kSafeBytes = 8 * kKiB;    // of a chunk that is limited by its elements
constexpr uint64_t kGuessedOverhead = 8;     // of an element that may join a chunk
constexpr uint64_t kAllocationBytes = 16;    // what the allocator takes beside

bool is_large(uint64_t bytes, const ListLimit& limit) { return bytes > limit.bytes; }

bool may_join(const ChunkedList::Chunk& chunk, uint64_t bytes, const ListLimit& limit) {
  if (chunk.plain || is_large(bytes, limit)) return false;
  return !limit.exceeded(chunk.listpack_bytes + bytes + kGuessedOverhead, chunk.count + 1);
}

}  // namespace

ListLimit ListLimit::now() {
  const int64_t option = collection_limits().list_listpack_size.load(std::memory_order_relaxed);
  if (option >= 0) return {kSafeBytes, std::max<uint64_t>(static_cast<uint64_t>(option), 1)};
  return {4 * kKiB << std::min<int64_t>(-option - 1, 4), UINT64_MAX};
}

uint32_t listpack_item_bytes(const ShortText& text) {
  if (text.integer) {
    const int64_t value = text.number;
    if (value >= 0 && value < 128) return 2;
    if (value >= -4096 && value < 4096) return 3;
    if (value >= INT16_MIN && value <= INT16_MAX) return 4;
    if (value >= -(1 << 23) && value < 1 << 23) return 5;
    return value >= INT32_MIN && value <= INT32_MAX ? 6 : 10;
  }
  const size_t size = text.bytes.size();
  const size_t body = size + (size < 64 ? 1 : size < 4096 ? 2 : 5);
  return static_cast<uint32_t>(body + listpack_back_bytes(body));
}

ChunkedList::~ChunkedList() {
  for (size_t i = 0; i < count_; ++i) std::free(at(i).data);
}

// ---- the row ----

void ChunkedList::make_room(bool front) {
  const size_t spare = count_ / 4 + 2;
  std::vector<Chunk> row(count_ + spare);
  const size_t first = front ? spare : 0;
  std::copy_n(row_.begin() + static_cast<ptrdiff_t>(first_), count_, row.begin() + static_cast<ptrdiff_t>(first));
  row_ = std::move(row);
  first_ = first;
}

ChunkedList::Chunk& ChunkedList::insert_chunk(size_t number) {
  const bool front = number < count_ - number;  // the shorter side moves
  if (front ? first_ == 0 : first_ + count_ == row_.size()) make_room(front);
  Chunk* const chunks = row_.data() + first_;
  if (front) {
    std::copy(chunks, chunks + number, chunks - 1);
    --first_;
  } else {
    std::copy_backward(chunks + number, chunks + count_, chunks + count_ + 1);
  }
  ++count_;
  return at(number) = Chunk{};
}

void ChunkedList::drop_chunk(size_t number) {
  length_ -= at(number).count;
  free_data(at(number));
  Chunk* const chunks = row_.data() + first_;
  if (number < count_ - number) {
    std::copy_backward(chunks, chunks + number, chunks + number + 1);
    ++first_;
  } else {
    std::copy(chunks + number + 1, chunks + count_, chunks + number);
  }
  if (--count_ * 4 + 16 < row_.size()) make_room(false);
}

// ---- the bytes of a chunk ----

void ChunkedList::free_data(Chunk& chunk) {
  if (!chunk.data) return;
  chunk_bytes_ -= chunk.capacity + kAllocationBytes;
  std::free(chunk.data);
  chunk.data = nullptr;
}

void ChunkedList::move_to(Chunk& chunk, uint32_t capacity, bool room_in_front) {
  char* const data = static_cast<char*>(std::malloc(capacity));
  if (!data) throw std::bad_alloc();
  const uint32_t size = chunk.end - chunk.begin;
  const uint32_t begin = room_in_front ? capacity - size : 0;
  if (size > 0) std::memcpy(data + begin, chunk.first(), size);
  free_data(chunk);
  chunk_bytes_ += capacity + kAllocationBytes;
  chunk.data = data;
  chunk.capacity = capacity;
  chunk.begin = begin;
  chunk.end = begin + size;
}

void ChunkedList::put(Chunk& chunk, uint32_t offset, std::string_view items) {
  const auto bytes = static_cast<uint32_t>(items.size());
  const uint32_t size = chunk.end - chunk.begin;
  const bool front = offset < size - offset || (offset == 0 && chunk.begin >= bytes);  // the shorter part moves
  if (size + bytes > chunk.capacity) {
    // Grown by an eighth, but not beyond what a chunk can hold.
    const uint64_t wanted = size + bytes, most = std::max(wanted, ListLimit::now().bytes);
    move_to(chunk, static_cast<uint32_t>(std::min<uint64_t>(most, (wanted + wanted / 8 + 23) & ~7ULL)), front);
  }
  if (front ? chunk.begin < bytes : chunk.capacity - chunk.end < bytes) {
    // There is room, on the other side.
    const uint32_t begin = front ? chunk.capacity - size : 0;
    std::memmove(chunk.data + begin, chunk.first(), size);
    chunk.begin = begin;
    chunk.end = begin + size;
  }
  if (front) {
    std::memmove(chunk.data + chunk.begin - bytes, chunk.first(), offset);
    chunk.begin -= bytes;
  } else {
    std::memmove(chunk.data + chunk.begin + offset + bytes, chunk.first() + offset, size - offset);
    chunk.end += bytes;
  }
  std::memcpy(chunk.data + chunk.begin + offset, items.data(), bytes);
}

void ChunkedList::cut(Chunk& chunk, uint32_t offset, uint32_t bytes) {
  const uint32_t size = chunk.end - chunk.begin, behind = size - offset - bytes;
  if (offset < behind) {
    std::memmove(chunk.data + chunk.begin + bytes, chunk.first(), offset);
    chunk.begin += bytes;
  } else {
    std::memmove(chunk.data + chunk.begin + offset, chunk.first() + offset + bytes, behind);
    chunk.end -= bytes;
  }
  shrink(chunk, offset < behind);
}

void ChunkedList::shrink(Chunk& chunk, bool room_in_front) {
  const uint32_t size = chunk.end - chunk.begin;
  if (size > 0 && chunk.capacity > 512 && size < chunk.capacity / 2) move_to(chunk, (size + size / 8 + 23) & ~7u, room_in_front);
}

uint32_t ChunkedList::offset_of(const Chunk& chunk, uint32_t within) {
  if (within <= chunk.count / 2) {
    const char* at = chunk.first();
    for (uint32_t i = 0; i < within; ++i) at = packed_next(at);
    return static_cast<uint32_t>(at - chunk.first());
  }
  const char* at = chunk.last();
  for (uint32_t i = chunk.count; i > within; --i) at = packed_before(at);
  return static_cast<uint32_t>(at - chunk.first());
}

// ---- elements of a chunk ----

void ChunkedList::add_item(Chunk& chunk, uint32_t within, const ShortText& text) {
  thread_local std::string item;
  item.clear();
  pack(item, text);
  put(chunk, within == chunk.count ? chunk.end - chunk.begin : offset_of(chunk, within), item);
  if (item.capacity() > 64 * kKiB) std::string().swap(item);
  chunk.listpack_bytes += listpack_item_bytes(text);
  chunk.count = chunk.count + 1;
  ++length_;
}

// The caller drops a chunk that is left empty.
void ChunkedList::remove_items(Chunk& chunk, uint32_t within, uint32_t count) {
  const uint32_t from = offset_of(chunk, within);
  const char* at = chunk.first() + from;
  for (uint32_t i = 0; i < count; ++i) {
    const PackedItem item = packed_item(at);
    chunk.listpack_bytes -= listpack_item_bytes(item.text);
    at = item.end();
  }
  chunk.count = chunk.count - count;
  length_ -= count;
  cut(chunk, from, static_cast<uint32_t>(at - chunk.first()) - from);
}

void ChunkedList::new_chunk(size_t number, std::string_view element, bool plain) {
  Chunk& chunk = insert_chunk(number);
  add_item(chunk, 0, plain ? ShortText::raw(element) : ShortText(element));
  chunk.plain = plain;
  if (plain) chunk.listpack_bytes = static_cast<uint32_t>(element.size());
}

void ChunkedList::append_chunk(std::string_view items, uint32_t count, uint32_t listpack_bytes, bool plain) {
  Chunk& chunk = insert_chunk(count_);
  put(chunk, 0, items);
  chunk.count = count;
  chunk.plain = plain;
  chunk.listpack_bytes = listpack_bytes;
  length_ += count;
}

// Chunk `number` keeps what is before `within`; the rest goes to a new one behind it.
void ChunkedList::split(size_t number, uint32_t within) {
  insert_chunk(number + 1);
  Chunk &left = at(number), &right = at(number + 1);
  const uint32_t offset = offset_of(left, within);
  uint32_t moved = 0;
  for (const char* item = left.first() + offset; item < left.last();) {
    const PackedItem read = packed_item(item);
    moved += listpack_item_bytes(read.text);
    item = read.end();
  }
  put(right, 0, left.items().substr(offset));
  right.count = left.count - within;
  right.listpack_bytes = kListpackFrame + moved;
  left.listpack_bytes -= moved;
  left.count = within;
  cut(left, offset, left.end - left.begin - offset);
}

// The chunk behind `left` joins it, if both fit into one.
bool ChunkedList::merge(size_t left) {
  if (left + 1 >= count_) return false;
  Chunk &a = at(left), &b = at(left + 1);
  if (a.plain || b.plain) return false;
  if (ListLimit::now().exceeded(uint64_t{a.listpack_bytes} + b.listpack_bytes - kListpackFrame, a.count + b.count)) return false;
  put(a, a.end - a.begin, b.items());
  a.count = a.count + b.count;
  a.listpack_bytes += b.listpack_bytes - kListpackFrame;
  b.count = 0;  // they are counted in `a` now
  drop_chunk(left + 1);
  return true;
}

// The two chunks before, the two behind, then the one between with its neighbours.
void ChunkedList::merge_around(size_t number) {
  if (number >= 2 && merge(number - 2)) --number;
  merge(number + 1);
  if (number >= 1 && merge(number - 1)) --number;
  merge(number);
}

// ---- the list ----

ChunkedList::Place ChunkedList::find(uint64_t index) const {
  if (index < length_ / 2) {
    size_t number = 0;
    for (; index >= chunk(number).count; ++number) index -= chunk(number).count;
    return {number, static_cast<uint32_t>(index)};
  }
  uint64_t behind = length_ - index;  // elements from here to the end
  size_t number = count_ - 1;
  for (; behind > chunk(number).count; --number) behind -= chunk(number).count;
  return {number, static_cast<uint32_t>(chunk(number).count - behind)};
}

void ChunkedList::push(bool front, std::string_view element) {
  const ListLimit limit = ListLimit::now();
  const size_t end = front ? 0 : count_;
  if (count_ == 0 || is_large(element.size(), limit)) return new_chunk(end, element, is_large(element.size(), limit));
  Chunk& chunk = at(front ? 0 : count_ - 1);
  if (!may_join(chunk, element.size(), limit)) return new_chunk(end, element, false);
  add_item(chunk, front ? 0 : chunk.count, ShortText(element));
}

void ChunkedList::insert(uint64_t index, bool after, std::string_view element) {
  const ListLimit limit = ListLimit::now();
  const Place place = find(index);
  const size_t number = place.chunk;
  const uint32_t within = place.within + after;
  const bool at_edge = after ? within == at(number).count : within == 0;
  if (is_large(element.size(), limit)) {
    if (!at_edge) split(number, within);
    return new_chunk(!at_edge || after ? number + 1 : number, element, true);
  }
  if (may_join(at(number), element.size(), limit)) return add_item(at(number), within, ShortText(element));
  if (at_edge) {
    const bool there = after ? number + 1 < count_ : number > 0;
    if (there) {
      Chunk& neighbour = at(after ? number + 1 : number - 1);
      if (may_join(neighbour, element.size(), limit)) return add_item(neighbour, after ? 0 : neighbour.count, ShortText(element));
    }
    return new_chunk(after ? number + 1 : number, element, false);
  }
  split(number, within);
  Chunk& part = at(after ? number + 1 : number);
  add_item(part, after ? 0 : part.count, ShortText(element));
  merge_around(after ? number : number + 1);
}

void ChunkedList::replace(uint64_t index, std::string_view element) {
  const ListLimit limit = ListLimit::now();
  const Place place = find(index);
  const size_t number = place.chunk;
  const bool large = is_large(element.size(), limit);
  if (at(number).plain && !large) {
    insert(index, true, element);
    return drop_chunk(number);
  }
  if (at(number).plain) {
    drop_chunk(number);
    return new_chunk(number, element, true);
  }
  if (!large) {  // in its place, even if the chunk outgrows its limit by that
    Chunk& chunk = at(number);
    add_item(chunk, place.within, ShortText(element));
    return remove_items(chunk, place.within + 1, 1);
  }
  if (place.within + 1 < at(number).count) split(number, place.within + 1);
  new_chunk(number + 1, element, true);
  if (at(number).count == 1) return drop_chunk(number);
  remove_items(at(number), at(number).count - 1, 1);
  merge_around(number + 1);
}

void ChunkedList::remove(uint64_t index, uint64_t count) {
  Place place = find(index);
  while (count > 0) {
    Chunk& chunk = at(place.chunk);
    const auto here = static_cast<uint32_t>(std::min<uint64_t>(count, chunk.count - place.within));
    if (here == chunk.count) {
      drop_chunk(place.chunk);
    } else {
      remove_items(chunk, place.within, here);
      ++place.chunk;
    }
    place.within = 0;
    count -= here;
  }
}

void ChunkedList::rotate(bool from_front, bool to_front) {
  const Chunk& chunk = at(from_front ? 0 : count_ - 1);
  const std::string element = packed_item(from_front ? chunk.first() : packed_before(chunk.last())).text.string();
  remove(from_front ? 0 : length_ - 1, 1);
  push(to_front, element);
}

}  // namespace pion
