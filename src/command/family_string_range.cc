// APPEND SETRANGE GETRANGE SUBSTR STRLEN.
#include <algorithm>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/family_string.h"
#include "command/string_value.h"
#include "storage/storage.h"

namespace pion {
namespace {

constexpr size_t kCopyBytes = 256 * kKiB;

// Writes a new extent: the old payload with `bytes` put at `offset` (at most behind its end), zeros in a gap.
Result<ExtentRef> write_changed(ExtentStore& extents, Extent& old, uint64_t offset, std::string_view bytes) {
  const uint64_t old_size = old.payload_bytes();
  const uint64_t size = std::max(old_size, offset + bytes.size());
  Result<std::unique_ptr<ExtentWriter>> writer = extents.create(Space::kValues, size, 0);
  if (!writer) return std::unexpected(writer.error());
  std::string piece;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    piece.assign(std::min<uint64_t>(kCopyBytes, size - at), '\0');
    if (at < old_size) PION_TRY(old.read(at, std::min<uint64_t>(piece.size(), old_size - at), piece.data()));
    const uint64_t from = std::max(at, offset), to = std::min(at + piece.size(), offset + bytes.size());
    if (from < to) std::copy_n(bytes.data() + (from - offset), to - from, piece.data() + (from - at));
    PION_TRY((*writer)->append(piece));
  }
  return (*writer)->finish();
}

// Changes a value that lies in an extent: on a worker, into a new extent. When the key changed meanwhile, `again` says so.
Outcome change_extent(CommandContext& ctx, const Key& key, Extent& old, uint64_t offset, std::string_view event, bool& again) {
  ExtentStore& extents = ctx.services.storage->extents();
  const std::string_view bytes = ctx.arg(ctx.argc() - 1);
  const Result<ExtentRef> changed = write_changed(extents, old, offset, bytes);
  if (!changed) {
    const bool corrupt = changed.error().code == ErrorCode::kCorrupt;
    if (corrupt) ctx.services.keyspace->count_corrupt_value();
    ctx.reply.error((corrupt ? "CORRUPT the value of this key is damaged on disk: " : "MISCONF Errors writing the value: ") +
                    changed.error().message);
    return Outcome::kDone;
  }
  KeyAccess access(*ctx.services.keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kWrite);
  again = !is_extent(found) || found.entry->extent() != old.ref();
  if (again) {
    access.finish();
    extents.free(*changed, 0);
    return Outcome::kDone;
  }
  const uint64_t size = std::max<uint64_t>(old.payload_bytes(), offset + bytes.size());
  const int64_t expiry_ms = found.entry->has_expiry() ? found.entry->expiry() : 0;
  access.set(ctx.session.database, key, found, NewValue::of_extent(*changed, size), expiry_ms);
  access.event(KeyEvent::kString, event, ctx.session.database, key);
  ctx.require_lsn(access.finish());
  ctx.reply.integer(static_cast<int64_t>(size));
  return Outcome::kDone;
}

// APPEND (no offset) and SETRANGE.
Outcome change_string(CommandContext& ctx, std::optional<uint64_t> offset) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  const Key key = keyspace.key(ctx.arg(1));
  const std::string_view bytes = ctx.arg(ctx.argc() - 1);
  // A new string with a gap is recorded with its zeros.
  const uint64_t gap = offset ? std::min<uint64_t>(*offset, kMaxBulkBytes) : 0;
  if (!admitted(ctx, key.bytes.size() + bytes.size() + gap + 48)) return Outcome::kDone;
  const std::string_view event = offset ? "setrange" : "append";
  while (true) {
    KeyAccess access(keyspace, key);
    const Found found = access.find(database, key, KeyAccess::Lookup::kWrite);
    if (is_extent(found) && !ctx.on_worker) return Outcome::kNeedsWorker;
    const bool wrong_type = found && found.entry->type() != ValueType::kString;
    const uint64_t before = found && !wrong_type ? string_size(*found.entry) : 0;
    const uint64_t at = offset.value_or(before);
    const bool writes = !bytes.empty() || !offset;  // SETRANGE of nothing changes nothing, APPEND of nothing makes a key
    bool changed = false;
    if (wrong_type) {
      ctx.reply.error(kWrongType);
    } else if (writes && (found || offset) && (at > kMaxBulkBytes || at + bytes.size() > kMaxBulkBytes)) {
      ctx.reply.error(kStringTooLong);
    } else if (!writes) {
      ctx.reply.integer(static_cast<int64_t>(before));
    } else if (is_extent(found)) {
      const PendingValue old = PendingValue::open(ctx, *found.entry);
      access.finish();
      if (!old.extent()) {
        old.reply(ctx);  // says that it is damaged
        return Outcome::kDone;
      }
      bool again = false;
      const Outcome outcome = change_extent(ctx, key, *old.extent(), at, event, again);
      if (again) continue;
      return outcome;
    } else {
      changed = true;
      if (found) {
        access.set_range(database, key, found, at, bytes);
      } else if (!offset) {
        access.set(database, key, found, NewValue::from_argument(bytes), 0);
      } else {
        access.set(database, key, found, NewValue::of_raw(std::string(at, '\0').append(bytes)), 0);
      }
      ctx.reply.integer(static_cast<int64_t>(std::max(before, at + bytes.size())));
    }
    if (changed) access.event(KeyEvent::kString, event, database, key);
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  }
}

