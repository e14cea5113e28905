#include "keyspace/stream.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace pion {
namespace {

// What a node of a std::map takes beside its pair, and a name beside its std::string when it is not inside.
constexpr uint64_t kMapNode = 48;

uint64_t name_bytes(const std::string& name) { return name.capacity() > 15 ? name.capacity() + 1 : 0; }

uint64_t consumer_bytes(const StreamConsumer& consumer) {
  return kMapNode + sizeof(std::string) + sizeof(StreamConsumer) + name_bytes(*consumer.name);
}

uint64_t group_bytes(const std::string& name) { return kMapNode + sizeof(std::string) + sizeof(StreamGroup) + name_bytes(name); }

}  // namespace

StreamGroup::~StreamGroup() {
  for (const auto& [name, consumer] : consumers) memory -= consumer_bytes(consumer);
}

StreamConsumer* StreamGroup::consumer(std::string_view name) {
  const auto place = consumers.find(name);
  return place == consumers.end() ? nullptr : &place->second;
}

StreamConsumer& StreamGroup::make_consumer(std::string_view name) {
  const auto [place, made] = consumers.try_emplace(std::string(name), memory);
  if (made) {
    place->second.name = &place->first;
    memory += consumer_bytes(place->second);
  }
  return place->second;
}

void StreamGroup::drop_consumer(std::string_view name) {
  const auto place = consumers.find(name);
  if (place == consumers.end()) return;
  place->second.pending.each({}, [&](const StreamId& id) { return pending.erase(id), true; });
  memory -= consumer_bytes(place->second);
  consumers.erase(place);
}

bool StreamGroup::acknowledge(StreamId id) {
  const PendingEntry* entry = pending.find(id);
  if (!entry) return false;
  entry->consumer->pending.erase(id);
  return pending.erase(id);
}

void StreamGroup::assign(StreamId id, StreamConsumer& to, int64_t delivered_ms, uint64_t deliveries) {
  PendingEntry* entry = pending.find(id);
  if (!entry) {
    pending.insert({id, delivered_ms, deliveries, &to});
    to.pending.insert(id);
    return;
  }
  if (entry->consumer != &to) {
    entry->consumer->pending.erase(id);
    to.pending.insert(id);
  }
  *entry = {id, delivered_ms, deliveries, &to};
}

Stream::~Stream() {
  groups.clear();  // they count their memory here
  for (const Place& place : blocks_) StreamBlock::destroy(place.block);
}

StreamId Stream::first_id() const {
  StreamId first;
  if (!blocks_.empty()) blocks_[0].block->each(blocks_[0].base, [&](const StreamEntry& entry) { return first = entry.id, false; });
  return first;
}

StreamId Stream::last_entry_id() const {
  StreamId last;
  if (!blocks_.empty()) blocks_.back().block->each(blocks_.back().base, [&](const StreamEntry& entry) { return last = entry.id, true; });
  return last;
}

size_t Stream::block_of(StreamId id) const {
  if (blocks_.empty() || id < blocks_[0].base) return blocks_.size();
  if (id >= blocks_.back().base) return blocks_.size() - 1;
  const Place* at = std::upper_bound(blocks_.begin(), blocks_.end(), id, [](const StreamId& wanted, const Place& place) { return wanted < place.base; });
  return static_cast<size_t>(at - blocks_.begin()) - 1;
}

void Stream::append(StreamId id, StreamFields fields) {
  if (blocks_.empty() || blocks_.back().block->full(fields)) {
    if (!blocks_.empty()) {
      Place& closed = blocks_.back();
      memory_ -= closed.block->memory_bytes();
      closed.block = StreamBlock::shrink(closed.block);
      memory_ += closed.block->memory_bytes();
    }
    StreamBlock* made = StreamBlock::first(id, fields);
    memory_ += made->memory_bytes();
    blocks_.push_back({id, made});
  } else {
    Place& place = blocks_.back();
    memory_ -= place.block->memory_bytes();
    place.block = StreamBlock::append(place.block, place.base, id, fields);
    memory_ += place.block->memory_bytes();
  }
  ++size_;
}

bool Stream::find(StreamId id, StreamEntry& entry) const {
  const size_t at = block_of(id);
  return at != blocks_.size() && blocks_[at].block->find(blocks_[at].base, id, entry) && entry.id == id;
}

uint64_t Stream::entries_between(StreamId from, StreamId to, uint64_t enough) const {
  uint64_t entries = 0;
  size_t at = block_of(from);
  if (at == blocks_.size()) at = 0;
  for (; at < blocks_.size() && blocks_[at].base <= to && entries < enough; ++at) entries += blocks_[at].block->count;
  return std::min(entries, enough);
}

void Stream::erase_block(size_t at) {
  memory_ -= blocks_[at].block->memory_bytes();
  StreamBlock::destroy(blocks_[at].block);
  blocks_.erase(at);
}

bool Stream::remove(StreamId id) {
  const size_t at = block_of(id);
  if (at == blocks_.size()) return false;
  Place& place = blocks_[at];
  if (!place.block->remove(place.base, id)) return false;
  --size_;
  if (place.block->count == 0) {
    erase_block(at);
  } else if (place.block->size * 2 < place.block->capacity) {
    memory_ -= place.block->memory_bytes();
    place.block = StreamBlock::shrink(place.block);
    memory_ += place.block->memory_bytes();
  }
  return true;
}

