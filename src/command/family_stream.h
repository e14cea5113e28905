// What the files of the stream family share: ids as arguments, replies of entries, trimming, and the handlers for the table at
// the end of family_stream.cc.
#pragma once

#include <optional>
#include <string_view>

#include "command/arguments.h"
#include "command/collection.h"
#include "keyspace/stream_value.h"

namespace pion {

inline constexpr std::string_view kBadStreamId = "ERR Invalid stream ID specified as stream command argument";

// "ms-seq", "ms" (then `missing_seq`), and unless strict "-" and "+". With `any_seq`, "ms-*" sets it.
std::optional<StreamId> parse_stream_id(std::string_view text, uint64_t missing_seq, bool strict = true, bool* any_seq = nullptr);
// False: the error was answered.
bool stream_id_argument(CommandContext& ctx, size_t position, StreamId& id, uint64_t missing_seq = 0, bool strict = true);
// One end of a range, "(" excludes it: the first or last id that is in.
bool range_start_argument(CommandContext& ctx, size_t position, StreamId& id);
bool range_end_argument(CommandContext& ctx, size_t position, StreamId& id);
// A 64-bit integer; `text` instead of the usual error.
bool number_argument(CommandContext& ctx, size_t position, int64_t& value, std::string_view text = kNotAnInteger);

void reply_stream_id(ReplyWriter& reply, StreamId id);
void reply_stream_entry(ReplyWriter& reply, const StreamEntry& entry);
// A name in an error: as Redis prints it, up to a zero byte.
inline std::string_view printed_name(std::string_view name) { return name.substr(0, name.find('\0')); }
// NOGROUP; `tail` ends the sentence.
void reply_no_group(CommandContext& ctx, std::string_view key, std::string_view group, std::string_view tail = "");

// What becomes of the groups' pending entries when an entry is removed.
enum class References : uint8_t { kKeep, kDrop, kAcknowledgedOnly };
// KEEPREF, DELREF, ACKED.
std::optional<References> references_option(std::string_view word);

// A key that holds a stream, locked.
class StreamKey : public TypedKey {
 public:
  StreamKey(CommandContext& ctx, KeyAccess::Lookup lookup) : StreamKey(ctx, ctx.arg(1), lookup) {}
  StreamKey(CommandContext& ctx, std::string_view name, KeyAccess::Lookup lookup) : TypedKey(ctx, name, ValueType::kStream, lookup) {}
  // Only when it exists.
  const Stream& stream() const { return stream_of(entry()); }
  const StreamGroup* group(std::string_view name) const { return exists() ? stream().group(name) : nullptr; }
};

// Makes a consumer, or tells that it was seen. `active_ms`: StreamDelta::kAsItIs as a rule.
void note_consumer(StreamKey& key, std::string_view group, std::string_view consumer, int64_t now_ms, int64_t active_ms);

// family_stream_read.cc
Outcome xread_command(CommandContext& ctx);
Outcome xreadgroup_command(CommandContext& ctx);

// family_stream_group.cc
Outcome xgroup_create_command(CommandContext& ctx);
Outcome xgroup_setid_command(CommandContext& ctx);
Outcome xgroup_destroy_command(CommandContext& ctx);
Outcome xgroup_createconsumer_command(CommandContext& ctx);
Outcome xgroup_delconsumer_command(CommandContext& ctx);
Outcome xgroup_help_command(CommandContext& ctx);
Outcome xack_command(CommandContext& ctx);
Outcome xpending_command(CommandContext& ctx);

// family_stream_claim.cc
Outcome xclaim_command(CommandContext& ctx);
Outcome xautoclaim_command(CommandContext& ctx);

// family_stream_delete.cc
Outcome xdel_command(CommandContext& ctx);
Outcome xdelex_command(CommandContext& ctx);
Outcome xackdel_command(CommandContext& ctx);

// family_stream_info.cc
Outcome xinfo_stream_command(CommandContext& ctx);
Outcome xinfo_groups_command(CommandContext& ctx);
Outcome xinfo_consumers_command(CommandContext& ctx);
Outcome xinfo_help_command(CommandContext& ctx);

}  // namespace pion
