// Hashes: fields with values; a field may expire.
//
// A small hash is packed: u16 fields | u8 label and flags | [i64 the earliest expiry] | field, value, [expiry] ... A large one
// is a HashTable. What OBJECT ENCODING says follows Redis' limits and is kept apart from that: a hash of a few long values
// stays packed although it says hashtable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "keyspace/entry.h"
#include "keyspace/hash_table.h"

namespace pion {

// Reads a hash in its entry. Views last until the next change. Fields that have expired at `now_ms` are not shown.
class HashReader {
 public:
  HashReader(const Entry& entry, int64_t now_ms);

  uint64_t size() const;  // expired fields count until they are removed
  bool get(std::string_view name, HashField& field) const;
  // Until the visit answers false.
  template <typename Visit>
  void each(Visit&& visit) const {
    const auto alive = [&](const HashField& field) { return expired(field) || visit(field); };
    table_ ? table_->each(alive) : each_packed(alive);
  }
  // Position 0 starts, the answer 0 ends: see LinearTable::scan. Small hashes are visited in one step.
  template <typename Visit>
  uint64_t scan(uint64_t position, Visit&& visit) const {
    if (!table_) return each([&](const HashField& field) { return visit(field), true; }), 0;
    return table_->scan(position, [&](const HashField& field) {
      if (!expired(field)) visit(field);
    });
  }
  // Each field with the same chance. There is one at least that has not expired.
  HashField random() const;
  // Does scan() visit everything at once?
  bool small() const { return !table_; }

 private:
  bool expired(const HashField& field) const { return field.expiry_ms != 0 && field.expiry_ms < now_ms_; }
  template <typename Visit>
  void each_packed(Visit&& visit) const {
    for (const char* at = begin_; at < end_;) {
      HashField field;
      at = read(at, field);
      if (!visit(field)) return;
    }
  }
  const char* read(const char* at, HashField& field) const;

  const HashTable* table_ = nullptr;
  const char* begin_ = nullptr;  // packed fields
  const char* end_ = nullptr;
  uint64_t packed_size_ = 0;
  bool with_expiries_ = false;
  const int64_t now_ms_;
};

// A delta: one kind of change to any number of fields. Written into a string of the caller's.
class HashDelta {
 public:
  enum class Op : uint8_t {
    kSet = 1,          // field, value; an expiry that it had goes
    kSetKeeping = 2,   // field, value; an expiry that it had stays
    kSetExpiring = 3,  // field, value, i64 expiry
    kRemove = 4,       // field
    kExpire = 5,       // field, i64 expiry (0: none); from now on the hash is called listpackex, if it was listpack
  };
  HashDelta(std::string& out, Op op) : out_(out) { out_.assign(1, static_cast<char>(op)); }
  HashDelta& field(std::string_view name);
  HashDelta& value(std::string_view value);
  HashDelta& expiry(int64_t at_ms);
  bool empty() const { return out_.size() == 1; }

 private:
  std::string& out_;
};

}  // namespace pion
