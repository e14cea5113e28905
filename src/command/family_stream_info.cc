// XINFO.
#include <algorithm>
#include <string>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/family_stream.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;

// False: the error was answered.
bool require_stream(CommandContext& ctx, const StreamKey& key) {
  if (!key) return false;
  if (!key.exists()) return ctx.reply.error("ERR no such key"), false;
  return true;
}

void field(ReplyWriter& reply, std::string_view name, uint64_t value) {
  reply.bulk(name);
  reply.integer(static_cast<int64_t>(value));
}

void field(ReplyWriter& reply, std::string_view name, StreamId id) {
  reply.bulk(name);
  reply_stream_id(reply, id);
}

void field_or_nil(ReplyWriter& reply, std::string_view name, std::optional<int64_t> value) {
  reply.bulk(name);
  value ? reply.integer(*value) : reply.nil();
}

std::optional<int64_t> entries_read(const StreamGroup& group) {
  return group.entries_read == StreamGroup::kUnknown ? std::nullopt : std::optional(group.entries_read);
}

void reply_head(ReplyWriter& reply, const Stream& stream) {
  field(reply, "length", stream.size());
  field(reply, "radix-tree-keys", stream.block_count());
  field(reply, "radix-tree-nodes", stream.radix_nodes());
  field(reply, "last-generated-id", stream.last_id);
  field(reply, "max-deleted-entry-id", stream.max_deleted);
  field(reply, "entries-added", stream.entries_added);
  field(reply, "recorded-first-entry-id", stream.first_id());
}

void reply_edge(ReplyWriter& reply, const Stream& stream, std::string_view name, StreamId id) {
  reply.bulk(name);
  StreamEntry entry;
  stream.size() > 0 && stream.find(id, entry) ? reply_stream_entry(reply, entry) : reply.nil();
}

void reply_consumer_in_full(ReplyWriter& reply, const StreamGroup& group, const StreamConsumer& consumer, uint64_t most) {
  reply.map(5);
  reply.bulk("name");
  reply.bulk(*consumer.name);
  field(reply, "seen-time", static_cast<uint64_t>(consumer.seen_ms));
  field(reply, "active-time", static_cast<uint64_t>(consumer.active_ms));
  field(reply, "pel-count", consumer.pending.size());
  reply.bulk("pending");
  uint64_t left = std::min<uint64_t>(most, consumer.pending.size());
  reply.array(static_cast<int64_t>(left));
  consumer.pending.each({}, [&](const StreamId& id) {
    if (left-- == 0) return false;
    const PendingEntry& entry = *group.pending.find(id);
    reply.array(3);
    reply_stream_id(reply, id);
    reply.integer(entry.delivered_ms);
    reply.integer(static_cast<int64_t>(entry.deliveries));
    return true;
  });
}

void reply_group_in_full(ReplyWriter& reply, const Stream& stream, const std::string& name, const StreamGroup& group, uint64_t most) {
  reply.map(7);
  reply.bulk("name");
  reply.bulk(name);
  field(reply, "last-delivered-id", group.last_id);
  field_or_nil(reply, "entries-read", entries_read(group));
  field_or_nil(reply, "lag", stream.lag(group));
  field(reply, "pel-count", group.pending.size());
  reply.bulk("pending");
  uint64_t left = std::min<uint64_t>(most, group.pending.size());
  reply.array(static_cast<int64_t>(left));
  group.pending.each({}, [&](const PendingEntry& entry) {
    if (left-- == 0) return false;
    reply.array(4);
    reply_stream_id(reply, entry.id);
    reply.bulk(*entry.consumer->name);
    reply.integer(entry.delivered_ms);
    reply.integer(static_cast<int64_t>(entry.deliveries));
    return true;
  });
  reply.bulk("consumers");
  reply.array(static_cast<int64_t>(group.consumers.size()));
  for (const auto& [consumer_name, consumer] : group.consumers) reply_consumer_in_full(reply, group, consumer, most);
}

