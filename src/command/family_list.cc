// LPUSH RPUSH LPUSHX RPUSHX LLEN LINDEX LRANGE, and the table of the list family.
#include "command/family_list.h"

#include <algorithm>

#include "command/arguments.h"
#include "command/families.h"
#include "command/list_keys.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = ListDelta::Op;

Outcome push(CommandContext& ctx, ListEnd end, bool only_if_there) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kWrite);
  if (!list) return Outcome::kDone;
  if (only_if_there && !list.exists()) return ctx.reply.integer(0), Outcome::kDone;
  ListDelta delta(delta_of_thread(), end == ListEnd::kLeft ? Op::kPushFront : Op::kPushBack);
  for (size_t i = 2; i < ctx.argc(); ++i) delta.element(ctx.arg(i));
  list.change(delta_of_thread(), KeyEvent::kList, end == ListEnd::kLeft ? "lpush" : "rpush");
  ctx.reply.integer(static_cast<int64_t>(ListReader(list.entry()).size()));
  return Outcome::kDone;
}

Outcome lpush_command(CommandContext& ctx) { return push(ctx, ListEnd::kLeft, false); }
Outcome rpush_command(CommandContext& ctx) { return push(ctx, ListEnd::kRight, false); }
Outcome lpushx_command(CommandContext& ctx) { return push(ctx, ListEnd::kLeft, true); }
Outcome rpushx_command(CommandContext& ctx) { return push(ctx, ListEnd::kRight, true); }

Outcome llen_command(CommandContext& ctx) {
  const TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kRead);
  if (list) ctx.reply.integer(list.exists() ? static_cast<int64_t>(ListReader(list.entry()).size()) : 0);
  return Outcome::kDone;
}

Outcome lindex_command(CommandContext& ctx) {
  const TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kRead);
  if (!list) return Outcome::kDone;
  if (!list.exists()) return ctx.reply.nil(), Outcome::kDone;
  const auto index = integer_argument(ctx.arg(2));
  if (!index) return ctx.reply.error(kNotAnInteger), Outcome::kDone;
  const ListReader reader(list.entry());
  const auto size = static_cast<int64_t>(reader.size());
  const int64_t at = *index < 0 ? *index + size : *index;
  at >= 0 && at < size ? reply_text(ctx.reply, reader.at(static_cast<uint64_t>(at))) : ctx.reply.nil();
  return Outcome::kDone;
}

Outcome lrange_command(CommandContext& ctx) {
  const auto start = integer_argument(ctx.arg(2)), stop = integer_argument(ctx.arg(3));
  if (!start || !stop) return ctx.reply.error(kNotAnInteger), Outcome::kDone;
  const TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kRead);
  if (!list) return Outcome::kDone;
  if (!list.exists()) return ctx.reply.array(0), Outcome::kDone;
  const ListReader reader(list.entry());
  const auto size = static_cast<int64_t>(reader.size());
  const int64_t first = std::max<int64_t>(*start < 0 ? *start + size : *start, 0);
  const int64_t last = std::min(*stop < 0 ? *stop + size : *stop, size - 1);
  if (first > last) return ctx.reply.array(0), Outcome::kDone;
  int64_t left = last - first + 1;
  if (left > static_cast<int64_t>(kElementsOnReactor) && !ctx.on_worker) return Outcome::kNeedsWorker;
  ctx.reply.array(left);
  reader.forward(static_cast<uint64_t>(first), [&](const ShortText& text) { return reply_text(ctx.reply, text), --left > 0; });
  return Outcome::kDone;
}

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kListCommands[] = {
    {.name = "blmove", .handler = blmove_command},
    {.name = "blmpop", .handler = blmpop_command},
    {.name = "blpop", .handler = blpop_command},
    {.name = "brpop", .handler = brpop_command},
    {.name = "brpoplpush", .handler = brpoplpush_command},
    {.name = "lindex", .handler = lindex_command},
    {.name = "linsert", .handler = linsert_command},
    {.name = "llen", .handler = llen_command},
    {.name = "lmove", .handler = lmove_command},
    {.name = "lmpop", .flags = kFreesSpace, .handler = lmpop_command},
    {.name = "lpop", .flags = kFreesSpace, .handler = lpop_command},
    {.name = "lpos", .handler = lpos_command},
    {.name = "lpush", .handler = lpush_command},
    {.name = "lpushx", .handler = lpushx_command},
    {.name = "lrange", .handler = lrange_command},
    {.name = "lrem", .flags = kFreesSpace, .handler = lrem_command},
    {.name = "lset", .handler = lset_command},
    {.name = "ltrim", .flags = kFreesSpace, .handler = ltrim_command},
    {.name = "rpop", .flags = kFreesSpace, .handler = rpop_command},
    {.name = "rpoplpush", .handler = rpoplpush_command},
    {.name = "rpush", .handler = rpush_command},
    {.name = "rpushx", .handler = rpushx_command},
};

}  // namespace

std::span<const CommandSpec> list_commands() { return kListCommands; }

}  // namespace pion