void Stream::drop_front(uint64_t count) {
  while (count > 0 && !blocks_.empty()) {
    const uint64_t here = blocks_[0].block->count;
    if (count >= here) {
      size_ -= here;
      count -= here;
      erase_block(0);
    } else {
      for (; count > 0; --count) remove(first_id());
    }
  }
}

void Stream::add_raw_block(StreamId base, const StreamBlock& counters, std::string_view bytes) {
  StreamBlock* block = StreamBlock::make(static_cast<uint32_t>(bytes.size()));
  copy_bytes(block->data(), bytes);
  block->size = static_cast<uint32_t>(bytes.size());
  block->last = counters.last;
  block->count = counters.count;
  block->removed = counters.removed;
  block->listpack_bytes = counters.listpack_bytes;
  blocks_.push_back({base, block});
  memory_ += block->memory_bytes();
  size_ += block->count;
}

// A path-compressed tree over keys of 16 bytes: a node for each key's end, each place where keys part, and each run of bytes
// between two of these.
uint64_t Stream::radix_nodes() const {
  if (blocks_.empty()) return 1;
  const auto byte = [&](size_t key, size_t at) {
    const StreamId& id = blocks_[key].base;
    return static_cast<uint8_t>((at < 8 ? id.ms : id.seq) >> (56 - at % 8 * 8));
  };
  uint64_t nodes = blocks_.size();  // the keys' ends
  // Depths at which the branches lie on the way to the last key, as a walk over the sorted keys finds them.
  std::vector<size_t> branches;
  const auto run = [&](size_t from, size_t to) { nodes += to > from; };
  for (size_t key = 0; key < blocks_.size(); ++key) {
    size_t common = 0;
    const bool more = key + 1 < blocks_.size();
    while (more && byte(key, common) == byte(key + 1, common)) ++common;
    // Everything deeper than `common` is complete.
    size_t below = 16;
    while (!branches.empty() && (!more || branches.back() > common)) {
      run(branches.back() + 1, below);
      below = branches.back();
      ++nodes;
      branches.pop_back();
    }
    if (!more) {
      run(0, below);
    } else if (branches.empty() || branches.back() < common) {
      run(common + 1, below);
      branches.push_back(common);
    } else {
      run(common + 1, below);
    }
  }
  return nodes;
}

StreamGroup* Stream::group(std::string_view name) {
  const auto place = groups.find(name);
  return place == groups.end() ? nullptr : &place->second;
}

StreamGroup& Stream::make_group(std::string_view name) {
  const auto [place, made] = groups.try_emplace(std::string(name), memory_);
  if (made) memory_ += group_bytes(place->first);
  return place->second;
}

bool Stream::drop_group(std::string_view name) {
  const auto place = groups.find(name);
  if (place == groups.end()) return false;
  memory_ -= group_bytes(place->first);
  groups.erase(place);
  return true;
}

uint64_t Stream::pending_total() const {
  uint64_t total = 0;
  for (const auto& [name, group] : groups) total += group.pending.size() + group.consumers.size();
  return total;
}

bool Stream::referenced(StreamId id) const {
  return std::any_of(groups.begin(), groups.end(), [&](const auto& group) { return id > group.second.last_id || group.second.pending.find(id); });
}

void Stream::drop_references(StreamId id) {
  for (auto& [name, group] : groups) group.acknowledge(id);
}

bool Stream::has_tombstones(StreamId from) const {
  if (size_ == 0 || max_deleted == StreamId{}) return false;
  if (first_id() > max_deleted) return false;
  return from <= max_deleted;
}

int64_t Stream::entries_up_to(StreamId id) const {
  if (entries_added == 0) return 0;
  if (size_ == 0 && id <= last_id) return static_cast<int64_t>(entries_added);
  if (id != StreamId{} && id < max_deleted) return StreamGroup::kUnknown;
  if (id == last_id) return static_cast<int64_t>(entries_added);
  if (id > last_id) return StreamGroup::kUnknown;
  const StreamId first = first_id();
  if (max_deleted == StreamId{} || max_deleted < first) {
    if (id < first) return static_cast<int64_t>(entries_added - size_);
    if (id == first) return static_cast<int64_t>(entries_added - size_ + 1);
  }
  return StreamGroup::kUnknown;
}

// Entries that were trimmed unread, or removed behind the group's place, make its count of read entries useless.
bool Stream::counts_on(int64_t entries_read, StreamId last_id) const {
  return entries_read != StreamGroup::kUnknown && last_id >= first_id() && !has_tombstones(last_id);
}

std::optional<int64_t> Stream::lag(const StreamGroup& group) const {
  if (entries_added == 0 || size_ == 0) return 0;
  const StreamId first = first_id();
  if (group.last_id < first && max_deleted < first) return static_cast<int64_t>(size_);
  if (counts_on(group.entries_read, group.last_id)) {
    return static_cast<int64_t>(entries_added) - group.entries_read;
  }
  const int64_t read = entries_up_to(group.last_id);
  if (read == StreamGroup::kUnknown) return std::nullopt;
  return static_cast<int64_t>(entries_added) - read;
}

}  // namespace pion
