// SPOP SRANDMEMBER.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "command/arguments.h"
#include "command/collection.h"
#include "command/family_set.h"
#include "keyspace/collection_limits.h"
#include "keyspace/random.h"
#include "keyspace/set_value.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

void reply_text(ReplyWriter& reply, const ShortText& text) {
  char room[20];
  reply.bulk(text.view(room));
}

// Calls visit(member, chosen) for distinct members: `count` of them are chosen, evenly. Members that are not chosen are visited
// only when everything is walked anyway.
template <typename Visit>
void choose(const SetReader& reader, uint64_t count, Visit&& visit) {
  if (reader.table() && count * 3 < reader.size()) {
    // Few of many: drawn until there are enough different ones. A member's place in memory tells it from the others.
    std::unordered_set<const char*> seen;
    while (seen.size() < count) {
      const ShortText member = reader.random();
      if (seen.insert(member.bytes.data()).second) visit(member, true);
    }
    return;
  }
  // One walk that takes each member with the chance that is left for it.
  uint64_t left = reader.size(), wanted = count;
  reader.each([&](const ShortText& member) {
    const bool chosen = random64() % left-- < wanted;
    wanted -= chosen;
    return visit(member, chosen), true;
  });
}

// Redis makes a set anew when few members are left of it; then a hashtable may become a listpack again.
bool fits_listpack(const SetReader& reader, uint64_t left) {
  const CollectionLimits& limits = collection_limits();
  return left <= limits.set_entries && reader.table() && reader.table()->label == static_cast<uint8_t>(SetLabel::kHashtable);
}

Outcome pop_one(CommandContext& ctx) {
  TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kWrite);
  if (!set) return Outcome::kDone;
  if (!set.exists()) return ctx.reply.nil(), Outcome::kDone;
  char room[20];
  const std::string_view member = SetReader(set.entry()).random().view(room);
  if (!admitted(ctx, ctx.arg(1).size() + member.size() + 64)) return Outcome::kDone;
  ctx.reply.bulk(member);
  SetDelta(delta_of_thread(), SetDelta::Op::kRemove).member(member);
  set.change(delta_of_thread(), KeyEvent::kSet, "spop");
  return Outcome::kDone;
}

// Replies with some members and removes them.
void pop_some(CommandContext& ctx, TypedKey& set, uint64_t count) {
  const SetReader reader(set.entry());
  const uint64_t left = reader.size() - count;
  std::string& delta = delta_of_thread();
  SetDelta removal(delta, SetDelta::Op::kRemove);
  std::string kept;
  const bool anew = left * 5 <= count && fits_listpack(reader, left);
  bool short_ones = true;
  std::optional<SetBuilder> rest;
  if (anew) rest.emplace(kept, SetLabel::kListpack, left);
  choose(reader, count, [&](const ShortText& member, bool chosen) {
    char room[20];
    const std::string_view text = member.view(room);
    if (chosen) {
      removal.member(text);
    } else if (anew) {
      rest->member(member);
      short_ones = short_ones && text.size() <= collection_limits().set_value_bytes;
    }
  });
  if (!admitted(ctx, ctx.arg(1).size() + delta.size() + kept.size() + 64)) return;
  ctx.reply.set(static_cast<int64_t>(count));
  for (ByteReader in(std::string_view(delta).substr(1)); !in.empty();) ctx.reply.bulk(in.bytes());
  if (anew && short_ones) {
    set.replace(kept);
    set.event(KeyEvent::kSet, "spop");
  } else {
    set.change(delta, KeyEvent::kSet, "spop");
  }
}

Outcome pop_many(CommandContext& ctx) {
  int64_t count = 0;
  if (!range_argument(ctx, 2, 0, INT64_MAX, count, "ERR value is out of range, must be positive")) return Outcome::kDone;
  if (!admitted(ctx, ctx.arg(1).size() + 64)) return Outcome::kDone;
  TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kWrite);
  if (!set) return Outcome::kDone;
  if (!set.exists() || count == 0) return ctx.reply.set(0), Outcome::kDone;
  const uint64_t size = SetReader(set.entry()).size();
  const uint64_t wanted = std::min(static_cast<uint64_t>(count), size);
  if (std::max(wanted, wanted * 3 < size ? 0 : size) > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  if (wanted < size) return pop_some(ctx, set, wanted), Outcome::kDone;
  ctx.reply.set(static_cast<int64_t>(size));
  SetReader(set.entry()).each([&](const ShortText& member) { return reply_text(ctx.reply, member), true; });
  set.erase();
  set.event(KeyEvent::kSet, "spop");
  return Outcome::kDone;
}

}  // namespace

Outcome spop_command(CommandContext& ctx) {
  if (ctx.argc() == 2) return pop_one(ctx);
  if (ctx.argc() == 3) return pop_many(ctx);
  ctx.reply.error(kSyntaxError);
  return Outcome::kDone;
}

Outcome srandmember_command(CommandContext& ctx) {
  if (ctx.argc() > 3) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  int64_t count = 1;
  if (ctx.argc() == 3 && !range_argument(ctx, 2, -INT64_MAX, INT64_MAX, count)) return Outcome::kDone;
  if (count < -kMaxRandomRepeats) return ctx.reply.error("ERR value is out of range"), Outcome::kDone;
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  if (ctx.argc() == 2) {
    set.exists() ? reply_text(ctx.reply, SetReader(set.entry()).random()) : ctx.reply.nil();
    return Outcome::kDone;
  }
  if (!set.exists() || count == 0) return ctx.reply.array(0), Outcome::kDone;
  const SetReader reader(set.entry());
  const uint64_t wanted = count < 0 ? static_cast<uint64_t>(-count) : std::min(static_cast<uint64_t>(count), reader.size());
  const bool walks = count > 0 && wanted * 3 >= reader.size();
  if (std::max(wanted, walks ? reader.size() : 0) > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  ctx.reply.array(static_cast<int64_t>(wanted));
  if (count > 0) {
    choose(reader, wanted, [&](const ShortText& member, bool chosen) {
      if (chosen) reply_text(ctx.reply, member);
    });
    return Outcome::kDone;
  }
  std::vector<ShortText> members;  // of a small set, so that each draw is quick
  if (!reader.table()) reader.each([&](const ShortText& member) { return members.push_back(member), true; });
  for (uint64_t i = 0; i < wanted; ++i) {
    reply_text(ctx.reply, members.empty() ? reader.random() : members[random64() % members.size()]);
  }
  return Outcome::kDone;
}

}  // namespace pion
