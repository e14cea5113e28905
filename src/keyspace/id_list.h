// Things with a stream id, in order of it: a sorted vector of chunks, found by binary search over both. Adding at the end and
// removing at the front, which streams do most, cost little; so does everything else up to millions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "keyspace/stream_id.h"

namespace pion {

inline const StreamId& id_of(const StreamId& id) { return id; }

// A vector that loses elements at its front in constant time (amortised).
template <typename T>
class FrontVector {
 public:
  size_t size() const { return items_.size() - front_; }
  bool empty() const { return size() == 0; }
  T& operator[](size_t i) { return items_[front_ + i]; }
  const T& operator[](size_t i) const { return items_[front_ + i]; }
  T& back() { return items_.back(); }
  const T& back() const { return items_.back(); }
  T* begin() { return items_.data() + front_; }
  T* end() { return items_.data() + items_.size(); }
  const T* begin() const { return items_.data() + front_; }
  const T* end() const { return items_.data() + items_.size(); }

  void push_back(T item) { items_.push_back(std::move(item)); }
  void insert(size_t at, T item) { items_.insert(items_.begin() + static_cast<ptrdiff_t>(front_ + at), std::move(item)); }
  void erase(size_t at) {
    if (at > 0) {
      items_.erase(items_.begin() + static_cast<ptrdiff_t>(front_ + at));
      return;
    }
    items_[front_++] = T();
    if (front_ < 32 || front_ * 2 < items_.size()) return;
    std::vector<T> rest(std::make_move_iterator(begin()), std::make_move_iterator(end()));
    items_ = std::move(rest);
    front_ = 0;
  }
  uint64_t memory_bytes() const { return items_.capacity() * sizeof(T); }

 private:
  std::vector<T> items_;
  size_t front_ = 0;
};

template <typename T>
class IdList {
 public:
  // What its elements take is added to `memory_bytes`, which outlives it.
  explicit IdList(uint64_t& memory_bytes) : memory_(memory_bytes) {}
  ~IdList() {
    memory_ -= chunks_.memory_bytes();
    for (const Chunk& chunk : chunks_) memory_ -= chunk.capacity() * sizeof(T);
  }
  IdList(const IdList&) = delete;
  IdList& operator=(const IdList&) = delete;

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Not of an empty one.
  const T& front() const { return chunks_[0].front(); }
  const T& back() const { return chunks_.back().back(); }

  // Null when there is none. Lasts until the next insert or erase.
  T* find(StreamId id) {
    const size_t c = chunk_of(id);
    if (c == chunks_.size()) return nullptr;
    T* const at = lower(chunks_[c], id);
    return at != end_of(chunks_[c]) && id_of(*at) == id ? at : nullptr;
  }
  const T* find(StreamId id) const { return const_cast<IdList*>(this)->find(id); }

  // There is none with that id.
  void insert(T item) {
    const StreamId id = id_of(item);
    ++size_;
    size_t c = chunk_of(id);
    if (c == chunks_.size()) {  // behind all others
      if (chunks_.empty() || chunks_.back().size() >= kChunk) insert_chunk(c, {});
      c = chunks_.size() - 1;
    } else if (chunks_[c].size() >= kChunk) {
      Chunk upper(chunks_[c].begin() + kChunk / 2, chunks_[c].end());
      Chunk below(chunks_[c].begin(), chunks_[c].begin() + kChunk / 2);
      const StreamId from = id_of(upper.front());
      change(chunks_[c], [&](Chunk& chunk) { chunk = std::move(below); });
      insert_chunk(c + 1, std::move(upper));
      if (id > from) ++c;
    }
    change(chunks_[c], [&](Chunk& chunk) { chunk.insert(chunk.begin() + (lower(chunk, id) - chunk.data()), std::move(item)); });
  }

  bool erase(StreamId id) {
    const size_t c = chunk_of(id);
    if (c == chunks_.size()) return false;
    Chunk& chunk = chunks_[c];
    T* const at = lower(chunk, id);
    if (at == end_of(chunk) || id_of(*at) != id) return false;
    --size_;
    chunk.erase(chunk.begin() + (at - chunk.data()));
    if (!chunk.empty()) return true;
    change(chunk, [](Chunk& empty) { Chunk().swap(empty); });
    const uint64_t before = chunks_.memory_bytes();
    chunks_.erase(c);
    memory_ += chunks_.memory_bytes() - before;
    return true;
  }

  // From the first one at or behind `from`, until visit(const T&) answers false.
  template <typename Visit>
  void each(StreamId from, Visit&& visit) const {
    for (size_t c = chunk_of(from); c < chunks_.size(); ++c) {
      const Chunk& chunk = chunks_[c];
      for (const T* at = lower(chunk, from); at != chunk.data() + chunk.size(); ++at) {
        if (!visit(*at)) return;
      }
    }
  }

 private:
  using Chunk = std::vector<T>;
  static constexpr size_t kChunk = 64;

  static T* end_of(Chunk& chunk) { return chunk.data() + chunk.size(); }
  static T* lower(Chunk& chunk, StreamId id) {
    return std::lower_bound(chunk.data(), end_of(chunk), id, [](const T& item, const StreamId& wanted) { return id_of(item) < wanted; });
  }
  static const T* lower(const Chunk& chunk, StreamId id) { return lower(const_cast<Chunk&>(chunk), id); }
  // The first chunk that ends at or behind `id`.
  size_t chunk_of(StreamId id) const {
    if (chunks_.empty() || id_of(chunks_.back().back()) < id) return chunks_.size();
    const auto* at = std::lower_bound(chunks_.begin(), chunks_.end(), id,
                                      [](const Chunk& chunk, const StreamId& wanted) { return id_of(chunk.back()) < wanted; });
    return static_cast<size_t>(at - chunks_.begin());
  }
  template <typename Change>
  void change(Chunk& chunk, Change&& apply) {
    const uint64_t before = chunk.capacity();
    apply(chunk);
    memory_ += (chunk.capacity() - before) * sizeof(T);
  }
  void insert_chunk(size_t at, Chunk chunk) {
    const uint64_t before = chunks_.memory_bytes();
    memory_ += chunk.capacity() * sizeof(T);
    chunks_.insert(at, std::move(chunk));
    memory_ += chunks_.memory_bytes() - before;
  }

  uint64_t& memory_;
  FrontVector<Chunk> chunks_;
  uint64_t size_ = 0;
};

}  // namespace pion
