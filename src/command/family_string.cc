// GET SET SETNX SETEX PSETEX GETSET GETDEL GETEX MGET MSET MSETNX, and the table of the string family.
#include "command/family_string.h"

#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "command/arguments.h"
#include "command/families.h"
#include "command/string_value.h"

namespace pion {
namespace {

// SET's and GETEX's options.
struct SetOptions {
  bool nx = false, xx = false, get = false, keep_ttl = false, persist = false;
  size_t expire_position = 0;  // of the number; 0: none
  bool in_seconds = false;
  bool absolute = false;
};

// False: a syntax error. Which words may stand together is as in Redis: the same word twice is fine, the last one counts.
bool parse_options(CommandContext& ctx, size_t first, bool for_set, SetOptions& options) {
  enum class Unit { kNone, kEx, kPx, kExAt, kPxAt } unit = Unit::kNone;
  for (size_t i = first; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    Unit wanted = Unit::kNone;
    if (same_word(word, "EX")) wanted = Unit::kEx;
    if (same_word(word, "PX")) wanted = Unit::kPx;
    if (same_word(word, "EXAT")) wanted = Unit::kExAt;
    if (same_word(word, "PXAT")) wanted = Unit::kPxAt;
    if (wanted != Unit::kNone) {
      const bool clash = options.keep_ttl || options.persist || (unit != Unit::kNone && unit != wanted);
      if (clash || i + 1 == ctx.argc()) return false;
      unit = wanted;
      options.expire_position = ++i;
      options.in_seconds = unit == Unit::kEx || unit == Unit::kExAt;
      options.absolute = unit == Unit::kExAt || unit == Unit::kPxAt;
    } else if (for_set && same_word(word, "NX") && !options.xx) {
      options.nx = true;
    } else if (for_set && same_word(word, "XX") && !options.nx) {
      options.xx = true;
    } else if (for_set && same_word(word, "GET")) {
      options.get = true;
    } else if (for_set && same_word(word, "KEEPTTL") && unit == Unit::kNone) {
      options.keep_ttl = true;
    } else if (!for_set && same_word(word, "PERSIST") && unit == Unit::kNone) {
      options.persist = true;
    } else {
      return false;
    }
  }
  return true;
}

// Wall milliseconds of an expiry argument. False: the error was answered.
bool parse_expiry(CommandContext& ctx, size_t position, bool in_seconds, bool absolute, int64_t& at_ms) {
  const auto number = integer_argument(ctx.arg(position));
  if (!number) {
    ctx.reply.error(kNotAnInteger);
    return false;
  }
  at_ms = *number;
  bool valid = at_ms > 0 && !(in_seconds && at_ms > INT64_MAX / 1000);
  if (valid && in_seconds) at_ms *= 1000;
  if (valid && !absolute) {
    const int64_t now = wall_ms();
    valid = at_ms <= INT64_MAX - now;
    if (valid) at_ms += now;
  }
  if (!valid) ctx.reply.error("ERR invalid expire time in '" + std::string(ctx.spec.name) + "' command");
  return valid;
}

// A handler that reads a value must give way to a worker when the value lies in an extent.
bool must_move_to_worker(const CommandContext& ctx, const Found& found) { return is_extent(found) && !ctx.on_worker; }

Outcome get_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(1));
  KeyAccess access(keyspace, key);
  if (ctx.session.no_touch) access.no_touch();
  const Found found = access.find(ctx.session.database, key);
  if (must_move_to_worker(ctx, found)) return Outcome::kNeedsWorker;
  if (!found) {
    ctx.reply.nil();
  } else if (found.entry->type() != ValueType::kString) {
    ctx.reply.error(kWrongType);
  } else if (is_extent(found)) {
    const PendingValue value = PendingValue::open(ctx, *found.entry);
    ctx.require_lsn(access.finish());
    value.reply(ctx);
    return Outcome::kDone;
  } else {
    reply_string(ctx.reply, *found.entry);
  }
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

// What the forms of SET have in common.
struct SetRequest {
  size_t value_position = 2;
  SetOptions options;
  bool integer_reply = false;  // SETNX
};

Outcome set_value(CommandContext& ctx, const SetRequest& request) {
  const SetOptions& options = request.options;
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  const Key key = keyspace.key(ctx.arg(1));
  int64_t expiry_ms = 0;
  if (options.expire_position != 0 &&
      !parse_expiry(ctx, options.expire_position, options.in_seconds, options.absolute, expiry_ms)) {
    return Outcome::kDone;
  }
  if (options.get && !ctx.on_worker) {
    // Looked at first: once the argument was taken this handler cannot start over on a worker.
    KeyAccess access(keyspace, key);
    if (is_extent(access.find(database, key, KeyAccess::Lookup::kPeek))) return Outcome::kNeedsWorker;
  }
  auto argument = ArgumentValue::take(ctx, request.value_position);
  if (!argument || !admitted(ctx, key.bytes.size() + argument->value().record_bytes() + 32)) return Outcome::kDone;

  KeyAccess access(keyspace, key);
  const Found found = access.find(database, key, options.get ? KeyAccess::Lookup::kRead : KeyAccess::Lookup::kWrite);
  std::optional<PendingValue> old;
  if (options.get && found) {
    if (found.entry->type() != ValueType::kString) {
      ctx.reply.error(kWrongType);
      ctx.require_lsn(access.finish());
      return Outcome::kDone;
    }
    old = PendingValue::open(ctx, *found.entry);
  }
  const bool stores = !(options.nx && found) && !(options.xx && !found);
  if (stores) {
    if (options.keep_ttl && found && found.entry->has_expiry()) expiry_ms = found.entry->expiry();
    access.event_overwritten(database, key, found, ValueType::kString);
    access.set(database, key, found, argument->value(), expiry_ms);
    argument->used();
    access.event(KeyEvent::kString, "set", database, key);
    if (options.expire_position != 0) access.event(KeyEvent::kGeneric, "expire", database, key);
  }
  ctx.require_lsn(access.finish());
  if (options.get) {
    old ? old->reply(ctx) : ctx.reply.nil();
  } else if (request.integer_reply) {
    ctx.reply.integer(stores);
  } else {
    stores ? ctx.reply.ok() : ctx.reply.nil();
  }
  return Outcome::kDone;
}

Outcome set_command(CommandContext& ctx) {
  SetRequest request;
  if (ctx.argc() > 3 && !parse_options(ctx, 3, true, request.options)) {
    ctx.reply.error(kSyntaxError);
    return Outcome::kDone;
  }
  return set_value(ctx, request);
}

Outcome setnx_command(CommandContext& ctx) { return set_value(ctx, {.options = {.nx = true}, .integer_reply = true}); }
Outcome setex_command(CommandContext& ctx) {
  return set_value(ctx, {.value_position = 3, .options = {.expire_position = 2, .in_seconds = true}});
}
Outcome psetex_command(CommandContext& ctx) { return set_value(ctx, {.value_position = 3, .options = {.expire_position = 2}}); }
Outcome getset_command(CommandContext& ctx) { return set_value(ctx, {.options = {.get = true}}); }

Outcome getdel_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(1));
  if (!admitted(ctx, key.bytes.size() + 16)) return Outcome::kDone;
  KeyAccess access(keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kRead);
  if (must_move_to_worker(ctx, found)) return Outcome::kNeedsWorker;
  std::optional<PendingValue> old;
  const bool wrong_type = found && found.entry->type() != ValueType::kString;
  if (found && !wrong_type) {
    old = PendingValue::open(ctx, *found.entry);
    access.erase(ctx.session.database, key, found);
    access.event(KeyEvent::kGeneric, "del", ctx.session.database, key);
  }
  ctx.require_lsn(access.finish());
  if (wrong_type) {
    ctx.reply.error(kWrongType);
  } else {
    old ? old->reply(ctx) : ctx.reply.nil();
  }
  return Outcome::kDone;
}

