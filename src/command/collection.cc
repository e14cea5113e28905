#include "command/collection.h"

#include <cerrno>
#include <cstdlib>

#include "command/arguments.h"
#include "command/glob.h"

namespace pion {

bool TypedKeys::replace(size_t index, ValueType type, const std::string& encoded, KeyEvent kind, std::string_view event) {
  const Key& key = keys_[index];
  const int database = ctx_.session.database;
  // Asked under the lock, where the size is known: the answer does not wait for anything.
  if (!admitted(ctx_, key.bytes.size() + encoded.size() + 48)) return false;
  const Found found = find(index, KeyAccess::Lookup::kPeek);
  if (!encoded.empty()) {
    access_.event_overwritten(database, key, found, type);
    access_.set_typed(database, key, found, {.kind = NewValue::Kind::kTyped, .type = type, .encoded = encoded}, 0);
    access_.event(kind, event, database, key);
  } else if (found) {
    access_.erase(database, key, found);
    access_.event(KeyEvent::kGeneric, "del", database, key);
  }
  return true;
}

void TypedKeys::change(size_t index, Found found, ValueType type, std::string_view delta, KeyEvent kind, std::string_view event) {
  const Key& key = keys_[index];
  const int database = ctx_.session.database;
  const Found left = access_.change(database, key, found, type, delta);
  access_.event(kind, event, database, key);
  if (!left) access_.event(KeyEvent::kGeneric, "del", database, key);
}

std::optional<uint64_t> cursor_argument(std::string_view text) {
  // An integer that is not negative, or whatever C's strtoull takes up to a zero byte (blanks and a sign in front, nothing
  // behind).
  if (const auto number = integer_argument(text)) return *number >= 0 ? std::optional<uint64_t>(*number) : std::nullopt;
  const std::string terminated(text.substr(0, 64));
  char* end = nullptr;
  errno = 0;
  const uint64_t cursor = std::strtoull(terminated.c_str(), &end, 10);
  if (end == terminated.c_str() || *end != '\0' || errno != 0) return std::nullopt;
  return cursor;
}

bool ElementScan::matches(const ShortText& text) const {
  char room[20];
  return !pattern || glob_match(*pattern, text.view(room));
}

bool parse_scan_cursor(CommandContext& ctx, ElementScan& scan) {
  const auto cursor = cursor_argument(ctx.arg(2));
  if (!cursor) return ctx.reply.error("ERR invalid cursor"), false;
  scan.cursor = *cursor;
  return true;
}

bool parse_scan_options(CommandContext& ctx, bool is_hash, ElementScan& scan) {
  for (size_t i = 3; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    const bool more = i + 1 < ctx.argc();
    if (more && same_word(word, "COUNT")) {
      const auto number = integer_argument(ctx.arg(++i));
      if (!number || *number < 1) return ctx.reply.error(number ? kSyntaxError : kNotAnInteger), false;
      scan.count = static_cast<uint64_t>(*number);
    } else if (more && same_word(word, "MATCH")) {
      scan.pattern = ctx.arg(++i);
      if (*scan.pattern == "*") scan.pattern.reset();
    } else if (same_word(word, "NOVALUES")) {
      if (!is_hash) return ctx.reply.error("ERR NOVALUES option can only be used in HSCAN"), false;
      scan.no_values = true;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  return true;
}

std::optional<size_t> counted_keys_argument(CommandContext& ctx, size_t position, std::vector<std::string_view>& names) {
  int64_t keys = 0;
  if (!range_argument(ctx, position, 1, INT64_MAX, keys, "ERR numkeys should be greater than 0")) return std::nullopt;
  if (static_cast<uint64_t>(keys) >= ctx.argc() - position - 1) return ctx.reply.error(kSyntaxError), std::nullopt;
  const size_t end = position + 1 + static_cast<size_t>(keys);
  for (size_t i = position + 1; i < end; ++i) names.push_back(ctx.arg(i));
  return end;
}

bool count_option(CommandContext& ctx, size_t position, uint64_t& count) {
  if (position == ctx.argc()) return true;
  if (!same_word(ctx.arg(position), "COUNT") || position + 1 == ctx.argc()) return ctx.reply.error(kSyntaxError), false;
  int64_t given = 0;
  if (!range_argument(ctx, position + 1, 1, INT64_MAX, given, "ERR count should be greater than 0")) return false;
  if (position + 2 < ctx.argc()) return ctx.reply.error(kSyntaxError), false;
  count = static_cast<uint64_t>(given);
  return true;
}

bool range_argument(CommandContext& ctx, size_t position, int64_t least, int64_t most, int64_t& value, std::string_view text) {
  const auto number = integer_argument(ctx.arg(position));
  if (number && *number >= least && *number <= most) return value = *number, true;
  if (!text.empty()) {
    ctx.reply.error(text);
  } else if (!number) {
    ctx.reply.error(kNotAnInteger);
  } else {
    ctx.reply.error("ERR value is out of range, value must between " + std::to_string(least) + " and " + std::to_string(most));
  }
  return false;
}

}  // namespace pion
