// RENAME RENAMENX COPY MOVE: one record each, whose effects need nothing but the keys they write.
#include <optional>

#include "command/arguments.h"
#include "command/family_key.h"
#include "command/overwritten.h"
#include "command/string_value.h"
#include "keyspace/value_types.h"
#include "storage/storage.h"

namespace pion {
namespace {

constexpr size_t kCopyBytes = 256 * kKiB;

// Copies an extent's payload, verified piece by piece. On a worker.
Result<ExtentRef> duplicate(ExtentStore& extents, Extent& from) {
  auto writer = extents.create(Space::kValues, from.payload_bytes(), 0);
  if (!writer) return std::unexpected(writer.error());
  std::string piece;
  for (uint64_t at = 0; at < from.payload_bytes(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(kCopyBytes, from.payload_bytes() - at));
    PION_TRY(from.read(at, piece.size(), piece.data()));
    PION_TRY((*writer)->append(piece));
  }
  return (*writer)->finish();
}

struct Place {
  int database;
  Key key;
};

constexpr uint64_t kElementsOnReactor = 4096;  // a value with more is moved or copied by a worker: its record holds it whole

// About what the record of setting `to` would take.
uint64_t record_bytes_of(const NewValue& value, const Place& from, const Place& to) {
  return value.record_bytes() + from.key.bytes.size() + to.key.bytes.size() + 64;
}

bool is_long(const Found& found) {
  return found && found.entry->type() != ValueType::kString && value_ops(found.entry->type())->length(*found.entry) > kElementsOnReactor;
}

// Sets the target to what the source's entry holds. The value of another type than string is copied, unless it was taken out.
void set_whole(KeyAccess& access, const Place& to, Found target, NewValue value, const Entry& source, Object* moved) {
  const int64_t expiry_ms = source.has_expiry() ? source.expiry() : 0;
  if (value.kind != NewValue::Kind::kTyped) {
    access.set(to.database, to.key, target, value, expiry_ms);
    return;
  }
  value.object = moved;
  if (source.encoding() != Encoding::kObject) value.bytes = source.bytes();
  access.set_typed(to.database, to.key, target, value, expiry_ms);
}

enum class Moved { kDone, kNoSource, kTargetExists, kRefused /* the error was answered */, kNeedsWorker };

// The value leaves one place for another.
Moved relocate(CommandContext& ctx, const Place& from, const Place& to, bool replace, std::pair<std::string_view, std::string_view> events) {
  const Key keys[] = {from.key, to.key};
  KeyAccess access(*ctx.services.keyspace, keys);
  const Found source = access.find(from.database, from.key, KeyAccess::Lookup::kWrite);
  Moved moved = Moved::kDone;
  if (!source) {
    moved = Moved::kNoSource;
  } else {
    if (is_long(source) && !ctx.on_worker) return Moved::kNeedsWorker;
    // Asked under the lock, where the size is known: the answer does not wait for anything.
    std::string encoded;
    NewValue value = whole_value(*source.entry, encoded);
    if (!admitted(ctx, record_bytes_of(value, from, to))) return Moved::kRefused;
    const Found target = access.find(to.database, to.key, KeyAccess::Lookup::kPeek);
    if (target && !replace) {
      moved = Moved::kTargetExists;
    } else {
      if (source.entry->encoding() == Encoding::kExtent) access.keep_extent(source.entry->extent());
      value.moved = from.key.bytes != to.key.bytes;
      Object* object = nullptr;
      if (source.entry->encoding() == Encoding::kObject) object = access.take_object(from.database, from.key, source).release();
      const Overwritten overwritten(target, source.entry->type());
      overwritten.tell_new(access, to.database, to.key);
      set_whole(access, to, target, value, *source.entry, object);
      // Setting may have moved table slots, never the entry.
      access.erase(from.database, from.key, access.find_again(from.database, from.key));
      access.event(KeyEvent::kGeneric, events.first, from.database, from.key);
      access.event(KeyEvent::kGeneric, events.second, to.database, to.key);
      overwritten.tell(access, to.database, to.key);
    }
  }
  ctx.require_lsn(access.finish());
  return moved;
}

Outcome rename_generic(CommandContext& ctx, bool only_if_free) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  const Place from{database, keyspace.key(ctx.arg(1))}, to{database, keyspace.key(ctx.arg(2))};
  Moved moved;
  if (from.key.bytes == to.key.bytes) {
    KeyAccess access(keyspace, from.key);
    const Found found = access.find(database, from.key, KeyAccess::Lookup::kWrite);
    moved = !found ? Moved::kNoSource : only_if_free ? Moved::kTargetExists : Moved::kDone;
    ctx.require_lsn(access.finish());
  } else {
    moved = relocate(ctx, from, to, !only_if_free, {"rename_from", "rename_to"});
  }
  if (moved == Moved::kNeedsWorker) return Outcome::kNeedsWorker;
  if (moved == Moved::kRefused) return Outcome::kDone;
  if (moved == Moved::kNoSource) {
    ctx.reply.error("ERR no such key");
  } else if (only_if_free) {
    ctx.reply.integer(moved == Moved::kDone);
  } else {
    ctx.reply.ok();
  }
  return Outcome::kDone;
}

// A database number as COPY, MOVE and SWAPDB take it. Empty: the error was answered.
std::optional<int> database_argument(CommandContext& ctx, std::string_view text) {
  const auto number = integer_argument(text);
  if (!number || *number < INT32_MIN || *number > INT32_MAX) {
    ctx.reply.error(number ? "ERR value is out of range, value must between -2147483648 and 2147483647" : kNotAnInteger);
    return std::nullopt;
  }
  if (*number < 0 || *number >= static_cast<int64_t>(kDatabases)) {
    ctx.reply.error("ERR DB index is out of range");
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

struct CopyRequest {
  Place from, to;
  bool replace = false;
};

// One attempt; `opened` is what the source's extent was last time, `copied` its duplicate, ready to be named.
struct CopyState {
  std::shared_ptr<Extent> opened;
  std::optional<ExtentRef> copied;
};

Outcome copy_attempt(CommandContext& ctx, const CopyRequest& request, CopyState& state, bool& again) {
  const Key keys[] = {request.from.key, request.to.key};
  KeyAccess access(*ctx.services.keyspace, keys);
  const Found source = access.find(request.from.database, request.from.key);
  if ((is_extent(source) || is_long(source)) && !ctx.on_worker) return Outcome::kNeedsWorker;
  const Found target = source ? access.find(request.to.database, request.to.key, KeyAccess::Lookup::kPeek) : Found{};
  if (!source || (target && !request.replace)) {
    ctx.require_lsn(access.finish());
    ctx.reply.integer(0);
    return Outcome::kDone;
  }
  std::string encoded;
  NewValue value = whole_value(*source.entry, encoded);
  value.moved = true;
  if (is_extent(source)) {
    if (!state.copied || !state.opened || state.opened->ref() != source.entry->extent()) {
      const PendingValue pending = PendingValue::open(ctx, *source.entry);
      ctx.require_lsn(access.finish());
      state.opened = pending.extent();
      if (!state.opened) return pending.reply(ctx), Outcome::kDone;
      again = true;
      return Outcome::kDone;
    }
    value.extent = *state.copied;
  }
  if (!admitted(ctx, record_bytes_of(value, request.from, request.to))) return Outcome::kDone;
  const Overwritten overwritten(target, source.entry->type());
  overwritten.tell_new(access, request.to.database, request.to.key);
  set_whole(access, request.to, target, value, *source.entry, nullptr);
  access.event(KeyEvent::kGeneric, "copy_to", request.to.database, request.to.key);
  overwritten.tell(access, request.to.database, request.to.key);
  state.copied.reset();
  ctx.require_lsn(access.finish());
  ctx.reply.integer(1);
  return Outcome::kDone;
}

}  // namespace

Outcome rename_command(CommandContext& ctx) { return rename_generic(ctx, false); }
Outcome renamenx_command(CommandContext& ctx) { return rename_generic(ctx, true); }

Outcome copy_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  ExtentStore& extents = ctx.services.storage->extents();
  const int database = ctx.session.database;
  CopyRequest request{{database, keyspace.key(ctx.arg(1))}, {database, keyspace.key(ctx.arg(2))}};
  for (size_t i = 3; i < ctx.argc(); ++i) {
    if (same_word(ctx.arg(i), "REPLACE")) {
      request.replace = true;
    } else if (same_word(ctx.arg(i), "DB") && i + 1 < ctx.argc()) {
      const auto other = database_argument(ctx, ctx.arg(++i));
      if (!other) return Outcome::kDone;
      request.to.database = *other;
    } else {
      ctx.reply.error(kSyntaxError);
      return Outcome::kDone;
    }
  }
  if (request.from.database == request.to.database && request.from.key.bytes == request.to.key.bytes) {
    ctx.reply.error("ERR source and destination objects are the same");
    return Outcome::kDone;
  }
  CopyState state;
  while (true) {
    bool again = false;
    const Outcome outcome = copy_attempt(ctx, request, state, again);
    if (again) {
      // The extent is copied without any lock; if the key changed meanwhile the copy is thrown away and made anew.
      if (state.copied) extents.free(*std::exchange(state.copied, std::nullopt), 0);
      Result<ExtentRef> copy = duplicate(extents, *state.opened);
      if (copy) {
        state.copied = *copy;
        continue;
      }
      if (copy.error().code == ErrorCode::kCorrupt) keyspace.count_corrupt_value();
      ctx.reply.error((copy.error().code == ErrorCode::kCorrupt ? "CORRUPT the value of this key is damaged on disk: "
                                                                 : "MISCONF Errors writing the value: ") +
                      copy.error().message);
    }
    if (state.copied) extents.free(*state.copied, 0);
    return outcome;
  }
}

Outcome move_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const auto database = database_argument(ctx, ctx.arg(2));
  if (!database) return Outcome::kDone;
  if (*database == ctx.session.database) {
    ctx.reply.error("ERR source and destination objects are the same");
    return Outcome::kDone;
  }
  const Key key = keyspace.key(ctx.arg(1));
  const Moved moved = relocate(ctx, {ctx.session.database, key}, {*database, key}, false, {"move_from", "move_to"});
  if (moved == Moved::kNeedsWorker) return Outcome::kNeedsWorker;
  if (moved != Moved::kRefused) ctx.reply.integer(moved == Moved::kDone);
  return Outcome::kDone;
}

Outcome swapdb_command(CommandContext& ctx) {
  int numbers[2];
  for (size_t i = 0; i < 2; ++i) {
    const auto number = integer_argument(ctx.arg(i + 1));
    if (!number || *number < INT32_MIN || *number > INT32_MAX) {
      ctx.reply.error(i == 0 ? "ERR invalid first DB index" : "ERR invalid second DB index");
      return Outcome::kDone;
    }
    numbers[i] = static_cast<int>(*number);
  }
  for (int number : numbers) {
    if (number >= 0 && number < static_cast<int>(kDatabases)) continue;
    ctx.reply.error("ERR DB index is out of range");
    return Outcome::kDone;
  }
  if (!admitted(ctx, 16)) return Outcome::kDone;
  ctx.require_lsn(ctx.services.keyspace->swap_databases(numbers[0], numbers[1]));
  ctx.reply.ok();
  return Outcome::kDone;
}

}  // namespace pion
