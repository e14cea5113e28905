#include "keyspace/sorted_set_value.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/bytes.h"
#include "keyspace/collection_limits.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

enum Label : uint8_t { kListpack = 0, kSkiplist = 1 };
constexpr size_t kLabelAt = 2, kHeader = 3;

void pack_score(std::string& out, double score, uint8_t label) {
  // In a listpack of Redis -0 is 0; a skip list keeps it.
  const bool negative_zero = score == 0 && std::signbit(score) && label != kListpack;
  if (!negative_zero && std::fabs(score) < 9e15 && score == std::trunc(score)) return pack(out, ShortText::of(static_cast<int64_t>(score)));
  pack(out, ShortText::raw({reinterpret_cast<const char*>(&score), sizeof score}));
}

double unpack_score(const ShortText& text) { return text.integer ? static_cast<double>(text.number) : load_le<double>(text.bytes.data()); }

const char* read_packed(const char* at, ScoredMember& item) {
  PackedItem packed = packed_item(at);
  item.member = packed.text;
  packed = packed_item(packed.end());
  item.score = unpack_score(packed.text);
  return packed.end();
}

bool precedes(const ScoredMember& item, double score, std::string_view member) {
  if (item.score != score) return item.score < score;
  char room[20];
  return item.member.view(room) < member;
}

struct Place {
  size_t at = 0, end = 0;  // 0: not there
  double score = 0;
};

Place find_packed(std::string_view packed, std::string_view member) {
  thread_local std::string wanted;  // equal strings are packed equally, so items are compared as they lie
  wanted.clear();
  pack(wanted, member);
  const char* const end = packed.data() + packed.size();
  for (const char* at = packed.data() + kHeader; at < end;) {
    const char* const score = packed_next(at);
    if (static_cast<size_t>(score - at) == wanted.size() && std::memcmp(at, wanted.data(), wanted.size()) == 0) {
      const PackedItem item = packed_item(score);
      return {static_cast<size_t>(at - packed.data()), static_cast<size_t>(item.end() - packed.data()), unpack_score(item.text)};
    }
    at = packed_next(score);
  }
  return {};
}

size_t place_for(std::string_view packed, std::string_view member, double score) {
  const char* at = packed.data() + kHeader;
  while (at < packed.data() + packed.size()) {
    ScoredMember item;
    const char* const next = read_packed(at, item);
    if (!precedes(item, score, member)) break;
    at = next;
  }
  return static_cast<size_t>(at - packed.data());
}

// Packed bytes under change: a string of its own, or (ValueEditor) those in the entry.
struct InString {
  std::string& bytes;
  std::string_view packed() const { return bytes; }
  char* writable() { return bytes.data(); }
  void splice(size_t at, size_t removed, std::string_view inserted) { bytes.replace(at, removed, inserted); }
};

struct Shape {
  uint64_t members = 0;
  uint8_t label = kListpack;
};

template <typename Bytes>
void set_packed(Bytes& bytes, Shape& shape, std::string_view member, double score) {
  const Place old = find_packed(bytes.packed(), member);
  if (old.at) {
    if (old.score == score) return;  // -0 does not take the place of 0, nor 0 that of -0
    bytes.splice(old.at, old.end - old.at, {});
  } else {
    ++shape.members;
    if (member.size() > collection_limits().sorted_set_value_bytes || shape.members > collection_limits().sorted_set_entries) {
      shape.label = kSkiplist;
    }
  }
  thread_local std::string item;
  item.clear();
  pack(item, member);
  pack_score(item, score, shape.label);
  bytes.splice(place_for(bytes.packed(), member, score), 0, item);
}

template <typename Bytes>
void remove_packed(Bytes& bytes, Shape& shape, std::string_view member) {
  const Place old = find_packed(bytes.packed(), member);
  if (!old.at) return;
  bytes.splice(old.at, old.end - old.at, {});
  --shape.members;
}

void write_header(char* to, const Shape& shape) {
  store_le(to, static_cast<uint16_t>(shape.members));
  to[kLabelAt] = static_cast<char>(shape.label);
}

template <typename Bytes>
Shape apply_to_packed(Bytes& bytes, ByteReader in, SortedSetDelta::Op op, Shape shape) {
  while (!in.empty()) {
    const std::string_view member = in.bytes();
    op == SortedSetDelta::Op::kSet ? set_packed(bytes, shape, member, in.get<double>()) : remove_packed(bytes, shape, member);
  }
  write_header(bytes.writable(), shape);
  return shape;
}

