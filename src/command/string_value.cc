#include "command/string_value.h"

#include "base/log.h"
#include "command/payload.h"
#include "command/table.h"
#include "storage/storage.h"

namespace pion {

bool admitted(CommandContext& ctx, uint64_t record_bytes) {
  const WriteKind kind = ctx.spec.flags & kFreesSpace ? WriteKind::kFrees : WriteKind::kGrows;
  const Status status = ctx.services.keyspace->admit(record_bytes, kind);
  if (status) return true;
  const char* code = status.error().code == ErrorCode::kTooLarge ? "ERR " : "MISCONF Errors writing to the journal: ";
  ctx.reply.error(code + status.error().message);
  return false;
}

Result<ExtentRef> write_extent(ExtentStore& extents, std::string_view bytes) {
  Result<std::unique_ptr<ExtentWriter>> writer = extents.create(Space::kValues, bytes.size(), 0);
  if (!writer) return std::unexpected(writer.error());
  PION_TRY((*writer)->append(bytes));
  return (*writer)->finish();
}

std::optional<ArgumentValue> ArgumentValue::of_bytes(CommandContext& ctx, std::string_view bytes) {
  if (bytes.size() < kStreamBulkBytes) return ArgumentValue(NewValue::from_argument(bytes), nullptr);
  ExtentStore& extents = ctx.services.storage->extents();
  const Result<ExtentRef> ref = write_extent(extents, bytes);
  if (!ref) return ctx.reply.error("MISCONF Errors writing the value: " + ref.error().message), std::nullopt;
  return ArgumentValue(NewValue::of_extent(*ref, bytes.size()), &extents);
}

std::optional<ArgumentValue> ArgumentValue::take(CommandContext& ctx, size_t index) {
  Argument& argument = ctx.args[index];
  if (!argument.streamed) return ArgumentValue(NewValue::from_argument(argument.bytes), nullptr);
  auto& payload = static_cast<ExtentPayload&>(*argument.streamed);
  Result<ExtentRef> ref = fail(payload.error.code, payload.error.message);
  if (payload.writer) ref = payload.writer->finish();
  payload.writer.reset();
  if (!ref) {
    const bool full = ref.error().code == ErrorCode::kNoSpace || ref.error().code == ErrorCode::kIo;
    ctx.reply.error((full ? "MISCONF Errors writing the value: " : "ERR ") + ref.error().message);
    return std::nullopt;
  }
  return ArgumentValue(NewValue::of_extent(*ref, argument.size), &ctx.services.storage->extents());
}

void reply_string(ReplyWriter& reply, const Entry& entry) {
  if (entry.encoding() == Encoding::kInt) {
    char text[20];
    reply.bulk({text, format_integer(entry.integer(), text)});
  } else {
    reply.bulk(entry.bytes());
  }
}

PendingValue PendingValue::open(CommandContext& ctx, ExtentRef ref, uint64_t size) {
  PendingValue pending;
  Result<std::shared_ptr<Extent>> opened = ctx.services.storage->extents().open(ref);
  if (opened) {
    pending.extent_ = std::move(*opened);
    if (pending.extent_->payload_bytes() != size) {
      pending.error_ = Error{ErrorCode::kCorrupt, "the extent has another length than the key says"};
    }
  } else {
    pending.error_ = opened.error();
  }
  return pending;
}

PendingValue PendingValue::open(CommandContext& ctx, const Entry& entry) {
  if (entry.encoding() == Encoding::kExtent) return open(ctx, entry.extent(), entry.extent_size());
  PendingValue pending;
  if (entry.encoding() == Encoding::kInt) {
    char text[20];
    pending.bytes_.assign(text, format_integer(entry.integer(), text));
  } else {
    pending.bytes_ = entry.bytes();
  }
  return pending;
}

void PendingValue::reply_damaged(CommandContext& ctx, const Error& error) const {
  ctx.services.keyspace->count_corrupt_value();
  log_warning("a value is damaged on disk and is not served: " + error.message);
  ctx.reply.error("CORRUPT the value of this key is damaged on disk: " + error.message);
}

void PendingValue::reply(CommandContext& ctx) const {
  if (!error_ && !extent_) return ctx.reply.bulk(bytes_);
  reply_range(ctx, 0, extent_ ? extent_->payload_bytes() : 0);
}

void PendingValue::reply_range(CommandContext& ctx, uint64_t first, uint64_t length) const {
  if (error_) return reply_damaged(ctx, *error_);
  if (!extent_) return ctx.reply.bulk(std::string_view(bytes_).substr(first, length));
  if (length == 0) return ctx.reply.bulk(std::string_view());
  if (const Status sound = extent_->verify(first, length); !sound) return reply_damaged(ctx, sound.error());
  ctx.reply.bulk(extent_->slice(first, length));
}

std::optional<std::string> PendingValue::bytes(CommandContext& ctx) const {
  if (error_) return reply_damaged(ctx, *error_), std::nullopt;
  if (!extent_) return bytes_;
  std::string bytes(extent_->payload_bytes(), '\0');
  if (const Status sound = extent_->read(0, bytes.size(), bytes.data()); !sound) return reply_damaged(ctx, sound.error()), std::nullopt;
  return bytes;
}

}  // namespace pion
