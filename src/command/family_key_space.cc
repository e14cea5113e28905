// KEYS SCAN RANDOMKEY DBSIZE FLUSHDB FLUSHALL: commands about a whole database.
#include <algorithm>

#include "command/arguments.h"
#include "command/collection.h"
#include "command/family_key.h"
#include "command/glob.h"
#include "command/string_value.h"
#include "storage/storage.h"

namespace pion {
namespace {

constexpr uint64_t kKeysOnReactor = 4096;  // looking at more keys than this is a worker's job

std::optional<ValueType> type_of_name(std::string_view name) {
  static constexpr std::pair<std::string_view, ValueType> kNames[] = {
      {"string", ValueType::kString}, {"list", ValueType::kList}, {"set", ValueType::kSet},
      {"zset", ValueType::kSortedSet}, {"hash", ValueType::kHash}, {"stream", ValueType::kStream},
  };
  for (const auto& [known, type] : kNames) {
    if (same_word(known, name)) return type;
  }
  return std::nullopt;
}

void reply_keys(ReplyWriter& reply, const std::vector<std::string>& keys) {
  reply.array(static_cast<int64_t>(keys.size()));
  for (const std::string& key : keys) reply.bulk(key);
}

void match_pattern(Keyspace::ScanFilter& filter, std::string_view pattern) {
  filter.matches = nullptr;  // a later MATCH takes the place of an earlier one
  if (pattern != "*") filter.matches = [pattern](std::string_view key) { return glob_match(pattern, key); };
}

Lsn everything_so_far(CommandContext& ctx) { return ctx.services.storage->journal().appended_lsn(); }

// ASYNC and SYNC are the same to us: the keys are gone at once, their memory is freed in the background.
bool flush_argument_holds(CommandContext& ctx) {
  if (ctx.argc() == 1 || (ctx.argc() == 2 && (same_word(ctx.arg(1), "ASYNC") || same_word(ctx.arg(1), "SYNC")))) return true;
  ctx.reply.error(kSyntaxError);
  return false;
}

Outcome flush(CommandContext& ctx, int database) {
  if (!flush_argument_holds(ctx) || !admitted(ctx, 16)) return Outcome::kDone;
  ctx.require_lsn(ctx.services.keyspace->flush(database));
  ctx.reply.ok();
  return Outcome::kDone;
}

}  // namespace

Outcome keys_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const std::string_view pattern = ctx.arg(1);
  Lsn visible = 0;
  std::vector<std::string> keys;
  // Without a wildcard only one key can match.
  if (pattern.find_first_of("*?[\\") == std::string_view::npos) {
    const Key key = keyspace.key(pattern);
    KeyAccess access(keyspace, key);
    if (access.find(ctx.session.database, key, KeyAccess::Lookup::kPeek)) keys.emplace_back(pattern);
    visible = access.finish();
  } else {
    if (!ctx.on_worker && keyspace.size(ctx.session.database) > kKeysOnReactor) return Outcome::kNeedsWorker;
    Keyspace::ScanFilter filter;
    match_pattern(filter, pattern);
    keyspace.scan(ctx.session.database, 0, UINT64_MAX, filter, keys, visible);
  }
  ctx.require_lsn(visible);
  reply_keys(ctx.reply, keys);
  return Outcome::kDone;
}

Outcome scan_command(CommandContext& ctx) {
  const auto cursor = cursor_argument(ctx.arg(1));
  if (!cursor) {
    ctx.reply.error("ERR invalid cursor");
    return Outcome::kDone;
  }
  int64_t count = 10;
  bool no_such_type = false;  // no error: nothing is of that type
  Keyspace::ScanFilter filter;
  for (size_t i = 2; i < ctx.argc(); i += 2) {
    const std::string_view word = ctx.arg(i);
    if (i + 1 < ctx.argc() && same_word(word, "COUNT")) {
      const auto number = integer_argument(ctx.arg(i + 1));
      if (!number || *number < 1) {
        ctx.reply.error(number ? kSyntaxError : kNotAnInteger);
        return Outcome::kDone;
      }
      count = *number;
    } else if (i + 1 < ctx.argc() && same_word(word, "MATCH")) {
      match_pattern(filter, ctx.arg(i + 1));
    } else if (i + 1 < ctx.argc() && same_word(word, "TYPE")) {
      const auto type = type_of_name(ctx.arg(i + 1));
      filter.type = type.value_or(ValueType::kNone);
      no_such_type = !type;
    } else {
      const bool novalues = same_word(word, "NOVALUES");
      ctx.reply.error(novalues ? "ERR NOVALUES option can only be used in HSCAN" : kSyntaxError);
      return Outcome::kDone;
    }
  }
  if (no_such_type) filter.matches = [](std::string_view) { return false; };
  Keyspace& keyspace = *ctx.services.keyspace;
  if (!ctx.on_worker && count > static_cast<int64_t>(kKeysOnReactor) && keyspace.size(ctx.session.database) > kKeysOnReactor) {
    return Outcome::kNeedsWorker;
  }
  Lsn visible = 0;
  std::vector<std::string> keys;
  const uint64_t next = keyspace.scan(ctx.session.database, *cursor, static_cast<uint64_t>(count), filter, keys, visible);
  ctx.require_lsn(visible);
  ctx.reply.array(2);
  ctx.reply.bulk(std::to_string(next));
  reply_keys(ctx.reply, keys);
  return Outcome::kDone;
}

Outcome randomkey_command(CommandContext& ctx) {
  std::string key;
  Lsn visible = 0;
  const bool any = ctx.services.keyspace->random_key(ctx.session.database, key, visible);
  ctx.require_lsn(visible);
  any ? ctx.reply.bulk(key) : ctx.reply.nil();
  return Outcome::kDone;
}

Outcome dbsize_command(CommandContext& ctx) {
  ctx.reply.integer(static_cast<int64_t>(ctx.services.keyspace->size(ctx.session.database)));
  ctx.require_lsn(everything_so_far(ctx));
  return Outcome::kDone;
}

Outcome flushdb_command(CommandContext& ctx) { return flush(ctx, ctx.session.database); }
Outcome flushall_command(CommandContext& ctx) { return flush(ctx, -1); }

}  // namespace pion
