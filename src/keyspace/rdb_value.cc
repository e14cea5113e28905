#include "keyspace/rdb_value.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/limits.h"
#include "keyspace/random.h"
#include "keyspace/rdb_types.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr size_t kFooterBytes = 10;

using ReadBody = bool (*)(RdbType type, RdbReader& in, std::string& encoded);

struct Kind {
  ValueType type = ValueType::kNone;
  ReadBody read = nullptr;
};

Kind kind_of(RdbType type) {
  switch (type) {
    case RdbType::kString: break;
    case RdbType::kList:
    case RdbType::kListZiplist:
    case RdbType::kListZiplists:
    case RdbType::kListNodes: return {ValueType::kList, rdb_read_list};
    case RdbType::kSet:
    case RdbType::kSetIntset:
    case RdbType::kSetListpack: return {ValueType::kSet, rdb_read_set};
    case RdbType::kSortedSetText:
    case RdbType::kSortedSet:
    case RdbType::kSortedSetZiplist:
    case RdbType::kSortedSetListpack: return {ValueType::kSortedSet, rdb_read_sorted_set};
    case RdbType::kHash:
    case RdbType::kHashZipmap:
    case RdbType::kHashZiplist:
    case RdbType::kHashListpack:
    case RdbType::kHashExpiringFirst:
    case RdbType::kHashListpackExFirst:
    case RdbType::kHashExpiring:
    case RdbType::kHashListpackEx: return {ValueType::kHash, rdb_read_hash};
    case RdbType::kStream1:
    case RdbType::kStream2:
    case RdbType::kStream3: return {ValueType::kStream, rdb_read_stream};
  }
  return {};
}

std::optional<RdbValue> read_string(RdbReader& in) {
  RdbValue value{.type = ValueType::kString, .bytes = {}};
  std::string room;
  const std::string_view text = in.string(room);
  if (in.failed() || text.size() > kMaxBulkBytes) return std::nullopt;
  value.bytes = text.data() == room.data() ? std::move(room) : std::string(text);
  return value;
}

// Chosen so that nobody who sends elements knows where they fall.
uint64_t hash_of(std::string_view text) {
  static const uint64_t seed = random64();
  return xxh3(text, seed);
}

}  // namespace

uint64_t& EncodedElements::slot_of(std::string_view text) {
  for (uint64_t i = hash_of(text);; ++i) {
    uint64_t& slot = slots_[i & (slots_.size() - 1)];
    if (slot == 0 || at(slot - 1) == text) return slot;
  }
}

void EncodedElements::grow() {
  std::vector<uint64_t> before(slots_.empty() ? 16 : 2 * slots_.size());
  before.swap(slots_);
  for (const uint64_t offset : before) {
    if (offset != 0) slot_of(at(offset - 1)) = offset;
  }
}

bool EncodedElements::add(const ShortText& text) {
  char room[20];
  const std::string_view view = text.view(room);
  longest_ = std::max(longest_, view.size());
  ByteWriter(bytes_).bytes(view);
  return bytes_.size() <= kMaxRecordBytes;
}

bool EncodedElements::add_distinct(const ShortText& text) {
  if (4 * distinct_ >= 3 * slots_.size()) grow();
  char room[20];
  const std::string_view view = text.view(room);
  uint64_t& slot = slot_of(view);
  if (slot != 0) return false;
  slot = bytes_.size() + 1;
  ++distinct_;
  only_integers_ = only_integers_ && (text.integer || ShortText(view).integer);
  return add(text);
}

std::string EncodedElements::finish(uint8_t label, uint64_t count) {
  std::string head;
  ByteWriter(head).put(label).varint(count);
  bytes_.insert(0, head);
  return std::move(bytes_);
}

std::optional<std::string_view> rdb_open(std::string_view payload) {
  if (payload.size() < kFooterBytes) return std::nullopt;
  const std::string_view summed = payload.substr(0, payload.size() - sizeof(uint64_t));
  const auto version = load_le<uint16_t>(payload.data() + payload.size() - kFooterBytes);
  if (version > kRdbVersion || crc64(summed) != load_le<uint64_t>(summed.data() + summed.size())) return std::nullopt;
  return payload.substr(0, payload.size() - kFooterBytes);
}

std::optional<RdbValue> rdb_read(std::string_view bytes) {
  RdbReader in(bytes);
  const auto type = static_cast<RdbType>(in.get<uint8_t>());
  if (in.failed()) return std::nullopt;
  if (type == RdbType::kString) return read_string(in);
  const Kind kind = kind_of(type);
  RdbValue value{.type = kind.type, .bytes = {}};
  if (!kind.read || !kind.read(type, in, value.bytes) || in.failed()) return std::nullopt;
  // What goes into a record must be what a replay takes: the same eyes look at it.
  if (value.bytes.size() > kMaxRecordBytes || !value_ops(value.type)->check(value.bytes)) return std::nullopt;
  return value;
}

void rdb_write_string(std::string_view text, std::string& out) {
  RdbWriter(out).put(RdbType::kString).string(text);
}

void rdb_write_value(ValueType type, std::string_view encoded, std::string& out) {
  switch (type) {
    case ValueType::kList: return rdb_write_list(encoded, out);
    case ValueType::kSet: return rdb_write_set(encoded, out);
    case ValueType::kSortedSet: return rdb_write_sorted_set(encoded, out);
    case ValueType::kHash: return rdb_write_hash(encoded, out);
    case ValueType::kStream: return rdb_write_stream(encoded, out);
    case ValueType::kNone:
    case ValueType::kString: break;
  }
}

void rdb_seal(std::string& out) {
  ByteWriter writer(out);
  writer.put(kRdbVersion);
  writer.put(crc64(out));
}

}  // namespace pion
