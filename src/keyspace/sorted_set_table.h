// A large sorted set: a hash table over blocks of {score, flags, size, member}, and a tree that keeps their order.
#pragma once

#include <cstdint>
#include <string_view>

#include "keyspace/linear_table.h"
#include "keyspace/object.h"
#include "keyspace/packed.h"
#include "keyspace/score_tree.h"
#include "keyspace/slab.h"

namespace pion {

struct ScoredMember {
  ShortText member;
  double score = 0;
};

class SortedSetTable : public Object {
 public:
  explicit SortedSetTable(PagePool& pool) : slab_(pool), tree_(member_of) {}
  ~SortedSetTable() override;

  uint64_t memory_bytes() const override {
    return sizeof *this + blocks_bytes_ + table_.memory_bytes() + tree_.memory_bytes();
  }
  bool quick_to_free() const override { return table_.count() <= 256; }

  uint64_t size() const { return table_.count(); }
  bool score(std::string_view member, double& score) const;
  void set(std::string_view member, double score);
  bool remove(std::string_view member);

  // See ScoreTree; `before` takes a ScoredMember.
  template <typename Before>
  uint64_t count_where(Before&& before) const {
    return tree_.count_where([&](const ScoreItem& item) { return before(ScoredMember{ShortText::raw(member_of(item.element)), item.score}); });
  }
  template <typename Visit>
  void walk(uint64_t first, bool backwards, Visit&& visit) const {
    tree_.walk(first, backwards, [&](const ScoreItem& item) { return visit(ScoredMember{ShortText::raw(member_of(item.element)), item.score}); });
  }
  template <typename Visit>
  uint64_t scan(uint64_t position, Visit&& visit) const {
    return table_.scan(position, [&](void* element) { visit(ScoredMember{ShortText::raw(member_of(element)), score_of(element)}); });
  }

  uint8_t label = 0;  // what OBJECT ENCODING says, see sorted_set_value.cc

 private:
  struct Traits {
    static std::string_view key(const void* element) { return member_of(element); }
  };
  static std::string_view member_of(const void* element);
  static double score_of(const void* element);
  void free(void* element);

  LinearTable<Traits> table_;
  Slab slab_;
  ScoreTree tree_;
  uint64_t blocks_bytes_ = 0;
  uint64_t from_malloc_ = 0;  // blocks that do not go with the slab's pages
};

}  // namespace pion
