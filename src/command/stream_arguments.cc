// Stream ids and options as Redis reads them, entries as it answers them.
#include <cerrno>
#include <cstdlib>
#include <string>

#include "command/arguments.h"
#include "command/family_stream.h"

namespace pion {
namespace {

constexpr size_t kLongestId = 127;

// A canonical integer that is not negative, or whatever strtoull takes whole: as Redis reads it.
std::optional<uint64_t> part_of_id(std::string_view text) {
  if (const auto number = integer_argument(text)) return *number >= 0 ? std::optional<uint64_t>(*number) : std::nullopt;
  const std::string terminated(text);
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(terminated.c_str(), &end, 10);
  if (end == terminated.c_str() || *end != '\0' || errno != 0) return std::nullopt;
  return value;
}

bool interval_argument(CommandContext& ctx, size_t position, uint64_t missing_seq, StreamId& id, bool& excluded) {
  std::string_view text = ctx.arg(position);
  excluded = text.size() > 1 && text.front() == '(';
  if (excluded) text.remove_prefix(1);
  const auto parsed = parse_stream_id(text, missing_seq, excluded);
  if (!parsed) return ctx.reply.error(kBadStreamId), false;
  id = *parsed;
  return true;
}

}  // namespace

std::optional<StreamId> parse_stream_id(std::string_view text, uint64_t missing_seq, bool strict, bool* any_seq) {
  if (text.size() > kLongestId) return std::nullopt;
  if (text == "-" || text == "+") {
    if (strict) return std::nullopt;
    return text == "-" ? StreamId{} : StreamId::last();
  }
  text = text.substr(0, text.find('\0'));
  const size_t dash = text.find('-');
  const auto ms = part_of_id(text.substr(0, dash));
  if (!ms) return std::nullopt;
  if (dash == std::string_view::npos) return StreamId{*ms, missing_seq};
  if (any_seq && text.substr(dash + 1) == "*") return *any_seq = true, StreamId{*ms, 0};
  const auto seq = part_of_id(text.substr(dash + 1));
  if (!seq) return std::nullopt;
  return StreamId{*ms, *seq};
}

bool stream_id_argument(CommandContext& ctx, size_t position, StreamId& id, uint64_t missing_seq, bool strict) {
  const auto parsed = parse_stream_id(ctx.arg(position), missing_seq, strict);
  if (!parsed) return ctx.reply.error(kBadStreamId), false;
  id = *parsed;
  return true;
}

bool range_start_argument(CommandContext& ctx, size_t position, StreamId& id) {
  bool excluded = false;
  if (!interval_argument(ctx, position, 0, id, excluded)) return false;
  if (excluded && !id.increment()) return ctx.reply.error("ERR invalid start ID for the interval"), false;
  return true;
}

bool range_end_argument(CommandContext& ctx, size_t position, StreamId& id) {
  bool excluded = false;
  if (!interval_argument(ctx, position, UINT64_MAX, id, excluded)) return false;
  if (excluded && !id.decrement()) return ctx.reply.error("ERR invalid end ID for the interval"), false;
  return true;
}

bool number_argument(CommandContext& ctx, size_t position, int64_t& value, std::string_view text) {
  const auto number = integer_argument(ctx.arg(position));
  if (!number) return ctx.reply.error(text), false;
  value = *number;
  return true;
}

void reply_stream_id(ReplyWriter& reply, StreamId id) {
  char room[StreamId::kTextBytes];
  reply.bulk(id.text(room));
}

void reply_stream_entry(ReplyWriter& reply, const StreamEntry& entry) {
  reply.array(2);
  reply_stream_id(reply, entry.id);
  reply.array(static_cast<int64_t>(entry.fields() * 2));
  entry.each([&](const ShortText& name, const ShortText& value) {
    char room[20];
    reply.bulk(name.view(room));
    reply.bulk(value.view(room));
  });
}

void reply_no_group(CommandContext& ctx, std::string_view key, std::string_view group, std::string_view tail) {
  std::string text("NOGROUP No such key '");
  ctx.reply.error(text.append(printed_name(key)).append("' or consumer group '").append(printed_name(group)).append("'").append(tail));
}

std::optional<References> references_option(std::string_view word) {
  if (same_word(word, "KEEPREF")) return References::kKeep;
  if (same_word(word, "DELREF")) return References::kDrop;
  if (same_word(word, "ACKED")) return References::kAcknowledgedOnly;
  return std::nullopt;
}

void note_consumer(StreamKey& key, std::string_view group, std::string_view consumer, int64_t now_ms, int64_t active_ms) {
  const bool made = !key.group(group)->consumer(consumer);
  if (made && active_ms == StreamDelta::kAsItIs) active_ms = -1;
  std::string& delta = delta_of_thread();
  StreamDelta(delta, StreamDelta::Op::kSetConsumer).bytes(group).bytes(consumer).time(now_ms).time(active_ms);
  key.change(delta);
  if (made) key.event(KeyEvent::kStream, "xgroup-createconsumer");
}

}  // namespace pion
