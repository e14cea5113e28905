// What the files of the geo family share.
#pragma once

#include <optional>

#include "command/context.h"
#include "command/geohash.h"

namespace pion {

// The next two arguments; empty: the error was answered.
std::optional<GeoPoint> point_argument(CommandContext& ctx, size_t position);
// The metres of a unit; empty: the error was answered.
std::optional<double> unit_argument(CommandContext& ctx, size_t position);
// As Redis prints a distance: four decimals.
void reply_distance(ReplyWriter& reply, double distance);
void reply_point(ReplyWriter& reply, const GeoPoint& point);

// family_geo_search.cc
Outcome georadius_command(CommandContext& ctx);
Outcome georadius_ro_command(CommandContext& ctx);
Outcome georadiusbymember_command(CommandContext& ctx);
Outcome georadiusbymember_ro_command(CommandContext& ctx);
Outcome geosearch_command(CommandContext& ctx);
Outcome geosearchstore_command(CommandContext& ctx);

}  // namespace pion