Outcome getex_command(CommandContext& ctx) {
  SetOptions options;
  if (!parse_options(ctx, 2, false, options)) {
    ctx.reply.error(kSyntaxError);
    return Outcome::kDone;
  }
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  const Key key = keyspace.key(ctx.arg(1));
  const bool changes = options.expire_position != 0 || options.persist;
  if (changes && !admitted(ctx, key.bytes.size() + 32)) return Outcome::kDone;
  KeyAccess access(keyspace, key);
  const Found found = access.find(database, key, KeyAccess::Lookup::kRead);
  if (must_move_to_worker(ctx, found)) return Outcome::kNeedsWorker;
  if (!found || found.entry->type() != ValueType::kString) {
    found ? ctx.reply.error(kWrongType) : ctx.reply.nil();
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  }
  int64_t expiry_ms = 0;
  if (options.expire_position != 0 &&
      !parse_expiry(ctx, options.expire_position, options.in_seconds, options.absolute, expiry_ms)) {
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  }
  const PendingValue value = PendingValue::open(ctx, *found.entry);
  if (options.absolute && expiry_ms != 0 && expiry_ms <= wall_ms()) {
    access.erase(database, key, found);
    access.event(KeyEvent::kGeneric, "del", database, key);
  } else if (expiry_ms != 0 || (options.persist && found.entry->has_expiry())) {
    access.set_expiry(database, key, found, expiry_ms);
    access.event(KeyEvent::kGeneric, expiry_ms != 0 ? "expire" : "persist", database, key);
  }
  ctx.require_lsn(access.finish());
  value.reply(ctx);
  return Outcome::kDone;
}

