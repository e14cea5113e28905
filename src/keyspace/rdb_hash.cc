// Hashes: zipmaps, ziplists, listpacks, plain strings; and those whose fields expire, in the forms of 7.4 and of its release
// candidates.
#include <algorithm>
#include <tuple>
#include <vector>

#include "keyspace/collection_limits.h"
#include "keyspace/rdb_types.h"

namespace pion {
namespace {

// The first byte of an encoded hash, see hash_value.cc.
constexpr uint8_t kListpack = 0, kListpackEx = 1, kHashtable = 2, kLabelMask = 3, kWithExpiries = 4;
constexpr uint64_t kLatestExpiryMs = (1ULL << 48) - 1;  // Redis gives a field's expiry 48 bits

bool is_expiring(RdbType type) { return type >= RdbType::kHashExpiringFirst; }
// Fields in one run of bytes, which Redis takes as it is up to a number of fields.
bool came_whole(RdbType type) { return type != RdbType::kHash && type != RdbType::kHashExpiring && type != RdbType::kHashExpiringFirst; }

std::string finish(RdbType type, EncodedElements& fields) {
  const CollectionLimits& limits = collection_limits();
  const bool short_ones = fields.longest() <= limits.hash_value_bytes || (came_whole(type) && type != RdbType::kHashZipmap);
  const bool small = fields.distinct() <= limits.hash_entries && short_ones;
  const uint8_t label = !small ? kHashtable : is_expiring(type) ? kListpackEx : kListpack;
  return fields.finish(static_cast<uint8_t>(label | (is_expiring(type) ? kWithExpiries : 0)), fields.distinct());
}

bool read_pairs(RdbType type, ElementSource& source, std::string& encoded) {
  EncodedElements fields;
  for (ShortText name, value; source.next(name);) {
    if (!fields.add_distinct(name) || !source.next(value) || !fields.add(value)) return false;
  }
  if (!source.sound() || fields.distinct() == 0) return false;
  encoded = finish(type, fields);
  return true;
}

// Name, value and expiry (0: none) in turn.
bool read_triples(RdbType type, ListpackSource& source, std::string& encoded) {
  EncodedElements fields;
  for (ShortText name, value; source.next(name);) {
    int64_t expiry_ms = 0;
    if (!fields.add_distinct(name) || !source.next(value) || !fields.add(value) || !source.next_number(expiry_ms)) return false;
    if (expiry_ms < 0 || static_cast<uint64_t>(expiry_ms) > kLatestExpiryMs) return false;
    fields.put(expiry_ms);
  }
  if (!source.sound() || fields.distinct() == 0) return false;
  encoded = finish(type, fields);
  return true;
}

// {length expiry, string name, string value}...: 0: none, else from the earliest one on, which is 1.
bool read_expiring(RdbType type, RdbReader& in, std::string& encoded) {
  const bool absolute = type == RdbType::kHashExpiringFirst;
  const auto earliest_ms = absolute ? uint64_t{1} : in.get<uint64_t>();
  if (earliest_ms > kLatestExpiryMs) return false;
  EncodedElements fields;
  std::string room;
  for (uint64_t left = in.length(); left > 0; --left) {
    const uint64_t given = in.length();
    if (in.failed() || given > kLatestExpiryMs) return false;
    const uint64_t expiry_ms = given == 0 ? 0 : earliest_ms + given - 1;
    if (expiry_ms > kLatestExpiryMs) return false;
    if (!fields.add_distinct(ShortText::raw(in.string(room)))) return false;
    if (!fields.add(ShortText::raw(in.string(room))) || in.failed()) return false;
    fields.put(given == 0 ? int64_t{0} : static_cast<int64_t>(std::max<uint64_t>(expiry_ms, 1)));
  }
  if (in.failed() || fields.distinct() == 0) return false;
  encoded = finish(type, fields);
  return true;
}

template <typename Source>
bool read_packed(RdbType type, RdbReader& in, std::string& encoded) {
  std::string room;
  Source source(in.string(room));
  return read_pairs(type, source, encoded);
}

struct Field {
  std::string_view name, value;
  int64_t expiry_ms;
};

// As Redis keeps a listpack of fields that expire: the earliest first, those that do not at the end.
void write_listpack_ex(std::vector<Field> fields, RdbWriter& out) {
  const auto order = [](const Field& field) { return static_cast<uint64_t>(field.expiry_ms) - 1; };  // 0 comes last
  std::ranges::stable_sort(fields, {}, order);
  ListpackWriter listpack;
  for (const Field& field : fields) listpack.text(field.name).text(field.value).number(field.expiry_ms);
  out.put(RdbType::kHashListpackEx).put(fields.front().expiry_ms).string(listpack.finish());
}

void write_expiring(const std::vector<Field>& fields, RdbWriter& out) {
  int64_t earliest_ms = INT64_MAX;
  for (const Field& field : fields) {
    if (field.expiry_ms != 0) earliest_ms = std::min(earliest_ms, field.expiry_ms);
  }
  if (earliest_ms == INT64_MAX) earliest_ms = 0;
  out.put(RdbType::kHashExpiring).put(earliest_ms).length(fields.size());
  for (const Field& field : fields) {
    out.length(field.expiry_ms == 0 ? 0 : static_cast<uint64_t>(field.expiry_ms - earliest_ms) + 1);
    out.string(field.name).string(field.value);
  }
}

}  // namespace

bool rdb_read_hash(RdbType type, RdbReader& in, std::string& encoded) {
  switch (type) {
    case RdbType::kHashZipmap: return read_packed<ZipmapSource>(type, in, encoded);
    case RdbType::kHashZiplist: return read_packed<ZiplistSource>(type, in, encoded);
    case RdbType::kHashListpack: return read_packed<ListpackSource>(type, in, encoded);
    case RdbType::kHashExpiring:
    case RdbType::kHashExpiringFirst: return read_expiring(type, in, encoded);
    case RdbType::kHashListpackEx:
    case RdbType::kHashListpackExFirst: {
      if (type == RdbType::kHashListpackEx) in.get<uint64_t>();  // the earliest expiry, which the fields know as well
      std::string room;
      ListpackSource source(in.string(room));
      return read_triples(type, source, encoded);
    }
    default: break;
  }
  const uint64_t count = in.length();
  if (count > UINT64_MAX / 2) return false;
  RdbStrings fields(in, 2 * count);
  return read_pairs(type, fields, encoded);
}

void rdb_write_hash(std::string_view encoded, std::string& out) {
  ByteReader in(encoded);
  const auto flags = in.get<uint8_t>();
  const auto label = static_cast<uint8_t>(flags & kLabelMask);
  const uint64_t count = in.varint();
  RdbWriter writer(out);
  if (label == kListpackEx || (flags & kWithExpiries)) {
    std::vector<Field> fields;
    while (!in.empty()) {
      const std::string_view name = in.bytes(), value = in.bytes();
      fields.push_back({name, value, flags & kWithExpiries ? in.get<int64_t>() : 0});
    }
    return label == kHashtable ? write_expiring(fields, writer) : write_listpack_ex(std::move(fields), writer);
  }
  if (label == kListpack) {
    ListpackWriter listpack;
    while (!in.empty()) listpack.text(in.bytes());
    writer.put(RdbType::kHashListpack).string(listpack.finish());
    return;
  }
  writer.put(RdbType::kHash).length(count);
  while (!in.empty()) writer.string(in.bytes());
}

}  // namespace pion
