// A stream: entries in order of their ids, and groups of consumers that share them. One Object for any size: blocks of
// entries (stream_block.h) in a vector sorted by first id; each group's pending entries in order of id (id_list.h), and each
// consumer's ids among them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keyspace/id_list.h"
#include "keyspace/object.h"
#include "keyspace/stream_block.h"

namespace pion {

struct StreamConsumer {
  explicit StreamConsumer(uint64_t& memory_bytes) : pending(memory_bytes) {}

  const std::string* name = nullptr;
  int64_t seen_ms = 0;     // wall: last asked for something
  int64_t active_ms = -1;  // wall: last got something; -1: never
  IdList<StreamId> pending;
};

// An entry that was delivered and not acknowledged.
struct PendingEntry {
  StreamId id;
  int64_t delivered_ms = 0;  // wall
  uint64_t deliveries = 1;
  StreamConsumer* consumer = nullptr;
};
inline const StreamId& id_of(const PendingEntry& entry) { return entry.id; }

struct StreamGroup {
  static constexpr int64_t kUnknown = -1;

  explicit StreamGroup(uint64_t& memory_bytes) : pending(memory_bytes), memory(memory_bytes) {}
  ~StreamGroup();
  StreamGroup(const StreamGroup&) = delete;
  StreamGroup& operator=(const StreamGroup&) = delete;

  StreamConsumer* consumer(std::string_view name);  // null: none
  const StreamConsumer* consumer(std::string_view name) const { return const_cast<StreamGroup*>(this)->consumer(name); }
  StreamConsumer& make_consumer(std::string_view name);
  void drop_consumer(std::string_view name);
  bool acknowledge(StreamId id);
  // A pending entry of that consumer's, whether it was another's or nobody's.
  void assign(StreamId id, StreamConsumer& to, int64_t delivered_ms, uint64_t deliveries);

  StreamId last_id;
  int64_t entries_read = kUnknown;
  IdList<PendingEntry> pending;
  std::map<std::string, StreamConsumer, std::less<>> consumers;
  uint64_t& memory;
};

class Stream : public Object {
 public:
  Stream() = default;
  ~Stream() override;

  uint64_t memory_bytes() const override { return sizeof(Stream) + memory_ + blocks_.memory_bytes(); }
  bool quick_to_free() const override { return blocks_.size() + pending_total() / 64 <= 64; }

  uint64_t size() const { return size_; }
  uint64_t block_count() const { return blocks_.size(); }
  // As many nodes as Redis' radix tree has over the blocks' first ids.
  uint64_t radix_nodes() const;
  // Of the entries that are there; zero when there is none.
  StreamId first_id() const;
  StreamId last_entry_id() const;

  // `id` is behind all others; fields are not empty.
  void append(StreamId id, StreamFields fields);
  bool find(StreamId id, StreamEntry& entry) const;
  bool contains(StreamId id) const {
    StreamEntry entry;
    return find(id, entry);
  }
  bool remove(StreamId id);
  // Removes the first entries; visit(id) of each.
  template <typename Visit>
  void drop_front(uint64_t count, Visit&& visit);
  void drop_front(uint64_t count);

  // The entries from one id to another, both included, until visit(const StreamEntry&) answers false.
  template <typename Visit>
  void each(StreamId from, StreamId to, Visit&& visit) const;
  template <typename Visit>
  void each_backwards(StreamId from, StreamId to, Visit&& visit) const;

  // How many entries the blocks hold that a walk from one id to another touches; not counted beyond `enough`.
  uint64_t entries_between(StreamId from, StreamId to, uint64_t enough) const;

  // How trimming sees it: each block's number of entries and last id, from the front, until visit(count, last) answers false.
  template <typename Visit>
  void each_block(Visit&& visit) const {
    for (const Place& place : blocks_) {
      if (!visit(place.block->count, place.block->last)) return;
    }
  }

  StreamGroup* group(std::string_view name);  // null: none
  const StreamGroup* group(std::string_view name) const { return const_cast<Stream*>(this)->group(name); }
  StreamGroup& make_group(std::string_view name);
  bool drop_group(std::string_view name);
  // Does a group still have to read it, or to acknowledge it?
  bool referenced(StreamId id) const;
  void drop_references(StreamId id);

  // Has anything behind `from` been removed by XDEL?
  bool has_tombstones(StreamId from) const;
  // The number of entries ever added up to `id`; StreamGroup::kUnknown when it cannot be told.
  int64_t entries_up_to(StreamId id) const;
  // Is this the number of entries read up to `last_id`, and can it be counted on from there?
  bool counts_on(int64_t entries_read, StreamId last_id) const;
  // How many entries the group has still to read, if that can be told.
  std::optional<int64_t> lag(const StreamGroup& group) const;

  // Whole blocks, for files.
  template <typename Visit>
  void each_raw_block(Visit&& visit) const {
    for (const Place& place : blocks_) visit(place.base, *place.block);
  }
  void add_raw_block(StreamId base, const StreamBlock& counters, std::string_view bytes);

  StreamId last_id, max_deleted;
  uint64_t entries_added = 0;
  std::map<std::string, StreamGroup, std::less<>> groups;

 private:
  struct Place {
    StreamId base;
    StreamBlock* block = nullptr;
  };

  // The block that `id` lies in or would, its first id not behind it; blocks_.size(): all begin behind it.
  size_t block_of(StreamId id) const;
  uint64_t pending_total() const;
  void erase_block(size_t at);

  uint64_t memory_ = 0;  // blocks, groups, consumers, pending entries
  uint64_t size_ = 0;
  FrontVector<Place> blocks_;
};

template <typename Visit>
void Stream::each(StreamId from, StreamId to, Visit&& visit) const {
  size_t at = block_of(from);
  if (at == blocks_.size()) at = 0;
  for (; at < blocks_.size() && blocks_[at].base <= to; ++at) {
    const auto show = [&](const StreamEntry& entry) { return entry.id < from || (entry.id <= to && visit(entry)); };
    if (blocks_[at].block->last >= from && !blocks_[at].block->each(blocks_[at].base, show)) return;
  }
}

template <typename Visit>
void Stream::each_backwards(StreamId from, StreamId to, Visit&& visit) const {
  size_t at = block_of(to);
  if (at == blocks_.size()) return;
  std::vector<StreamEntry> entries;
  for (;; --at) {
    if (blocks_[at].block->last < from) return;
    entries.clear();
    blocks_[at].block->each(blocks_[at].base, [&](const StreamEntry& entry) { return entries.push_back(entry), true; });
    for (size_t i = entries.size(); i-- > 0;) {
      if (entries[i].id > to) continue;
      if (entries[i].id < from || !visit(entries[i])) return;
    }
    if (at == 0) return;
  }
}

template <typename Visit>
void Stream::drop_front(uint64_t count, Visit&& visit) {
  uint64_t left = count;
  each({}, StreamId::last(), [&](const StreamEntry& entry) { return left > 0 && (visit(entry.id), --left > 0); });
  drop_front(count);
}

}  // namespace pion