Outcome mget_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const std::vector<Key> keys = keys_of_arguments(ctx, 1);
  KeyAccess access(keyspace, keys);
  if (ctx.session.no_touch) access.no_touch();
  if (!ctx.on_worker) {
    for (const Key& key : keys) {
      if (is_extent(access.find(ctx.session.database, key, KeyAccess::Lookup::kPeek))) return Outcome::kNeedsWorker;
    }
    // Nothing lies on disk: answered from under the locks, without copies.
    ctx.reply.array(static_cast<int64_t>(keys.size()));
    for (const Key& key : keys) {
      const Found found = access.find(ctx.session.database, key);
      found && found.entry->type() == ValueType::kString ? reply_string(ctx.reply, *found.entry) : ctx.reply.nil();
    }
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  }
  std::vector<std::optional<PendingValue>> values;
  for (const Key& key : keys) {
    const Found found = access.find(ctx.session.database, key);
    const bool string = found && found.entry->type() == ValueType::kString;
    values.push_back(string ? std::optional(PendingValue::open(ctx, *found.entry)) : std::nullopt);
  }
  ctx.require_lsn(access.finish());
  ctx.reply.array(static_cast<int64_t>(keys.size()));
  for (const auto& value : values) value ? value->reply(ctx) : ctx.reply.nil();
  return Outcome::kDone;
}

Outcome set_many(CommandContext& ctx, bool only_if_none_exists) {
  if (ctx.argc() % 2 == 0) {
    ctx.reply.error("ERR wrong number of arguments for '" + std::string(ctx.spec.name) + "' command");
    return Outcome::kDone;
  }
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  std::vector<Key> keys;
  std::vector<ArgumentValue> values;
  uint64_t record_bytes = 0;
  for (size_t i = 1; i + 1 < ctx.argc(); i += 2) {
    keys.push_back(keyspace.key(ctx.arg(i)));
    auto value = ArgumentValue::take(ctx, i + 1);
    if (!value) return Outcome::kDone;
    record_bytes += keys.back().bytes.size() + value->value().record_bytes() + 16;
    values.push_back(std::move(*value));
  }
  if (!admitted(ctx, record_bytes)) return Outcome::kDone;
  KeyAccess access(keyspace, keys);
  bool stores = true;
  for (size_t i = 0; only_if_none_exists && stores && i < keys.size(); ++i) {
    stores = !access.find(database, keys[i], KeyAccess::Lookup::kWrite);
  }
  for (size_t i = 0; stores && i < keys.size(); ++i) {
    const Found found = access.find(database, keys[i], KeyAccess::Lookup::kWrite);
    access.event_overwritten(database, keys[i], found, ValueType::kString);
    access.set(database, keys[i], found, values[i].value(), 0);
    values[i].used();
    access.event(KeyEvent::kString, "set", database, keys[i]);
  }
  ctx.require_lsn(access.finish());
  if (only_if_none_exists) {
    ctx.reply.integer(stores);
  } else {
    ctx.reply.ok();
  }
  return Outcome::kDone;
}

Outcome mset_command(CommandContext& ctx) { return set_many(ctx, false); }
Outcome msetnx_command(CommandContext& ctx) { return set_many(ctx, true); }

// Values of keys lie in a space of their own, without aux bytes.
constexpr CommandSpec::StreamRule kStreamed{.stream = true, .space = static_cast<uint32_t>(Space::kValues)};

CommandSpec::StreamRule second_streams(const Arguments&, size_t position) { return position == 2 ? kStreamed : CommandSpec::StreamRule{}; }
CommandSpec::StreamRule third_streams(const Arguments&, size_t position) { return position == 3 ? kStreamed : CommandSpec::StreamRule{}; }
CommandSpec::StreamRule even_streams(const Arguments&, size_t position) {
  return position > 0 && position % 2 == 0 ? kStreamed : CommandSpec::StreamRule{};
}

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kStringCommands[] = {
    {.name = "append", .handler = append_command},
    {.name = "decr", .handler = decr_command},
    {.name = "decrby", .handler = decrby_command},
    {.name = "get", .handler = get_command},
    {.name = "getdel", .flags = kFreesSpace, .handler = getdel_command},
    {.name = "getex", .handler = getex_command},
    {.name = "getrange", .handler = getrange_command},
    {.name = "getset", .handler = getset_command, .stream_rule = second_streams},
    {.name = "incr", .handler = incr_command},
    {.name = "incrby", .handler = incrby_command},
    {.name = "incrbyfloat", .handler = incrbyfloat_command},
    {.name = "lcs", .handler = lcs_command},
    {.name = "mget", .handler = mget_command},
    {.name = "mset", .handler = mset_command, .stream_rule = even_streams},
    {.name = "msetnx", .handler = msetnx_command, .stream_rule = even_streams},
    {.name = "psetex", .handler = psetex_command, .stream_rule = third_streams},
    {.name = "set", .handler = set_command, .stream_rule = second_streams},
    {.name = "setex", .handler = setex_command, .stream_rule = third_streams},
    {.name = "setnx", .handler = setnx_command, .stream_rule = second_streams},
    {.name = "setrange", .handler = setrange_command},
    {.name = "strlen", .handler = strlen_command},
    {.name = "substr", .handler = getrange_command},
};

}  // namespace

std::span<const CommandSpec> string_commands() { return kStringCommands; }

}  // namespace pion
