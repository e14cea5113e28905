// BITFIELD BITFIELD_RO.
#include <algorithm>
#include <vector>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/bits.h"
#include "command/change_string.h"
#include "command/family_bitmap.h"

namespace pion {
namespace {

struct FieldOp {
  enum class Kind : uint8_t { kGet, kSet, kIncrease } kind = Kind::kGet;
  BitField field;
  int64_t value = 0;
  Overflow overflow = Overflow::kWrap;
};
using Answers = std::vector<std::optional<int64_t>>;

// i1 .. i64, u1 .. u63.
bool parse_type(std::string_view text, BitField& field) {
  if (text.empty() || (text[0] != 'i' && text[0] != 'u')) return false;
  field.is_signed = text[0] == 'i';
  const auto bits = integer_argument(text.substr(1));
  if (!bits || *bits < 1 || *bits > (field.is_signed ? 64 : 63)) return false;
  field.bits = static_cast<unsigned>(*bits);
  return true;
}

// A bit offset, or #n: n times the field's width.
bool parse_offset(std::string_view text, BitField& field) {
  const bool counted = !text.empty() && text[0] == '#';
  const auto number = integer_argument(counted ? text.substr(1) : text);
  int64_t offset = 0;
  if (!number || __builtin_mul_overflow(*number, counted ? static_cast<int64_t>(field.bits) : 1, &offset)) return false;
  if (offset < 0 || static_cast<uint64_t>(offset) / 8 >= kMaxBulkBytes) return false;
  field.offset = static_cast<uint64_t>(offset);
  return true;
}

bool parse_overflow(std::string_view word, Overflow& rule) {
  if (same_word(word, "WRAP")) return rule = Overflow::kWrap, true;
  if (same_word(word, "SAT")) return rule = Overflow::kSaturate, true;
  if (same_word(word, "FAIL")) return rule = Overflow::kFail, true;
  return false;
}

// False: the error was answered.
bool parse_ops(CommandContext& ctx, std::vector<FieldOp>& ops) {
  Overflow overflow = Overflow::kWrap;
  for (size_t i = 2; i < ctx.argc();) {
    const std::string_view word = ctx.arg(i);
    const size_t behind = ctx.argc() - i - 1;
    if (same_word(word, "OVERFLOW") && behind >= 1) {
      if (!parse_overflow(ctx.arg(i + 1), overflow)) return ctx.reply.error("ERR Invalid OVERFLOW type specified"), false;
      i += 2;
      continue;
    }
    FieldOp op{.overflow = overflow};
    if (same_word(word, "GET") && behind >= 2) {
      op.kind = FieldOp::Kind::kGet;
    } else if (same_word(word, "SET") && behind >= 3) {
      op.kind = FieldOp::Kind::kSet;
    } else if (same_word(word, "INCRBY") && behind >= 3) {
      op.kind = FieldOp::Kind::kIncrease;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
    if (!parse_type(ctx.arg(i + 1), op.field)) {
      ctx.reply.error("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
      return false;
    }
    const bool writes = op.kind != FieldOp::Kind::kGet;
    if (!parse_offset(ctx.arg(i + 2), op.field) || (writes && op.field.last_byte() >= kMaxBulkBytes)) {
      return ctx.reply.error(kBadBitOffset), false;
    }
    if (writes) {
      const auto value = integer_argument(ctx.arg(i + 3));
      if (!value) return ctx.reply.error(kNotAnInteger), false;
      op.value = *value;
    }
    ops.push_back(op);
    i += writes ? 4 : 3;
  }
  return true;
}

void reply_answers(ReplyWriter& reply, const Answers& answers) {
  reply.array(static_cast<int64_t>(answers.size()));
  for (const auto& answer : answers) answer ? reply.integer(*answer) : reply.nil();
}

// Whether any of them wrote, be it what was there.
bool run_ops(MutableString& string, const std::vector<FieldOp>& ops, Answers& answers) {
  answers.clear();
  bool wrote = false;
  for (const FieldOp& op : ops) {
    const int64_t old = read_field(string.bytes(), op.field);
    if (op.kind == FieldOp::Kind::kGet) {
      answers.push_back(old);
      continue;
    }
    const bool sets = op.kind == FieldOp::Kind::kSet;
    const auto fresh = fit_field(op.field, sets ? op.value : old, sets ? 0 : op.value, op.overflow);
    answers.push_back(!fresh ? std::nullopt : std::optional(sets ? old : *fresh));
    wrote = wrote || fresh;
    if (!fresh || *fresh == old) continue;
    char window[kFieldBytes];
    const uint64_t first = op.field.first_byte(), count = op.field.last_byte() - first + 1;
    std::copy_n(string.bytes().data() + first, count, window);
    write_field(window, op.field, *fresh);
    string.write(first, {window, count});
  }
  return wrote;
}

Outcome read_fields(CommandContext& ctx, const std::vector<FieldOp>& ops) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(1));
  KeyAccess access(keyspace, key);
  if (ctx.session.no_touch) access.no_touch();
  const Found found = access.find(ctx.session.database, key);
  if (is_extent(found) && !ctx.on_worker) return Outcome::kNeedsWorker;
  Answers answers;
  if (found && found.entry->type() != ValueType::kString) {
    ctx.require_lsn(access.finish());
    return ctx.reply.error(kWrongType), Outcome::kDone;
  }
  if (is_extent(found)) {
    const PendingValue value = PendingValue::open(ctx, *found.entry);
    const uint64_t size = string_size(*found.entry);
    ctx.require_lsn(access.finish());
    for (const FieldOp& op : ops) {
      // Only the field's own bytes are read; behind the end there are zeros.
      std::string window(kFieldBytes, '\0');
      const uint64_t first = op.field.first_byte(), last = std::min(op.field.last_byte() + 1, size);
      const bool read = first >= last || value.read_pieces(ctx, first, last - first, [&](std::string_view bytes, uint64_t at) {
        bytes.copy(window.data() + (at - first), bytes.size());
        return true;
      });
      if (!read) return Outcome::kDone;
      BitField moved = op.field;
      moved.offset %= 8;
      answers.push_back(read_field(window, moved));
    }
  } else {
    char text[20];
    const std::string_view bytes = found ? string_bytes(*found.entry, text) : std::string_view();
    for (const FieldOp& op : ops) answers.push_back(read_field(bytes, op.field));
    ctx.require_lsn(access.finish());
  }
  reply_answers(ctx.reply, answers);
  return Outcome::kDone;
}

Outcome run_fields(CommandContext& ctx, bool read_only_command) {
  std::vector<FieldOp> ops;
  if (!parse_ops(ctx, ops)) return Outcome::kDone;
  uint64_t least_bytes = 0;
  for (const FieldOp& op : ops) {
    if (op.kind != FieldOp::Kind::kGet) least_bytes = std::max(least_bytes, op.field.last_byte() + 1);
  }
  if (least_bytes == 0) return read_fields(ctx, ops);
  if (read_only_command) return ctx.reply.error("ERR BITFIELD_RO only supports the GET subcommand"), Outcome::kDone;
  Answers answers;
  bool ran = false;
  const Key key = ctx.services.keyspace->key(ctx.arg(1));
  const Outcome outcome =
      change_string_value(ctx, key, least_bytes, &ran, [&](MutableString& string) { return run_ops(string, ops, answers); });
  if (ran) reply_answers(ctx.reply, answers);
  return outcome;
}

}  // namespace

Outcome bitfield_command(CommandContext& ctx) { return run_fields(ctx, false); }
Outcome bitfield_ro_command(CommandContext& ctx) { return run_fields(ctx, true); }

}  // namespace pion
