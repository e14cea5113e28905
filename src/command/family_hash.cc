// HSET HMSET HSETNX HGET HMGET HDEL HLEN HSTRLEN HEXISTS HINCRBY HINCRBYFLOAT, and the table of the hash family.
#include "command/family_hash.h"

#include <cmath>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/collection.h"
#include "command/families.h"
#include "command/parse.h"
#include "keyspace/hash_value.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = HashDelta::Op;

bool get_field(const TypedKey& hash, std::string_view name, HashField& field) {
  return hash.exists() && HashReader(hash.entry(), wall_ms()).get(name, field);
}

void reply_text(ReplyWriter& reply, const ShortText& text) {
  char room[20];
  reply.bulk(text.view(room));
}

Outcome set_fields(CommandContext& ctx, bool counts) {
  if (ctx.argc() % 2 != 0) {
    ctx.reply.error("ERR wrong number of arguments for '" + std::string(ctx.spec.name) + "' command");
    return Outcome::kDone;
  }
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash) return Outcome::kDone;
  const uint64_t before = hash.exists() ? HashReader(hash.entry(), 0).size() : 0;
  int64_t expired = 0;  // fields that count as new although they are still there
  HashDelta delta(delta_of_thread(), Op::kSet);
  for (size_t i = 2; i < ctx.argc(); i += 2) delta.field(ctx.arg(i)).value(ctx.arg(i + 1));
  if (hash.exists() && next_element_due(hash.entry()) < wall_ms()) {
    const HashReader now(hash.entry(), wall_ms()), ever(hash.entry(), INT64_MIN);
    HashField field;
    for (size_t i = 2; i < ctx.argc(); i += 2) expired += ever.get(ctx.arg(i), field) && !now.get(ctx.arg(i), field);
  }
  hash.change(delta_of_thread(), KeyEvent::kHash, "hset");
  if (counts) {
    ctx.reply.integer(static_cast<int64_t>(HashReader(hash.entry(), 0).size() - before) + expired);
  } else {
    ctx.reply.ok();
  }
  return Outcome::kDone;
}

Outcome hset_command(CommandContext& ctx) { return set_fields(ctx, true); }
Outcome hmset_command(CommandContext& ctx) { return set_fields(ctx, false); }

Outcome hsetnx_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash) return Outcome::kDone;
  HashField field;
  const bool sets = !get_field(hash, ctx.arg(2), field);
  if (sets) {
    HashDelta(delta_of_thread(), Op::kSet).field(ctx.arg(2)).value(ctx.arg(3));
    hash.change(delta_of_thread(), KeyEvent::kHash, "hset");
  }
  ctx.reply.integer(sets);
  return Outcome::kDone;
}

Outcome hget_command(CommandContext& ctx) {
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  if (!hash) return Outcome::kDone;
  HashField field;
  get_field(hash, ctx.arg(2), field) ? reply_text(ctx.reply, field.value) : ctx.reply.nil();
  return Outcome::kDone;
}

Outcome hmget_command(CommandContext& ctx) {
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  if (!hash) return Outcome::kDone;
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - 2));
  for (size_t i = 2; i < ctx.argc(); ++i) {
    HashField field;
    get_field(hash, ctx.arg(i), field) ? reply_text(ctx.reply, field.value) : ctx.reply.nil();
  }
  return Outcome::kDone;
}

Outcome hdel_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash) return Outcome::kDone;
  if (!hash.exists()) return ctx.reply.integer(0), Outcome::kDone;
  HashDelta delta(delta_of_thread(), Op::kRemove);
  const uint64_t before = HashReader(hash.entry(), 0).size();
  for (size_t i = 2; i < ctx.argc(); ++i) {
    HashField field;
    if (get_field(hash, ctx.arg(i), field)) delta.field(ctx.arg(i));
  }
  if (!delta.empty()) hash.change(delta_of_thread(), KeyEvent::kHash, "hdel");
  ctx.reply.integer(static_cast<int64_t>(before - (hash.exists() ? HashReader(hash.entry(), 0).size() : 0)));
  return Outcome::kDone;
}

Outcome hlen_command(CommandContext& ctx) {
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  if (hash) ctx.reply.integer(hash.exists() ? static_cast<int64_t>(HashReader(hash.entry(), 0).size()) : 0);
  return Outcome::kDone;
}

Outcome hstrlen_command(CommandContext& ctx) {
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  if (!hash) return Outcome::kDone;
  HashField field;
  char room[20];
  ctx.reply.integer(get_field(hash, ctx.arg(2), field) ? static_cast<int64_t>(field.value.view(room).size()) : 0);
  return Outcome::kDone;
}

