// Sorted sets: members with scores, in the order of score, then of the member's bytes.
//
// A small one is packed in that order: u16 members | u8 label | member, score ... (a score that is an integer as such, any
// other as its 8 bytes). A large one is a SortedSetTable. What OBJECT ENCODING says follows Redis' limits and is kept apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "keyspace/entry.h"
#include "keyspace/sorted_set_table.h"

namespace pion {

// Reads a sorted set in its entry. Views last until the next change.
class SortedSetReader {
 public:
  explicit SortedSetReader(const Entry& entry);

  uint64_t size() const { return table_ ? table_->size() : packed_size_; }
  bool score(std::string_view member, double& score) const;

  // How many members `before(ScoredMember)` says true of: of all up to some place in the order, false of the rest.
  template <typename Before>
  uint64_t count_where(Before&& before) const {
    if (table_) return table_->count_where(before);
    uint64_t count = 0;
    for (const char* at = begin_; at < end_; ++count) {
      ScoredMember item;
      at = read(at, item);
      if (!before(item)) break;
    }
    return count;
  }
  // Its place in the order, from 0. It is there.
  uint64_t rank(std::string_view member, double score) const;

  // Members in order from rank `first` on, or backwards, until the visit answers false. first < size().
  template <typename Visit>
  void walk(uint64_t first, bool backwards, Visit&& visit) const {
    if (table_) return table_->walk(first, backwards, visit);
    const char* at = begin_;
    for (; first > 0; --first) at = packed_next(packed_next(at));
    while (at < end_) {
      ScoredMember item;
      const char* const next = read(at, item);
      if (!visit(item) || (backwards && at == begin_)) return;
      at = backwards ? packed_before(packed_before(at)) : next;
    }
  }
  template <typename Visit>
  void each(Visit&& visit) const {
    walk(0, false, [&](const ScoredMember& item) { return visit(item), true; });
  }
  // Position 0 starts, the answer 0 ends: see LinearTable::scan. Small ones are visited in one step.
  template <typename Visit>
  uint64_t scan(uint64_t position, Visit&& visit) const {
    if (table_) return table_->scan(position, visit);
    each(visit);
    return 0;
  }

 private:
  static const char* read(const char* at, ScoredMember& item);

  const SortedSetTable* table_ = nullptr;
  const char* begin_ = nullptr;  // packed members
  const char* end_ = nullptr;
  uint64_t packed_size_ = 0;
};

// A delta: members set to scores, or removed. Written into a string of the caller's.
class SortedSetDelta {
 public:
  enum class Op : uint8_t { kSet = 1 /* member, f64 score */, kRemove = 2 /* member */ };
  SortedSetDelta(std::string& out, Op op) : out_(out) { out_.assign(1, static_cast<char>(op)); }
  SortedSetDelta& member(std::string_view member);
  SortedSetDelta& score(double score);
  bool empty() const { return out_.size() == 1; }

 private:
  std::string& out_;
};

// A whole sorted set that is to replace what a key holds, as ValueOps::encode writes it. Members are distinct.
class SortedSetBuilder {
 public:
  void add(std::string_view member, double score);
  uint64_t size() const { return size_; }
  std::string encoded() const;

 private:
  std::string members_;
  uint64_t size_ = 0;
  size_t longest_ = 0;
};

}  // namespace pion
