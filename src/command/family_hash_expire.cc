// HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HTTL HPTTL HEXPIRETIME HPEXPIRETIME HPERSIST: fields that expire.
#include "base/clock.h"
#include "command/arguments.h"
#include "command/collection.h"
#include "command/family_hash.h"
#include "command/field_options.h"
#include "keyspace/hash_value.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = HashDelta::Op;

constexpr int64_t kNoField = -2, kNoExpiry = -1;

void reply_no_fields(CommandContext& ctx, size_t fields) {
  ctx.reply.array(static_cast<int64_t>(fields));
  for (size_t i = 0; i < fields; ++i) ctx.reply.integer(kNoField);
}

enum class Condition { kNone, kNx, kXx, kGt, kLt };

bool allowed(Condition condition, int64_t old_ms, int64_t new_ms) {
  switch (condition) {
    case Condition::kNone: return true;
    case Condition::kNx: return old_ms == 0;
    case Condition::kXx: return old_ms != 0;
    case Condition::kGt: return old_ms != 0 && old_ms < new_ms;
    case Condition::kLt: return old_ms == 0 || old_ms > new_ms;
  }
  return false;
}

Outcome expire_generic(CommandContext& ctx, bool in_seconds, bool absolute) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2) + ctx.argc() * ctx.arg(1).size())) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  int64_t at_ms = 0;
  if (!hash || !field_expiry_argument(ctx, 2, in_seconds, absolute, at_ms)) return Outcome::kDone;
  size_t position = 3;
  Condition condition = Condition::kNone;
  if (same_word(ctx.arg(3), "NX")) condition = Condition::kNx;
  if (same_word(ctx.arg(3), "XX")) condition = Condition::kXx;
  if (same_word(ctx.arg(3), "GT")) condition = Condition::kGt;
  if (same_word(ctx.arg(3), "LT")) condition = Condition::kLt;
  if (condition != Condition::kNone) ++position;
  if (!fields_argument(ctx, position, "ERR Parameter `numFields` should be greater than 0")) return Outcome::kDone;
  const size_t first = position + 2;
  if (!hash.exists()) return reply_no_fields(ctx, ctx.argc() - first), Outcome::kDone;
  bool deleted = false, updated = false;
  name_listpackex(hash, ctx.arg(first));
  const int64_t now = wall_ms();
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - first));
  for (size_t i = first; i < ctx.argc(); ++i) {
    HashField field;
    if (!hash.exists() || !HashReader(hash.entry(), now).get(ctx.arg(i), field)) {
      ctx.reply.integer(kNoField);
    } else if (!allowed(condition, field.expiry_ms, at_ms)) {
      ctx.reply.integer(0);
    } else if (at_ms <= now) {
      HashDelta(delta_of_thread(), Op::kRemove).field(ctx.arg(i));
      hash.change(delta_of_thread());
      deleted = true;
      ctx.reply.integer(2);
    } else {
      HashDelta(delta_of_thread(), Op::kExpire).field(ctx.arg(i)).expiry(at_ms);
      hash.change(delta_of_thread());
      updated = true;
      ctx.reply.integer(1);
    }
  }
  if (updated) hash.access().event(KeyEvent::kHash, "hexpire", ctx.session.database, hash.key());
  if (deleted) hash.event(KeyEvent::kHash, "hdel");
  return Outcome::kDone;
}

Outcome ttl_generic(CommandContext& ctx, bool in_seconds, bool absolute) {
  const TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kRead);
  if (!hash || !fields_argument(ctx, 2, kFieldsPositive)) return Outcome::kDone;
  if (!hash.exists()) return reply_no_fields(ctx, ctx.argc() - 4), Outcome::kDone;
  const int64_t now = wall_ms();
  const HashReader reader(hash.entry(), now);
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - 4));
  for (size_t i = 4; i < ctx.argc(); ++i) {
    HashField field;
    int64_t answer = kNoField;
    if (reader.get(ctx.arg(i), field)) {
      answer = kNoExpiry;
      if (field.expiry_ms != 0) {
        answer = absolute ? field.expiry_ms : field.expiry_ms - now;
        if (in_seconds) answer = (answer + 999) / 1000;
      }
    }
    ctx.reply.integer(answer);
  }
  return Outcome::kDone;
}

}  // namespace

Outcome hexpire_command(CommandContext& ctx) { return expire_generic(ctx, true, false); }
Outcome hpexpire_command(CommandContext& ctx) { return expire_generic(ctx, false, false); }
Outcome hexpireat_command(CommandContext& ctx) { return expire_generic(ctx, true, true); }
Outcome hpexpireat_command(CommandContext& ctx) { return expire_generic(ctx, false, true); }
Outcome httl_command(CommandContext& ctx) { return ttl_generic(ctx, true, false); }
Outcome hpttl_command(CommandContext& ctx) { return ttl_generic(ctx, false, false); }
Outcome hexpiretime_command(CommandContext& ctx) { return ttl_generic(ctx, true, true); }
Outcome hpexpiretime_command(CommandContext& ctx) { return ttl_generic(ctx, false, true); }

Outcome hpersist_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2) + ctx.argc() * ctx.arg(1).size())) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash || !fields_argument(ctx, 2, kFieldsPositive)) return Outcome::kDone;
  if (!hash.exists()) return reply_no_fields(ctx, ctx.argc() - 4), Outcome::kDone;
  bool changed = false;
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - 4));
  for (size_t i = 4; i < ctx.argc(); ++i) {
    HashField field;
    int64_t answer = kNoField;
    if (HashReader(hash.entry(), wall_ms()).get(ctx.arg(i), field)) {
      answer = field.expiry_ms == 0 ? kNoExpiry : 1;
      if (field.expiry_ms != 0) {
        HashDelta(delta_of_thread(), Op::kExpire).field(ctx.arg(i)).expiry(0);
        hash.change(delta_of_thread());
        changed = true;
      }
    }
    ctx.reply.integer(answer);
  }
  if (changed) hash.event(KeyEvent::kHash, "hpersist");
  return Outcome::kDone;
}

}  // namespace pion
