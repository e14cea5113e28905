// XCLAIM XAUTOCLAIM: pending entries go to another consumer.
#include <algorithm>
#include <map>
#include <vector>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/family_stream.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = StreamDelta::Op;

// What a claim is going to change: built first, then applied as deltas of one record.
struct Claim {
  std::vector<StreamId> claimed;          // in the order of the reply
  std::vector<StreamId> vanished;         // pending, but the entry is gone
  std::map<StreamId, uint64_t> deliveries;  // of the claimed ones, after
  int64_t delivered_ms = 0;
};

void apply_claim(StreamKey& key, std::string_view group, std::string_view consumer, const Claim& claim, int64_t now_ms) {
  note_consumer(key, group, consumer, now_ms, claim.claimed.empty() ? StreamDelta::kAsItIs : now_ms);
  std::string& delta = delta_of_thread();
  if (!claim.vanished.empty()) {
    StreamDelta acknowledged(delta, Op::kAcknowledge);
    acknowledged.bytes(group);
    for (StreamId id : claim.vanished) acknowledged.id(id);
    key.change(delta);
  }
  if (claim.claimed.empty()) return;
  StreamDelta claimed(delta, Op::kClaim);
  claimed.bytes(group).bytes(consumer).time(claim.delivered_ms);
  for (const auto& [id, deliveries] : claim.deliveries) claimed.id(id).varint(deliveries);
  key.change(delta);
}

void reply_claimed(ReplyWriter& reply, const Stream& stream, const Claim& claim, bool only_ids) {
  reply.array(static_cast<int64_t>(claim.claimed.size()));
  for (StreamId id : claim.claimed) {
    StreamEntry entry;
    if (only_ids) {
      reply_stream_id(reply, id);
    } else if (stream.find(id, entry)) {
      reply_stream_entry(reply, entry);
    }
  }
}

struct ClaimOptions {
  std::vector<StreamId> ids;
  int64_t least_idle_ms = 0, delivered_ms = -1, deliveries = -1;
  bool force = false, only_ids = false;
  StreamId last_id;
};

// Behind the key, the group and the consumer. False: the error was answered.
bool parse_claim_options(CommandContext& ctx, int64_t now_ms, ClaimOptions& options) {
  if (!number_argument(ctx, 4, options.least_idle_ms, "ERR Invalid min-idle-time argument for XCLAIM")) return false;
  size_t i = 5;
  for (; i < ctx.argc(); ++i) {
    const auto id = parse_stream_id(ctx.arg(i), 0);
    if (!id) break;
    options.ids.push_back(*id);
  }
  for (; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    const bool more = i + 1 < ctx.argc();
    if (same_word(word, "FORCE")) {
      options.force = true;
    } else if (same_word(word, "JUSTID")) {
      options.only_ids = true;
    } else if (more && same_word(word, "IDLE")) {
      if (!number_argument(ctx, ++i, options.delivered_ms, "ERR Invalid IDLE option argument for XCLAIM")) return false;
      __builtin_sub_overflow(now_ms, options.delivered_ms, &options.delivered_ms);
    } else if (more && same_word(word, "TIME")) {
      if (!number_argument(ctx, ++i, options.delivered_ms, "ERR Invalid TIME option argument for XCLAIM")) return false;
    } else if (more && same_word(word, "RETRYCOUNT")) {
      if (!number_argument(ctx, ++i, options.deliveries, "ERR Invalid RETRYCOUNT option argument for XCLAIM")) return false;
    } else if (more && same_word(word, "LASTID")) {
      if (!stream_id_argument(ctx, ++i, options.last_id)) return false;
    } else {
      std::string text("ERR Unrecognized XCLAIM option '");
      return ctx.reply.error(text.append(printed_name(word)).append("'")), false;
    }
  }
  // A time that cannot be is taken as now: clients compute it from clocks of their own.
  if (options.delivered_ms < 0 || options.delivered_ms > now_ms) options.delivered_ms = now_ms;
  return true;
}

Claim plan_claim(const Stream& stream, const StreamGroup& group, const ClaimOptions& options, int64_t now_ms) {
  Claim claim;
  claim.delivered_ms = options.delivered_ms;
  for (StreamId id : options.ids) {
    const PendingEntry* pending = group.pending.find(id);
    if (!stream.contains(id)) {
      if (pending && std::find(claim.vanished.begin(), claim.vanished.end(), id) == claim.vanished.end()) claim.vanished.push_back(id);
      continue;
    }
    const auto again = claim.deliveries.find(id);  // named twice
    if (!pending && again == claim.deliveries.end() && !options.force) continue;
    uint64_t deliveries = again != claim.deliveries.end() ? again->second : pending ? pending->deliveries : 1;
    const int64_t delivered_ms = again != claim.deliveries.end() ? claim.delivered_ms : pending ? pending->delivered_ms : INT64_MIN / 2;
    if (options.least_idle_ms > 0 && now_ms - delivered_ms < options.least_idle_ms) continue;
    if (options.deliveries >= 0) {
      deliveries = static_cast<uint64_t>(options.deliveries);
    } else if (!options.only_ids) {
      ++deliveries;
    }
    claim.deliveries[id] = deliveries;
    claim.claimed.push_back(id);
  }
  return claim;
}