Outcome hexists_command(CommandContext& ctx) {
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  HashField field;
  if (hash) ctx.reply.integer(get_field(hash, ctx.arg(2), field));
  return Outcome::kDone;
}

// Sets a field that keeps its expiry, if it has one that has not passed.
void set_number(TypedKey& hash, std::string_view name, std::string_view value, bool there, std::string_view event) {
  HashDelta(delta_of_thread(), there ? Op::kSetKeeping : Op::kSet).field(name).value(value);
  hash.change(delta_of_thread(), KeyEvent::kHash, event);
}

Outcome hincrby_command(CommandContext& ctx) {
  const auto increment = integer_argument(ctx.arg(3));
  if (!increment) return ctx.reply.error(kNotAnInteger), Outcome::kDone;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2) + 32)) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash) return Outcome::kDone;
  HashField field;
  const bool there = get_field(hash, ctx.arg(2), field);
  int64_t value = 0, sum = 0;
  if (there && !(field.value.integer ? (value = field.value.number, true) : parse_canonical_integer(field.value.bytes, value))) {
    ctx.reply.error("ERR hash value is not an integer");
  } else if (__builtin_add_overflow(value, *increment, &sum)) {
    ctx.reply.error("ERR increment or decrement would overflow");
  } else {
    char text[20];
    set_number(hash, ctx.arg(2), {text, format_integer(sum, text)}, there, "hincrby");
    ctx.reply.integer(sum);
  }
  return Outcome::kDone;
}

Outcome hincrbyfloat_command(CommandContext& ctx) {
  const auto increment = long_double_argument(ctx.arg(3));
  if (!increment) return ctx.reply.error("ERR value is not a valid float"), Outcome::kDone;
  if (std::isinf(*increment)) return ctx.reply.error("ERR value is NaN or Infinity"), Outcome::kDone;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2) + 5200)) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash) return Outcome::kDone;
  HashField field;
  const bool there = get_field(hash, ctx.arg(2), field);
  char room[20];
  const auto value = there ? long_double_argument(field.value.view(room)) : std::optional<long double>(0);
  if (!value) {
    ctx.reply.error("ERR hash value is not a float");
  } else if (!std::isfinite(*value + *increment)) {
    ctx.reply.error("ERR increment would produce NaN or Infinity");
  } else {
    const std::string sum = format_long_double(*value + *increment);
    set_number(hash, ctx.arg(2), sum, there, "hincrbyfloat");
    ctx.reply.bulk(sum);
  }
  return Outcome::kDone;
}

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kHashCommands[] = {
    {.name = "hdel", .flags = kFreesSpace, .handler = hdel_command},
    {.name = "hexists", .handler = hexists_command},
    {.name = "hexpire", .handler = hexpire_command},
    {.name = "hexpireat", .handler = hexpireat_command},
    {.name = "hexpiretime", .handler = hexpiretime_command},
    {.name = "hget", .handler = hget_command},
    {.name = "hgetall", .handler = hgetall_command},
    {.name = "hgetdel", .flags = kFreesSpace, .handler = hgetdel_command},
    {.name = "hgetex", .handler = hgetex_command},
    {.name = "hincrby", .handler = hincrby_command},
    {.name = "hincrbyfloat", .handler = hincrbyfloat_command},
    {.name = "hkeys", .handler = hkeys_command},
    {.name = "hlen", .handler = hlen_command},
    {.name = "hmget", .handler = hmget_command},
    {.name = "hmset", .handler = hmset_command},
    {.name = "hpersist", .handler = hpersist_command},
    {.name = "hpexpire", .handler = hpexpire_command},
    {.name = "hpexpireat", .handler = hpexpireat_command},
    {.name = "hpexpiretime", .handler = hpexpiretime_command},
    {.name = "hpttl", .handler = hpttl_command},
    {.name = "hrandfield", .handler = hrandfield_command,
     .status = "differs: a count below -16777216 is out of range"},
    {.name = "hscan", .handler = hscan_command},
    {.name = "hset", .handler = hset_command},
    {.name = "hsetex", .handler = hsetex_command},
    {.name = "hsetnx", .handler = hsetnx_command},
    {.name = "hstrlen", .handler = hstrlen_command},
    {.name = "httl", .handler = httl_command},
    {.name = "hvals", .handler = hvals_command},
};

}  // namespace

std::span<const CommandSpec> hash_commands() { return kHashCommands; }

}  // namespace pion
