// ZUNION ZINTER ZDIFF, their STORE forms, ZINTERCARD: several sets into one.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "command/arguments.h"
#include "command/collection.h"
#include "command/family_sorted_set.h"
#include "command/score.h"
#include "keyspace/set_value.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

enum class Combine { kUnion, kIntersect, kDifference };
enum class Aggregate { kSum, kMin, kMax };

// A key as it goes in: a sorted set, a set (whose members score 1), or nothing.
struct Source {
  std::optional<SortedSetReader> scored;
  std::optional<SetReader> plain;
  double weight = 1;

  uint64_t size() const { return scored ? scored->size() : plain ? plain->size() : 0; }
  bool score(std::string_view member, double& score) const {
    if (scored) return scored->score(member, score);
    score = 1;
    return plain && plain->contains(member);
  }
  template <typename Visit>
  void each(Visit&& visit) const {
    if (scored) scored->walk(0, false, visit);
    if (plain) plain->each([&](const ShortText& member) { return visit(ScoredMember{member, 1}); });
  }
};

struct CombineRequest {
  Combine how = Combine::kUnion;
  Aggregate aggregate = Aggregate::kSum;
  bool stores = false, counts = false, with_scores = false;
  int64_t limit = 0;            // ZINTERCARD; 0: none
  size_t first_key = 0, keys = 0;
  std::vector<double> weights;  // empty: 1 each
};

// The number of keys and where they stand. False: the error was answered.
bool parse_keys(CommandContext& ctx, CombineRequest& request) {
  const size_t at = request.stores ? 2 : 1;
  int64_t keys = 0;
  if (!range_argument(ctx, at, INT64_MIN, INT64_MAX, keys)) return false;
  if (keys < 1) return ctx.reply.error("ERR at least 1 input key is needed for '" + std::string(ctx.spec.name) + "' command"), false;
  if (static_cast<uint64_t>(keys) > ctx.argc() - at - 1) return ctx.reply.error(kSyntaxError), false;
  request.keys = static_cast<size_t>(keys);
  request.first_key = at + 1;
  return true;
}

// What follows the keys. Redis looks at the keys' types first. False: the error was answered.
bool parse_options(CommandContext& ctx, CombineRequest& request) {
  for (size_t i = request.first_key + request.keys; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    const size_t behind = ctx.argc() - i - 1;
    const bool weighs = request.how != Combine::kDifference && !request.counts;
    if (weighs && behind >= request.keys && same_word(word, "WEIGHTS")) {
      request.weights.clear();
      for (size_t k = 0; k < request.keys; ++k) {
        const auto weight = score_argument(ctx.arg(++i));
        if (!weight) return ctx.reply.error("ERR weight value is not a float"), false;
        request.weights.push_back(*weight);
      }
    } else if (weighs && behind >= 1 && same_word(word, "AGGREGATE")) {
      const std::string_view name = ctx.arg(++i);
      if (same_word(name, "SUM")) {
        request.aggregate = Aggregate::kSum;
      } else if (same_word(name, "MIN")) {
        request.aggregate = Aggregate::kMin;
      } else if (same_word(name, "MAX")) {
        request.aggregate = Aggregate::kMax;
      } else {
        return ctx.reply.error(kSyntaxError), false;
      }
    } else if (!request.stores && !request.counts && same_word(word, "WITHSCORES")) {
      request.with_scores = true;
    } else if (request.counts && behind >= 1 && same_word(word, "LIMIT")) {
      if (!range_argument(ctx, ++i, 0, INT64_MAX, request.limit, "ERR LIMIT can't be negative")) return false;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  return true;
}

double weighted(double weight, double score) {
  const double value = weight * score;
  return std::isnan(value) ? 0 : value;
}

double aggregated(Aggregate how, double a, double b) {
  switch (how) {
    case Aggregate::kMin: return std::min(a, b);
    case Aggregate::kMax: return std::max(a, b);
    case Aggregate::kSum: break;
  }
  const double sum = a + b;
  return std::isnan(sum) ? 0 : sum;  // opposite infinities
}

// Members of the result, in no order.
using Combined = std::vector<std::pair<std::string, double>>;

// `sources` from the smallest on: so sums are added up in Redis' order.
Combined unite(const std::vector<Source>& sources, Aggregate how) {
  std::unordered_map<std::string, double> scores;
  for (const Source& source : sources) {
    source.each([&](const ScoredMember& item) {
      const double score = weighted(source.weight, item.score);
      const auto [place, fresh] = scores.try_emplace(item.member.string(), score);
      if (!fresh) place->second = aggregated(how, place->second, score);
      return true;
    });
  }
  return {scores.begin(), scores.end()};
}

// `limit` 0: all.
Combined intersect(const std::vector<Source>& sources, Aggregate how, uint64_t limit) {
  Combined result;
  sources[0].each([&](const ScoredMember& item) {
    char room[20];
    const std::string_view member = item.member.view(room);
    double sum = weighted(sources[0].weight, item.score);
    for (size_t i = 1; i < sources.size(); ++i) {
      double score = 0;
      if (!sources[i].score(member, score)) return true;
      sum = aggregated(how, sum, sources[i].weight * score);  // no number here makes the sum 0, as in Redis
    }
    result.emplace_back(member, sum);
    return limit == 0 || result.size() < limit;
  });
  return result;
}

Combined subtract(const std::vector<Source>& sources) {
  Combined result;
  sources[0].each([&](const ScoredMember& item) {
    char room[20];
    const std::string_view member = item.member.view(room);
    double score = 0;
    const bool elsewhere = std::any_of(sources.begin() + 1, sources.end(), [&](const Source& other) { return other.score(member, score); });
    if (!elsewhere) result.emplace_back(member, item.score);
    return true;
  });
  return result;
}

Combined combine(std::vector<Source>& sources, const CombineRequest& request) {
  if (request.how == Combine::kDifference) return subtract(sources);
  std::stable_sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) { return a.size() < b.size(); });
  if (request.how == Combine::kUnion) return unite(sources, request.aggregate);
  return intersect(sources, request.aggregate, static_cast<uint64_t>(request.limit));
}

