// HGETEX HGETDEL HSETEX: get or set fields together with their expiry.
#include "base/clock.h"
#include "command/arguments.h"
#include "command/collection.h"
#include "command/family_hash.h"
#include "command/field_options.h"
#include "keyspace/hash_value.h"

namespace pion {

bool fields_argument(CommandContext& ctx, size_t position, std::string_view number_error) {
  if (!same_word(ctx.arg(position), "FIELDS")) {
    ctx.reply.error("ERR Mandatory argument FIELDS is missing or not at the right position");
    return false;
  }
  int64_t fields = 0;
  if (!range_argument(ctx, position + 1, 1, INT64_MAX, fields, number_error)) return false;
  if (static_cast<uint64_t>(fields) == ctx.argc() - position - 2) return true;
  ctx.reply.error("ERR The `numfields` parameter must match the number of arguments");
  return false;
}

bool field_expiry_argument(CommandContext& ctx, size_t position, bool in_seconds, bool absolute, int64_t& at_ms) {
  constexpr int64_t kLatest = (1LL << 46) - 1;  // what Redis can keep for a field
  const auto number = integer_argument(ctx.arg(position));
  if (!number || *number < 0) return ctx.reply.error(number ? "ERR invalid expire time, must be >= 0" : kNotAnInteger), false;
  at_ms = *number;
  const int64_t base = absolute ? 0 : wall_ms();
  bool valid = !(in_seconds && at_ms > kLatest / 1000);
  if (valid && in_seconds) at_ms *= 1000;
  valid = valid && at_ms <= kLatest - base;
  at_ms += valid ? base : 0;
  if (!valid) ctx.reply.error("ERR invalid expire time in '" + std::string(ctx.spec.name) + "' command");
  return valid;
}

void name_listpackex(TypedKey& hash, std::string_view any_field) {
  if (!hash.exists() || kHashOps.encoding_name(hash.entry()) != "listpack") return;
  HashDelta(delta_of_thread(), HashDelta::Op::kExpire).field(any_field).expiry(0);  // none has one yet
  hash.change(delta_of_thread());
}

namespace {

using Lookup = KeyAccess::Lookup;
using Op = HashDelta::Op;

struct ExpiryWord {
  std::string_view word;
  bool in_seconds, absolute;
};
constexpr ExpiryWord kExpiryWords[] = {{"EX", true, false}, {"PX", false, false}, {"EXAT", true, true}, {"PXAT", false, true}};

const ExpiryWord* expiry_word(std::string_view word) {
  for (const ExpiryWord& known : kExpiryWords) {
    if (same_word(word, known.word)) return &known;
  }
  return nullptr;
}

void reply_value(CommandContext& ctx, const HashField& field) {
  char room[20];
  ctx.reply.bulk(field.value.view(room));
}

struct SetExOptions {
  bool fnx = false, fxx = false, keep = false;
  const ExpiryWord* expiry = nullptr;
  int64_t at_ms = 0;
  size_t first = 0;  // of the fields and values
};

// False: the error was answered.
bool parse_hsetex(CommandContext& ctx, SetExOptions& options) {
  for (size_t i = 2; i < ctx.argc(); ++i) {
    const std::string_view word = ctx.arg(i);
    if (same_word(word, "FIELDS")) {
      int64_t fields = 0;
      if (i + 3 >= ctx.argc()) break;
      if (!range_argument(ctx, i + 1, 1, INT32_MAX, fields, "ERR invalid number of fields")) return false;
      if (static_cast<uint64_t>(fields) * 2 != ctx.argc() - i - 2) break;
      options.first = i + 2;
      return true;
    }
    const ExpiryWord* expiry = expiry_word(word);
    const bool keep = same_word(word, "KEEPTTL");
    if (expiry || keep) {
      if (options.expiry || options.keep) {
        return ctx.reply.error("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"), false;
      }
      options.expiry = expiry;
      options.keep = keep;
      if (!expiry) continue;
      if (i + 1 >= ctx.argc()) break;
      if (!field_expiry_argument(ctx, ++i, expiry->in_seconds, expiry->absolute, options.at_ms)) return false;
    } else if (same_word(word, "FNX") || same_word(word, "FXX")) {
      if (options.fnx || options.fxx) return ctx.reply.error("ERR Only one of FXX or FNX arguments can be specified"), false;
      (same_word(word, "FNX") ? options.fnx : options.fxx) = true;
    } else {
      return ctx.reply.error("ERR unknown argument: " + std::string(word.substr(0, word.find('\0')))), false;
    }
  }
  ctx.reply.error("ERR wrong number of arguments for '" + std::string(ctx.spec.name) + "' command");
  return false;
}

}  // namespace

Outcome hgetex_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2) + ctx.argc() * ctx.arg(1).size())) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash) return Outcome::kDone;
  const ExpiryWord* expiry = expiry_word(ctx.arg(2));
  const bool persist = same_word(ctx.arg(2), "PERSIST");
  int64_t at_ms = 0;
  if (expiry && !field_expiry_argument(ctx, 3, expiry->in_seconds, expiry->absolute, at_ms)) return Outcome::kDone;
  const size_t position = expiry ? 4 : persist ? 3 : 2;
  if (position + 1 >= ctx.argc()) {
    ctx.reply.error("ERR wrong number of arguments for '" + std::string(ctx.spec.name) + "' command");
    return Outcome::kDone;
  }
  if (!fields_argument(ctx, position, kFieldsPositive)) return Outcome::kDone;
  const size_t first = position + 2;
  const int64_t now = wall_ms();
  bool deleted = false, expires = false, persisted = false;
  if (expiry || persist) name_listpackex(hash, ctx.arg(first));
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - first));
  for (size_t i = first; i < ctx.argc(); ++i) {
    HashField field;
    if (!hash.exists() || !HashReader(hash.entry(), now).get(ctx.arg(i), field)) {
      ctx.reply.nil();
      continue;
    }
    reply_value(ctx, field);
    if (expiry && at_ms <= now) {
      HashDelta(delta_of_thread(), Op::kRemove).field(ctx.arg(i));
      deleted = true;
    } else if (expiry) {
      HashDelta(delta_of_thread(), Op::kExpire).field(ctx.arg(i)).expiry(at_ms);
      expires = true;
    } else if (persist && field.expiry_ms != 0) {
      HashDelta(delta_of_thread(), Op::kExpire).field(ctx.arg(i)).expiry(0);
      persisted = true;
    } else {
      continue;
    }
    hash.change(delta_of_thread());
  }
  if (expires) hash.access().event(KeyEvent::kHash, "hexpire", ctx.session.database, hash.key());
  if (persisted) hash.access().event(KeyEvent::kHash, "hpersist", ctx.session.database, hash.key());
  if (deleted) hash.event(KeyEvent::kHash, "hdel");
  return Outcome::kDone;
}

