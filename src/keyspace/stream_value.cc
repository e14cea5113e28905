#include "keyspace/stream_value.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

using Op = StreamDelta::Op;

// Ids, each as the difference from the one before.
class IdReader {
 public:
  explicit IdReader(ByteReader& in) : in_(in) {}
  StreamId next() {
    previous_.ms += unzigzag(in_.varint());
    previous_.seq += unzigzag(in_.varint());
    return previous_;
  }

 private:
  ByteReader& in_;
  StreamId previous_;
};

class IdWriter {
 public:
  explicit IdWriter(std::string& out) : out_(out) {}
  void write(StreamId id) {
    out_.varint(zigzag(id.ms - previous_.ms)).varint(zigzag(id.seq - previous_.seq));
    previous_ = id;
  }

 private:
  ByteWriter out_;
  StreamId previous_;
};

int64_t entries_read_of(uint64_t varint) { return static_cast<int64_t>(varint - 1); }
uint64_t varint_of_entries_read(int64_t entries) { return static_cast<uint64_t>(entries) + 1; }

void add(Stream& stream, ByteReader in) {
  thread_local std::vector<std::string_view> fields;
  const StreamId id = IdReader(in).next();
  fields.clear();
  for (uint64_t left = in.varint() * 2; left > 0; --left) fields.push_back(in.bytes());
  stream.append(id, fields);
  stream.last_id = id;
  ++stream.entries_added;
}

void drop_front(Stream& stream, ByteReader in) {
  const uint64_t count = in.varint();
  if (!(in.get<uint8_t>() & StreamDelta::kReferences) || stream.groups.empty()) return stream.drop_front(count);
  stream.drop_front(count, [&](StreamId id) { stream.drop_references(id); });
}

void remove(Stream& stream, ByteReader in) {
  const auto flags = in.get<uint8_t>();
  for (IdReader ids(in); !in.empty();) {
    const StreamId id = ids.next();
    if (flags & StreamDelta::kReferences) stream.drop_references(id);
    if (stream.remove(id) && flags & StreamDelta::kDeleted) stream.max_deleted = std::max(stream.max_deleted, id);
  }
}

void set_id(Stream& stream, ByteReader in) {
  IdReader ids(in);
  stream.last_id = ids.next();
  stream.entries_added = in.varint();
  stream.max_deleted = ids.next();
}

void advance(StreamGroup& group, ByteReader in) {
  group.last_id = IdReader(in).next();
  group.entries_read = entries_read_of(in.varint());
}

void set_group(Stream& stream, ByteReader in) {
  StreamGroup& group = stream.make_group(in.bytes());
  advance(group, in);
}

void set_consumer(StreamGroup& group, ByteReader in) {
  StreamConsumer& consumer = group.make_consumer(in.bytes());
  consumer.seen_ms = in.get<int64_t>();
  if (const auto active_ms = in.get<int64_t>(); active_ms != StreamDelta::kAsItIs) consumer.active_ms = active_ms;
}

void deliver(StreamGroup& group, ByteReader in) {
  StreamConsumer& consumer = group.make_consumer(in.bytes());
  const auto now_ms = in.get<int64_t>();
  for (IdReader ids(in); !in.empty();) group.assign(ids.next(), consumer, now_ms, 1);
}

void claim(StreamGroup& group, ByteReader in) {
  StreamConsumer& consumer = group.make_consumer(in.bytes());
  const auto delivered_ms = in.get<int64_t>();
  for (IdReader ids(in); !in.empty();) {
    const StreamId id = ids.next();
    group.assign(id, consumer, delivered_ms, in.varint());
  }
}

void acknowledge(StreamGroup& group, ByteReader in) {
  for (IdReader ids(in); !in.empty();) group.acknowledge(ids.next());
}

void apply_to_group(Stream& stream, Op op, ByteReader in) {
  const std::string_view name = in.bytes();
  StreamGroup* group = stream.group(name);
  if (!group) return;
  switch (op) {
    case Op::kDropGroup: stream.drop_group(name); break;
    case Op::kAdvance: advance(*group, in); break;
    case Op::kSetConsumer: set_consumer(*group, in); break;
    case Op::kDropConsumer: group->drop_consumer(in.bytes()); break;
    case Op::kDeliver: deliver(*group, in); break;
    case Op::kAcknowledge: acknowledge(*group, in); break;
    case Op::kClaim: claim(*group, in); break;
    case Op::kAdd:
    case Op::kDropFront:
    case Op::kRemove:
    case Op::kSetId:
    case Op::kSetGroup: break;
  }
}