void apply_to_table(SortedSetTable& table, ByteReader in, SortedSetDelta::Op op) {
  while (!in.empty()) {
    const std::string_view member = in.bytes();
    if (op == SortedSetDelta::Op::kRemove) {
      table.remove(member);
      continue;
    }
    const double score = in.get<double>();
    if (table.label == kListpack && member.size() > collection_limits().sorted_set_value_bytes) table.label = kSkiplist;
    table.set(member, table.label == kListpack && score == 0 ? 0.0 : score);
    if (table.size() > collection_limits().sorted_set_entries) table.label = kSkiplist;
  }
}

const SortedSetTable* table_of(const Entry& entry) {
  return entry.encoding() == Encoding::kObject ? static_cast<const SortedSetTable*>(entry.object()) : nullptr;
}

std::unique_ptr<SortedSetTable> to_table(std::string_view packed, PagePool& pool) {
  auto table = std::make_unique<SortedSetTable>(pool);
  table->label = static_cast<uint8_t>(packed[kLabelAt]);
  for (const char* at = packed.data() + kHeader; at < packed.data() + packed.size();) {
    ScoredMember item;
    at = read_packed(at, item);
    char room[20];
    table->set(item.member.view(room), item.score);
  }
  return table;
}

struct DeltaSize {
  uint64_t members = 0, bytes = 0;
};

DeltaSize measure(ByteReader in, SortedSetDelta::Op op) {
  DeltaSize size;
  for (; !in.empty(); ++size.members) {
    size.bytes += in.bytes().size() + 12;
    if (op == SortedSetDelta::Op::kSet) in.get<double>();
  }
  return size;
}

void apply(ValueEditor& value, std::string_view delta) {
  const auto op = static_cast<SortedSetDelta::Op>(delta[0]);
  const ByteReader in(delta.substr(1));
  const bool sets = op == SortedSetDelta::Op::kSet;
  if (!value.entry() && !sets) return;
  auto* table = static_cast<SortedSetTable*>(value.object());
  if (!table) {
    const DeltaSize size = measure(in, op);
    Shape before;
    if (value.entry()) {
      before = {load_le<uint16_t>(value.packed().data()), static_cast<uint8_t>(value.packed()[kLabelAt])};
    }
    // One to which so many are added at once is no listpack, even when they are fewer in the end.
    if (sets && size.members > collection_limits().sorted_set_entries) before.label = kSkiplist;
    if (stays_packed(before.label == kListpack, std::max(before.members, sets ? size.members : 0), sets ? size.bytes : 0)) {
      thread_local std::string scratch;
      if (value.entry() && size.members == 1) {
        const Shape after = apply_to_packed(value, in, op, before);
        if (!stays_packed(after.label == kListpack, after.members, value.packed().size())) value.store(to_table(value.packed(), value.pool()));
        return;
      }
      value.entry() ? void(scratch.assign(value.packed())) : void(scratch.assign(kHeader, '\0'));
      InString bytes{scratch};
      const Shape after = apply_to_packed(bytes, in, op, before);
      if (stays_packed(after.label == kListpack, after.members, scratch.size())) {
        value.store(scratch);
      } else {
        value.store(to_table(scratch, value.pool()));
      }
      return;
    }
    auto made = value.entry() ? to_table(value.packed(), value.pool()) : std::make_unique<SortedSetTable>(value.pool());
    made->label = before.label;
    table = made.get();
    value.store(std::move(made));
  }
  apply_to_table(*table, in, op);
}

uint64_t length(const Entry& entry) {
  if (const SortedSetTable* table = table_of(entry)) return table->size();
  return load_le<uint16_t>(entry.bytes().data());
}

uint8_t label_of(const Entry& entry) {
  const SortedSetTable* table = table_of(entry);
  return table ? table->label : static_cast<uint8_t>(entry.bytes()[kLabelAt]);
}

std::string_view encoding_name(const Entry& entry) { return label_of(entry) == kListpack ? "listpack" : "skiplist"; }

// u8 label | varint members | {bytes member, f64 score} in their order.
void encode(const Entry& entry, std::string& out) {
  ByteWriter writer(out);
  writer.put(label_of(entry)).varint(length(entry));
  SortedSetReader(entry).each([&](const ScoredMember& item) {
    char room[20];
    writer.bytes(item.member.view(room)).put(item.score);
  });
}

