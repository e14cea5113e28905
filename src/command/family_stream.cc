// XADD XLEN XRANGE XREVRANGE XTRIM XSETID, and the table of the stream family.
#include "command/family_stream.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/families.h"
#include "command/stream_trim.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = StreamDelta::Op;

constexpr uint64_t kLargestEntry = 1 << 30;  // of names and values together, as Redis
constexpr uint64_t kIdRecordBytes = 20;

// The id of an entry to be added. False: it would not be behind the last one.
bool choose_id(const StreamOptions& options, StreamId last, StreamId& id) {
  if (options.automatic) {
    const auto now = static_cast<uint64_t>(wall_ms());
    id = {now, 0};
    if (id <= last) id = last, id.increment();
    return true;
  }
  id = options.id;
  if (options.any_seq && id.ms == last.ms) {
    if (last.seq == UINT64_MAX) return false;
    id.seq = last.seq + 1;
  }
  return id > last;
}

Outcome xadd_command(CommandContext& ctx) {
  StreamOptions options;
  const size_t id_at = parse_stream_options(ctx, true, options);
  if (id_at == 0) return Outcome::kDone;
  const size_t words = ctx.argc() - std::min(id_at + 1, ctx.argc());
  if (words < 2 || words % 2 != 0) return ctx.reply.error("ERR wrong number of arguments for 'xadd' command"), Outcome::kDone;
  if (!options.automatic && !options.any_seq && options.id == StreamId{}) {
    return ctx.reply.error("ERR The ID specified in XADD must be greater than 0-0"), Outcome::kDone;
  }
  if (!admitted(ctx, record_bytes_of_arguments(ctx, id_at))) return Outcome::kDone;
  StreamKey key(ctx, Lookup::kWrite);
  if (!key) return Outcome::kDone;
  if (!key.exists() && options.no_make) return ctx.reply.nil(), Outcome::kDone;
  const StreamId last = key.exists() ? key.stream().last_id : StreamId{};
  if (last == StreamId::last()) {
    return ctx.reply.error("ERR The stream has exhausted the last possible ID, unable to add more items"), Outcome::kDone;
  }
  StreamId id;
  if (!choose_id(options, last, id)) {
    return ctx.reply.error("ERR The ID specified in XADD is equal or smaller than the target stream top item"), Outcome::kDone;
  }
  thread_local std::vector<std::string_view> fields;
  fields.clear();
  uint64_t bytes = 0;
  for (size_t i = id_at + 1; i < ctx.argc(); ++i) fields.push_back(ctx.arg(i)), bytes += ctx.arg(i).size();
  if (bytes > kLargestEntry) return ctx.reply.error("ERR Elements are too large to be stored"), Outcome::kDone;
  if (key.exists()) {
    const uint64_t work = trim_work(key.stream(), options.trim);
    if (work > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    if (work > 0 && !admitted(ctx, work * kIdRecordBytes)) return Outcome::kDone;
  }
  StreamDelta(delta_of_thread(), Op::kAdd).id(id).fields(fields);
  key.change(delta_of_thread(), KeyEvent::kStream, "xadd");
  trim_stream(key, options.trim);
  reply_stream_id(ctx.reply, id);
  return Outcome::kDone;
}

Outcome xtrim_command(CommandContext& ctx) {
  StreamOptions options;
  if (parse_stream_options(ctx, false, options) == 0) return Outcome::kDone;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, Lookup::kWrite);
  if (!key) return Outcome::kDone;
  if (!key.exists()) return ctx.reply.integer(0), Outcome::kDone;
  const uint64_t work = trim_work(key.stream(), options.trim);
  if (work > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  if (work > 0 && !admitted(ctx, work * kIdRecordBytes)) return Outcome::kDone;
  ctx.reply.integer(static_cast<int64_t>(trim_stream(key, options.trim)));
  return Outcome::kDone;
}

Outcome xlen_command(CommandContext& ctx) {
  const StreamKey key(ctx, Lookup::kRead);
  if (key) ctx.reply.integer(key.exists() ? static_cast<int64_t>(key.stream().size()) : 0);
  return Outcome::kDone;
}

Outcome range(CommandContext& ctx, bool backwards) {
  StreamId from, to;
  if (!range_start_argument(ctx, backwards ? 3 : 2, from) || !range_end_argument(ctx, backwards ? 2 : 3, to)) return Outcome::kDone;
  int64_t count = -1;
  for (size_t i = 4; i < ctx.argc(); i += 2) {
    if (i + 1 >= ctx.argc() || !same_word(ctx.arg(i), "COUNT")) return ctx.reply.error(kSyntaxError), Outcome::kDone;
    if (!number_argument(ctx, i + 1, count)) return Outcome::kDone;
    count = std::max<int64_t>(count, 0);
  }
  const StreamKey key(ctx, Lookup::kRead);
  if (!key) return Outcome::kDone;
  if (!key.exists()) return ctx.reply.array(0), Outcome::kDone;
  if (count == 0) return ctx.reply.nil_array(), Outcome::kDone;
  const Stream& stream = key.stream();
  const uint64_t most = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  if (!ctx.on_worker && stream.entries_between(from, to, std::min(most, kElementsOnReactor + 1)) > kElementsOnReactor) return Outcome::kNeedsWorker;
  thread_local std::vector<StreamEntry> entries;
  entries.clear();
  const auto take = [&](const StreamEntry& entry) { return entries.push_back(entry), entries.size() < most; };
  backwards ? stream.each_backwards(from, to, take) : stream.each(from, to, take);
  ctx.reply.array(static_cast<int64_t>(entries.size()));
  for (const StreamEntry& entry : entries) reply_stream_entry(ctx.reply, entry);
  return Outcome::kDone;
}

Outcome xrange_command(CommandContext& ctx) { return range(ctx, false); }
Outcome xrevrange_command(CommandContext& ctx) { return range(ctx, true); }

Outcome xsetid_command(CommandContext& ctx) {
  StreamId id, max_deleted;
  int64_t added = -1;
  if (!stream_id_argument(ctx, 2, id)) return Outcome::kDone;
  for (size_t i = 3; i < ctx.argc(); i += 2) {
    const bool more = i + 1 < ctx.argc();
    if (more && same_word(ctx.arg(i), "ENTRIESADDED")) {
      if (!number_argument(ctx, i + 1, added)) return Outcome::kDone;
      if (added < 0) return ctx.reply.error("ERR entries_added must be positive"), Outcome::kDone;
    } else if (more && same_word(ctx.arg(i), "MAXDELETEDID")) {
      if (!stream_id_argument(ctx, i + 1, max_deleted)) return Outcome::kDone;
      if (id < max_deleted) {
        return ctx.reply.error("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"), Outcome::kDone;
      }
    } else {
      return ctx.reply.error(kSyntaxError), Outcome::kDone;
    }
  }
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, Lookup::kWrite);
  if (!key) return Outcome::kDone;
  if (!key.exists()) return ctx.reply.error("ERR no such key"), Outcome::kDone;
  const Stream& stream = key.stream();
  if (id < stream.max_deleted) {
    return ctx.reply.error("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"), Outcome::kDone;
  }
  if (stream.size() > 0 && id < stream.last_entry_id()) {
    return ctx.reply.error("ERR The ID specified in XSETID is smaller than the target stream top item"), Outcome::kDone;
  }
  if (stream.size() > 0 && added != -1 && stream.size() > static_cast<uint64_t>(added)) {
    return ctx.reply.error("ERR The entries_added specified in XSETID is smaller than the target stream length"), Outcome::kDone;
  }
  const uint64_t entries = added == -1 ? stream.entries_added : static_cast<uint64_t>(added);
  StreamDelta(delta_of_thread(), Op::kSetId).id(id).varint(entries).id(max_deleted == StreamId{} ? stream.max_deleted : max_deleted);
  key.change(delta_of_thread(), KeyEvent::kStream, "xsetid");
  ctx.reply.ok();
  return Outcome::kDone;
}

