// XGROUP XACK XPENDING.
#include <algorithm>
#include <optional>
#include <string>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/family_stream.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = StreamDelta::Op;

struct GroupOptions {
  bool make_stream = false;
  int64_t entries_read = StreamGroup::kUnknown;
};

// False: the error was answered.
bool parse_group_options(CommandContext& ctx, bool creates, GroupOptions& options) {
  for (size_t i = 5; i < ctx.argc(); ++i) {
    if (creates && same_word(ctx.arg(i), "MKSTREAM")) {
      options.make_stream = true;
    } else if (same_word(ctx.arg(i), "ENTRIESREAD") && i + 1 < ctx.argc()) {
      if (!number_argument(ctx, ++i, options.entries_read)) return false;
      if (options.entries_read < -1) return ctx.reply.error("ERR value for ENTRIESREAD must be positive or -1"), false;
    } else {
      return bad_subcommand(ctx, "XGROUP"), false;
    }
  }
  return true;
}

// The stream must be there, and if `group` says so the group. False: the error was answered.
bool require_group(CommandContext& ctx, const StreamKey& key, bool group) {
  if (!key) return false;
  if (!key.exists()) {
    ctx.reply.error(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an "
        "empty stream automatically.");
    return false;
  }
  if (!group || key.group(ctx.arg(3))) return true;
  std::string text("NOGROUP No such consumer group '");
  ctx.reply.error(text.append(printed_name(ctx.arg(3))).append("' for key name '").append(printed_name(ctx.arg(2))).append("'"));
  return false;
}

void set_group(CommandContext& ctx, StreamKey& key, StreamId id, int64_t entries_read, std::string_view event) {
  entries_read = std::min(entries_read, key.exists() ? static_cast<int64_t>(key.stream().entries_added) : 0);
  StreamDelta(delta_of_thread(), Op::kSetGroup).bytes(ctx.arg(3)).id(id).varint(static_cast<uint64_t>(entries_read) + 1);
  key.change(delta_of_thread(), KeyEvent::kStream, event);
}

}  // namespace

Outcome xgroup_create_command(CommandContext& ctx) {
  GroupOptions options;
  if (!parse_group_options(ctx, true, options)) return Outcome::kDone;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, ctx.arg(2), Lookup::kWrite);
  if (!key || (!options.make_stream && !require_group(ctx, key, false))) return Outcome::kDone;
  StreamId id;
  if (ctx.arg(4) == "$") {
    if (key.exists()) id = key.stream().last_id;
  } else if (!stream_id_argument(ctx, 4, id)) {
    return Outcome::kDone;
  }
  if (key.group(ctx.arg(3))) return ctx.reply.error("BUSYGROUP Consumer Group name already exists"), Outcome::kDone;
  set_group(ctx, key, id, options.entries_read, "xgroup-create");
  ctx.reply.ok();
  return Outcome::kDone;
}

Outcome xgroup_setid_command(CommandContext& ctx) {
  GroupOptions options;
  if (!parse_group_options(ctx, false, options)) return Outcome::kDone;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, ctx.arg(2), Lookup::kWrite);
  if (!require_group(ctx, key, true)) return Outcome::kDone;
  StreamId id;
  if (ctx.arg(4) == "$") {
    id = key.stream().last_id;
  } else if (!stream_id_argument(ctx, 4, id, 0, false)) {
    return Outcome::kDone;
  }
  set_group(ctx, key, id, options.entries_read, "xgroup-setid");
  ctx.reply.ok();
  return Outcome::kDone;
}

Outcome xgroup_destroy_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, ctx.arg(2), Lookup::kWrite);
  if (!require_group(ctx, key, false)) return Outcome::kDone;
  const bool there = key.group(ctx.arg(3));
  if (there) {
    StreamDelta(delta_of_thread(), Op::kDropGroup).bytes(ctx.arg(3));
    key.change(delta_of_thread(), KeyEvent::kStream, "xgroup-destroy");
  }
  ctx.reply.integer(there);
  return Outcome::kDone;
}

Outcome xgroup_createconsumer_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, ctx.arg(2), Lookup::kWrite);
  if (!require_group(ctx, key, true)) return Outcome::kDone;
  const bool makes = !key.group(ctx.arg(3))->consumer(ctx.arg(4));
  if (makes) note_consumer(key, ctx.arg(3), ctx.arg(4), wall_ms(), StreamDelta::kAsItIs);
  ctx.reply.integer(makes);
  return Outcome::kDone;
}

Outcome xgroup_delconsumer_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, ctx.arg(2), Lookup::kWrite);
  if (!require_group(ctx, key, true)) return Outcome::kDone;
  const StreamConsumer* consumer = key.group(ctx.arg(3))->consumer(ctx.arg(4));
  const uint64_t pending = consumer ? consumer->pending.size() : 0;
  if (pending > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  if (consumer) {
    StreamDelta(delta_of_thread(), Op::kDropConsumer).bytes(ctx.arg(3)).bytes(ctx.arg(4));
    key.change(delta_of_thread(), KeyEvent::kStream, "xgroup-delconsumer");
  }
  ctx.reply.integer(static_cast<int64_t>(pending));
  return Outcome::kDone;
}

