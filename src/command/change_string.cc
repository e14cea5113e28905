#include "command/change_string.h"

#include <algorithm>

#include "base/limits.h"
#include "storage/storage.h"

namespace pion {
namespace {

// An extent that is changed in place moves to the heap when it is not larger: bitmaps are written bit by bit. A larger one is
// written anew on disk, as SETRANGE does it.
constexpr uint64_t kHeapBytes = 4 * kMiB;
constexpr uint64_t kZeroedOnReactor = 1 * kMiB;  // growing by more is a worker's
constexpr uint64_t kChangeRecordBytes = 4 * kKiB;

// In memory, under the stripe's lock: each write is an effect.
class LiveString final : public MutableString {
 public:
  LiveString(KeyAccess& access, int database, const Key& key, Found found)
      : access_(access), database_(database), key_(key), found_(found) {}

  std::string_view bytes() const override { return string_bytes(*found_.entry, text_); }
  void write(uint64_t offset, std::string_view bytes) override {
    access_.set_range(database_, key_, found_, offset, bytes);
    found_ = access_.find_again(database_, key_);
    changed_ = true;
  }
  bool changed() const { return changed_; }
  // As Redis has a string that a command may change; no change of the bytes.
  void make_raw() {
    if (found_.entry->encoding() == Encoding::kInlineRaw || found_.entry->encoding() == Encoding::kHeap || bytes().empty()) return;
    const char last = bytes().back();
    access_.set_range(database_, key_, found_, bytes().size() - 1, {&last, 1});
    found_ = access_.find_again(database_, key_);
  }

 private:
  KeyAccess& access_;
  const int database_;
  const Key& key_;
  Found found_;
  bool changed_ = false;
  mutable char text_[20];
};

// The bytes of an extent, in a buffer of ours.
class LooseString final : public MutableString {
 public:
  explicit LooseString(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string_view bytes() const override { return bytes_; }
  void write(uint64_t offset, std::string_view bytes) override {
    changed_ = true;
    if (offset + bytes.size() > bytes_.size()) bytes_.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<ptrdiff_t>(offset));
  }
  bool changed() const { return changed_; }

 private:
  std::string bytes_;
  bool changed_ = false;
};

bool run_on(MutableString& string, uint64_t least_bytes, StringChange& change) {
  if (string.bytes().size() < least_bytes) string.write(least_bytes - 1, std::string_view("\0", 1));
  return change.run(string);
}

// On a worker, without locks: the changed bytes, then the key again. `again`: it changed meanwhile.
void change_extent(CommandContext& ctx, const Key& key, const PendingValue& old, uint64_t least_bytes, bool* ran, bool& again,
                   StringChange& change) {
  again = false;
  std::optional<std::string> bytes = old.bytes(ctx);
  if (!bytes) return;
  LooseString string(std::move(*bytes));
  const bool tells = run_on(string, least_bytes, change);
  if (!string.changed()) {
    *ran = true;
    return;
  }
  NewValue value = NewValue::of_raw(string.bytes());
  ExtentStore& extents = ctx.services.storage->extents();
  if (string.bytes().size() > kHeapBytes) {
    const Result<ExtentRef> written = write_extent(extents, string.bytes());
    if (!written) return ctx.reply.error("MISCONF Errors writing the value: " + written.error().message);
    value = NewValue::of_extent(*written, string.bytes().size());
  }
  const auto give_back = [&] {
    if (value.kind == NewValue::Kind::kExtent) extents.free(value.extent, 0);
  };
  if (!admitted(ctx, key.bytes.size() + value.record_bytes() + 32)) return give_back();
  KeyAccess access(*ctx.services.keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kPeek);
  again = !is_extent(found) || found.entry->extent() != old.extent()->ref();
  if (again) {
    access.finish();
    return give_back();
  }
  access.set(ctx.session.database, key, found, value, found.entry->has_expiry() ? found.entry->expiry() : 0);
  if (tells) access.event(KeyEvent::kString, "setbit", ctx.session.database, key);
  ctx.require_lsn(access.finish());
  *ran = true;
}

}  // namespace

std::string_view string_bytes(const Entry& entry, char (&text)[20]) {
  if (entry.encoding() == Encoding::kInt) return {text, format_integer(entry.integer(), text)};
  return entry.bytes();
}

Outcome run_string_change(CommandContext& ctx, const Key& key, uint64_t least_bytes, bool* ran, StringChange& change) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  *ran = false;
  while (true) {
    if (!admitted(ctx, key.bytes.size() * (ctx.argc() + 2) + kChangeRecordBytes + ctx.argc() * 32)) return Outcome::kDone;
    KeyAccess access(keyspace, key);
    Found found = access.find(database, key, KeyAccess::Lookup::kWrite);
    if (found && found.entry->type() != ValueType::kString) {
      ctx.reply.error(kWrongType);
      ctx.require_lsn(access.finish());
      return Outcome::kDone;
    }
    const uint64_t size = found ? string_size(*found.entry) : 0;
    if (!ctx.on_worker && (is_extent(found) || least_bytes > size + kZeroedOnReactor)) return Outcome::kNeedsWorker;
    if (is_extent(found)) {
      const PendingValue old = PendingValue::open(ctx, *found.entry);
      ctx.require_lsn(access.finish());
      if (!old.extent()) {
        old.reply(ctx);  // says that it is damaged
        return Outcome::kDone;
      }
      bool again = false;
      change_extent(ctx, key, old, least_bytes, ran, again, change);
      if (again) continue;
      return Outcome::kDone;
    }
    if (!found) {
      access.set(database, key, found, NewValue::of_raw({}), 0);
      found = access.find_again(database, key);
    }
    LiveString string(access, database, key, found);
    if (string.bytes().size() >= least_bytes) string.make_raw();
    const bool tells = run_on(string, least_bytes, change);
    if (tells && string.changed()) access.event(KeyEvent::kString, "setbit", database, key);
    ctx.require_lsn(access.finish());
    *ran = true;
    return Outcome::kDone;
  }
}

}  // namespace pion
