#include "command/stream_trim.h"

#include <algorithm>

#include "command/arguments.h"
#include "keyspace/collection_limits.h"

namespace pion {
namespace {

using Op = StreamDelta::Op;
using By = StreamTrim::By;

// MAXLEN or MINID at `i`, [= | ~], the bound. False: the error was answered.
bool parse_bound(CommandContext& ctx, size_t& i, By by, StreamTrim& trim) {
  if (trim.by != By::kNothing) {
    return ctx.reply.error("ERR syntax error, MAXLEN and MINID options at the same time are not compatible"), false;
  }
  trim.approximately = false;
  if (i + 2 < ctx.argc() && (ctx.arg(i + 1) == "~" || ctx.arg(i + 1) == "=")) {
    trim.approximately = ctx.arg(i + 1) == "~";
    ++i;
  }
  ++i;
  trim.by = by;
  if (by == By::kId) return stream_id_argument(ctx, i, trim.least);
  int64_t most = 0;
  if (!number_argument(ctx, i, most)) return false;
  if (most < 0) return ctx.reply.error("ERR The MAXLEN argument must be >= 0."), false;
  trim.most = static_cast<uint64_t>(most);
  return true;
}

bool check_limit(CommandContext& ctx, bool limit_given, int64_t limit, StreamTrim& trim) {
  if (limit != 0 && trim.by == By::kNothing) {
    return ctx.reply.error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"), false;
  }
  if (limit_given && !trim.approximately) {
    return ctx.reply.error("ERR syntax error, LIMIT cannot be used without the special ~ option"), false;
  }
  trim.limit = static_cast<uint64_t>(limit);
  if (limit_given || !trim.approximately) return true;
  constexpr uint64_t kBlocks = 100, kUsual = 10'000, kMost = 1'000'000;
  const uint64_t entries = collection_limits().stream_node_entries;
  trim.limit = entries == 0 ? kUsual : entries > kMost / kBlocks ? kMost : entries * kBlocks;
  return true;
}

// How many entries go from the front.
uint64_t front_to_drop(const Stream& stream, const StreamTrim& trim) {
  uint64_t dropped = 0, left = stream.size();
  StreamId from;  // of the block that is dropped in part
  bool part = false;
  stream.each_block([&](uint64_t count, StreamId last) {
    if (trim.by == By::kLength && left <= trim.most) return false;
    if (trim.limit != 0 && dropped + count > trim.limit) return false;
    const bool whole = trim.by == By::kLength ? left - count >= trim.most : last < trim.least;
    if (!whole) return part = !trim.approximately, false;
    dropped += count;
    left -= count;
    from = last;
    return true;
  });
  if (!part) return dropped;
  if (trim.by == By::kLength) return dropped + (left - trim.most);
  if (dropped > 0) from.increment();
  stream.each(from, StreamId::last(), [&](const StreamEntry& entry) { return entry.id < trim.least && (++dropped, true); });
  return dropped;
}

// Entries that every group has read and acknowledged.
uint64_t trim_acknowledged(StreamKey& key, const StreamTrim& trim) {
  const Stream& stream = key.stream();
  std::string& delta = delta_of_thread();
  StreamDelta removal(delta, Op::kRemove);
  removal.byte(0);
  uint64_t removed = 0;
  stream.each({}, StreamId::last(), [&](const StreamEntry& entry) {
    if (trim.by == By::kLength ? stream.size() - removed <= trim.most : entry.id >= trim.least) return false;
    if (!stream.referenced(entry.id)) removal.id(entry.id), ++removed;
    return true;
  });
  if (removed > 0) key.change(delta);
  return removed;
}

}  // namespace

size_t parse_stream_options(CommandContext& ctx, bool adds, StreamOptions& options) {
  StreamTrim& trim = options.trim;
  int64_t limit = 0;
  bool limit_given = false, references_given = false;
  size_t i = 2;
  for (; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    const bool more = i + 1 < ctx.argc();
    if (adds && word == "*") {
      options.automatic = true;
      break;
    }
    if (more && same_word(word, "MAXLEN")) {
      if (!parse_bound(ctx, i, By::kLength, trim)) return 0;
    } else if (more && same_word(word, "MINID")) {
      if (!parse_bound(ctx, i, By::kId, trim)) return 0;
    } else if (more && same_word(word, "LIMIT")) {
      if (!number_argument(ctx, ++i, limit)) return 0;
      if (limit < 0) return ctx.reply.error("ERR The LIMIT argument must be >= 0."), 0;
      limit_given = true;
    } else if (adds && same_word(word, "NOMKSTREAM")) {
      options.no_make = true;
    } else if (const auto references = references_option(word); references && !references_given) {
      trim.references = *references;
      references_given = true;
    } else if (adds) {
      const auto id = parse_stream_id(word, 0, true, &options.any_seq);
      if (!id) return ctx.reply.error(kBadStreamId), 0;
      options.id = *id;
      break;
    } else {
      return ctx.reply.error(kSyntaxError), 0;
    }
  }
  if (!check_limit(ctx, limit_given, limit, trim)) return 0;
  if (!adds && trim.by == By::kNothing) {
    return ctx.reply.error("ERR syntax error, XTRIM must be called with MAXLEN or MINID options"), 0;
  }
  return i;
}

uint64_t trim_work(const Stream& stream, const StreamTrim& trim) {
  if (trim.by == By::kNothing) return 0;
  // Whole blocks cost next to nothing; entries one by one are looked at for references.
  if (trim.references == References::kKeep) return stream.size() / 64;
  return trim.approximately || stream.groups.empty() ? 0 : stream.size();
}

uint64_t trim_stream(StreamKey& key, const StreamTrim& trim) {
  if (trim.by == By::kNothing) return 0;
  // As Redis 8.2: with ~, only whole blocks go, and those only where references do not matter.
  if (trim.references != References::kKeep && trim.approximately) return 0;
  uint64_t removed = 0;
  if (trim.references == References::kAcknowledgedOnly) {
    removed = trim_acknowledged(key, trim);
  } else {
    removed = front_to_drop(key.stream(), trim);
    if (removed > 0) {
      std::string& delta = delta_of_thread();
      StreamDelta(delta, Op::kDropFront).varint(removed).byte(trim.references == References::kDrop ? StreamDelta::kReferences : 0);
      key.change(delta);
    }
  }
  if (removed > 0) key.event(KeyEvent::kStream, "xtrim");
  return removed;
}

}  // namespace pion
