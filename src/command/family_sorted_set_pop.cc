// ZPOPMIN ZPOPMAX ZMPOP, BZPOPMIN BZPOPMAX BZMPOP that wait, ZRANDMEMBER ZSCAN.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/blocking.h"
#include "command/collection.h"
#include "command/family_sorted_set.h"
#include "command/score.h"
#include "keyspace/random.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

enum class Shape { kFlat, kPairs };

// What is popped: the delta that removes it is in delta_of_thread(). Views of the set.
std::vector<ScoredMember> choose(const SortedSetReader& set, uint64_t count, bool greatest) {
  uint64_t left = std::min(count, set.size());
  SortedSetDelta delta(delta_of_thread(), SortedSetDelta::Op::kRemove);
  std::vector<ScoredMember> popped;
  set.walk(greatest ? set.size() - 1 : 0, greatest, [&](const ScoredMember& item) {
    char room[20];
    delta.member(item.member.view(room));
    popped.push_back(item);
    return --left > 0;
  });
  return popped;
}

void reply_popped(CommandContext& ctx, const std::vector<ScoredMember>& popped, Shape shape) {
  ctx.reply.array(static_cast<int64_t>(shape == Shape::kPairs ? popped.size() : 2 * popped.size()));
  for (const ScoredMember& item : popped) {
    if (shape == Shape::kPairs) ctx.reply.array(2);
    reply_member(ctx.reply, item.member);
    ctx.reply.real(item.score);
  }
}

// About what the record takes is known under the lock only: asked there, the answer does not wait for anything.
bool admitted_to_pop(CommandContext& ctx, std::string_view key) { return admitted(ctx, key.size() + delta_of_thread().size() + 32); }

bool too_many(const CommandContext& ctx, const SortedSetReader& set, uint64_t count) {
  return !ctx.on_worker && std::min(count, set.size()) > kElementsOnReactor;
}

Outcome pop_generic(CommandContext& ctx, bool greatest) {
  if (ctx.argc() > 3) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  int64_t count = 1;
  if (ctx.argc() == 3 && !range_argument(ctx, 2, 0, INT64_MAX, count, "ERR value is out of range, must be positive")) return Outcome::kDone;
  TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kWrite);
  if (!set) return Outcome::kDone;
  if (!set.exists() || count == 0) return ctx.reply.array(0), Outcome::kDone;
  const Shape shape = ctx.argc() == 3 && ctx.reply.protocol() > 2 ? Shape::kPairs : Shape::kFlat;
  const SortedSetReader reader(set.entry());
  if (too_many(ctx, reader, static_cast<uint64_t>(count))) return Outcome::kNeedsWorker;
  const std::vector<ScoredMember> popped = choose(reader, static_cast<uint64_t>(count), greatest);
  if (!admitted_to_pop(ctx, ctx.arg(1))) return Outcome::kDone;
  reply_popped(ctx, popped, shape);
  set.change(delta_of_thread(), KeyEvent::kSortedSet, greatest ? "zpopmax" : "zpopmin");
  return Outcome::kDone;
}

struct PopRequest {
  std::vector<std::string_view> names;
  bool greatest = false;
  uint64_t count = 1;
  bool flat = false;  // the key, the member, its score
  std::optional<int64_t> timeout_ms;
};

// From the first key that is there.
Outcome pop_first(CommandContext& ctx, const PopRequest& request) {
  TypedKeys sets(ctx, request.names);
  for (size_t i = 0; i < request.names.size(); ++i) {
    const Found found = sets.find(i, Lookup::kWrite);
    if (!found) continue;
    if (found.entry->type() != ValueType::kSortedSet) return ctx.reply.error(kWrongType), Outcome::kDone;
    if (request.timeout_ms && must_queue(ctx, sets.access(), sets.keys()[i])) break;
    const SortedSetReader reader(*found.entry);
    if (too_many(ctx, reader, request.count)) return Outcome::kNeedsWorker;
    const std::vector<ScoredMember> popped = choose(reader, request.count, request.greatest);
    if (!admitted_to_pop(ctx, request.names[i])) return Outcome::kDone;
    ctx.reply.array(request.flat ? 3 : 2);
    ctx.reply.bulk(request.names[i]);
    if (request.flat) {
      reply_member(ctx.reply, popped[0].member);
      ctx.reply.real(popped[0].score);
    } else {
      reply_popped(ctx, popped, Shape::kPairs);
    }
    sets.change(i, found, ValueType::kSortedSet, delta_of_thread(), KeyEvent::kSortedSet, request.greatest ? "zpopmax" : "zpopmin");
    return Outcome::kDone;
  }
  if (!request.timeout_ms) return ctx.reply.nil_array(), Outcome::kDone;
  return wait_for_keys(ctx, sets.access(), sets.keys(), {.type = ValueType::kSortedSet, .timeout_ms = *request.timeout_ms});
}

Outcome blocking_pop(CommandContext& ctx, bool greatest) {
  PopRequest request{.greatest = greatest, .flat = true};
  request.timeout_ms = timeout_argument(ctx, ctx.argc() - 1, TimeUnit::kSeconds);
  if (!request.timeout_ms) return Outcome::kDone;
  for (size_t i = 1; i + 1 < ctx.argc(); ++i) request.names.push_back(ctx.arg(i));
  return pop_first(ctx, request);
}

