// What the families of the collection types share: a key of one type, locked, with the errors and the waiting that go with it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command/context.h"
#include "command/string_value.h"
#include "command/table.h"
#include "keyspace/keyspace.h"
#include "keyspace/packed.h"
#include "keyspace/value_types.h"

namespace pion {

// One key that holds a value of one type, or nothing. Its stripe is locked while this lives; the reply waits for what was read
// or written. A command that writes calls admitted() before it makes one.
class TypedKey {
 public:
  TypedKey(CommandContext& ctx, std::string_view name, ValueType type, KeyAccess::Lookup lookup)
      : ctx_(ctx), key_(ctx.services.keyspace->key(name)), type_(type), access_(*ctx.services.keyspace, key_) {
    if (ctx.session.no_touch) access_.no_touch();
    found_ = access_.find(ctx.session.database, key_, lookup);
    usable_ = !found_ || found_.entry->type() == type;
    if (!usable_) ctx.reply.error(kWrongType);
  }
  ~TypedKey() { ctx_.require_lsn(access_.finish()); }
  TypedKey(const TypedKey&) = delete;
  TypedKey& operator=(const TypedKey&) = delete;

  // False: the key holds another type, and that was answered.
  explicit operator bool() const { return usable_; }
  bool exists() const { return static_cast<bool>(found_); }
  const Entry& entry() const { return *found_.entry; }

  // Applies a delta. A command may apply several: they make one record. Afterwards the key may be gone.
  void change(std::string_view delta) {
    had_ = true;
    found_ = access_.change(ctx_.session.database, key_, found_, type_, delta);
  }
  // What keyspace notifications call the command; once, after its changes. A key left empty is gone, and that is told too.
  void event(KeyEvent kind, std::string_view name) {
    access_.event(kind, name, ctx_.session.database, key_);
    if (!found_ && had_) access_.event(KeyEvent::kGeneric, "del", ctx_.session.database, key_);
  }
  // Another whole value as ValueOps::encode writes it, and none. The expiry stays.
  void replace(std::string_view encoded) {
    had_ = true;
    const int64_t expiry_ms = found_ && found_.entry->has_expiry() ? found_.entry->expiry() : 0;
    access_.set_typed(ctx_.session.database, key_, found_, {.kind = NewValue::Kind::kTyped, .type = type_, .encoded = encoded}, expiry_ms);
    found_ = access_.find_again(ctx_.session.database, key_);
  }
  void erase() {
    had_ = true;
    access_.erase(ctx_.session.database, key_, found_);
    found_ = {};
  }
  void change(std::string_view delta, KeyEvent kind, std::string_view name) {
    change(delta);
    event(kind, name);
  }

  KeyAccess& access() { return access_; }
  const Key& key() const { return key_; }

 private:
  CommandContext& ctx_;
  const Key key_;
  const ValueType type_;
  KeyAccess access_;
  Found found_;
  bool usable_;
  bool had_ = false;  // there was a value at some time
};

// Several keys, locked together; each may hold anything.
class TypedKeys {
 public:
  TypedKeys(CommandContext& ctx, std::span<const std::string_view> names)
      : ctx_(ctx), keys_(hashed(ctx, names)), access_(*ctx.services.keyspace, keys_) {
    if (ctx.session.no_touch) access_.no_touch();
  }
  // With the whole keyspace: for commands that find out what they read while they read it.
  TypedKeys(CommandContext& ctx, std::span<const std::string_view> names, KeyAccess::All all)
      : ctx_(ctx), keys_(hashed(ctx, names)), access_(*ctx.services.keyspace, all) {
    if (ctx.session.no_touch) access_.no_touch();
  }
  ~TypedKeys() { ctx_.require_lsn(access_.finish()); }
  TypedKeys(const TypedKeys&) = delete;
  TypedKeys& operator=(const TypedKeys&) = delete;

  size_t size() const { return keys_.size(); }
  // Valid until the next change of any of them.
  Found find(size_t index, KeyAccess::Lookup lookup) { return access_.find(ctx_.session.database, keys_[index], lookup); }
  // A key's value gives way to a whole one, as its type writes it; to none when `encoded` is empty. False: refused, and the
  // error was answered. `event` is told when something is stored.
  bool replace(size_t index, ValueType type, const std::string& encoded, KeyEvent kind, std::string_view event);
  // A delta to a value of that type; `found` is find()'s latest answer.
  void change(size_t index, Found found, ValueType type, std::string_view delta, KeyEvent kind, std::string_view event);

  KeyAccess& access() { return access_; }
  const std::vector<Key>& keys() const { return keys_; }

 protected:
  CommandContext& ctx_;

 private:
  static std::vector<Key> hashed(CommandContext& ctx, std::span<const std::string_view> names) {
    std::vector<Key> keys;
    keys.reserve(names.size());
    for (std::string_view name : names) keys.push_back(ctx.services.keyspace->key(name));
    return keys;
  }

  const std::vector<Key> keys_;
  KeyAccess access_;
};

// A number above which a command on one value is a worker's job.
inline constexpr uint64_t kElementsOnReactor = 4096;

// The string that a delta is built in, one at a time in a thread.
inline std::string& delta_of_thread() {
  thread_local std::string delta;
  return delta;
}

// About what the arguments from `first` on take in a record.
inline uint64_t record_bytes_of_arguments(const CommandContext& ctx, size_t first) {
  uint64_t bytes = ctx.arg(1).size() + 64;
  for (size_t i = first; i < ctx.argc(); ++i) bytes += ctx.arg(i).size() + 16;
  return bytes;
}

// The options of HSCAN, SSCAN and ZSCAN.
struct ElementScan {
  uint64_t cursor = 0;
  uint64_t count = 10;
  std::optional<std::string_view> pattern;  // none: everything matches
  bool no_values = false;

  bool matches(const ShortText& text) const;
  // Walks on from the cursor until about `count` elements were looked at: step(position, looked) visits one place, counts in
  // `looked` and answers the next position. The cursor to answer.
  template <typename Step>
  uint64_t walk(Step&& step) const {
    uint64_t position = cursor & 0xffffffff, looked = 0;
    const uint64_t most_places = count > UINT64_MAX / 10 ? UINT64_MAX : count * 10;
    for (uint64_t places = 0; places < most_places && looked < count; ++places) {
      position = step(position, looked);
      if (position == 0) break;
    }
    return position;
  }
};
// False: the error was answered.
bool parse_scan_cursor(CommandContext& ctx, ElementScan& scan);
bool parse_scan_options(CommandContext& ctx, bool is_hash, ElementScan& scan);
// As Redis 8.2 reads a cursor.
std::optional<uint64_t> cursor_argument(std::string_view text);

// "numkeys key ... word", at `position`: the names of the keys, and where the word stands. Empty: the error was answered.
std::optional<size_t> counted_keys_argument(CommandContext& ctx, size_t position, std::vector<std::string_view>& names);
// "[COUNT count]", from `position` to the end; without it `count` stays. False: the error was answered.
bool count_option(CommandContext& ctx, size_t position, uint64_t& count);

// A long in a range, as Redis' getRangeLongFromObjectOrReply; without a text the errors are Redis' usual ones.
bool range_argument(CommandContext& ctx, size_t position, int64_t least, int64_t most, int64_t& value, std::string_view text = {});

}  // namespace pion
