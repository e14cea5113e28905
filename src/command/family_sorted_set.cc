// ZADD ZINCRBY ZREM ZCARD ZSCORE ZMSCORE ZRANK ZREVRANK, and the table of the sorted-set family.
#include "command/family_sorted_set.h"

#include <cmath>
#include <unordered_map>
#include <vector>

#include "command/arguments.h"
#include "command/collection.h"
#include "command/families.h"
#include "command/score.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = SortedSetDelta::Op;

constexpr std::string_view kNotAFloat = "ERR value is not a valid float";

// Where the scores begin; 0: the error was answered.
size_t parse_add(CommandContext& ctx, SortedSetAddition& options) {
  size_t first = 2;
  for (; first < ctx.argc(); ++first) {
    const std::string_view word = ctx.arg(first);
    if (same_word(word, "NX")) {
      options.nx = true;
    } else if (same_word(word, "XX")) {
      options.xx = true;
    } else if (same_word(word, "CH")) {
      options.changed = true;
    } else if (same_word(word, "INCR")) {
      options.increment = true;
    } else if (same_word(word, "GT")) {
      options.gt = true;
    } else if (same_word(word, "LT")) {
      options.lt = true;
    } else {
      break;
    }
  }
  const size_t words = ctx.argc() - first;
  if (words == 0 || words % 2 != 0) return ctx.reply.error(kSyntaxError), 0;
  if (options.nx && options.xx) return ctx.reply.error("ERR XX and NX options at the same time are not compatible"), 0;
  if ((options.gt && options.nx) || (options.lt && options.nx) || (options.gt && options.lt)) {
    return ctx.reply.error("ERR GT, LT, and/or NX options at the same time are not compatible"), 0;
  }
  if (options.increment && words > 2) return ctx.reply.error("ERR INCR option supports a single increment-element pair"), 0;
  return first;
}

struct AddResult {
  int64_t added = 0, updated = 0;
  std::optional<double> score;  // of the last member that was set
  bool nan = false;
};

// One member. Whether the set changes depends on what is there, members before it included.
void add_one(TypedKey& set, std::string_view member, double score, const SortedSetAddition& options, AddResult& result) {
  double old = 0;
  const bool there = set.exists() && SortedSetReader(set.entry()).score(member, old);
  if (there ? options.nx : options.xx) return;
  if (there && options.increment) score += old;
  if (std::isnan(score)) {
    result.nan = true;
    return;
  }
  if (there && ((options.lt && score >= old) || (options.gt && score <= old))) return;
  result.score = score;
  if (there && score == old) return;
  SortedSetDelta(delta_of_thread(), Op::kSet).member(member).score(score);
  set.change(delta_of_thread());
  ++(there ? result.updated : result.added);
}

// Several members as one change. Redis decides on the encoding by how many were named, so those that keep their score are part of
// it; unless no score changes at all.
void add_several(TypedKey& set, std::span<const SortedSetAddition::Member> members, const SortedSetAddition& options, AddResult& result) {
  std::optional<SortedSetReader> reader;
  if (set.exists()) reader.emplace(set.entry());
  std::unordered_map<std::string_view, double> seen;
  SortedSetDelta delta(delta_of_thread(), Op::kSet);
  for (const auto& [name, score] : members) {
    double old = 0;
    auto place = seen.find(name);
    if (place == seen.end() && reader && reader->score(name, old)) place = seen.emplace(name, old).first;
    const bool there = place != seen.end();
    if (!there && options.xx) continue;
    if (!there) place = seen.emplace(name, score).first;
    double& now = place->second;
    if (!there) {
      ++result.added;
    } else if (score != now && !options.nx && !(options.lt && score >= now) && !(options.gt && score <= now)) {
      now = score;
      ++result.updated;
    }
    delta.member(name).score(now);
  }
  if (result.added > 0 || result.updated > 0) set.change(delta_of_thread());
}

bool has_all(const TypedKey& set, std::span<const SortedSetAddition::Member> members) {
  return set.exists() && std::all_of(members.begin(), members.end(), [&](const SortedSetAddition::Member& member) {
    double old = 0;
    return SortedSetReader(set.entry()).score(member.name, old) && old == member.score;
  });
}

