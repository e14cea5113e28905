// PROMPT.PUT: blobs in memory, streamed to disk while they came, or behind a passed descriptor.
#include "base/limits.h"
#include "command/arguments.h"
#include "command/payload.h"
#include "command/prompt_args.h"

namespace pion {
namespace {

// Where an argument stands in `m tokens from [SALT s] [MEDIA pos len digest] [POOL p blob | POOL p FD i offset length] ...`.
// Steps over whole options from `at`; returns the position after the option at `at`, 0 when it is none.
size_t after_option(const Arguments& args, size_t at) {
  const std::string_view word = args[at].bytes;
  const auto is = [&](std::string_view name) { return same_word(word, name); };
  if (is("DURABLE")) return at + 1;
  if (is("SALT") || is("PREFILL_MS") || is("MANIFEST")) return at + 2;
  if (is("MEDIA")) return at + 4;
  if (!is("POOL")) return 0;
  // "FD" is a descriptor's form when integers follow; otherwise it is a blob of these two bytes.
  if (at + 5 < args.size() && same_word(args[at + 2].bytes, "FD") && !args[at + 2].streamed) {
    bool integers = true;
    for (size_t i = at + 3; i <= at + 5; ++i) integers = integers && integer_argument(args[i].bytes);
    if (integers) return at + 6;
  }
  return at + 3;
}

constexpr size_t kFirstOption = 4;

// Aux bytes a blob's extent may need: its segment's tokens and the media items named before it.
uint64_t aux_room(const Arguments& before) {
  const auto from = integer_argument(before[3].bytes);
  const auto tokens = static_cast<int64_t>(before[2].size / 4);
  uint64_t room = kContentHeadBytes;
  if (from && *from >= 0 && *from < tokens) room += static_cast<uint64_t>(tokens - *from) * 4;
  for (size_t at = kFirstOption; at < before.size();) {
    const size_t next = after_option(before, at);
    if (next == 0 || next > before.size()) break;
    if (same_word(before[at].bytes, "MEDIA")) room += 9 + kMaxDigestBytes;
    at = next;
  }
  return room;
}

// The blob at position `at`, which is the argument itself.
Result<std::unique_ptr<BlobSource>> blob_of(CommandContext& context, size_t at) {
  Argument& argument = context.args[at];
  if (!argument.streamed) return memory_blob(argument.bytes);
  auto& payload = static_cast<ExtentPayload&>(*argument.streamed);
  if (!payload.writer) return std::unexpected(payload.error);
  Arguments before(context.args.begin(), context.args.begin() + static_cast<ptrdiff_t>(at));
  return streamed_blob(context.services.prompt->extents(), std::move(payload.writer), argument.size, aux_room(before),
                       std::move(payload.room));
}

Result<std::unique_ptr<BlobSource>> passed_blob(CommandContext& context, size_t at) {
  const auto& fds = context.session.descriptors.fds();
  const int64_t index = *integer_argument(context.arg(at)), offset = *integer_argument(context.arg(at + 1)),
                length = *integer_argument(context.arg(at + 2));
  if (!context.session.unix_socket) return fail(ErrorCode::kInvalid, "descriptors are passed over the Unix socket only");
  if (index < 0 || static_cast<size_t>(index) >= fds.size()) {
    return fail(ErrorCode::kInvalid, "descriptor " + std::to_string(index) + " was not passed: " + std::to_string(fds.size()) + " came with the command");
  }
  if (offset < 0 || length < 0) return fail(ErrorCode::kInvalid, "offset and length of a descriptor cannot be negative");
  return descriptor_blob(fds[static_cast<size_t>(index)], static_cast<uint64_t>(offset), static_cast<uint64_t>(length));
}

struct ParsedPut {
  PutRequest request;
  std::vector<MediaItem> media;
  bool durable = false;
};

// Empty: read. Otherwise the error to answer.
std::string parse(CommandContext& context, ParsedPut& put) {
  put.request.model = context.arg(1);
  const auto from = integer_argument(context.arg(3));
  if (!from || *from < 0 || *from > static_cast<int64_t>(kMaxTokens)) return "ERR from must be a number of tokens";
  put.request.from = static_cast<uint32_t>(*from);
  OptionReader option(context, kFirstOption);
  for (size_t at = kFirstOption; at < context.argc();) {
    const size_t next = after_option(context.args, at);
    option.go_to(at);
    if (next == 0) option.unknown();
    if (next > context.argc()) option.fail("ERR the last option is incomplete");
    if (!option.error().empty()) return option.error();
    if (option.word("SALT")) {
      put.request.salt = option.text("SALT", kMaxNameBytes);
    } else if (option.word("PREFILL_MS")) {
      put.request.prefill_ms = option.number("PREFILL_MS");
    } else if (option.word("MANIFEST")) {
      put.request.manifest_hash = option.text("MANIFEST", 128);
      if (put.request.manifest_hash.empty() && option.error().empty()) option.fail("ERR MANIFEST is empty");
    } else if (option.word("MEDIA", OptionReader::Times::kMany)) {
      put.media.push_back(option.media());
    } else if (option.word("DURABLE")) {
      put.durable = true;
    } else {
      auto blob = next == at + 6 ? passed_blob(context, at + 3) : blob_of(context, at + 2);
      if (!blob) return prompt_error(refuse(blob.error()).error());
      put.request.blobs.emplace_back(std::string(context.arg(at + 1)), std::move(*blob));
    }
    if (!option.error().empty()) return option.error();
    at = next;
  }
  return {};
}

}  // namespace

CommandSpec::StreamRule prompt_put_stream(const Arguments& before, size_t position) {
  size_t at = kFirstOption;
  while (at < position) {
    if (at + 2 == position && same_word(before[at].bytes, "POOL")) {
      return {true, static_cast<uint32_t>(Space::kPrompt), aux_room(before)};
    }
    at = at < before.size() ? after_option(before, at) : 0;
    if (at == 0) break;
  }
  return {};
}

Outcome prompt_put(CommandContext& context) {
  if (!context.session.begun_at) context.session.begun_at = context.services.prompt->revocations();
  if (!context.on_worker) return Outcome::kNeedsWorker;
  ParsedPut put;
  if (const std::string error = parse(context, put); !error.empty()) {
    context.reply.error(error);
    return Outcome::kDone;
  }
  auto chain = make_chain(context.arg(2), std::move(put.media));
  if (!chain) return prompt_failure(context, chain.error());
  put.request.chain = std::move(*chain);
  put.request.begun_at = context.session.begun_at;
  const auto reply = context.services.prompt->put(put.request, *prompt_client(context));
  if (!reply) return prompt_failure(context, reply.error());
  context.require_lsn(reply->lsn);
  if (put.durable) context.require_sync();
  context.reply.map(3);
  context.reply.bulk("from");
  context.reply.integer(reply->from);
  context.reply.bulk("to");
  context.reply.integer(reply->to);
  context.reply.bulk("segment");
  reply->segment != 0 ? context.reply.integer(static_cast<int64_t>(reply->segment)) : context.reply.nil();
  return Outcome::kDone;
}

}  // namespace pion
