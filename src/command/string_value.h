// What the string and key commands share: reading a string value wherever it lies, taking an argument that may have been
// streamed to disk, and the errors that go with it.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "command/context.h"
#include "keyspace/keyspace.h"
#include "storage/extents.h"

namespace pion {

inline constexpr std::string_view kWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr std::string_view kStringTooLong = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

// Asks the journal for room, as the command's flags say (kFreesSpace). False: the error was answered.
bool admitted(CommandContext& ctx, uint64_t record_bytes);

// The arguments from `first` up to `end`, or all that follow, as keys.
inline std::vector<Key> keys_of_arguments(const CommandContext& ctx, size_t first, size_t end = SIZE_MAX) {
  end = std::min(end, ctx.argc());
  std::vector<Key> keys;
  keys.reserve(end - first);
  for (size_t i = first; i < end; ++i) keys.push_back(ctx.services.keyspace->key(ctx.arg(i)));
  return keys;
}

// Bytes of a value, written to disk. On a worker.
Result<ExtentRef> write_extent(ExtentStore& extents, std::string_view bytes);

// An argument as the value of a key. A streamed one becomes an extent, which is given back unless it is used.
class ArgumentValue {
 public:
  // Empty: the error was answered.
  static std::optional<ArgumentValue> take(CommandContext& ctx, size_t index);
  // Bytes that came otherwise and last as long as this; on a worker if they are kStreamBulkBytes or more.
  static std::optional<ArgumentValue> of_bytes(CommandContext& ctx, std::string_view bytes);
  ArgumentValue(ArgumentValue&& other) noexcept
      : value_(other.value_), extents_(std::exchange(other.extents_, nullptr)) {}
  ArgumentValue& operator=(ArgumentValue&&) = delete;
  ~ArgumentValue() {
    if (extents_) extents_->free(value_.extent, 0);
  }

  const NewValue& value() const { return value_; }
  void used() { extents_ = nullptr; }  // a record names it now

 private:
  explicit ArgumentValue(NewValue value, ExtentStore* extents) : value_(value), extents_(extents) {}

  NewValue value_;
  ExtentStore* extents_;  // null: nothing to give back
};

inline bool is_extent(const Found& found) { return found && found.entry->encoding() == Encoding::kExtent; }

// Answers a value that is not an extent.
void reply_string(ReplyWriter& reply, const Entry& entry);

// A value to be answered after the locks are gone: opened (pinned) while they are held.
class PendingValue {
 public:
  // Under the lock. An extent is opened: only on a worker.
  static PendingValue open(CommandContext& ctx, const Entry& entry);
  // An extent that is held: without the lock.
  static PendingValue open(CommandContext& ctx, ExtentRef ref, uint64_t size);
  // Verifies, then answers the value or an error that says it is damaged.
  void reply(CommandContext& ctx) const;
  void reply_range(CommandContext& ctx, uint64_t first, uint64_t length) const;
  // Its bytes; empty with the error answered.
  std::optional<std::string> bytes(CommandContext& ctx) const;
  // Calls visit(bytes, offset of their first byte) -> bool "go on" over a range (inside the value), verified piece by piece.
  // False: the error was answered.
  template <typename Visit>
  bool read_pieces(CommandContext& ctx, uint64_t first, uint64_t length, Visit&& visit) const;
  // Only when it does not lie in an extent.
  std::string_view memory_bytes() const { return bytes_; }
  // Only of extents; null when it could not be opened.
  const std::shared_ptr<Extent>& extent() const { return extent_; }

 private:
  static constexpr uint64_t kPieceBytes = 4 * kChunkBytes;

  void reply_damaged(CommandContext& ctx, const Error& error) const;

  std::string bytes_;
  std::shared_ptr<Extent> extent_;
  std::optional<Error> error_;
};

template <typename Visit>
bool PendingValue::read_pieces(CommandContext& ctx, uint64_t first, uint64_t length, Visit&& visit) const {
  if (error_) return reply_damaged(ctx, *error_), false;
  if (!extent_) {
    visit(std::string_view(bytes_).substr(first, length), first);
    return true;
  }
  std::string piece;
  for (uint64_t at = first; at < first + length; at += piece.size()) {
    // On the boundaries of pieces, so that no chunk is verified twice.
    piece.resize(std::min(first + length, (at / kPieceBytes + 1) * kPieceBytes) - at);
    if (const Status sound = extent_->read(at, piece.size(), piece.data()); !sound) return reply_damaged(ctx, sound.error()), false;
    if (!visit(std::string_view(piece), at)) return true;
  }
  return true;
}

}  // namespace pion
