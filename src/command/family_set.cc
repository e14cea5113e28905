// SADD SREM SISMEMBER SMISMEMBER SCARD SMOVE SSCAN, and the table of the set family.
#include "command/family_set.h"

#include "command/arguments.h"
#include "command/collection.h"
#include "command/families.h"
#include "keyspace/set_value.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = SetDelta::Op;

uint64_t size_of(const TypedKey& set) { return set.exists() ? SetReader(set.entry()).size() : 0; }

Outcome sadd_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kWrite);
  if (!set) return Outcome::kDone;
  const uint64_t before = size_of(set);
  bool changes = !set.exists() || set_label_grows(set.entry(), ctx.argc() - 2);
  for (size_t i = 2; i < ctx.argc() && !changes; ++i) changes = !SetReader(set.entry()).contains(ctx.arg(i));
  if (changes) {
    SetDelta delta(delta_of_thread(), Op::kAdd);
    for (size_t i = 2; i < ctx.argc(); ++i) delta.member(ctx.arg(i));
    set.change(delta_of_thread());
  }
  const uint64_t added = size_of(set) - before;
  if (added > 0) set.event(KeyEvent::kSet, "sadd");
  ctx.reply.integer(static_cast<int64_t>(added));
  return Outcome::kDone;
}

Outcome srem_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kWrite);
  if (!set) return Outcome::kDone;
  if (!set.exists()) return ctx.reply.integer(0), Outcome::kDone;
  const uint64_t before = size_of(set);
  SetDelta delta(delta_of_thread(), Op::kRemove);
  const SetReader reader(set.entry());
  for (size_t i = 2; i < ctx.argc(); ++i) {
    if (reader.contains(ctx.arg(i))) delta.member(ctx.arg(i));
  }
  if (!delta.empty()) set.change(delta_of_thread(), KeyEvent::kSet, "srem");
  ctx.reply.integer(static_cast<int64_t>(before - size_of(set)));
  return Outcome::kDone;
}

Outcome sismember_command(CommandContext& ctx) {
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kRead);
  if (set) ctx.reply.integer(set.exists() && SetReader(set.entry()).contains(ctx.arg(2)));
  return Outcome::kDone;
}

Outcome smismember_command(CommandContext& ctx) {
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - 2));
  for (size_t i = 2; i < ctx.argc(); ++i) ctx.reply.integer(set.exists() && SetReader(set.entry()).contains(ctx.arg(i)));
  return Outcome::kDone;
}

Outcome scard_command(CommandContext& ctx) {
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kRead);
  if (set) ctx.reply.integer(static_cast<int64_t>(size_of(set)));
  return Outcome::kDone;
}

Outcome smove_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  const Key keys[] = {keyspace.key(ctx.arg(1)), keyspace.key(ctx.arg(2))};
  const std::string_view member = ctx.arg(3);
  if (!admitted(ctx, keys[0].bytes.size() + keys[1].bytes.size() + 2 * member.size() + 96)) return Outcome::kDone;
  KeyAccess access(keyspace, keys);
  const Found from = access.find(database, keys[0], Lookup::kWrite);
  const Found to = access.find(database, keys[1], Lookup::kWrite);
  const auto finish = [&] {
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  };
  if (!from) return ctx.reply.integer(0), finish();
  if (from.entry->type() != ValueType::kSet || (to && to.entry->type() != ValueType::kSet)) return ctx.reply.error(kWrongType), finish();
  const bool there = SetReader(*from.entry).contains(member);
  if (!there || keys[0].bytes == keys[1].bytes) return ctx.reply.integer(there), finish();
  std::string& delta = delta_of_thread();
  SetDelta(delta, Op::kRemove).member(member);
  const bool left = static_cast<bool>(access.change(database, keys[0], from, ValueType::kSet, delta));
  access.event(KeyEvent::kSet, "srem", database, keys[0]);
  if (!left) access.event(KeyEvent::kGeneric, "del", database, keys[0]);
  const Found target = access.find_again(database, keys[1]);  // the change may have moved it
  if (!target || !SetReader(*target.entry).contains(member)) {
    SetDelta(delta, Op::kAdd).member(member);
    access.change(database, keys[1], target, ValueType::kSet, delta);
    access.event(KeyEvent::kSet, "sadd", database, keys[1]);
  }
  return ctx.reply.integer(1), finish();
}

Outcome sscan_command(CommandContext& ctx) {
  ElementScan scan;
  if (!parse_scan_cursor(ctx, scan)) return Outcome::kDone;
  const TypedKey set(ctx, ctx.arg(1), ValueType::kSet, Lookup::kRead);
  if (!set) return Outcome::kDone;
  if (set.exists() && !parse_scan_options(ctx, false, scan)) return Outcome::kDone;
  std::vector<ShortText> members;
  uint64_t position = scan.cursor & 0xffffffff;
  if (set.exists()) {
    const SetReader reader(set.entry());
    if (scan.count > kElementsOnReactor && reader.size() > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    uint64_t looked = 0;
    const uint64_t most_buckets = scan.count > UINT64_MAX / 10 ? UINT64_MAX : scan.count * 10;
    for (uint64_t buckets = 0; buckets < most_buckets && looked < scan.count; ++buckets) {
      position = reader.scan(position, [&](const ShortText& member) {
        ++looked;
        if (scan.matches(member)) members.push_back(member);
      });
      if (position == 0) break;
    }
  } else {
    position = 0;
  }
  ctx.reply.array(2);
  ctx.reply.bulk(std::to_string(position));
  ctx.reply.array(static_cast<int64_t>(members.size()));
  for (const ShortText& member : members) {
    char room[20];
    ctx.reply.bulk(member.view(room));
  }
  return Outcome::kDone;
}

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kSetCommands[] = {
    {.name = "sadd", .handler = sadd_command},
    {.name = "scard", .handler = scard_command},
    {.name = "sdiff", .handler = sdiff_command},
    {.name = "sdiffstore", .handler = sdiffstore_command},
    {.name = "sinter", .handler = sinter_command},
    {.name = "sintercard", .handler = sintercard_command},
    {.name = "sinterstore", .handler = sinterstore_command},
    {.name = "sismember", .handler = sismember_command},
    {.name = "smembers", .handler = smembers_command},
    {.name = "smismember", .handler = smismember_command},
    {.name = "smove", .handler = smove_command},
    {.name = "spop", .flags = kFreesSpace, .handler = spop_command},
    {.name = "srandmember", .handler = srandmember_command,
     .status = "differs: a count below -16777216 is out of range"},
    {.name = "srem", .flags = kFreesSpace, .handler = srem_command},
    {.name = "sscan", .handler = sscan_command},
    {.name = "sunion", .handler = sunion_command},
    {.name = "sunionstore", .handler = sunionstore_command},
};

}  // namespace

std::span<const CommandSpec> set_commands() { return kSetCommands; }

}  // namespace pion
