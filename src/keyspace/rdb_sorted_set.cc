// Sorted sets: ziplists, listpacks, and plain strings with scores as text or as doubles.
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "keyspace/collection_limits.h"
#include "keyspace/rdb_types.h"

namespace pion {
namespace {

constexpr uint8_t kListpack = 0, kSkiplist = 1;  // the first byte of an encoded sorted set
constexpr size_t kScoreBytes = 40;               // of a score's text, at most

bool came_whole(RdbType type) { return type == RdbType::kSortedSetZiplist || type == RdbType::kSortedSetListpack; }

// As Redis has written doubles: the shortest or 17 digits, "inf", "-inf".
bool parse_score(std::string_view text, double& score) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), score);
  if (end != text.data() + text.size() || text.empty()) return false;
  if (error == std::errc::result_out_of_range) score = std::strtod(std::string(text.substr(0, 400)).c_str(), nullptr);
  return (error == std::errc() || error == std::errc::result_out_of_range) && !std::isnan(score);
}

bool score_of(const ShortText& text, double& score) {
  if (!text.integer) return parse_score(text.bytes, score);
  score = static_cast<double>(text.number);
  return true;
}

// A size and the text, or one of the sizes that stand for what has none.
bool read_text_score(RdbReader& in, double& score) {
  const auto size = in.get<uint8_t>();
  if (in.failed() || size == 253) return false;  // 253: not a number
  if (size >= 254) return score = size == 254 ? HUGE_VAL : -HUGE_VAL, true;
  return parse_score(in.raw(size), score);
}

bool finish(RdbType type, EncodedElements& members, std::string& encoded) {
  if (members.distinct() == 0) return false;
  const CollectionLimits& limits = collection_limits();
  const bool small = members.distinct() <= limits.sorted_set_entries && (came_whole(type) || members.longest() <= limits.sorted_set_value_bytes);
  encoded = members.finish(small ? kListpack : kSkiplist, members.distinct());
  return true;
}

template <typename Source>
bool read_packed(RdbType type, RdbReader& in, std::string& encoded) {
  std::string room;
  Source source(in.string(room));
  EncodedElements members;
  for (ShortText member, text; source.next(member);) {
    double score = 0;
    if (!members.add_distinct(member) || !source.next(text) || !score_of(text, score)) return false;
    members.put(score);
  }
  return source.sound() && finish(type, members, encoded);
}

void append_score(double score, ListpackWriter& out) {
  // A whole number goes as one; not -0, which is none to Redis either.
  const double limit = 9007199254740992.0;  // 2^53
  if (score == std::floor(score) && std::abs(score) < limit && !(score == 0 && std::signbit(score))) {
    out.number(static_cast<int64_t>(score));
    return;
  }
  char text[kScoreBytes];
  const auto [end, error] = std::to_chars(text, text + sizeof text, score);
  out.text(ShortText::raw({text, static_cast<size_t>(end - text)}));
}

}  // namespace

bool rdb_read_sorted_set(RdbType type, RdbReader& in, std::string& encoded) {
  if (type == RdbType::kSortedSetZiplist) return read_packed<ZiplistSource>(type, in, encoded);
  if (type == RdbType::kSortedSetListpack) return read_packed<ListpackSource>(type, in, encoded);
  EncodedElements members;
  std::string room;
  for (uint64_t left = in.length(); left > 0; --left) {
    const std::string_view member = in.string(room);
    if (in.failed() || !members.add_distinct(ShortText::raw(member))) return false;
    double score = 0;
    if (type == RdbType::kSortedSetText ? !read_text_score(in, score) : (score = in.get<double>(), std::isnan(score))) return false;
    members.put(score);
  }
  return !in.failed() && finish(type, members, encoded);
}

void rdb_write_sorted_set(std::string_view encoded, std::string& out) {
  ByteReader in(encoded);
  const auto label = in.get<uint8_t>();
  const uint64_t count = in.varint();
  RdbWriter writer(out);
  if (label == kListpack) {
    ListpackWriter listpack;
    while (!in.empty()) {
      listpack.text(in.bytes());
      append_score(in.get<double>(), listpack);
    }
    writer.put(RdbType::kSortedSetListpack).string(listpack.finish());
    return;
  }
  writer.put(RdbType::kSortedSet).length(count);
  while (!in.empty()) {
    writer.string(in.bytes());
    writer.put(in.get<double>());
  }
}

}  // namespace pion