bool check(std::string_view encoded) {
  ByteReader in(encoded);
  const auto label = in.get<uint8_t>();
  uint64_t members = in.varint();
  if (label > kSkiplist || members == 0) return false;
  for (; members > 0 && !in.failed(); --members) {
    in.bytes();
    if (std::isnan(in.get<double>())) return false;
  }
  return in.complete();
}

DecodedValue decode(std::string_view encoded, PagePool& pool) {
  ByteReader in(encoded);
  Shape shape;
  shape.label = in.get<uint8_t>();
  const uint64_t members = in.varint();
  DecodedValue decoded;
  if (stays_packed(shape.label == kListpack, members, encoded.size())) {
    decoded.packed.assign(kHeader, '\0');
    InString bytes{decoded.packed};
    bool in_order = true;
    ScoredMember last;
    for (uint64_t i = 0; i < members; ++i) {
      const std::string_view member = in.bytes();
      const auto score = in.get<double>();
      // In order, as encode() writes them, they are only appended; a builder's members come in any.
      in_order = in_order && (i == 0 || precedes(last, score, member));
      last = {ShortText::raw(member), score};
      if (!in_order) {
        set_packed(bytes, shape, member, score);
        continue;
      }
      pack(decoded.packed, member);
      pack_score(decoded.packed, score, shape.label);
      ++shape.members;
    }
    write_header(decoded.packed.data(), shape);
  } else {
    auto table = std::make_unique<SortedSetTable>(pool);
    table->label = shape.label;
    for (uint64_t i = 0; i < members; ++i) {
      const std::string_view member = in.bytes();
      table->set(member, in.get<double>());
    }
    decoded.object = std::move(table);
  }
  return decoded;
}

bool check_delta(const Entry*, std::string_view delta) {
  if (delta.size() < 2) return false;
  const auto op = static_cast<SortedSetDelta::Op>(delta[0]);
  if (op != SortedSetDelta::Op::kSet && op != SortedSetDelta::Op::kRemove) return false;
  ByteReader in(delta.substr(1));
  while (!in.empty() && !in.failed()) {
    in.bytes();
    if (op == SortedSetDelta::Op::kSet && std::isnan(in.get<double>())) return false;
  }
  return in.complete();
}

}  // namespace

SortedSetReader::SortedSetReader(const Entry& entry) : table_(table_of(entry)) {
  if (table_) return;
  const std::string_view packed = entry.bytes();
  packed_size_ = load_le<uint16_t>(packed.data());
  begin_ = packed.data() + kHeader;
  end_ = packed.data() + packed.size();
}

const char* SortedSetReader::read(const char* at, ScoredMember& item) { return read_packed(at, item); }

bool SortedSetReader::score(std::string_view member, double& score) const {
  if (table_) return table_->score(member, score);
  const std::string_view packed(begin_ - kHeader, static_cast<size_t>(end_ - begin_) + kHeader);
  const Place place = find_packed(packed, member);
  score = place.score;
  return place.at != 0;
}

uint64_t SortedSetReader::rank(std::string_view member, double score) const {
  return count_where([&](const ScoredMember& item) { return precedes(item, score, member); });
}

SortedSetDelta& SortedSetDelta::member(std::string_view member) { return ByteWriter(out_).bytes(member), *this; }
SortedSetDelta& SortedSetDelta::score(double score) { return ByteWriter(out_).put(score), *this; }

void SortedSetBuilder::add(std::string_view member, double score) {
  ByteWriter(members_).bytes(member).put(score);
  ++size_;
  longest_ = std::max(longest_, member.size());
}

std::string SortedSetBuilder::encoded() const {
  const bool listpack = size_ <= collection_limits().sorted_set_entries && longest_ <= collection_limits().sorted_set_value_bytes;
  std::string bytes;
  ByteWriter(bytes).put(static_cast<uint8_t>(listpack ? kListpack : kSkiplist)).varint(size_).raw(members_);
  return bytes;
}

const ValueOps kSortedSetOps = {
    .name = "zset",
    .length = length,
    .encoding_name = encoding_name,
    .encode = encode,
    .check = check,
    .decode = decode,
    .check_delta = check_delta,
    .apply = apply,
};

}  // namespace pion