void apply(ValueEditor& value, std::string_view delta) {
  const auto op = static_cast<Op>(delta[0]);
  const ByteReader in(delta.substr(1));
  if (!value.entry()) {
    if (op != Op::kAdd && op != Op::kSetGroup) return;
    value.store(std::make_unique<Stream>());
  }
  Stream& stream = *static_cast<Stream*>(value.object());
  switch (op) {
    case Op::kAdd: return add(stream, in);
    case Op::kDropFront: return drop_front(stream, in);
    case Op::kRemove: return remove(stream, in);
    case Op::kSetId: return set_id(stream, in);
    case Op::kSetGroup: return set_group(stream, in);
    default: return apply_to_group(stream, op, in);
  }
}

bool only_ids(ByteReader& in) {
  for (IdReader ids(in); !in.empty() && !in.failed();) ids.next();
  return in.complete();
}

bool check_add(const Entry* entry, ByteReader& in) {
  const StreamId id = IdReader(in).next();
  const uint64_t count = in.varint();
  if (count == 0 || count > in.rest().size()) return false;
  for (uint64_t left = count * 2; left > 0; --left) in.bytes();
  return in.complete() && id > (entry ? stream_of(*entry).last_entry_id() : StreamId{});
}

bool check_delta(const Entry* entry, std::string_view delta) {
  if (delta.empty()) return false;
  const auto op = static_cast<Op>(delta[0]);
  if (op < Op::kAdd || op > Op::kAdvance) return false;
  ByteReader in(delta.substr(1));
  IdReader ids(in);
  switch (op) {
    case Op::kAdd: return check_add(entry, in);
    case Op::kDropFront: return in.varint(), in.get<uint8_t>(), in.complete();
    case Op::kRemove: return in.get<uint8_t>(), only_ids(in);
    case Op::kSetId: return ids.next(), in.varint(), ids.next(), in.complete();
    case Op::kSetGroup:
    case Op::kAdvance: return in.bytes(), ids.next(), in.varint(), in.complete();
    case Op::kDropGroup: return in.bytes(), in.complete();
    case Op::kSetConsumer: return in.bytes(), in.bytes(), in.get<int64_t>(), in.get<int64_t>(), in.complete();
    case Op::kDropConsumer: return in.bytes(), in.bytes(), in.complete();
    case Op::kDeliver: return in.bytes(), in.bytes(), in.get<int64_t>(), only_ids(in);
    case Op::kAcknowledge: return in.bytes(), only_ids(in);
    case Op::kClaim:
      in.bytes();
      in.bytes();
      in.get<int64_t>();
      while (!in.empty() && !in.failed()) {
        ids.next();
        in.varint();
      }
      return in.complete();
  }
  return false;
}

// Whole value: last id, max deleted id, varint entries added, varint blocks, then each block: base, last, varint count, removed,
// listpack bytes, bytes; varint groups, then each: bytes name, last id, varint entries read + 1, varint consumers, then each:
// bytes name, i64 seen, i64 active; varint pending, then each: id, i64 delivered, varint deliveries, varint consumer's number.
void encode_whole(const Stream& stream, std::string& out) {
  ByteWriter writer(out);
  IdWriter ids(out);
  ids.write(stream.last_id);
  ids.write(stream.max_deleted);
  writer.varint(stream.entries_added).varint(stream.block_count());
  stream.each_raw_block([&](StreamId base, const StreamBlock& block) {
    ids.write(base);
    ids.write(block.last);
    writer.varint(block.count).varint(block.removed).varint(block.listpack_bytes).bytes({block.data(), block.size});
  });
  writer.varint(stream.groups.size());
  for (const auto& [name, group] : stream.groups) {
    writer.bytes(name);
    ids.write(group.last_id);
    writer.varint(varint_of_entries_read(group.entries_read)).varint(group.consumers.size());
    std::map<const StreamConsumer*, uint64_t> numbers;
    for (const auto& [consumer_name, consumer] : group.consumers) {
      numbers.emplace(&consumer, numbers.size());
      writer.bytes(consumer_name).put(consumer.seen_ms).put(consumer.active_ms);
    }
    writer.varint(group.pending.size());
    group.pending.each({}, [&](const PendingEntry& pending) {
      ids.write(pending.id);
      writer.put(pending.delivered_ms).varint(pending.deliveries).varint(numbers.at(pending.consumer));
      return true;
    });
  }
}

void encode(const Entry& entry, std::string& out) { encode_whole(stream_of(entry), out); }

struct RawBlock {
  StreamId base;
  StreamBlock counters;
  std::string_view bytes;
};

RawBlock read_block(ByteReader& in, IdReader& ids) {
  RawBlock block;
  block.base = ids.next();
  block.counters.last = ids.next();
  const auto u32 = [&] { return static_cast<uint32_t>(std::min<uint64_t>(in.varint(), UINT32_MAX)); };
  block.counters.count = u32();
  block.counters.removed = u32();
  block.counters.listpack_bytes = u32();
  block.bytes = in.bytes();
  return block;
}

