// EXPIRE PEXPIRE EXPIREAT PEXPIREAT TTL PTTL EXPIRETIME PEXPIRETIME PERSIST.
#include "base/clock.h"
#include "command/arguments.h"
#include "command/family_key.h"
#include "command/string_value.h"
#include "command/table.h"

namespace pion {
namespace {

struct ExpireOptions {
  bool nx = false, xx = false, gt = false, lt = false;
};

// False: the error was answered.
bool parse_options(CommandContext& ctx, ExpireOptions& options) {
  for (size_t i = 3; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    if (same_word(word, "NX")) {
      options.nx = true;
    } else if (same_word(word, "XX")) {
      options.xx = true;
    } else if (same_word(word, "GT")) {
      options.gt = true;
    } else if (same_word(word, "LT")) {
      options.lt = true;
    } else {
      return ctx.reply.error("ERR Unsupported option " + std::string(word.substr(0, word.find('\0')))), false;
    }
  }
  if (options.nx && (options.xx || options.gt || options.lt)) {
    return ctx.reply.error("ERR NX and XX, GT or LT options at the same time are not compatible"), false;
  }
  if (options.gt && options.lt) return ctx.reply.error("ERR GT and LT options at the same time are not compatible"), false;
  return true;
}

// From the argument to wall milliseconds; false when it does not fit.
bool to_wall_ms(int64_t& when, bool in_seconds, bool absolute) {
  if (in_seconds && (when > INT64_MAX / 1000 || when < INT64_MIN / 1000)) return false;
  if (in_seconds) when *= 1000;
  const int64_t base = absolute ? 0 : wall_ms();
  if (when > INT64_MAX - base) return false;
  when += base;
  return true;
}

bool allowed(const ExpireOptions& options, const Entry& entry, int64_t when) {
  const bool has = entry.has_expiry();
  if (options.nx && has) return false;
  if (options.xx && !has) return false;
  if (options.gt && (!has || when <= entry.expiry())) return false;
  return !(options.lt && has && when >= entry.expiry());
}

Outcome expire_generic(CommandContext& ctx, bool in_seconds, bool absolute) {
  ExpireOptions options;
  const auto number = integer_argument(ctx.arg(2));
  if (!parse_options(ctx, options)) return Outcome::kDone;
  if (!number) {
    ctx.reply.error(kNotAnInteger);
    return Outcome::kDone;
  }
  int64_t when = *number;
  if (!to_wall_ms(when, in_seconds, absolute)) {
    ctx.reply.error("ERR invalid expire time in '" + std::string(ctx.spec.name) + "' command");
    return Outcome::kDone;
  }
  const int database = ctx.session.database;
  const Key key = ctx.services.keyspace->key(ctx.arg(1));
  if (!admitted(ctx, key.bytes.size() + 24)) return Outcome::kDone;
  KeyAccess access(*ctx.services.keyspace, key);
  const Found found = access.find(database, key, KeyAccess::Lookup::kWrite);
  const bool sets = found && allowed(options, *found.entry, when);
  if (sets && when <= wall_ms()) {
    access.erase(database, key, found);
    access.event(KeyEvent::kGeneric, "del", database, key);
  } else if (sets) {
    access.set_expiry(database, key, found, when);
    access.event(KeyEvent::kGeneric, "expire", database, key);
  }
  ctx.require_lsn(access.finish());
  ctx.reply.integer(sets);
  return Outcome::kDone;
}

// -2: no key, -1: no expiry.
Outcome expiry_reply(CommandContext& ctx, bool in_seconds, bool absolute) {
  const Key key = ctx.services.keyspace->key(ctx.arg(1));
  KeyAccess access(*ctx.services.keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kNoTouch);
  int64_t answer = found ? -1 : -2;
  if (found && found.entry->has_expiry()) {
    answer = found.entry->expiry();
    if (!absolute) answer = std::max<int64_t>(0, answer - wall_ms());
    if (in_seconds) answer = answer / 1000 + (answer % 1000 >= 500 ? 1 : 0);
  }
  ctx.require_lsn(access.finish());
  ctx.reply.integer(answer);
  return Outcome::kDone;
}

}  // namespace

Outcome expire_command(CommandContext& ctx) { return expire_generic(ctx, true, false); }
Outcome pexpire_command(CommandContext& ctx) { return expire_generic(ctx, false, false); }
Outcome expireat_command(CommandContext& ctx) { return expire_generic(ctx, true, true); }
Outcome pexpireat_command(CommandContext& ctx) { return expire_generic(ctx, false, true); }
Outcome ttl_command(CommandContext& ctx) { return expiry_reply(ctx, true, false); }
Outcome pttl_command(CommandContext& ctx) { return expiry_reply(ctx, false, false); }
Outcome expiretime_command(CommandContext& ctx) { return expiry_reply(ctx, true, true); }
Outcome pexpiretime_command(CommandContext& ctx) { return expiry_reply(ctx, false, true); }

Outcome persist_command(CommandContext& ctx) {
  const Key key = ctx.services.keyspace->key(ctx.arg(1));
  if (!admitted(ctx, key.bytes.size() + 24)) return Outcome::kDone;
  KeyAccess access(*ctx.services.keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kWrite);
  const bool had = found && found.entry->has_expiry();
  if (had) {
    access.set_expiry(ctx.session.database, key, found, 0);
    access.event(KeyEvent::kGeneric, "persist", ctx.session.database, key);
  }
  ctx.require_lsn(access.finish());
  ctx.reply.integer(had);
  return Outcome::kDone;
}

}  // namespace pion
