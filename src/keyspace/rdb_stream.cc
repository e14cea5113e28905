// Streams: nodes of entries by their first id, counters, and groups with what is pending.
//
//   length nodes, each: string id (16 bytes, big-endian), string listpack
//   length entries, last id | from the second form on: first id, largest deleted id, length entries ever added
//   length groups, each: string name, last id, [from the second form on: length entries read]
//     length pending, each: id (16 bytes), i64 delivered, length deliveries
//     length consumers, each: string name, i64 seen, [from the third form on: i64 active], length pending, each: id (16 bytes)
//
// Ids between the nodes and the groups are two lengths. A node's listpack:
//
//   entries, entries removed, fields, name..., 0
//   then each entry: flags (1: removed, 2: fields as above), ms and seq from the node's id on, [fields], {[name], value}..., how many
//   elements that were
#include <algorithm>
#include <memory>
#include <vector>

#include "keyspace/rdb_types.h"
#include "keyspace/stream_value.h"

namespace pion {
namespace {

constexpr size_t kIdBytes = 16;
constexpr int64_t kRemoved = 1, kSameFields = 2;
constexpr uint64_t kMostBlockBytes = 1ULL << 31;  // what a block's counters can hold, by far

StreamId id_of_bytes(std::string_view bytes) {
  if (bytes.size() != kIdBytes) return {};
  return {__builtin_bswap64(load_le<uint64_t>(bytes.data())), __builtin_bswap64(load_le<uint64_t>(bytes.data() + 8))};
}

StreamId read_id(RdbReader& in) {
  const uint64_t ms = in.length();
  return {ms, in.length()};
}

struct DestroyBlock {
  void operator()(StreamBlock* block) const { StreamBlock::destroy(block); }
};

// One node's listpack on its way into a block.
class NodeReader {
 public:
  NodeReader(StreamId base, std::string_view listpack) : base_(base), in_(listpack) {}

  // Entries are behind `before`. False: malformed.
  bool read(StreamId before) {
    int64_t entries = 0, removed = 0, terminator = 0;
    if (!in_.next_number(entries) || !in_.next_number(removed) || !read_names()) return false;
    if (!in_.next_number(terminator) || terminator != 0) return false;
    last_ = before;
    int64_t flags = 0;
    for (ShortText text; in_.next(text);) {
      if (!text.integer) text = ShortText(text.bytes);
      flags = text.number;
      if (!text.integer || flags < 0 || flags > (kRemoved | kSameFields) || !read_entry(flags)) return false;
      if (block_->size > kMostBlockBytes) return false;
    }
    return in_.sound() && entries == int64_t{block_->count} && removed == int64_t{removed_};
  }
  // Counters as they are to be; its bytes are data() and size.
  StreamBlock& finish(size_t listpack_bytes) {
    block_->removed = removed_;
    block_->listpack_bytes = static_cast<uint32_t>(std::min<size_t>(listpack_bytes, UINT32_MAX));
    return *block_;
  }

 private:
  bool read_names() {
    int64_t count = 0;
    if (!in_.next_number(count) || count < 0) return false;
    for (ShortText text; count > 0; --count) {
      if (!in_.next(text)) return false;
      names_.push_back(text.string());
    }
    std::vector<std::string_view> fields;
    for (const std::string& name : names_) {
      fields.push_back(name);
      fields.emplace_back();
    }
    block_.reset(StreamBlock::begin(fields));
    return true;
  }

  bool read_entry(int64_t flags) {
    int64_t ms = 0, seq = 0, count = static_cast<int64_t>(names_.size()), elements = 0;
    const bool same = flags & kSameFields;
    if (!in_.next_number(ms) || !in_.next_number(seq) || (!same && !in_.next_number(count))) return false;
    if (count <= 0 || count > INT32_MAX) return false;
    texts_.clear();
    ends_.clear();
    for (int64_t left = same ? count : 2 * count; left > 0; --left) {
      ShortText text;
      if (!in_.next(text)) return false;
      char room[20];
      texts_.append(text.view(room));
      ends_.push_back(texts_.size());
    }
    if (!in_.next_number(elements) || elements != (same ? count + 3 : 2 * count + 4)) return false;
    if (flags & kRemoved) return ++removed_, true;
    const StreamId id{base_.ms + static_cast<uint64_t>(ms), base_.seq + static_cast<uint64_t>(seq)};
    if (id < base_ || id <= last_) return false;
    last_ = id;
    append(id, same);
    return true;
  }