bool check_group(ByteReader& in, IdReader& ids) {
  in.bytes();
  ids.next();
  in.varint();
  const uint64_t consumers = in.varint();
  for (uint64_t i = 0; i < consumers && !in.failed(); ++i) {
    in.bytes();
    in.get<int64_t>();
    in.get<int64_t>();
  }
  const uint64_t pending = in.varint();
  StreamId before;
  for (uint64_t i = 0; i < pending && !in.failed(); ++i) {
    const StreamId id = ids.next();
    if (i > 0 && id <= before) return false;
    before = id;
    in.get<int64_t>();
    in.varint();
    if (in.varint() >= consumers) return false;
  }
  return !in.failed();
}

bool check(std::string_view encoded) {
  ByteReader in(encoded);
  IdReader ids(in);
  const StreamId last_id = ids.next();
  ids.next();
  in.varint();
  const uint64_t blocks = in.varint();
  StreamId before;
  for (uint64_t i = 0; i < blocks && !in.failed(); ++i) {
    const RawBlock block = read_block(in, ids);
    if (in.failed() || (i > 0 && block.base <= before)) return false;
    if (!StreamBlock::check(block.base, block.bytes, block.counters.last, block.counters.count)) return false;
    before = block.counters.last;
  }
  if (blocks > 0 && before > last_id) return false;
  const uint64_t groups = in.varint();
  for (uint64_t i = 0; i < groups && !in.failed(); ++i) {
    if (!check_group(in, ids)) return false;
  }
  return in.complete();
}

void decode_group(Stream& stream, ByteReader& in, IdReader& ids) {
  StreamGroup& group = stream.make_group(in.bytes());
  group.last_id = ids.next();
  group.entries_read = entries_read_of(in.varint());
  std::vector<StreamConsumer*> consumers(in.varint());
  for (StreamConsumer*& consumer : consumers) {
    consumer = &group.make_consumer(in.bytes());
    consumer->seen_ms = in.get<int64_t>();
    consumer->active_ms = in.get<int64_t>();
  }
  for (uint64_t left = in.varint(); left > 0; --left) {
    const StreamId id = ids.next();
    const auto delivered_ms = in.get<int64_t>();
    const uint64_t deliveries = in.varint();
    group.assign(id, *consumers[in.varint()], delivered_ms, deliveries);
  }
}

std::unique_ptr<Stream> decode_whole(std::string_view encoded) {
  auto stream = std::make_unique<Stream>();
  ByteReader in(encoded);
  IdReader ids(in);
  stream->last_id = ids.next();
  stream->max_deleted = ids.next();
  stream->entries_added = in.varint();
  for (uint64_t left = in.varint(); left > 0; --left) {
    const RawBlock block = read_block(in, ids);
    stream->add_raw_block(block.base, block.counters, block.bytes);
  }
  for (uint64_t left = in.varint(); left > 0; --left) decode_group(*stream, in, ids);
  return stream;
}

DecodedValue decode(std::string_view encoded, PagePool&) {
  DecodedValue decoded;
  decoded.object = decode_whole(encoded);
  return decoded;
}

// Never nothing: what has no entries still has its last id and its groups.
uint64_t length(const Entry& entry) { return stream_of(entry).size() + 1; }
std::string_view encoding_name(const Entry&) { return "stream"; }

// What consumers do with what they were given is nobody else's matter: no waiter is asked for it.
bool matters(std::string_view delta) {
  switch (static_cast<Op>(delta[0])) {
    case Op::kSetConsumer:
    case Op::kDropConsumer:
    case Op::kDeliver:
    case Op::kAcknowledge:
    case Op::kClaim:
    case Op::kAdvance: return false;
    default: return true;
  }
}

}  // namespace

void encode_stream(const Stream& stream, std::string& out) { encode_whole(stream, out); }
std::unique_ptr<Stream> decode_stream(std::string_view encoded) { return decode_whole(encoded); }

StreamDelta& StreamDelta::id(StreamId id) {
  ByteWriter(out_).varint(zigzag(id.ms - previous_.ms)).varint(zigzag(id.seq - previous_.seq));
  previous_ = id;
  return *this;
}
StreamDelta& StreamDelta::varint(uint64_t value) { return ByteWriter(out_).varint(value), *this; }
StreamDelta& StreamDelta::byte(uint8_t value) { return ByteWriter(out_).put(value), *this; }
StreamDelta& StreamDelta::time(int64_t value) { return ByteWriter(out_).put(value), *this; }
StreamDelta& StreamDelta::bytes(std::string_view value) { return ByteWriter(out_).bytes(value), *this; }
StreamDelta& StreamDelta::fields(StreamFields fields) {
  ByteWriter out(out_);
  out.varint(fields.size() / 2);
  for (std::string_view text : fields) out.bytes(text);
  return *this;
}

const ValueOps kStreamOps = {
    .name = "stream",
    .length = length,
    .encoding_name = encoding_name,
    .encode = encode,
    .check = check,
    .decode = decode,
    .check_delta = check_delta,
    .apply = apply,
    .matters = matters,
};

}  // namespace pion
