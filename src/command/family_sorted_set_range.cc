// ZRANGE and its older forms, ZRANGESTORE, ZCOUNT, ZLEXCOUNT, ZREMRANGEBY*: every one of them is a run of ranks.
#include <algorithm>

#include "command/arguments.h"
#include "command/collection.h"
#include "command/family_sorted_set.h"
#include "command/score.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

enum class By { kAny, kRank, kScore, kLex };

// What a range command asks for. The ends are parsed before the key is looked at.
struct RangeRequest {
  By by = By::kAny;
  std::optional<bool> reverse;
  bool with_scores = false;
  int64_t offset = 0, limit = -1;
  int64_t start = 0, stop = 0;
  ScoreBound min_score, max_score;
  LexBound min_lex, max_lex;
};

struct Ranks {
  uint64_t first = 0, count = 0;  // in ascending order
};

// False: the error was answered.
bool parse_ends(CommandContext& ctx, size_t min, size_t max, RangeRequest& request) {
  if (request.by == By::kRank) {
    const auto start = integer_argument(ctx.arg(min)), stop = start ? integer_argument(ctx.arg(max)) : std::nullopt;
    if (!start || !stop) return ctx.reply.error(kNotAnInteger), false;
    request.start = *start;
    request.stop = *stop;
  } else if (request.by == By::kScore) {
    const auto low = score_bound(ctx.arg(min)), high = score_bound(ctx.arg(max));
    if (!low || !high) return ctx.reply.error("ERR min or max is not a float"), false;
    request.min_score = *low;
    request.max_score = *high;
  } else {
    const auto low = lex_bound(ctx.arg(min)), high = lex_bound(ctx.arg(max));
    if (!low || !high) return ctx.reply.error("ERR min or max not valid string range item"), false;
    request.min_lex = *low;
    request.max_lex = *high;
  }
  return true;
}

