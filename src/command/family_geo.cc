// GEOADD GEOPOS GEODIST GEOHASH, and the table of the geo family. Places are members of sorted sets; see geohash.h for their scores.
#include "command/family_geo.h"

#include <cmath>
#include <cstdio>
#include <vector>

#include "command/arguments.h"
#include "command/collection.h"
#include "command/families.h"
#include "command/family_sorted_set.h"
#include "command/score.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

std::optional<GeoPoint> point_of(const TypedKey& set, std::string_view member) {
  double score = 0;
  if (!set.exists() || !SortedSetReader(set.entry()).score(member, score)) return std::nullopt;
  return geo_point(score);
}

Outcome geoadd_command(CommandContext& ctx) {
  SortedSetAddition how;
  size_t first = 2;
  for (; first < ctx.argc(); ++first) {
    const std::string_view word = ctx.arg(first);
    if (same_word(word, "NX")) {
      how.nx = true;
    } else if (same_word(word, "XX")) {
      how.xx = true;
    } else if (same_word(word, "CH")) {
      how.changed = true;
    } else {
      break;
    }
  }
  const size_t words = ctx.argc() - first;
  if (words == 0 || words % 3 != 0 || (how.nx && how.xx)) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  std::vector<SortedSetAddition::Member> members;
  for (size_t i = first; i < ctx.argc(); i += 3) {
    const auto point = point_argument(ctx, i);
    if (!point) return Outcome::kDone;
    members.push_back({ctx.arg(i + 2), geo_score(*point)});
  }
  return add_members(ctx, how, members);
}

Outcome geopos_command(CommandContext& ctx) {
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - 2));
  for (size_t i = 2; i < ctx.argc(); ++i) {
    const auto point = point_of(set, ctx.arg(i));
    point ? reply_point(ctx.reply, *point) : ctx.reply.nil_array();
  }
  return Outcome::kDone;
}

Outcome geohash_command(CommandContext& ctx) {
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - 2));
  for (size_t i = 2; i < ctx.argc(); ++i) {
    const auto point = point_of(set, ctx.arg(i));
    point ? ctx.reply.bulk(geo_letters(*point)) : ctx.reply.nil();
  }
  return Outcome::kDone;
}

Outcome geodist_command(CommandContext& ctx) {
  if (ctx.argc() > 5) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  const auto metres = ctx.argc() == 5 ? unit_argument(ctx, 4) : 1.0;
  if (!metres) return Outcome::kDone;
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  const auto from = point_of(set, ctx.arg(2)), to = point_of(set, ctx.arg(3));
  from && to ? reply_distance(ctx.reply, geo_distance(*from, *to) / *metres) : ctx.reply.nil();
  return Outcome::kDone;
}

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kGeoCommands[] = {
    {.name = "geoadd", .handler = geoadd_command},
    {.name = "geodist", .handler = geodist_command},
    {.name = "geohash", .handler = geohash_command},
    {.name = "geopos", .handler = geopos_command},
    {.name = "georadius", .handler = georadius_command},
    {.name = "georadius_ro", .handler = georadius_ro_command},
    {.name = "georadiusbymember", .handler = georadiusbymember_command},
    {.name = "georadiusbymember_ro", .handler = georadiusbymember_ro_command},
    {.name = "geosearch", .handler = geosearch_command},
    {.name = "geosearchstore", .handler = geosearchstore_command},
};

}  // namespace

std::optional<GeoPoint> point_argument(CommandContext& ctx, size_t position) {
  const auto longitude = score_argument(ctx.arg(position));
  const auto latitude = longitude ? score_argument(ctx.arg(position + 1)) : std::nullopt;
  if (!longitude || !latitude) return ctx.reply.error("ERR value is not a valid float"), std::nullopt;
  const GeoPoint point{*longitude, *latitude};
  if (point.valid()) return point;
  char text[800];  // 309 digits each before the point
  std::snprintf(text, sizeof text, "ERR invalid longitude,latitude pair %f,%f", *longitude, *latitude);
  return ctx.reply.error(text), std::nullopt;
}

std::optional<double> unit_argument(CommandContext& ctx, size_t position) {
  const std::string_view unit = ctx.arg(position);
  if (same_word(unit, "m")) return 1;
  if (same_word(unit, "km")) return 1000;
  if (same_word(unit, "ft")) return 0.3048;
  if (same_word(unit, "mi")) return 1609.34;
  return ctx.reply.error("ERR unsupported unit provided. please use M, KM, FT, MI"), std::nullopt;
}

void reply_distance(ReplyWriter& reply, double distance) {
  char text[400];
  const int length = std::snprintf(text, sizeof text, "%.4f", distance);
  reply.bulk({text, static_cast<size_t>(length)});
}

void reply_point(ReplyWriter& reply, const GeoPoint& point) {
  reply.array(2);
  reply.real(point.longitude);
  reply.real(point.latitude);
}

std::span<const CommandSpec> geo_commands() { return kGeoCommands; }

}  // namespace pion
