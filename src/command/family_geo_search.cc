// GEOSEARCH, GEOSEARCHSTORE and the older GEORADIUS forms: one search, asked for in several ways.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "command/arguments.h"
#include "command/collection.h"
#include "command/family_geo.h"
#include "command/score.h"
#include "command/text_store.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

enum class Form { kSearch, kSearchStore, kRadius, kRadiusByMember };
enum class Order { kNone, kNearest, kFarthest };

struct GeoRequest {
  Form form = Form::kSearch;
  bool may_store = false;  // GEORADIUS without _RO
  GeoArea area;
  bool from_member = false, from_point = false, by_radius = false, by_box = false;
  bool with_distance = false, with_hash = false, with_point = false;
  Order order = Order::kNone;
  uint64_t count = 0;  // 0: all
  bool any = false;
  bool stores = false, stores_distance = false;

  bool searches() const { return form == Form::kSearch || form == Form::kSearchStore; }
};

// What was found.
struct Place {
  ShortText member;
  double score, distance;  // metres
  GeoPoint point;
};

// GEORADIUS's key to store under, 0: none. Found before anything is parsed, because it has to be locked first.
size_t store_position(const CommandContext& ctx, size_t first_option) {
  size_t position = 0;
  for (size_t i = first_option; i + 1 < ctx.argc(); ++i) {
    if (same_word(ctx.arg(i), "STORE") || same_word(ctx.arg(i), "STOREDIST")) position = ++i;
  }
  return position;
}

// Reads the arguments in Redis' order, which looks up a member where it is named. Each returns false when it answered an error.
class GeoParser {
 public:
  GeoParser(CommandContext& ctx, GeoRequest& request, const Found& source) : ctx_(ctx), request_(request), source_(source) {}

  bool parse() {
    size_t first = request_.form == Form::kSearch ? 2 : 3;
    if (request_.form == Form::kRadius) {
      if (!center_point(2) || !circle(4)) return false;
      first = 6;
    } else if (request_.form == Form::kRadiusByMember) {
      // Without the set Redis looks at neither of them.
      if (source_ && (!center_member(2) || !circle(3))) return false;
      first = 5;
    }
    for (size_t i = first; i < ctx_.argc(); ++i) {
      if (!option(i)) return false;
    }
    return fits_together();
  }

 private:
  bool refuse(std::string_view text) { return ctx_.reply.error(text), false; }

  bool center_point(size_t at) {
    const auto point = point_argument(ctx_, at);
    if (point) request_.area.center = *point;
    return point.has_value();
  }

  bool center_member(size_t at) {
    double score = 0;
    if (!SortedSetReader(*source_.entry).score(ctx_.arg(at), score)) return refuse("ERR could not decode requested zset member");
    request_.area.center = geo_point(score);
    return true;
  }

  bool unit(size_t at) {
    const auto metres = unit_argument(ctx_, at);
    if (metres) request_.area.metres = *metres;
    return metres.has_value();
  }

  bool circle(size_t at) {
    const auto radius = score_argument(ctx_.arg(at));
    if (!radius) return refuse("ERR need numeric radius");
    if (*radius < 0) return refuse("ERR radius cannot be negative");
    request_.area.radius = *radius;
    return unit(at + 1);
  }

  bool box(size_t at) {
    const auto width = score_argument(ctx_.arg(at));
    if (!width) return refuse("ERR need numeric width");
    const auto height = score_argument(ctx_.arg(at + 1));
    if (!height) return refuse("ERR need numeric height");
    if (*width < 0 || *height < 0) return refuse("ERR height or width cannot be negative");
    request_.area.box = true;
    request_.area.width = *width;
    request_.area.height = *height;
    return unit(at + 2);
  }

  bool count(size_t at) {
    const auto number = integer_argument(ctx_.arg(at));
    if (!number) return refuse(kNotAnInteger);
    if (*number <= 0) return refuse("ERR COUNT must be > 0");
    request_.count = static_cast<uint64_t>(*number);
    return true;
  }

