// DEL UNLINK EXISTS TOUCH TYPE OBJECT, and the table of the key family.
#include "command/family_key.h"

#include <vector>

#include "command/arguments.h"
#include "command/families.h"
#include "command/string_value.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

Outcome del_command(CommandContext& ctx) {
  const std::vector<Key> keys = keys_of_arguments(ctx, 1);
  uint64_t record_bytes = 0;
  for (const Key& key : keys) record_bytes += key.bytes.size() + 16;
  if (!admitted(ctx, record_bytes)) return Outcome::kDone;
  KeyAccess access(*ctx.services.keyspace, keys);
  int64_t deleted = 0;
  for (const Key& key : keys) {
    const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kPeek);
    if (!found) continue;
    access.erase(ctx.session.database, key, found);
    access.event(KeyEvent::kGeneric, "del", ctx.session.database, key);
    ++deleted;
  }
  ctx.require_lsn(access.finish());
  ctx.reply.integer(deleted);
  return Outcome::kDone;
}

Outcome count_keys(CommandContext& ctx, KeyAccess::Lookup lookup) {
  const std::vector<Key> keys = keys_of_arguments(ctx, 1);
  KeyAccess access(*ctx.services.keyspace, keys);
  int64_t there = 0;
  for (const Key& key : keys) there += access.find(ctx.session.database, key, lookup) ? 1 : 0;
  ctx.require_lsn(access.finish());
  ctx.reply.integer(there);
  return Outcome::kDone;
}

Outcome exists_command(CommandContext& ctx) { return count_keys(ctx, KeyAccess::Lookup::kNoTouch); }
Outcome touch_command(CommandContext& ctx) { return count_keys(ctx, KeyAccess::Lookup::kRead); }

std::string_view type_name(const Found& found) {
  if (!found) return "none";
  const ValueOps* ops = value_ops(found.entry->type());
  return ops ? ops->name : "string";
}

Outcome type_command(CommandContext& ctx) {
  const Key key = ctx.services.keyspace->key(ctx.arg(1));
  KeyAccess access(*ctx.services.keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kNoTouch);
  ctx.reply.simple(type_name(found));
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

// OBJECT's looks at a key are no accesses.
template <typename Answer>
Outcome object_of(CommandContext& ctx, Answer&& answer) {
  const Key key = ctx.services.keyspace->key(ctx.arg(2));
  KeyAccess access(*ctx.services.keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kPeek);
  found ? answer(*found.entry) : ctx.reply.nil();
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

Outcome object_encoding(CommandContext& ctx) {
  return object_of(ctx, [&](const Entry& entry) {
    if (const ValueOps* ops = value_ops(entry.type())) return ctx.reply.bulk(ops->encoding_name(entry));
    switch (entry.encoding()) {
      case Encoding::kInt: return ctx.reply.bulk("int");
      case Encoding::kInline: return ctx.reply.bulk("embstr");
      case Encoding::kInlineRaw:
      case Encoding::kHeap:
      case Encoding::kExtent:
      case Encoding::kObject: return ctx.reply.bulk("raw");
    }
  });
}

Outcome object_refcount(CommandContext& ctx) {
  return object_of(ctx, [&](const Entry&) { ctx.reply.integer(1); });
}

Outcome object_freq(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  return object_of(ctx, [&](const Entry& entry) {
    if (uses_lfu(keyspace.settings.policy.load())) return ctx.reply.integer(keyspace.access_frequency(entry));
    ctx.reply.error(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies "
        "at runtime LRU and LFU data will take some time to adjust.");
  });
}

Outcome object_idletime(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  return object_of(ctx, [&](const Entry& entry) {
    if (!uses_lfu(keyspace.settings.policy.load())) return ctx.reply.integer(keyspace.idle_s(entry));
    ctx.reply.error(
        "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime "
        "LRU and LFU data will take some time to adjust.");
  });
}

Outcome object_help(CommandContext& ctx) {
  static constexpr std::string_view kLines[] = {
      "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "ENCODING <key>",
      "    Return the kind of internal representation used in order to store the value",
      "    associated with a <key>.",
      "FREQ <key>",
      "    Return the access frequency index of the <key>. The returned integer is",
      "    proportional to the logarithm of the recent access frequency of the key.",
      "IDLETIME <key>",
      "    Return the idle time of the <key>, that is the approximated number of",
      "    seconds elapsed since the last access to the key.",
      "REFCOUNT <key>",
      "    Return the number of references of the value associated with the specified",
      "    <key>.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(ctx, kLines);
}

constexpr CommandSpec kObjectCommands[] = {
    {.name = "object|encoding", .handler = object_encoding}, {.name = "object|freq", .handler = object_freq},
    {.name = "object|help", .handler = object_help},         {.name = "object|idletime", .handler = object_idletime},
    {.name = "object|refcount", .handler = object_refcount},
};

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kKeyCommands[] = {
    {.name = "copy", .handler = copy_command},
    {.name = "dbsize", .handler = dbsize_command},
    {.name = "del", .flags = kFreesSpace, .handler = del_command},
    {.name = "exists", .handler = exists_command},
    {.name = "expire", .handler = expire_command},
    {.name = "expireat", .handler = expireat_command},
    {.name = "expiretime", .handler = expiretime_command},
    {.name = "flushall", .flags = kFreesSpace, .handler = flushall_command},
    {.name = "flushdb", .flags = kFreesSpace, .handler = flushdb_command},
    {.name = "keys", .handler = keys_command},
    {.name = "move", .handler = move_command},
    {.name = "object", .subcommands = kObjectCommands},
    {.name = "persist", .handler = persist_command},
    {.name = "pexpire", .handler = pexpire_command},
    {.name = "pexpireat", .handler = pexpireat_command},
    {.name = "pexpiretime", .handler = pexpiretime_command},
    {.name = "pttl", .handler = pttl_command},
    {.name = "randomkey", .handler = randomkey_command},
    {.name = "rename", .handler = rename_command},
    {.name = "renamenx", .handler = renamenx_command},
    {.name = "scan", .handler = scan_command},
    {.name = "swapdb", .handler = swapdb_command},
    {.name = "touch", .handler = touch_command},
    {.name = "ttl", .handler = ttl_command},
    {.name = "type", .handler = type_command},
    {.name = "unlink", .flags = kFreesSpace, .handler = del_command},
};

}  // namespace

std::span<const CommandSpec> key_commands() { return kKeyCommands; }

}  // namespace pion
