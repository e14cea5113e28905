// A large set: a hash table over blocks of {size, member}. A walk over it may be cut into steps, with other commands in
// between, and still sees the set as it was when the walk began: the table tells the walk's SetLog what changes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "keyspace/linear_table.h"
#include "keyspace/object.h"
#include "keyspace/slab.h"

namespace pion {

// What has changed in a SetTable since the log began, as far as the walk has not passed it yet. Used under the lock of the
// table's stripe. The table forgets it when its owner does.
class SetLog {
 public:
  bool was_member(std::string_view member, bool is_member) const {
    if (is_member) return added_.empty() || !added_.contains(std::string(member));
    return !removed_.empty() && removed_.contains(std::string(member));
  }

 private:
  friend class SetTable;
  void note(uint64_t place, std::string_view member, bool add);

  uint64_t passed_ = 0;  // places below it were walked over
  std::unordered_set<std::string> added_, removed_;
};

class SetTable : public Object {
 public:
  explicit SetTable(PagePool& pool) : slab_(pool) {}
  ~SetTable() override;

  uint64_t memory_bytes() const override { return sizeof *this + blocks_bytes_ + table_.memory_bytes(); }
  bool quick_to_free() const override { return table_.count() <= 256; }

  uint64_t size() const { return table_.count(); }
  bool contains(std::string_view member) const { return table_.find(member, element_hash(member)) != nullptr; }
  // False: it was there already / it was not there.
  bool add(std::string_view member);
  bool remove(std::string_view member);

  // Until the visit answers false. Views last until the next change.
  template <typename Visit>
  bool each(Visit&& visit) const {
    return table_.each([&](void* element) { return visit(member_of(element)); });
  }
  template <typename Visit>
  uint64_t scan(uint64_t position, Visit&& visit) const {
    return table_.scan(position, [&](void* element) { visit(member_of(element)); });
  }
  // Each with the same chance. There is one at least.
  std::string_view random() const;

  // From here on the log knows what the set was at this moment.
  std::shared_ptr<SetLog> start_log();
  bool logs_to(const SetLog& log) const;
  // Visits some members that the set had when the log began, each once in all, whatever happened since. False: that was all.
  template <typename Visit>
  bool walk(SetLog& log, Visit&& visit) const;

  uint8_t label = 0;  // what OBJECT ENCODING says, see set_value.cc

 private:
  struct Traits {
    static std::string_view key(const void* element) { return member_of(element); }
  };
  static std::string_view member_of(const void* element);
  // Where the walk meets a member: tables of every size are walked in the order of the reversed hash.
  static uint64_t place_of(uint64_t hash) { return reverse32(hash & 0xffffffff); }
  void tell(std::string_view member, uint64_t hash, bool add);

  LinearTable<Traits> table_;
  Slab slab_;
  uint64_t blocks_bytes_ = 0;
  uint64_t from_malloc_ = 0;  // blocks that do not go with the slab's pages
  std::vector<std::shared_ptr<SetLog>> logs_;
};

template <typename Visit>
bool SetTable::walk(SetLog& log, Visit&& visit) const {
  constexpr uint64_t kEnd = 1ULL << 32;
  if (log.passed_ < kEnd) {
    const uint64_t from = log.passed_;
    const uint64_t next = table_.scan(reverse32(from), [&](void* element) {
      const std::string_view member = member_of(element);
      // A bucket that was merged since begins before the place that was reached.
      if (place_of(element_hash(member)) < from) return;
      if (log.added_.empty() || !log.added_.contains(std::string(member))) visit(member);
    });
    log.passed_ = next == 0 ? kEnd : reverse32(next);
    if (log.passed_ < kEnd) return true;
  }
  // At last those that went before the walk came to them.
  for (const std::string& member : log.removed_) visit(std::string_view(member));
  log.removed_.clear();
  return false;
}

}  // namespace pion