  // The option at `i`, which moves to its last argument.
  bool option(size_t& i) {
    const std::string_view word = ctx_.arg(i);
    const size_t behind = ctx_.argc() - i - 1;
    GeoRequest& request = request_;
    if (same_word(word, "WITHDIST")) return request.with_distance = true;
    if (same_word(word, "WITHHASH")) return request.with_hash = true;
    if (same_word(word, "WITHCOORD")) return request.with_point = true;
    if (same_word(word, "ANY")) return request.any = true;
    if (same_word(word, "ASC")) return request.order = Order::kNearest, true;
    if (same_word(word, "DESC")) return request.order = Order::kFarthest, true;
    if (same_word(word, "COUNT") && behind >= 1) return count(++i);
    return (request.searches() ? search_option(word, behind, i) : store_option(word, behind, i));
  }

  bool store_option(std::string_view word, size_t behind, size_t& i) {
    const bool distance = same_word(word, "STOREDIST");
    if (!request_.may_store || behind < 1 || (!distance && !same_word(word, "STORE"))) return refuse(kSyntaxError);
    ++i;
    request_.stores = true;
    request_.stores_distance = distance;
    return true;
  }

  bool search_option(std::string_view word, size_t behind, size_t& i) {
    GeoRequest& request = request_;
    const size_t at = i + 1;
    if (same_word(word, "FROMMEMBER") && behind >= 1 && !request.from_point) {
      request.from_member = true;
      i += 1;
      return !source_ || center_member(at);
    }
    if (same_word(word, "FROMLONLAT") && behind >= 2 && !request.from_member) {
      request.from_point = true;
      i += 2;
      return center_point(at);
    }
    if (same_word(word, "BYRADIUS") && behind >= 2 && !request.by_box) {
      request.by_radius = true;
      i += 2;
      return circle(at);
    }
    if (same_word(word, "BYBOX") && behind >= 3 && !request.by_radius) {
      request.by_box = true;
      i += 3;
      return box(at);
    }
    if (request.form == Form::kSearchStore && same_word(word, "STOREDIST")) return request.stores_distance = true;
    return refuse(kSyntaxError);
  }

