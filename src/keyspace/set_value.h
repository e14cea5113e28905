// Sets.
//
// A small set is packed. Of integers alone: u8 label | u8 width (2, 4, 8) | integers of that many bytes, ascending. Otherwise:
// u8 label | u16 members | items (packed.h) in the order they came. A large one is a SetTable. The label is what OBJECT
// ENCODING says, by Redis' limits; a set of a few long members stays packed although it says hashtable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "keyspace/entry.h"
#include "keyspace/packed.h"
#include "keyspace/set_table.h"

namespace pion {

// Reads a set in its entry, or packed bytes that were copied out of one. Views last until the next change.
class SetReader {
 public:
  explicit SetReader(const Entry& entry);
  explicit SetReader(std::string_view packed);

  uint64_t size() const { return table_ ? table_->size() : packed_size_; }
  bool contains(std::string_view member) const;
  // Until the visit answers false.
  template <typename Visit>
  bool each(Visit&& visit) const {
    if (table_) return table_->each([&](std::string_view member) { return visit(ShortText::raw(member)); });
    for (const char* at = begin_; at < end_;) {
      if (!visit(next_packed(at))) return false;
    }
    return true;
  }
  // Position 0 starts, the answer 0 ends: see LinearTable::scan. Small sets are visited in one step.
  template <typename Visit>
  uint64_t scan(uint64_t position, Visit&& visit) const {
    if (!table_) return each([&](const ShortText& member) { return visit(member), true; }), 0;
    return table_->scan(position, [&](std::string_view member) { visit(ShortText::raw(member)); });
  }
  // Each member with the same chance.
  ShortText random() const;
  // Null: it is packed.
  SetTable* table() const { return table_; }
  std::string_view packed() const { return packed_; }

 private:
  void read_header();
  ShortText next_packed(const char*& at) const;

  SetTable* table_ = nullptr;
  std::string_view packed_;
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  uint64_t packed_size_ = 0;
  unsigned width_ = 0;  // of integers; 0: items
};

// A delta: members that come or go. Written into a string of the caller's. As a command was given them: how many came at once
// decides on the encoding, also when they were there already.
class SetDelta {
 public:
  enum class Op : uint8_t { kAdd = 1, kRemove = 2 };
  SetDelta(std::string& out, Op op) : out_(out) { out_.assign(1, static_cast<char>(op)); }
  SetDelta& member(std::string_view member);
  bool empty() const { return out_.size() == 1; }

 private:
  std::string& out_;
};

// What OBJECT ENCODING says; a set's label only ever goes up.
enum class SetLabel : uint8_t { kIntset = 0, kListpack = 1, kHashtable = 2 };

// Would adding `members` at once, whatever they are, make the set change its label?
bool set_label_grows(const Entry& entry, uint64_t members);

// A whole set in the making, for commands that store a result.
class SetBuilder {
 public:
  SetBuilder(std::string& encoded, SetLabel label, uint64_t members);
  void member(const ShortText& member);

 private:
  std::string& out_;
};

}  // namespace pion