  void append(StreamId id, bool same) {
    std::vector<std::string_view>& fields = fields_;
    fields.clear();
    const std::string_view texts = texts_;
    size_t begin = 0;
    for (size_t i = 0; i < ends_.size(); ++i) {
      if (same) fields.push_back(names_[i]);
      fields.push_back(texts.substr(begin, ends_[i] - begin));
      begin = ends_[i];
    }
    block_.reset(StreamBlock::append(block_.release(), base_, id, fields));
  }

  const StreamId base_;
  ListpackSource in_;
  std::vector<std::string> names_;
  std::unique_ptr<StreamBlock, DestroyBlock> block_;
  StreamId last_;
  uint32_t removed_ = 0;
  std::string texts_;           // of one entry
  std::vector<size_t> ends_;
  std::vector<std::string_view> fields_;
};

bool read_nodes(RdbReader& in, Stream& stream) {
  std::string key_room, room;
  uint64_t bytes = 0;
  for (uint64_t left = in.length(); left > 0; --left) {
    const std::string_view key = in.string(key_room), listpack = in.string(room);
    const StreamId base = id_of_bytes(key), before = stream.last_entry_id();
    const bool first = stream.size() == 0;
    if (in.failed() || key.size() != kIdBytes || (!first && base <= before)) return false;
    NodeReader node(base, listpack);
    // What comes before the first of all entries is 0-0, which is no entry's id.
    if (!node.read(before)) return false;
    const StreamBlock& block = node.finish(listpack.size());
    if (block.count == 0) continue;
    bytes += block.size;
    if (bytes > kMaxRecordBytes) return false;
    stream.add_raw_block(base, block, {block.data(), block.size});
  }
  return !in.failed();
}

struct Pending {
  StreamId id;
  int64_t delivered_ms = 0;
  uint64_t deliveries = 0;
  bool owned = false;
};

// In order of their ids, without repetition. False: malformed.
bool read_pending(RdbReader& in, std::vector<Pending>& pending) {
  for (uint64_t left = in.length(); left > 0; --left) {
    const std::string_view id = in.raw(kIdBytes);
    const auto delivered_ms = in.get<int64_t>();
    const uint64_t deliveries = in.length();
    if (in.failed()) return false;
    pending.push_back({id_of_bytes(id), delivered_ms, deliveries});
  }
  std::ranges::sort(pending, {}, &Pending::id);
  return !in.failed() && std::ranges::adjacent_find(pending, {}, &Pending::id) == pending.end();
}

// Each pending entry is one consumer's.
bool read_consumers(RdbType type, RdbReader& in, StreamGroup& group, std::vector<Pending>& pending) {
  std::string room;
  uint64_t owned = 0;
  for (uint64_t left = in.length(); left > 0; --left) {
    const std::string_view name = in.string(room);
    if (in.failed() || group.consumer(name)) return false;
    StreamConsumer& consumer = group.make_consumer(name);
    consumer.seen_ms = in.get<int64_t>();
    consumer.active_ms = type == RdbType::kStream3 ? in.get<int64_t>() : consumer.seen_ms;
    for (uint64_t ids = in.length(); ids > 0; --ids) {
      const StreamId id = id_of_bytes(in.raw(kIdBytes));
      if (in.failed()) return false;
      const auto entry = std::ranges::lower_bound(pending, id, {}, &Pending::id);
      if (entry == pending.end() || entry->id != id || entry->owned) return false;
      entry->owned = true;
      ++owned;
      group.assign(id, consumer, entry->delivered_ms, entry->deliveries);
    }
  }
  return !in.failed() && owned == pending.size();
}

bool read_groups(RdbType type, RdbReader& in, Stream& stream) {
  std::string room;
  for (uint64_t left = in.length(); left > 0; --left) {
    const std::string_view name = in.string(room);
    if (in.failed() || stream.group(name)) return false;
    StreamGroup& group = stream.make_group(name);
    group.last_id = read_id(in);
    // The first form does not say how many entries were read: as many as can be told from the stream.
    group.entries_read = type == RdbType::kStream1 ? stream.entries_up_to(group.last_id) : static_cast<int64_t>(in.length());
    if (group.entries_read < StreamGroup::kUnknown) return false;
    std::vector<Pending> pending;
    if (!read_pending(in, pending) || !read_consumers(type, in, group, pending)) return false;
  }
  return !in.failed();
}

void write_id(StreamId id, std::string& out) {
  ByteWriter(out).put(__builtin_bswap64(id.ms)).put(__builtin_bswap64(id.seq));
}

std::string id_bytes(StreamId id) {
  std::string bytes;
  write_id(id, bytes);
  return bytes;
}

void write_node(StreamId base, const StreamBlock& block, ListpackWriter& listpack, RdbWriter& out) {
  listpack.clear();
  int64_t names = 0;
  block.each_name([&](const ShortText&) { ++names; });
  listpack.number(block.count).number(0).number(names);
  block.each_name([&](const ShortText& name) { listpack.text(name); });
  listpack.number(0);
  block.each(base, [&](const StreamEntry& entry) {
    const bool same = entry.named_as_first();
    const auto fields = static_cast<int64_t>(entry.fields());
    listpack.number(same ? kSameFields : 0);
    listpack.number(static_cast<int64_t>(entry.id.ms - base.ms)).number(static_cast<int64_t>(entry.id.seq - base.seq));
    if (!same) listpack.number(fields);
    entry.each([&](const ShortText& name, const ShortText& value) {
      if (!same) listpack.text(name);
      listpack.text(value);
    });
    listpack.number(same ? fields + 3 : 2 * fields + 4);
    return true;
  });
  out.string(id_bytes(base)).string(listpack.finish());
}

void write_group(const std::string& name, const StreamGroup& group, std::string& out) {
  RdbWriter writer(out);
  writer.string(name).length(group.last_id.ms).length(group.last_id.seq).length(static_cast<uint64_t>(group.entries_read));
  writer.length(group.pending.size());
  group.pending.each({}, [&](const PendingEntry& pending) {
    write_id(pending.id, out);
    writer.put(pending.delivered_ms).length(pending.deliveries);
    return true;
  });
  writer.length(group.consumers.size());
  for (const auto& [consumer_name, consumer] : group.consumers) {
    writer.string(consumer_name).put(consumer.seen_ms).put(consumer.active_ms).length(consumer.pending.size());
    consumer.pending.each({}, [&](const StreamId& id) { return write_id(id, out), true; });
  }
}

}  // namespace

bool rdb_read_stream(RdbType type, RdbReader& in, std::string& encoded) {
  Stream stream;
  if (!read_nodes(in, stream)) return false;
  const uint64_t entries = in.length();
  stream.last_id = read_id(in);
  if (type == RdbType::kStream1) {
    stream.entries_added = entries;
  } else {
    read_id(in);  // the first one, which the entries say
    stream.max_deleted = read_id(in);
    stream.entries_added = in.length();
  }
  if (in.failed() || entries != stream.size() || stream.last_entry_id() > stream.last_id) return false;
  if (!read_groups(type, in, stream)) return false;
  encode_stream(stream, encoded);
  return true;
}

void rdb_write_stream(std::string_view encoded, std::string& out) {
  const std::unique_ptr<Stream> stream = decode_stream(encoded);
  RdbWriter writer(out);
  writer.put(RdbType::kStream3).length(stream->block_count());
  ListpackWriter listpack;
  stream->each_raw_block([&](StreamId base, const StreamBlock& block) { write_node(base, block, listpack, writer); });
  const StreamId first = stream->first_id();
  writer.length(stream->size()).length(stream->last_id.ms).length(stream->last_id.seq);
  writer.length(first.ms).length(first.seq).length(stream->max_deleted.ms).length(stream->max_deleted.seq);
  writer.length(stream->entries_added).length(stream->groups.size());
  for (const auto& [name, group] : stream->groups) write_group(name, group, out);
}

}  // namespace pion
