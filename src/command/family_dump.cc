// DUMP RESTORE RESTORE-ASKING: values in Redis' own serialization (keyspace/rdb_value.h).
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/limits.h"
#include "command/arguments.h"
#include "command/collection.h"
#include "command/families.h"
#include "command/overwritten.h"
#include "command/string_value.h"
#include "keyspace/rdb_value.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr uint64_t kBytesOnReactor = kStreamBulkBytes - 1;  // what is longer is translated by a worker
constexpr uint64_t kPayloadOnReactor = 8 * kKiB;             // which may be compressed many times over

bool is_large(const Entry& entry) {
  if (entry.type() == ValueType::kString) return entry.encoding() == Encoding::kExtent || string_size(entry) > kBytesOnReactor;
  return value_ops(entry.type())->length(entry) > kElementsOnReactor || value_memory_bytes(entry) > kBytesOnReactor;
}

Outcome dump_command(CommandContext& ctx) {
  const Key key = ctx.services.keyspace->key(ctx.arg(1));
  KeyAccess access(*ctx.services.keyspace, key);
  if (ctx.session.no_touch) access.no_touch();
  const Found found = access.find(ctx.session.database, key);
  if (!found) {
    ctx.require_lsn(access.finish());
    ctx.reply.nil();
    return Outcome::kDone;
  }
  if (is_large(*found.entry) && !ctx.on_worker) return Outcome::kNeedsWorker;
  // Copied under the lock, translated without it.
  const ValueType type = found.entry->type();
  std::string payload;
  if (type == ValueType::kString) {
    const PendingValue value = PendingValue::open(ctx, *found.entry);
    ctx.require_lsn(access.finish());
    const std::optional<std::string> bytes = value.bytes(ctx);
    if (!bytes) return Outcome::kDone;
    rdb_write_string(*bytes, payload);
  } else {
    std::string encoded;
    value_ops(type)->encode(*found.entry, encoded);
    ctx.require_lsn(access.finish());
    rdb_write_value(type, encoded, payload);
  }
  rdb_seal(payload);
  ctx.reply.bulk(payload);
  return Outcome::kDone;
}

struct RestoreOptions {
  bool replace = false, absolute = false;
  std::optional<int64_t> idle_s, frequency;
};