// numkeys key ... MIN|MAX [COUNT count], from `at` on. False: the error was answered.
bool parse_pop_from_many(CommandContext& ctx, size_t at, PopRequest& request) {
  const auto where = counted_keys_argument(ctx, at, request.names);
  if (!where) return false;
  request.greatest = same_word(ctx.arg(*where), "MAX");
  if (!request.greatest && !same_word(ctx.arg(*where), "MIN")) return ctx.reply.error(kSyntaxError), false;
  return count_option(ctx, *where + 1, request.count);
}

// Redis prints a score here as its listpack holds it, and with 17 digits when it comes from a skip list.
std::string scanned_score(double score, bool skiplist) {
  if (!skiplist) return format_real(score);
  char text[40];
  return std::string(text, static_cast<size_t>(std::snprintf(text, sizeof text, "%.17g", score)));
}

void reply_chosen(CommandContext& ctx, const SortedSetReader& set, uint64_t rank, bool with_scores) {
  set.walk(rank, false, [&](const ScoredMember& item) { return reply_scored(ctx.reply, item, with_scores), false; });
}

void reply_distinct(CommandContext& ctx, const SortedSetReader& set, uint64_t count, bool with_scores) {
  const uint64_t size = set.size(), chosen = std::min(count, size);
  reply_scored_header(ctx.reply, chosen, with_scores);
  if (chosen * 3 < size) {
    std::unordered_set<uint64_t> ranks;
    while (ranks.size() < chosen) {
      const uint64_t rank = random64() % size;
      if (ranks.insert(rank).second) reply_chosen(ctx, set, rank, with_scores);
    }
    return;
  }
  // One walk that takes each member with the chance that is left for it.
  uint64_t left = size, wanted = chosen;
  set.walk(0, false, [&](const ScoredMember& item) {
    if (random64() % left < wanted) {
      --wanted;
      reply_scored(ctx.reply, item, with_scores);
    }
    return --left > 0 && wanted > 0;
  });
}

}  // namespace

Outcome zpopmin_command(CommandContext& ctx) { return pop_generic(ctx, false); }
Outcome zpopmax_command(CommandContext& ctx) { return pop_generic(ctx, true); }

Outcome zmpop_command(CommandContext& ctx) {
  PopRequest request;
  return parse_pop_from_many(ctx, 1, request) ? pop_first(ctx, request) : Outcome::kDone;
}

Outcome bzpopmin_command(CommandContext& ctx) { return blocking_pop(ctx, false); }
Outcome bzpopmax_command(CommandContext& ctx) { return blocking_pop(ctx, true); }

Outcome bzmpop_command(CommandContext& ctx) {
  PopRequest request;
  if (!parse_pop_from_many(ctx, 2, request)) return Outcome::kDone;
  request.timeout_ms = timeout_argument(ctx, 1, TimeUnit::kSeconds);
  return request.timeout_ms ? pop_first(ctx, request) : Outcome::kDone;
}

Outcome zrandmember_command(CommandContext& ctx) {
  int64_t count = 1;
  bool with_scores = false;
  if (ctx.argc() >= 3) {
    if (!range_argument(ctx, 2, -INT64_MAX, INT64_MAX, count)) return Outcome::kDone;
    if (ctx.argc() > 4 || (ctx.argc() == 4 && !same_word(ctx.arg(3), "WITHSCORES"))) return ctx.reply.error(kSyntaxError), Outcome::kDone;
    with_scores = ctx.argc() == 4;
    if (count < -kMaxRandomRepeats || (with_scores && count > INT64_MAX / 2)) return ctx.reply.error("ERR value is out of range"), Outcome::kDone;
  }
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  const bool one = ctx.argc() == 2;
  if (!set.exists() || count == 0) {
    one ? ctx.reply.nil() : ctx.reply.array(0);
    return Outcome::kDone;
  }
  const SortedSetReader reader(set.entry());
  const uint64_t work = count < 0 ? static_cast<uint64_t>(-count) : std::min(static_cast<uint64_t>(count), reader.size());
  if (work > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  if (one) {
    reply_chosen(ctx, reader, random64() % reader.size(), false);
  } else if (count > 0) {
    reply_distinct(ctx, reader, static_cast<uint64_t>(count), with_scores);
  } else {
    reply_scored_header(ctx.reply, work, with_scores);
    for (uint64_t i = 0; i < work; ++i) reply_chosen(ctx, reader, random64() % reader.size(), with_scores);
  }
  return Outcome::kDone;
}

Outcome zscan_command(CommandContext& ctx) {
  ElementScan scan;
  if (!parse_scan_cursor(ctx, scan)) return Outcome::kDone;
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSortedSet, Lookup::kRead);
  if (!set || (set.exists() && !parse_scan_options(ctx, false, scan))) return Outcome::kDone;
  std::vector<ScoredMember> members;
  bool skiplist = false;
  uint64_t position = 0;
  if (set.exists()) {
    const SortedSetReader reader(set.entry());
    if (scan.count > kElementsOnReactor && reader.size() > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    skiplist = kSortedSetOps.encoding_name(set.entry()) == "skiplist";
    position = scan.walk([&](uint64_t at, uint64_t& looked) {
      return reader.scan(at, [&](const ScoredMember& item) {
        ++looked;
        if (scan.matches(item.member)) members.push_back(item);
      });
    });
  }
  ctx.reply.array(2);
  ctx.reply.bulk(std::to_string(position));
  ctx.reply.array(static_cast<int64_t>(2 * members.size()));
  for (const ScoredMember& item : members) {
    reply_member(ctx.reply, item.member);
    ctx.reply.bulk(scanned_score(item.score, skiplist));
  }
  return Outcome::kDone;
}

}  // namespace pion