Outcome xgroup_help_command(CommandContext& ctx) {
  static constexpr std::string_view kLines[] = {
      "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "CREATE <key> <groupname> <id|$> [option]",
      "    Create a new consumer group. Options are:",
      "    * MKSTREAM",
      "      Create the empty stream if it does not exist.",
      "    * ENTRIESREAD entries_read",
      "      Set the group's entries_read counter (internal use).",
      "CREATECONSUMER <key> <groupname> <consumer>",
      "    Create a new consumer in the specified group.",
      "DELCONSUMER <key> <groupname> <consumer>",
      "    Remove the specified consumer.",
      "DESTROY <key> <groupname>",
      "    Remove the specified group.",
      "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
      "    Set the current group ID and entries_read counter.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(ctx, kLines);
}

Outcome xack_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, Lookup::kRead);
  if (!key) return Outcome::kDone;
  const StreamGroup* group = key.group(ctx.arg(2));
  if (!group) return ctx.reply.integer(0), Outcome::kDone;
  std::string& delta = delta_of_thread();
  StreamDelta acknowledged(delta, Op::kAcknowledge);
  acknowledged.bytes(ctx.arg(2));
  const uint64_t before = group->pending.size();
  bool any = false;
  for (size_t i = 3; i < ctx.argc(); ++i) {
    StreamId id;
    if (!stream_id_argument(ctx, i, id)) return Outcome::kDone;
    if (group->pending.find(id)) acknowledged.id(id), any = true;
  }
  if (any) key.change(delta);
  ctx.reply.integer(static_cast<int64_t>(before - group->pending.size()));
  return Outcome::kDone;
}

namespace {

void reply_pending_summary(ReplyWriter& reply, const StreamGroup& group) {
  reply.array(4);
  reply.integer(static_cast<int64_t>(group.pending.size()));
  if (group.pending.empty()) {
    reply.nil();
    reply.nil();
    reply.nil_array();
    return;
  }
  reply_stream_id(reply, group.pending.front().id);
  reply_stream_id(reply, group.pending.back().id);
  reply.array(std::count_if(group.consumers.begin(), group.consumers.end(), [](const auto& one) { return !one.second.pending.empty(); }));
  for (const auto& [name, consumer] : group.consumers) {
    if (consumer.pending.empty()) continue;
    reply.array(2);
    reply.bulk(name);
    reply.bulk(std::to_string(consumer.pending.size()));
  }
}

struct PendingRange {
  StreamId from, to;
  int64_t count = 0, least_idle_ms = 0;
  std::optional<std::string_view> consumer;
};

// False: the error was answered.
bool parse_pending_range(CommandContext& ctx, PendingRange& range) {
  size_t at = 3;
  if (same_word(ctx.arg(3), "IDLE")) {
    if (!number_argument(ctx, 4, range.least_idle_ms)) return false;
    if (ctx.argc() < 8) return ctx.reply.error(kSyntaxError), false;
    at = 5;
  }
  if (!number_argument(ctx, at + 2, range.count)) return false;
  if (!range_start_argument(ctx, at, range.from) || !range_end_argument(ctx, at + 1, range.to)) return false;
  if (at + 3 < ctx.argc()) range.consumer = ctx.arg(at + 3);
  return true;
}

void reply_pending_range(ReplyWriter& reply, const StreamGroup& group, const PendingRange& range) {
  std::vector<PendingEntry> entries;
  const int64_t now = wall_ms();
  const auto take = [&](const PendingEntry& entry) {
    if (entry.id > range.to || static_cast<int64_t>(entries.size()) >= range.count) return false;
    if (range.least_idle_ms == 0 || now - entry.delivered_ms >= range.least_idle_ms) entries.push_back(entry);
    return true;
  };
  if (!range.consumer) {
    group.pending.each(range.from, take);
  } else if (const StreamConsumer* consumer = group.consumer(*range.consumer)) {
    consumer->pending.each(range.from, [&](const StreamId& id) { return take(*group.pending.find(id)); });
  }
  reply.array(static_cast<int64_t>(entries.size()));
  for (const PendingEntry& entry : entries) {
    reply.array(4);
    reply_stream_id(reply, entry.id);
    reply.bulk(*entry.consumer->name);
    reply.integer(std::max<int64_t>(now - entry.delivered_ms, 0));
    reply.integer(static_cast<int64_t>(entry.deliveries));
  }
}

}  // namespace

Outcome xpending_command(CommandContext& ctx) {
  if (ctx.argc() != 3 && (ctx.argc() < 6 || ctx.argc() > 9)) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  PendingRange range;
  if (ctx.argc() > 3 && !parse_pending_range(ctx, range)) return Outcome::kDone;
  const StreamKey key(ctx, Lookup::kRead);
  if (!key) return Outcome::kDone;
  const StreamGroup* group = key.group(ctx.arg(2));
  if (!group) return reply_no_group(ctx, ctx.arg(1), ctx.arg(2)), Outcome::kDone;
  if (ctx.argc() == 3) return reply_pending_summary(ctx.reply, *group), Outcome::kDone;
  const uint64_t work = range.least_idle_ms > 0 ? group->pending.size() : static_cast<uint64_t>(std::max<int64_t>(range.count, 0));
  if (std::min(work, group->pending.size()) > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  reply_pending_range(ctx.reply, *group, range);
  return Outcome::kDone;
}

}  // namespace pion