void reply_full(ReplyWriter& reply, const Stream& stream, uint64_t most) {
  reply.map(9);
  reply_head(reply, stream);
  reply.bulk("entries");
  uint64_t left = std::min<uint64_t>(most, stream.size());
  reply.array(static_cast<int64_t>(left));
  if (left > 0) stream.each({}, StreamId::last(), [&](const StreamEntry& entry) { return reply_stream_entry(reply, entry), --left > 0; });
  reply.bulk("groups");
  reply.array(static_cast<int64_t>(stream.groups.size()));
  for (const auto& [name, group] : stream.groups) reply_group_in_full(reply, stream, name, group, most);
}

}  // namespace

Outcome xinfo_stream_command(CommandContext& ctx) {
  const StreamKey key(ctx, ctx.arg(2), Lookup::kRead);
  if (!require_stream(ctx, key)) return Outcome::kDone;
  const Stream& stream = key.stream();
  if (ctx.argc() == 3) {
    ctx.reply.map(10);
    reply_head(ctx.reply, stream);
    field(ctx.reply, "groups", stream.groups.size());
    reply_edge(ctx.reply, stream, "first-entry", stream.first_id());
    reply_edge(ctx.reply, stream, "last-entry", stream.last_entry_id());
    return Outcome::kDone;
  }
  const bool counted = ctx.argc() == 6 && same_word(ctx.arg(4), "COUNT");
  if (!same_word(ctx.arg(3), "FULL") || (ctx.argc() != 4 && !counted)) return bad_subcommand(ctx, "XINFO");
  constexpr int64_t kUsualCount = 10;
  int64_t count = kUsualCount;
  if (counted && !number_argument(ctx, 5, count)) return Outcome::kDone;
  if (count < 0) count = kUsualCount;
  const uint64_t most = count == 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  if (most > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  reply_full(ctx.reply, stream, most);
  return Outcome::kDone;
}

Outcome xinfo_groups_command(CommandContext& ctx) {
  const StreamKey key(ctx, ctx.arg(2), Lookup::kRead);
  if (!require_stream(ctx, key)) return Outcome::kDone;
  ctx.reply.array(static_cast<int64_t>(key.stream().groups.size()));
  for (const auto& [name, group] : key.stream().groups) {
    ctx.reply.map(6);
    ctx.reply.bulk("name");
    ctx.reply.bulk(name);
    field(ctx.reply, "consumers", group.consumers.size());
    field(ctx.reply, "pending", group.pending.size());
    field(ctx.reply, "last-delivered-id", group.last_id);
    field_or_nil(ctx.reply, "entries-read", entries_read(group));
    field_or_nil(ctx.reply, "lag", key.stream().lag(group));
  }
  return Outcome::kDone;
}

Outcome xinfo_consumers_command(CommandContext& ctx) {
  const StreamKey key(ctx, ctx.arg(2), Lookup::kRead);
  if (!require_stream(ctx, key)) return Outcome::kDone;
  const StreamGroup* group = key.group(ctx.arg(3));
  if (!group) {
    std::string text("NOGROUP No such consumer group '");
    ctx.reply.error(text.append(printed_name(ctx.arg(3))).append("' for key name '").append(printed_name(ctx.arg(2))).append("'"));
    return Outcome::kDone;
  }
  const int64_t now = wall_ms();
  ctx.reply.array(static_cast<int64_t>(group->consumers.size()));
  for (const auto& [name, consumer] : group->consumers) {
    ctx.reply.map(4);
    ctx.reply.bulk("name");
    ctx.reply.bulk(name);
    field(ctx.reply, "pending", consumer.pending.size());
    field(ctx.reply, "idle", static_cast<uint64_t>(std::max<int64_t>(now - consumer.seen_ms, 0)));
    ctx.reply.bulk("inactive");
    ctx.reply.integer(consumer.active_ms == -1 ? -1 : std::max<int64_t>(now - consumer.active_ms, 0));
  }
  return Outcome::kDone;
}

Outcome xinfo_help_command(CommandContext& ctx) {
  static constexpr std::string_view kLines[] = {
      "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "CONSUMERS <key> <groupname>",
      "    Show consumers of <groupname>.",
      "GROUPS <key>",
      "    Show the stream consumer groups.",
      "STREAM <key> [FULL [COUNT <count>]",
      "    Show information about the stream.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(ctx, kLines);
}

}  // namespace pion