Outcome hgetdel_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2) + ctx.argc() * ctx.arg(1).size())) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash || !fields_argument(ctx, 2, kFieldsPositive)) return Outcome::kDone;
  bool deleted = false;
  ctx.reply.array(static_cast<int64_t>(ctx.argc() - 4));
  for (size_t i = 4; i < ctx.argc(); ++i) {
    HashField field;
    if (!hash.exists() || !HashReader(hash.entry(), wall_ms()).get(ctx.arg(i), field)) {
      ctx.reply.nil();
      continue;
    }
    reply_value(ctx, field);
    HashDelta(delta_of_thread(), Op::kRemove).field(ctx.arg(i));
    hash.change(delta_of_thread());
    deleted = true;
  }
  if (deleted) hash.event(KeyEvent::kHash, "hdel");
  return Outcome::kDone;
}

Outcome hsetex_command(CommandContext& ctx) {
  SetExOptions options;
  if (!parse_hsetex(ctx, options)) return Outcome::kDone;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2) + 8 * ctx.argc())) return Outcome::kDone;
  TypedKey hash(ctx, ctx.arg(1), ValueType::kHash, Lookup::kWrite);
  if (!hash) return Outcome::kDone;
  const int64_t now = wall_ms();
  for (size_t i = options.first; (options.fnx || options.fxx) && i < ctx.argc(); i += 2) {
    HashField field;
    const bool there = hash.exists() && HashReader(hash.entry(), now).get(ctx.arg(i), field);
    if (there == options.fxx) continue;
    ctx.reply.integer(0);
    return Outcome::kDone;
  }
  const bool gone = options.expiry && options.at_ms <= now;
  if (gone) {
    // Written and expired at once: what was there goes.
    HashDelta delta(delta_of_thread(), Op::kRemove);
    for (size_t i = options.first; i < ctx.argc(); i += 2) delta.field(ctx.arg(i));
    const auto tell = [&](KeyEvent kind, std::string_view name) { hash.access().event(kind, name, ctx.session.database, hash.key()); };
    if (!hash.exists()) tell(KeyEvent::kNew, "new");
    if (hash.exists()) hash.change(delta_of_thread());
    tell(KeyEvent::kHash, "hset");
    tell(KeyEvent::kHash, "hdel");
    if (!hash.exists()) tell(KeyEvent::kGeneric, "del");
  } else {
    const Op op = options.expiry ? Op::kSetExpiring : options.keep ? Op::kSetKeeping : Op::kSet;
    HashDelta delta(delta_of_thread(), op);
    for (size_t i = options.first; i < ctx.argc(); i += 2) {
      delta.field(ctx.arg(i)).value(ctx.arg(i + 1));
      if (options.expiry) delta.expiry(options.at_ms);
    }
    hash.change(delta_of_thread(), KeyEvent::kHash, "hset");
    if (options.expiry) hash.event(KeyEvent::kHash, "hexpire");
  }
  ctx.reply.integer(1);
  return Outcome::kDone;
}

}  // namespace pion