// First byte and length of what GETRANGE's two positions mean; length 0: nothing.
std::pair<uint64_t, uint64_t> resolve_range(int64_t start, int64_t end, uint64_t size) {
  const auto length = static_cast<int64_t>(size);
  if (start < 0 && end < 0 && start > end) return {0, 0};
  if (start < 0) start = std::max<int64_t>(0, length + start);
  if (end < 0) end = std::max<int64_t>(0, length + end);
  end = std::min(end, length - 1);
  if (start > end) return {0, 0};
  return {static_cast<uint64_t>(start), static_cast<uint64_t>(end - start + 1)};
}

}  // namespace

Outcome append_command(CommandContext& ctx) { return change_string(ctx, std::nullopt); }

Outcome setrange_command(CommandContext& ctx) {
  const auto offset = integer_argument(ctx.arg(2));
  if (!offset || *offset < 0) {
    ctx.reply.error(offset ? "ERR offset is out of range" : kNotAnInteger);
    return Outcome::kDone;
  }
  return change_string(ctx, static_cast<uint64_t>(*offset));
}

Outcome getrange_command(CommandContext& ctx) {
  const auto start = integer_argument(ctx.arg(2)), end = integer_argument(ctx.arg(3));
  if (!start || !end) {
    ctx.reply.error(kNotAnInteger);
    return Outcome::kDone;
  }
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(1));
  KeyAccess access(keyspace, key);
  if (ctx.session.no_touch) access.no_touch();
  const Found found = access.find(ctx.session.database, key);
  if (is_extent(found) && !ctx.on_worker) return Outcome::kNeedsWorker;
  if (!found) {
    ctx.reply.bulk(std::string_view());
  } else if (found.entry->type() != ValueType::kString) {
    ctx.reply.error(kWrongType);
  } else {
    const auto [first, length] = resolve_range(*start, *end, string_size(*found.entry));
    if (is_extent(found)) {
      const PendingValue value = PendingValue::open(ctx, *found.entry);
      ctx.require_lsn(access.finish());
      value.reply_range(ctx, first, length);
      return Outcome::kDone;
    }
    char text[20];
    std::string_view bytes;
    if (found.entry->encoding() == Encoding::kInt) {
      bytes = {text, format_integer(found.entry->integer(), text)};
    } else {
      bytes = found.entry->bytes();
    }
    ctx.reply.bulk(bytes.substr(first, length));
  }
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

Outcome strlen_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(1));
  KeyAccess access(keyspace, key);
  if (ctx.session.no_touch) access.no_touch();
  const Found found = access.find(ctx.session.database, key);
  if (found && found.entry->type() != ValueType::kString) {
    ctx.reply.error(kWrongType);
  } else {
    ctx.reply.integer(found ? static_cast<int64_t>(string_size(*found.entry)) : 0);
  }
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

}  // namespace pion