Outcome reply_combined(CommandContext& ctx, Combined& members, bool with_scores) {
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.second != b.second ? a.second < b.second : a.first < b.first; });
  reply_scored_header(ctx.reply, members.size(), with_scores);
  for (const auto& [member, score] : members) reply_scored(ctx.reply, {ShortText::raw(member), score}, with_scores);
  return Outcome::kDone;
}

Outcome combine_generic(CommandContext& ctx, CombineRequest request, std::string_view event = {}) {
  if (!parse_keys(ctx, request)) return Outcome::kDone;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < request.keys; ++i) names.push_back(ctx.arg(request.first_key + i));
  if (request.stores) names.push_back(ctx.arg(1));
  TypedKeys keys(ctx, names);
  std::vector<Source> sources(request.keys);
  // All first: finding one may remove another that has expired.
  for (size_t i = 0; i < request.keys; ++i) keys.find(i, Lookup::kWrite);
  uint64_t elements = 0;
  for (size_t i = 0; i < request.keys && !ctx.on_worker; ++i) {
    const Found found = keys.find(i, Lookup::kPeek);
    const ValueOps* const ops = found ? value_ops(found.entry->type()) : nullptr;
    if (ops) elements += ops->length(*found.entry);
  }
  if (elements > kElementsOnReactor) return Outcome::kNeedsWorker;
  for (size_t i = 0; i < request.keys; ++i) {
    const Found found = keys.find(i, Lookup::kPeek);
    keys.access().count_lookup(ctx.session.database, keys.keys()[i], static_cast<bool>(found));
    if (!found) continue;
    if (found.entry->type() == ValueType::kSortedSet) {
      sources[i].scored.emplace(*found.entry);
    } else if (found.entry->type() == ValueType::kSet) {
      sources[i].plain.emplace(*found.entry);
    } else {
      return ctx.reply.error(kWrongType), Outcome::kDone;
    }
  }
  if (!parse_options(ctx, request)) return Outcome::kDone;
  for (size_t i = 0; i < request.weights.size(); ++i) sources[i].weight = request.weights[i];
  Combined members = combine(sources, request);
  if (request.counts) return ctx.reply.integer(static_cast<int64_t>(members.size())), Outcome::kDone;
  if (!request.stores) return reply_combined(ctx, members, request.with_scores);
  SortedSetBuilder result;
  for (const auto& [member, score] : members) result.add(member, score);
  const bool stored = keys.replace(request.keys, ValueType::kSortedSet, result.size() > 0 ? result.encoded() : std::string(), KeyEvent::kSortedSet, event);
  if (stored) ctx.reply.integer(static_cast<int64_t>(result.size()));
  return Outcome::kDone;
}

}  // namespace

Outcome zunion_command(CommandContext& ctx) { return combine_generic(ctx, {.how = Combine::kUnion}); }
Outcome zinter_command(CommandContext& ctx) { return combine_generic(ctx, {.how = Combine::kIntersect}); }
Outcome zdiff_command(CommandContext& ctx) { return combine_generic(ctx, {.how = Combine::kDifference}); }
Outcome zintercard_command(CommandContext& ctx) { return combine_generic(ctx, {.how = Combine::kIntersect, .counts = true}); }
Outcome zunionstore_command(CommandContext& ctx) { return combine_generic(ctx, {.how = Combine::kUnion, .stores = true}, "zunionstore"); }
Outcome zinterstore_command(CommandContext& ctx) { return combine_generic(ctx, {.how = Combine::kIntersect, .stores = true}, "zinterstore"); }
Outcome zdiffstore_command(CommandContext& ctx) { return combine_generic(ctx, {.how = Combine::kDifference, .stores = true}, "zdiffstore"); }

}  // namespace pion