struct AutoClaimOptions {
  int64_t least_idle_ms = 0, count = 100;
  StreamId from;
  bool only_ids = false;
};

// False: the error was answered.
bool parse_autoclaim_options(CommandContext& ctx, AutoClaimOptions& options) {
  if (!number_argument(ctx, 4, options.least_idle_ms, "ERR Invalid min-idle-time argument for XAUTOCLAIM")) return false;
  if (!range_start_argument(ctx, 5, options.from)) return false;
  for (size_t i = 6; i < ctx.argc(); ++i) {
    if (same_word(ctx.arg(i), "COUNT") && i + 1 < ctx.argc()) {
      if (!range_argument(ctx, ++i, 1, INT64_MAX / 16, options.count, "ERR COUNT must be > 0")) return false;
    } else if (same_word(ctx.arg(i), "JUSTID")) {
      options.only_ids = true;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  return true;
}

void count_look(CommandContext& ctx) {
  const Key key = ctx.services.keyspace->key(ctx.arg(1));
  KeyAccess access(*ctx.services.keyspace, key);
  access.find(ctx.session.database, key, Lookup::kRead);
  ctx.require_lsn(access.finish());
}

}  // namespace

Outcome xclaim_command(CommandContext& ctx) {
  const std::string_view name = ctx.arg(2), consumer = ctx.arg(3);
  if (!admitted(ctx, 2 * record_bytes_of_arguments(ctx, 2) + ctx.argc() * 24 + 3 * (ctx.arg(1).size() + name.size() + 64))) return Outcome::kDone;
  StreamKey key(ctx, Lookup::kRead);
  if (!key) return Outcome::kDone;
  if (!key.group(name)) return reply_no_group(ctx, ctx.arg(1), name), Outcome::kDone;
  const int64_t now = wall_ms();
  ClaimOptions options;
  if (!parse_claim_options(ctx, now, options)) return Outcome::kDone;
  if (const StreamGroup& group = *key.group(name); options.last_id > group.last_id) {
    StreamDelta(delta_of_thread(), Op::kSetGroup).bytes(name).id(options.last_id).varint(static_cast<uint64_t>(group.entries_read) + 1);
    key.change(delta_of_thread());
  }
  const Claim claim = plan_claim(key.stream(), *key.group(name), options, now);
  apply_claim(key, name, consumer, claim, now);
  reply_claimed(ctx.reply, key.stream(), claim, options.only_ids);
  return Outcome::kDone;
}

Outcome xautoclaim_command(CommandContext& ctx) {
  constexpr int64_t kAttempts = 10;       // pending entries looked at for each one claimed
  constexpr int64_t kSomeMemory = 1LL << 42;
  const std::string_view name = ctx.arg(2), consumer = ctx.arg(3);
  AutoClaimOptions options;
  if (!parse_autoclaim_options(ctx, options)) {
    count_look(ctx);  // Redis looks for the key before it reads the options
    return Outcome::kDone;
  }
  const auto& [least_idle_ms, count, from, only_ids] = options;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2) + 3 * (ctx.arg(1).size() + name.size() + consumer.size() + 64))) return Outcome::kDone;
  StreamKey key(ctx, Lookup::kRead);
  if (!key) return Outcome::kDone;
  if (!key.group(name)) return reply_no_group(ctx, ctx.arg(1), name), Outcome::kDone;
  if (count > kSomeMemory) {
    ctx.reply.error("ERR Insufficient memory, failed allocating transient memory, COUNT too high.");
    return Outcome::kDone;
  }
  const StreamGroup& group = *key.group(name);
  const auto most = std::min<uint64_t>(static_cast<uint64_t>(count), group.pending.size());
  if (most > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  if (!admitted(ctx, most * 30)) return Outcome::kDone;

  const int64_t now = wall_ms();
  Claim claim;
  claim.delivered_ms = now;
  StreamId next;  // where another call goes on; zero: nowhere
  int64_t attempts = count * kAttempts, left = count;
  group.pending.each(from, [&](const PendingEntry& pending) {
    if (attempts-- == 0 || left == 0) return next = pending.id, false;
    if (!key.stream().contains(pending.id)) {
      claim.vanished.push_back(pending.id);
      --left;
    } else if (least_idle_ms <= 0 || now - pending.delivered_ms >= least_idle_ms) {
      claim.deliveries.emplace_hint(claim.deliveries.end(), pending.id, pending.deliveries + (only_ids ? 0 : 1));
      claim.claimed.push_back(pending.id);
      --left;
    }
    return true;
  });
  apply_claim(key, name, consumer, claim, now);
  ctx.reply.array(3);
  reply_stream_id(ctx.reply, next);
  reply_claimed(ctx.reply, key.stream(), claim, only_ids);
  ctx.reply.array(static_cast<int64_t>(claim.vanished.size()));
  for (StreamId id : claim.vanished) reply_stream_id(ctx.reply, id);
  return Outcome::kDone;
}

}  // namespace pion