constexpr CommandSpec kGroupCommands[] = {
    {.name = "xgroup|create", .handler = xgroup_create_command},
    {.name = "xgroup|createconsumer", .handler = xgroup_createconsumer_command},
    {.name = "xgroup|delconsumer", .flags = kFreesSpace, .handler = xgroup_delconsumer_command},
    {.name = "xgroup|destroy", .flags = kFreesSpace, .handler = xgroup_destroy_command},
    {.name = "xgroup|help", .handler = xgroup_help_command},
    {.name = "xgroup|setid", .handler = xgroup_setid_command},
};

constexpr CommandSpec kInfoCommands[] = {
    {.name = "xinfo|consumers", .handler = xinfo_consumers_command},
    {.name = "xinfo|groups", .handler = xinfo_groups_command},
    {.name = "xinfo|help", .handler = xinfo_help_command},
    {.name = "xinfo|stream", .handler = xinfo_stream_command},
};

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kStreamCommands[] = {
    {.name = "xack", .flags = kFreesSpace, .handler = xack_command},
    {.name = "xackdel", .flags = kFreesSpace, .handler = xackdel_command},
    {.name = "xadd", .handler = xadd_command},
    {.name = "xautoclaim", .handler = xautoclaim_command},
    {.name = "xclaim", .handler = xclaim_command},
    {.name = "xdel", .flags = kFreesSpace, .handler = xdel_command},
    {.name = "xdelex", .flags = kFreesSpace, .handler = xdelex_command},
    {.name = "xgroup", .subcommands = kGroupCommands},
    {.name = "xinfo", .subcommands = kInfoCommands},
    {.name = "xlen", .handler = xlen_command},
    {.name = "xpending", .handler = xpending_command},
    {.name = "xrange", .handler = xrange_command},
    {.name = "xread", .handler = xread_command},
    {.name = "xreadgroup", .handler = xreadgroup_command},
    {.name = "xrevrange", .handler = xrevrange_command},
    {.name = "xsetid", .handler = xsetid_command},
    {.name = "xtrim", .flags = kFreesSpace, .handler = xtrim_command},
};

}  // namespace

std::span<const CommandSpec> stream_commands() { return kStreamCommands; }

}  // namespace pion