// False: the error was answered.
bool parse_options(CommandContext& ctx, RestoreOptions& options) {
  for (size_t i = 4; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    const bool more = i + 1 < ctx.argc();
    if (same_word(word, "REPLACE")) {
      options.replace = true;
    } else if (same_word(word, "ABSTTL")) {
      options.absolute = true;
    } else if (same_word(word, "IDLETIME") && more && !options.frequency) {
      options.idle_s = integer_argument(ctx.arg(++i));
      if (!options.idle_s) return ctx.reply.error(kNotAnInteger), false;
      if (*options.idle_s < 0) return ctx.reply.error("ERR Invalid IDLETIME value, must be >= 0"), false;
    } else if (same_word(word, "FREQ") && more && !options.idle_s) {
      options.frequency = integer_argument(ctx.arg(++i));
      if (!options.frequency) return ctx.reply.error(kNotAnInteger), false;
      if (*options.frequency < 0 || *options.frequency > 255) return ctx.reply.error("ERR Invalid FREQ value, must be >= 0 and <= 255"), false;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  return true;
}

// What is to be stored, made without any lock. Or the error, which a key that is there already comes before.
struct Restored {
  std::string error;
  int64_t expiry_ms = 0;
  bool expired = false;
  RdbValue read;
  std::optional<ArgumentValue> string;
  DecodedValue typed;
};

// False: the error is in it.
bool parse_expiry(CommandContext& ctx, const RestoreOptions& options, Restored& restored) {
  const auto ttl = integer_argument(ctx.arg(2));
  if (!ttl || *ttl < 0) return restored.error = ttl ? "ERR Invalid TTL value, must be >= 0" : kNotAnInteger, false;
  if (*ttl == 0) return true;
  const int64_t now = wall_ms();
  // One that is too far away lies in the past, as in Redis.
  restored.expiry_ms = options.absolute ? *ttl : static_cast<int64_t>(static_cast<uint64_t>(*ttl) + static_cast<uint64_t>(now));
  restored.expired = restored.expiry_ms <= now;
  return true;
}

bool read_payload(CommandContext& ctx, Restored& restored) {
  const std::optional<std::string_view> body = rdb_open(ctx.arg(3));
  if (!body) return restored.error = "ERR DUMP payload version or checksum are wrong", false;
  std::optional<RdbValue> read = rdb_read(*body);
  if (!read) return restored.error = "ERR Bad data format", false;
  restored.read = std::move(*read);
  return true;
}

void store(CommandContext& ctx, KeyAccess& access, const Key& key, Found found, const RestoreOptions& options, Restored& restored) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  const Overwritten overwritten(found, restored.read.type);
  overwritten.tell_new(access, database, key);
  Entry* entry;
  if (restored.string) {
    entry = access.set(database, key, found, restored.string->value(), restored.expiry_ms);
    restored.string->used();
  } else {
    const NewValue value{.kind = NewValue::Kind::kTyped, .type = restored.read.type, .bytes = restored.typed.packed,
                         .encoded = restored.read.bytes, .object = restored.typed.object.release()};
    entry = access.set_typed(database, key, found, value, restored.expiry_ms);
  }
  if (options.idle_s) keyspace.set_idle_s(*entry, static_cast<uint64_t>(*options.idle_s));
  if (options.frequency) keyspace.set_access_frequency(*entry, static_cast<uint8_t>(*options.frequency));
  access.event(KeyEvent::kGeneric, "restore", database, key);
  overwritten.tell(access, database, key);
}

Outcome restore_command(CommandContext& ctx) {
  RestoreOptions options;
  if (!parse_options(ctx, options)) return Outcome::kDone;
  if (ctx.arg(3).size() > kPayloadOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(1));
  Restored restored;
  if (parse_expiry(ctx, options, restored) && read_payload(ctx, restored) && !restored.expired) {
    const std::string& bytes = restored.read.bytes;
    if (bytes.size() > kBytesOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;  // it was compressed
    if (restored.read.type == ValueType::kString) {
      std::optional<ArgumentValue> value = ArgumentValue::of_bytes(ctx, bytes);
      if (!value) return Outcome::kDone;
      restored.string.emplace(std::move(*value));
    } else {
      restored.typed = value_ops(restored.read.type)->decode(bytes, keyspace.pool());
    }
  }
  const uint64_t value_bytes = restored.string ? restored.string->value().record_bytes() : restored.read.bytes.size();
  if (!admitted(ctx, key.bytes.size() + value_bytes + 64)) return Outcome::kDone;
  KeyAccess access(keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kWrite);
  if (found && !options.replace) {
    ctx.reply.error("BUSYKEY Target key name already exists.");
  } else if (!restored.error.empty()) {
    ctx.reply.error(restored.error);
  } else {
    if (!restored.expired) {
      store(ctx, access, key, found, options, restored);
    } else if (found) {
      access.erase(ctx.session.database, key, found);
      access.event(KeyEvent::kGeneric, "del", ctx.session.database, key);
    }
    ctx.reply.ok();
  }
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kDumpCommands[] = {
    {.name = "dump", .handler = dump_command},
    {.name = "restore", .handler = restore_command, .status = "differs: every payload is looked through, as with sanitize-dump-payload yes"},
    {.name = "restore-asking", .handler = restore_command, .status = "differs: every payload is looked through, as with sanitize-dump-payload yes"},
};

}  // namespace

std::span<const CommandSpec> dump_commands() { return kDumpCommands; }

}  // namespace pion