// Without conditions: one delta, unless everything is there already.
void add_all(TypedKey& set, std::span<const SortedSetAddition::Member> members, AddResult& result) {
  if (has_all(set, members)) return;
  const uint64_t before = set.exists() ? SortedSetReader(set.entry()).size() : 0;
  SortedSetDelta delta(delta_of_thread(), Op::kSet);
  for (const auto& [name, score] : members) delta.member(name).score(score);
  set.change(delta_of_thread());
  result.added = static_cast<int64_t>(SortedSetReader(set.entry()).size() - before);
  result.updated = 1;
}

// The pairs of score and member from `first` on.
Outcome add_generic(CommandContext& ctx, const SortedSetAddition& options, size_t first) {
  std::vector<SortedSetAddition::Member> members;
  for (size_t i = first; i < ctx.argc(); i += 2) {
    const auto score = score_argument(ctx.arg(i));
    if (!score) return ctx.reply.error(kNotAFloat), Outcome::kDone;
    members.push_back({ctx.arg(i + 1), *score});
  }
  return add_members(ctx, options, members);
}

Outcome zadd_command(CommandContext& ctx) {
  SortedSetAddition options;
  const size_t first = parse_add(ctx, options);
  return first == 0 ? Outcome::kDone : add_generic(ctx, options, first);
}

Outcome zincrby_command(CommandContext& ctx) { return add_generic(ctx, {.increment = true}, 2); }

Outcome zrem_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kWrite);
  if (!set) return Outcome::kDone;
  if (!set.exists()) return ctx.reply.integer(0), Outcome::kDone;
  const uint64_t before = SortedSetReader(set.entry()).size();
  SortedSetDelta delta(delta_of_thread(), Op::kRemove);
  double score = 0;
  for (size_t i = 2; i < ctx.argc(); ++i) {
    if (SortedSetReader(set.entry()).score(ctx.arg(i), score)) delta.member(ctx.arg(i));
  }
  if (!delta.empty()) set.change(delta_of_thread(), KeyEvent::kSortedSet, "zrem");
  ctx.reply.integer(static_cast<int64_t>(before - (set.exists() ? SortedSetReader(set.entry()).size() : 0)));
  return Outcome::kDone;
}

Outcome zcard_command(CommandContext& ctx) {
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (set) ctx.reply.integer(set.exists() ? static_cast<int64_t>(SortedSetReader(set.entry()).size()) : 0);
  return Outcome::kDone;
}

void reply_score(CommandContext& ctx, const TypedKey& set, std::string_view member) {
  double score = 0;
  set.exists() && SortedSetReader(set.entry()).score(member, score) ? ctx.reply.real(score) : ctx.reply.nil();
}

Outcome zscore_command(CommandContext& ctx) {
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (set) reply_score(ctx, set, ctx.arg(2));
  return Outcome::kDone;
}

Outcome zmscore_command(CommandContext& ctx) {
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - 2));
  for (size_t i = 2; i < ctx.argc(); ++i) reply_score(ctx, set, ctx.arg(i));
  return Outcome::kDone;
}

Outcome rank_generic(CommandContext& ctx, bool reverse) {
  if (ctx.argc() > 4) {
    ctx.reply.error("ERR wrong number of arguments for '" + std::string(ctx.spec.name) + "' command");
    return Outcome::kDone;
  }
  const bool with_score = ctx.argc() == 4;
  if (with_score && !same_word(ctx.arg(3), "WITHSCORE")) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  double score = 0;
  if (!set.exists() || !SortedSetReader(set.entry()).score(ctx.arg(2), score)) {
    with_score ? ctx.reply.nil_array() : ctx.reply.nil();
    return Outcome::kDone;
  }
  const SortedSetReader reader(set.entry());
  const uint64_t rank = reader.rank(ctx.arg(2), score);
  if (with_score) ctx.reply.array(2);
  ctx.reply.integer(static_cast<int64_t>(reverse ? reader.size() - 1 - rank : rank));
  if (with_score) ctx.reply.real(score);
  return Outcome::kDone;
}

