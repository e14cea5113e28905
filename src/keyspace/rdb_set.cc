// Sets: intsets, listpacks, and plain strings.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "keyspace/collection_limits.h"
#include "keyspace/rdb_types.h"
#include "keyspace/set_value.h"

namespace pion {
namespace {

// What Redis makes of a set that it reads: of one that came whole it looks at the number of members alone.
SetLabel label_of(RdbType type, const EncodedElements& members) {
  const CollectionLimits& limits = collection_limits();
  const uint64_t count = members.distinct();
  const uint64_t integers = limits.set_integers, entries = limits.set_entries;
  if (type == RdbType::kSetIntset) return count <= integers ? SetLabel::kIntset : SetLabel::kHashtable;
  if (type == RdbType::kSetListpack) return count <= entries ? SetLabel::kListpack : SetLabel::kHashtable;
  if (members.only_integers() && count <= std::max(integers, entries)) return SetLabel::kIntset;
  return count <= entries && members.longest() <= limits.set_value_bytes ? SetLabel::kListpack : SetLabel::kHashtable;
}

bool read_members(RdbType type, ElementSource& source, std::string& encoded) {
  EncodedElements members;
  for (ShortText text; source.next(text);) {
    if (!members.add_distinct(text)) return false;
  }
  if (!source.sound() || members.distinct() == 0) return false;
  encoded = members.finish(static_cast<uint8_t>(label_of(type, members)), members.distinct());
  return true;
}

void write_intset(ByteReader in, std::string& out) {
  std::vector<int64_t> numbers;
  while (!in.empty()) numbers.push_back(ShortText(in.bytes()).number);
  std::ranges::sort(numbers);
  const auto fits = [&](unsigned bits) { return numbers.front() >= -(1LL << (bits - 1)) && numbers.back() < 1LL << (bits - 1); };
  const uint32_t width = fits(16) ? 2 : fits(32) ? 4 : 8;
  std::string intset;
  intset.reserve(8 + width * numbers.size());
  ByteWriter writer(intset);
  writer.put(width).put(static_cast<uint32_t>(numbers.size()));
  for (const int64_t& number : numbers) writer.raw({reinterpret_cast<const char*>(&number), width});
  RdbWriter(out).put(RdbType::kSetIntset).string(intset);
}

}  // namespace

bool rdb_read_set(RdbType type, RdbReader& in, std::string& encoded) {
  if (type == RdbType::kSet) {
    RdbStrings members(in, in.length());
    return read_members(type, members, encoded);
  }
  std::string room;
  const std::string_view packed = in.string(room);
  if (type == RdbType::kSetIntset) {
    IntsetSource members(packed);
    return read_members(type, members, encoded);
  }
  ListpackSource members(packed);
  return read_members(type, members, encoded);
}

void rdb_write_set(std::string_view encoded, std::string& out) {
  ByteReader in(encoded);
  const auto label = static_cast<SetLabel>(in.get<uint8_t>());
  const uint64_t count = in.varint();
  if (label == SetLabel::kIntset) return write_intset(in, out);
  RdbWriter writer(out);
  if (label == SetLabel::kListpack) {
    ListpackWriter members;
    while (!in.empty()) members.text(in.bytes());
    writer.put(RdbType::kSetListpack).string(members.finish());
    return;
  }
  writer.put(RdbType::kSet).length(count);
  while (!in.empty()) writer.string(in.bytes());
}

}  // namespace pion