  bool fits_together() {
    const std::string name(ctx_.arg(0));
    if (request_.stores && (request_.with_distance || request_.with_hash || request_.with_point)) {
      return refuse("ERR " + std::string(request_.searches() ? "GEOSEARCHSTORE" : "STORE option in GEORADIUS") +
                    " is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
    }
    if (request_.searches() && !request_.from_member && !request_.from_point) {
      return refuse("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for " + name);
    }
    if (request_.searches() && !request_.by_radius && !request_.by_box) {
      return refuse("ERR exactly one of BYRADIUS and BYBOX can be specified for " + name);
    }
    if (request_.any && request_.count == 0) return refuse("ERR the ANY argument requires COUNT argument");
    // A few of all are the nearest ones, unless any will do.
    if (request_.count > 0 && request_.order == Order::kNone && !request_.any) request_.order = Order::kNearest;
    return true;
  }

  CommandContext& ctx_;
  GeoRequest& request_;
  const Found& source_;
};

struct Run {
  uint64_t first, count;  // ranks
};

// The members whose scores lie in the cells of the area.
std::vector<Run> runs_of(const SortedSetReader& set, const GeoArea& area) {
  std::vector<Run> runs;
  for (const GeoCell& cell : geo_cells(area)) {
    const auto below = [&](uint64_t bits) {
      return set.count_where([&](const ScoredMember& item) { return item.score < static_cast<double>(bits); });
    };
    const uint64_t first = below(cell.begin), end = below(cell.end);
    if (first < end) runs.push_back({first, end - first});
  }
  return runs;
}

// `names`: where those found are copied to, when they are to outlive the lock.
std::vector<Place> find_places(const SortedSetReader& set, const std::vector<Run>& runs, const GeoRequest& request, TextStore* names) {
  std::vector<Place> places;
  const uint64_t limit = request.any ? request.count : UINT64_MAX;
  for (const Run& run : runs) {
    uint64_t left = run.count;
    if (places.size() >= limit) break;
    set.walk(run.first, false, [&](const ScoredMember& item) {
      const GeoPoint point = geo_point(item.score);
      if (const auto distance = request.area.distance_inside(point)) {
        char room[20];
        const ShortText member = names ? ShortText::raw(names->keep(item.member.view(room))) : item.member;
        places.push_back({member, item.score, *distance, point});
      }
      return --left > 0 && places.size() < limit;
    });
  }
  return places;
}

// As many as are wanted, in the order that is wanted; a set that stores them needs none.
void arrange(std::vector<Place>& places, const GeoRequest& request) {
  const bool farthest = request.order == Order::kFarthest;
  const auto before = [&](const Place& a, const Place& b) { return farthest ? a.distance > b.distance : a.distance < b.distance; };
  if (request.count > 0 && request.count < places.size()) {
    const auto end = places.begin() + static_cast<ptrdiff_t>(request.count);
    if (request.order != Order::kNone) std::nth_element(places.begin(), end, places.end(), before);
    places.resize(request.count);
  }
  if (request.order != Order::kNone && !request.stores) std::stable_sort(places.begin(), places.end(), before);
}

void reply_places(ReplyWriter& reply, const std::vector<Place>& places, const GeoRequest& request) {
  const int64_t more = request.with_distance + request.with_hash + request.with_point;
  reply.array(static_cast<int64_t>(places.size()));
  for (const Place& place : places) {
    if (more > 0) reply.array(1 + more);
    reply_member(reply, place.member);
    if (request.with_distance) reply_distance(reply, place.distance / request.area.metres);
    if (request.with_hash) reply.integer(static_cast<int64_t>(place.score));
    if (request.with_point) reply_point(reply, place.point);
  }
}

Outcome geo_generic(CommandContext& ctx, GeoRequest request) {
  size_t source_at = 1, store_at = 0;
  if (request.form == Form::kSearchStore) {
    source_at = 2;
    store_at = 1;
    request.stores = true;
  } else if (request.may_store) {
    store_at = store_position(ctx, request.form == Form::kRadius ? 6 : 5);
  }
  std::vector<std::string_view> names{ctx.arg(source_at)};
  if (store_at != 0) names.push_back(ctx.arg(store_at));
  std::optional<TypedKeys> keys;
  keys.emplace(ctx, names);
  const Found source = keys->find(0, Lookup::kRead);
  if (source && source.entry->type() != ValueType::kSortedSet) return ctx.reply.error(kWrongType), Outcome::kDone;
  if (!GeoParser(ctx, request, source).parse()) return Outcome::kDone;

  std::vector<Place> places;
  TextStore copies;
  if (source) {
    const SortedSetReader set(*source.entry);
    const std::vector<Run> runs = runs_of(set, request.area);
    uint64_t elements = 0;
    for (const Run& run : runs) elements += run.count;
    const bool large = elements > kElementsOnReactor;
    if (large && !ctx.on_worker) return Outcome::kNeedsWorker;
    // Sorting many takes long, and needs no lock.
    const bool lets_go = large && !request.stores;
    places = find_places(set, runs, request, lets_go ? &copies : nullptr);
    if (lets_go) keys.reset();
    arrange(places, request);
  }
  if (!request.stores) return reply_places(ctx.reply, places, request), Outcome::kDone;
  SortedSetBuilder result;
  for (const Place& place : places) {
    char room[20];
    result.add(place.member.view(room), request.stores_distance ? place.distance / request.area.metres : place.score);
  }
  const std::string_view event = request.searches() ? "geosearchstore" : "georadiusstore";
  if (keys->replace(1, ValueType::kSortedSet, places.empty() ? std::string() : result.encoded(), KeyEvent::kSortedSet, event)) {
    ctx.reply.integer(static_cast<int64_t>(places.size()));
  }
  return Outcome::kDone;
}

}  // namespace

Outcome georadius_command(CommandContext& ctx) { return geo_generic(ctx, {.form = Form::kRadius, .may_store = true}); }
Outcome georadius_ro_command(CommandContext& ctx) { return geo_generic(ctx, {.form = Form::kRadius}); }
Outcome georadiusbymember_command(CommandContext& ctx) { return geo_generic(ctx, {.form = Form::kRadiusByMember, .may_store = true}); }
Outcome georadiusbymember_ro_command(CommandContext& ctx) { return geo_generic(ctx, {.form = Form::kRadiusByMember}); }
Outcome geosearch_command(CommandContext& ctx) { return geo_generic(ctx, {.form = Form::kSearch}); }
Outcome geosearchstore_command(CommandContext& ctx) { return geo_generic(ctx, {.form = Form::kSearchStore}); }

}  // namespace pion
