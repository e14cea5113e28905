// The sets that SUNION, SINTER, SDIFF and their kin read, as they were at one moment. Small ones are read under their locks.
// Large ones are read in steps of about a millisecond, with the locks free in between, and still as they were at that moment
// (SetLog): so a union of millions stops nobody.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "command/collection.h"
#include "keyspace/set_value.h"

namespace pion {

class SetSources {
 public:
  // `keys`: what the command locks; those from `first_source` on are read, those before it written.
  SetSources(CommandContext& ctx, std::vector<Key> keys, size_t first_source)
      : ctx_(ctx), keys_(std::move(keys)), first_(first_source), sources_(keys_.size() - first_source) {}
  SetSources(const SetSources&) = delete;
  SetSources& operator=(const SetSources&) = delete;
  ~SetSources() { unlock(); }

  // Locks everything and looks. False: one holds another type, and that was answered.
  bool look(KeyAccess::Lookup lookup);
  // As hits and misses, of the first so many.
  void count_lookups() { count_lookups(sources_.size()); }
  void count_lookups(size_t count);

  size_t count() const { return sources_.size(); }
  bool exists(size_t i) const { return sources_[i].exists; }
  uint64_t size(size_t i) const { return sources_[i].size; }
  bool says_intset(size_t i) const { return sources_[i].says_intset; }

  // From here on the locks are free between steps.
  void let_go();

  // Calls visit(const ShortText&) -> bool "go on" for each member of a source. False: a set went away as a whole under a step
  // (DEL, RENAME, ...) and everything has to begin anew with look().
  template <typename Visit>
  bool each(size_t i, Visit&& visit);
  // Only inside a visit.
  bool contains(size_t i, const ShortText& member) const;

  // With the locks, for the result.
  KeyAccess& lock();
  void unlock();
  const Key& key(size_t position) const { return keys_[position]; }

 private:
  struct Source {
    bool exists = false, says_intset = false;
    uint64_t size = 0;
    std::optional<SetReader> reader;  // while the locks are held, or of `copy`
    std::string copy;                 // of packed bytes
    SetTable* table = nullptr;        // read in steps, by its log
    std::shared_ptr<SetLog> log;
  };
  static constexpr uint64_t kStepMembers = 4096;

  bool lock_tables();  // false: lost

  CommandContext& ctx_;
  const std::vector<Key> keys_;
  const size_t first_;
  std::vector<Source> sources_;
  std::optional<KeyAccess> access_;
  bool holds_ = true;
};

template <typename Visit>
bool SetSources::each(size_t i, Visit&& visit) {
  Source& source = sources_[i];
  if (!source.exists) return true;
  if (holds_) return source.reader->each(visit), true;
  const uint64_t most = kStepMembers / sources_.size() + 1;
  if (!source.table) {
    // A copy of our own, but a visit may ask the other sources.
    if (!lock_tables()) return false;
    source.reader->each(visit);
    unlock();
    return true;
  }
  for (bool more = true; more;) {
    if (!lock_tables()) return false;
    bool going = true;
    for (uint64_t visited = 0; more && going && visited < most;) {
      more = source.table->walk(*source.log, [&](std::string_view member) {
        ++visited;
        if (going) going = visit(ShortText::raw(member));
      });
    }
    unlock();
    if (!going) return true;
    // Whoever waits for a stripe gets it now.
    if (more) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

}  // namespace pion