Outcome zrank_command(CommandContext& ctx) { return rank_generic(ctx, false); }
Outcome zrevrank_command(CommandContext& ctx) { return rank_generic(ctx, true); }

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kSortedSetCommands[] = {
    {.name = "bzmpop", .handler = bzmpop_command},
    {.name = "bzpopmax", .handler = bzpopmax_command},
    {.name = "bzpopmin", .handler = bzpopmin_command},
    {.name = "zadd", .handler = zadd_command},
    {.name = "zcard", .handler = zcard_command},
    {.name = "zcount", .handler = zcount_command},
    {.name = "zdiff", .handler = zdiff_command},
    {.name = "zdiffstore", .handler = zdiffstore_command},
    {.name = "zincrby", .handler = zincrby_command},
    {.name = "zinter", .handler = zinter_command},
    {.name = "zintercard", .handler = zintercard_command},
    {.name = "zinterstore", .handler = zinterstore_command},
    {.name = "zlexcount", .handler = zlexcount_command},
    {.name = "zmpop", .flags = kFreesSpace, .handler = zmpop_command},
    {.name = "zmscore", .handler = zmscore_command},
    {.name = "zpopmax", .flags = kFreesSpace, .handler = zpopmax_command},
    {.name = "zpopmin", .flags = kFreesSpace, .handler = zpopmin_command},
    {.name = "zrandmember", .handler = zrandmember_command,
     .status = "differs: a count below -16777216 is out of range"},
    {.name = "zrange", .handler = zrange_command},
    {.name = "zrangebylex", .handler = zrangebylex_command},
    {.name = "zrangebyscore", .handler = zrangebyscore_command},
    {.name = "zrangestore", .handler = zrangestore_command},
    {.name = "zrank", .handler = zrank_command},
    {.name = "zrem", .flags = kFreesSpace, .handler = zrem_command},
    {.name = "zremrangebylex", .flags = kFreesSpace, .handler = zremrangebylex_command},
    {.name = "zremrangebyrank", .flags = kFreesSpace, .handler = zremrangebyrank_command},
    {.name = "zremrangebyscore", .flags = kFreesSpace, .handler = zremrangebyscore_command},
    {.name = "zrevrange", .handler = zrevrange_command},
    {.name = "zrevrangebylex", .handler = zrevrangebylex_command},
    {.name = "zrevrangebyscore", .handler = zrevrangebyscore_command},
    {.name = "zrevrank", .handler = zrevrank_command},
    {.name = "zscan", .handler = zscan_command},
    {.name = "zscore", .handler = zscore_command},
    {.name = "zunion", .handler = zunion_command},
    {.name = "zunionstore", .handler = zunionstore_command},
};

}  // namespace

Outcome add_members(CommandContext& ctx, const SortedSetAddition& options, std::span<const SortedSetAddition::Member> members) {
  uint64_t record_bytes = ctx.arg(1).size() + 64;
  for (const auto& [name, score] : members) record_bytes += name.size() + 16;
  if (!admitted(ctx, record_bytes)) return Outcome::kDone;
  TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kWrite);
  if (!set) return Outcome::kDone;
  AddResult result;
  if (members.size() == 1) {
    add_one(set, members[0].name, members[0].score, options, result);
  } else if (options.conditional() || options.changed) {
    add_several(set, members, options, result);
  } else {
    add_all(set, members, result);
  }
  if (result.added > 0 || result.updated > 0) set.event(KeyEvent::kSortedSet, options.increment ? "zincr" : "zadd");
  if (result.nan) {
    ctx.reply.error("ERR resulting score is not a number (NaN)");
  } else if (options.increment) {
    result.score ? ctx.reply.real(*result.score) : ctx.reply.nil();
  } else {
    ctx.reply.integer(options.changed ? result.added + result.updated : result.added);
  }
  return Outcome::kDone;
}

std::span<const CommandSpec> sorted_set_commands() { return kSortedSetCommands; }

}  // namespace pion