// Options from `first` + 3 on, then the ends. False: the error was answered.
bool parse_range(CommandContext& ctx, size_t first, bool stores, RangeRequest& request) {
  for (size_t i = first + 2; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    if (!stores && same_word(word, "WITHSCORES")) {
      request.with_scores = true;
    } else if (same_word(word, "LIMIT") && i + 2 < ctx.argc()) {
      const auto offset = integer_argument(ctx.arg(i + 1)), limit = offset ? integer_argument(ctx.arg(i + 2)) : std::nullopt;
      if (!offset || !limit) return ctx.reply.error(kNotAnInteger), false;
      request.offset = *offset;
      request.limit = *limit;
      i += 2;
    } else if (same_word(word, "REV") && !request.reverse) {
      request.reverse = true;
    } else if (same_word(word, "BYLEX") && request.by == By::kAny) {
      request.by = By::kLex;
    } else if (same_word(word, "BYSCORE") && request.by == By::kAny) {
      request.by = By::kScore;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  if (request.by == By::kAny) request.by = By::kRank;
  if (!request.reverse) request.reverse = false;
  if (request.limit != -1 && request.by == By::kRank) {
    return ctx.reply.error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"), false;
  }
  if (request.with_scores && request.by == By::kLex) {
    return ctx.reply.error("ERR syntax error, WITHSCORES not supported in combination with BYLEX"), false;
  }
  const bool swapped = *request.reverse && request.by != By::kRank;
  return parse_ends(ctx, swapped ? first + 1 : first, swapped ? first : first + 1, request);
}

Ranks between(uint64_t low, uint64_t high) { return low < high ? Ranks{low, high - low} : Ranks{}; }

// The members meant, without LIMIT.
Ranks resolve(const SortedSetReader& set, const RangeRequest& request) {
  if (request.by == By::kScore) {
    const uint64_t low = set.count_where([&](const ScoredMember& item) { return !request.min_score.below(item.score); });
    const uint64_t high = set.count_where([&](const ScoredMember& item) { return request.max_score.above(item.score); });
    return between(low, high);
  }
  if (request.by == By::kLex) {
    char room[20];
    const uint64_t low = set.count_where([&](const ScoredMember& item) { return !request.min_lex.below(item.member.view(room)); });
    const uint64_t high = set.count_where([&](const ScoredMember& item) { return request.max_lex.above(item.member.view(room)); });
    return between(low, high);
  }
  const auto size = static_cast<int64_t>(set.size());
  int64_t start = request.start < 0 ? std::max<int64_t>(0, request.start + size) : request.start;
  int64_t stop = std::min(request.stop < 0 ? request.stop + size : request.stop, size - 1);
  if (start > stop) return {};
  if (*request.reverse) std::swap(start, stop), start = size - 1 - start, stop = size - 1 - stop;
  return {static_cast<uint64_t>(start), static_cast<uint64_t>(stop - start + 1)};
}

Ranks limited(Ranks ranks, const RangeRequest& request) {
  if (request.by == By::kRank) return ranks;
  if (request.offset < 0 || static_cast<uint64_t>(request.offset) >= ranks.count) return {};
  const auto skipped = static_cast<uint64_t>(request.offset);
  uint64_t count = ranks.count - skipped;
  if (request.limit >= 0) count = std::min(count, static_cast<uint64_t>(request.limit));
  return {*request.reverse ? ranks.first + ranks.count - skipped - count : ranks.first + skipped, count};
}

template <typename Visit>
void walk(const SortedSetReader& set, const Ranks& ranks, bool reverse, Visit&& visit) {
  if (ranks.count == 0) return;
  uint64_t left = ranks.count;
  set.walk(reverse ? ranks.first + ranks.count - 1 : ranks.first, reverse, [&](const ScoredMember& item) {
    visit(item);
    return --left > 0;
  });
}

Outcome range_generic(CommandContext& ctx, By by, std::optional<bool> reverse) {
  RangeRequest request{.by = by, .reverse = reverse};
  if (!parse_range(ctx, 2, false, request)) return Outcome::kDone;
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  if (!set.exists()) return ctx.reply.array(0), Outcome::kDone;
  const SortedSetReader reader(set.entry());
  const Ranks ranks = limited(resolve(reader, request), request);
  if (ranks.count > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  reply_scored_header(ctx.reply, ranks.count, request.with_scores);
  walk(reader, ranks, *request.reverse, [&](const ScoredMember& item) { reply_scored(ctx.reply, item, request.with_scores); });
  return Outcome::kDone;
}

Outcome count_generic(CommandContext& ctx, By by) {
  RangeRequest request{.by = by, .reverse = false};
  if (!parse_ends(ctx, 2, 3, request)) return Outcome::kDone;
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (set) ctx.reply.integer(set.exists() ? static_cast<int64_t>(resolve(SortedSetReader(set.entry()), request).count) : 0);
  return Outcome::kDone;
}

Outcome remove_generic(CommandContext& ctx, By by, std::string_view event) {
  RangeRequest request{.by = by, .reverse = false};
  if (!parse_ends(ctx, 2, 3, request)) return Outcome::kDone;
  TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kWrite);
  if (!set) return Outcome::kDone;
  if (!set.exists()) return ctx.reply.integer(0), Outcome::kDone;
  const SortedSetReader reader(set.entry());
  const Ranks ranks = resolve(reader, request);
  if (ranks.count > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  SortedSetDelta delta(delta_of_thread(), SortedSetDelta::Op::kRemove);
  walk(reader, ranks, false, [&](const ScoredMember& item) {
    char room[20];
    delta.member(item.member.view(room));
  });
  if (!delta.empty()) {
    // Asked under the lock, where the size is known: the answer does not wait for anything.
    if (!admitted(ctx, ctx.arg(1).size() + delta_of_thread().size() + 32)) return Outcome::kDone;
    set.change(delta_of_thread(), KeyEvent::kSortedSet, event);
  }
  ctx.reply.integer(static_cast<int64_t>(ranks.count));
  return Outcome::kDone;
}

}  // namespace

Outcome zrange_command(CommandContext& ctx) { return range_generic(ctx, By::kAny, std::nullopt); }
Outcome zrevrange_command(CommandContext& ctx) { return range_generic(ctx, By::kRank, true); }
Outcome zrangebyscore_command(CommandContext& ctx) { return range_generic(ctx, By::kScore, false); }
Outcome zrevrangebyscore_command(CommandContext& ctx) { return range_generic(ctx, By::kScore, true); }
Outcome zrangebylex_command(CommandContext& ctx) { return range_generic(ctx, By::kLex, false); }
Outcome zrevrangebylex_command(CommandContext& ctx) { return range_generic(ctx, By::kLex, true); }
Outcome zcount_command(CommandContext& ctx) { return count_generic(ctx, By::kScore); }
Outcome zlexcount_command(CommandContext& ctx) { return count_generic(ctx, By::kLex); }
Outcome zremrangebyrank_command(CommandContext& ctx) { return remove_generic(ctx, By::kRank, "zremrangebyrank"); }
Outcome zremrangebyscore_command(CommandContext& ctx) { return remove_generic(ctx, By::kScore, "zremrangebyscore"); }
Outcome zremrangebylex_command(CommandContext& ctx) { return remove_generic(ctx, By::kLex, "zremrangebylex"); }

Outcome zrangestore_command(CommandContext& ctx) {
  RangeRequest request;
  if (!parse_range(ctx, 3, true, request)) return Outcome::kDone;
  const std::string_view names[] = {ctx.arg(1), ctx.arg(2)};
  TypedKeys keys(ctx, names);
  const Found source = keys.find(1, Lookup::kRead);
  if (source && source.entry->type() != ValueType::kSortedSet) return ctx.reply.error(kWrongType), Outcome::kDone;
  SortedSetBuilder result;
  if (source) {
    const SortedSetReader reader(*source.entry);
    const Ranks ranks = limited(resolve(reader, request), request);
    if (ranks.count > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    walk(reader, ranks, *request.reverse, [&](const ScoredMember& item) {
      char room[20];
      result.add(item.member.view(room), item.score);
    });
  }
  if (keys.replace(0, ValueType::kSortedSet, result.size() > 0 ? result.encoded() : std::string(), KeyEvent::kSortedSet, "zrangestore")) {
    ctx.reply.integer(static_cast<int64_t>(result.size()));
  }
  return Outcome::kDone;
}

}  // namespace pion
