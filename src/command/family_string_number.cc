// INCR DECR INCRBY DECRBY INCRBYFLOAT.
#include <cmath>

#include "command/arguments.h"
#include "command/family_string.h"
#include "command/parse.h"
#include "command/string_value.h"

namespace pion {
namespace {

constexpr uint64_t kNumberRecordBytes = 48;

// An extent is far too long for a number.
std::optional<int64_t> integer_of(const Entry& entry) {
  if (entry.encoding() == Encoding::kInt) return entry.integer();
  int64_t value;
  if (entry.encoding() == Encoding::kExtent || !parse_canonical_integer(entry.bytes(), value)) return std::nullopt;
  return value;
}

Outcome add_integer(CommandContext& ctx, int64_t increment) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  const Key key = keyspace.key(ctx.arg(1));
  if (!admitted(ctx, key.bytes.size() + kNumberRecordBytes)) return Outcome::kDone;
  KeyAccess access(keyspace, key);
  const Found found = access.find(database, key, KeyAccess::Lookup::kWrite);
  std::optional<int64_t> value = 0;
  if (found) value = found.entry->type() == ValueType::kString ? integer_of(*found.entry) : std::nullopt;
  int64_t sum = 0;
  if (found && found.entry->type() != ValueType::kString) {
    ctx.reply.error(kWrongType);
  } else if (!value) {
    ctx.reply.error(kNotAnInteger);
  } else if (__builtin_add_overflow(*value, increment, &sum)) {
    ctx.reply.error("ERR increment or decrement would overflow");
  } else {
    const int64_t expiry_ms = found && found.entry->has_expiry() ? found.entry->expiry() : 0;
    access.set(database, key, found, NewValue::of_integer(sum), expiry_ms);
    access.event(KeyEvent::kString, "incrby", database, key);
    ctx.reply.integer(sum);
  }
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

std::optional<long double> long_double_of(const Entry& entry) {
  if (entry.encoding() == Encoding::kInt) return static_cast<long double>(entry.integer());
  if (entry.encoding() == Encoding::kExtent) return std::nullopt;
  return long_double_argument(entry.bytes());
}

}  // namespace

Outcome incr_command(CommandContext& ctx) { return add_integer(ctx, 1); }
Outcome decr_command(CommandContext& ctx) { return add_integer(ctx, -1); }

Outcome incrby_command(CommandContext& ctx) {
  const auto increment = integer_argument(ctx.arg(2));
  if (increment) return add_integer(ctx, *increment);
  ctx.reply.error(kNotAnInteger);
  return Outcome::kDone;
}

Outcome decrby_command(CommandContext& ctx) {
  const auto decrement = integer_argument(ctx.arg(2));
  if (decrement && *decrement != INT64_MIN) return add_integer(ctx, -*decrement);
  ctx.reply.error(decrement ? "ERR decrement would overflow" : kNotAnInteger);
  return Outcome::kDone;
}

Outcome incrbyfloat_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const int database = ctx.session.database;
  const Key key = keyspace.key(ctx.arg(1));
  if (!admitted(ctx, key.bytes.size() + 64)) return Outcome::kDone;
  KeyAccess access(keyspace, key);
  const Found found = access.find(database, key, KeyAccess::Lookup::kWrite);
  if (found && found.entry->type() != ValueType::kString) {
    ctx.reply.error(kWrongType);
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  }
  const auto value = found ? long_double_of(*found.entry) : std::optional<long double>(0);
  const auto increment = value ? long_double_argument(ctx.arg(2)) : std::nullopt;
  if (!value || !increment) {
    ctx.reply.error("ERR value is not a valid float");
  } else if (!std::isfinite(*value + *increment)) {
    ctx.reply.error("ERR increment would produce NaN or Infinity");
  } else {
    const std::string sum = format_long_double(*value + *increment);
    const int64_t expiry_ms = found && found.entry->has_expiry() ? found.entry->expiry() : 0;
    access.set(database, key, found, NewValue::of_bytes(sum), expiry_ms);
    access.event(KeyEvent::kString, "incrbyfloat", database, key);
    ctx.reply.bulk(sum);
  }
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

}  // namespace pion
