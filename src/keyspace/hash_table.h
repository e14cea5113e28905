// A large hash: a hash table over blocks of {flags, sizes, [expiry], field, value}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "keyspace/linear_table.h"
#include "keyspace/object.h"
#include "keyspace/packed.h"
#include "keyspace/slab.h"

namespace pion {

struct HashField {
  ShortText name, value;
  int64_t expiry_ms = 0;  // wall; 0: none
};

class HashTable : public Object {
 public:
  explicit HashTable(PagePool& pool) : slab_(pool) {}
  ~HashTable() override;

  uint64_t memory_bytes() const override;
  bool quick_to_free() const override { return table_.count() <= 256; }

  uint64_t size() const { return table_.count(); }
  // Views last until the next change.
  bool get(std::string_view name, HashField& field) const;
  // expiry_ms 0: none.
  void set(std::string_view name, std::string_view value, int64_t expiry_ms);
  bool remove(std::string_view name);

  // The earliest expiry of a field, INT64_MAX: none. Never later than the truth, but it may be the one of a field that has
  // changed since.
  int64_t next_due() const { return due_.empty() ? INT64_MAX : due_.front().at_ms; }
  // Takes fields that are due off the index, until `limit` or none is left; visit(name). They are still in the table.
  template <typename Visit>
  void take_due(int64_t now_ms, uint64_t limit, Visit&& visit) {
    for (uint64_t taken = 0; taken < limit && next_due() < now_ms;) {
      if (const void* element = pop_due()) visit(Traits::key(element)), ++taken;
    }
  }

  // Until the visit answers false.
  template <typename Visit>
  void each(Visit&& visit) const {
    table_.each([&](void* element) { return visit(field_of(element)); });
  }
  template <typename Visit>
  uint64_t scan(uint64_t position, Visit&& visit) const {
    return table_.scan(position, [&](void* element) { visit(field_of(element)); });
  }
  // Each with the same chance. There is one at least.
  HashField random() const;

  uint8_t label = 0;  // what OBJECT ENCODING says, see hash_value.cc

 private:
  struct Traits {
    static std::string_view key(const void* element);
  };
  struct DueItem {
    int64_t at_ms;
    uint64_t hash;
    bool operator<(const DueItem& other) const { return at_ms > other.at_ms; }  // earliest on top of the heap
  };

  static HashField field_of(const void* element);
  void* make(std::string_view name, std::string_view value, int64_t expiry_ms);
  void free(void* element);
  void note_due(int64_t at_ms, uint64_t hash);
  const void* pop_due();

  LinearTable<Traits> table_;
  Slab slab_;
  uint64_t blocks_bytes_ = 0;
  uint64_t from_malloc_ = 0;   // blocks that do not go with the slab's pages
  uint64_t volatile_ = 0;      // fields with an expiry
  std::vector<DueItem> due_;   // a heap, corrected lazily
};

}  // namespace pion
