// SETBIT GETBIT BITCOUNT BITPOS, and the table of the bitmap family.
#include "command/family_bitmap.h"

#include <algorithm>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/bits.h"
#include "command/change_string.h"
#include "command/families.h"

namespace pion {
namespace {

constexpr uint64_t kReadOnReactor = 256 * kKiB;  // more is a worker's

Outcome setbit_command(CommandContext& ctx) {
  const auto offset = bit_offset_argument(ctx.arg(2));
  if (!offset) return ctx.reply.error(kBadBitOffset), Outcome::kDone;
  const auto bit = integer_argument(ctx.arg(3));
  if (!bit || (*bit != 0 && *bit != 1)) return ctx.reply.error("ERR bit is not an integer or out of range"), Outcome::kDone;
  const Key key = ctx.services.keyspace->key(ctx.arg(1));
  const uint64_t at = *offset / 8;
  const auto mask = static_cast<uint8_t>(0x80 >> *offset % 8);
  bool ran = false, before = false;
  const Outcome outcome = change_string_value(ctx, key, at + 1, &ran, [&](MutableString& string) {
    const auto old = static_cast<uint8_t>(string.bytes()[at]);
    before = old & mask;
    const char fresh = static_cast<char>(*bit ? old | mask : old & ~mask);
    if (before != (*bit != 0)) string.write(at, {&fresh, 1});
    return true;
  });
  if (ran) ctx.reply.integer(before);
  return outcome;
}

// A string that is read: in memory under the stripe's lock, in an extent after it.
class ReadValue {
 public:
  enum class Found { kMissing, kFound, kAnswered, kNeedsWorker };

  ReadValue(CommandContext& ctx, uint64_t most_on_reactor) : ctx_(ctx), access_(std::in_place, *ctx.services.keyspace, key_of(ctx)) {
    if (ctx.session.no_touch) access_->no_touch();
    const pion::Found found = access_->find(ctx.session.database, key_of(ctx));
    if (!found) return;
    state_ = Found::kFound;
    if (found.entry->type() != ValueType::kString) {
      ctx.reply.error(kWrongType);
      finish();
      state_ = Found::kAnswered;
      return;
    }
    size_ = string_size(*found.entry);
    if (!ctx.on_worker && (is_extent(found) || size_ > most_on_reactor)) {
      state_ = Found::kNeedsWorker;
    } else if (is_extent(found)) {
      pending_ = PendingValue::open(ctx, *found.entry);
      finish();
    } else {
      bytes_ = string_bytes(*found.entry, text_);
    }
  }
  ReadValue(const ReadValue&) = delete;
  ReadValue& operator=(const ReadValue&) = delete;

  Found state() const { return state_; }
  uint64_t size() const { return size_; }

  // Calls visit(bytes, offset of their first byte) -> bool "go on" for the bytes first .. first + length - 1. False: an error was
  // answered.
  template <typename Visit>
  bool read(uint64_t first, uint64_t length, Visit&& visit) {
    if (!pending_) {
      visit(bytes_.substr(first, length), first);
      return true;
    }
    return pending_->read_pieces(ctx_, first, length, visit);
  }
  // Unlocks; before the reply is done.
  void finish() {
    if (access_) ctx_.require_lsn(access_->finish());
    access_.reset();
  }

 private:
  static Key key_of(CommandContext& ctx) { return ctx.services.keyspace->key(ctx.arg(1)); }

  CommandContext& ctx_;
  std::optional<KeyAccess> access_;
  Found state_ = Found::kMissing;
  uint64_t size_ = 0;
  std::optional<PendingValue> pending_;
  std::string_view bytes_;
  char text_[20];
};

Outcome getbit_command(CommandContext& ctx) {
  const auto offset = bit_offset_argument(ctx.arg(2));
  if (!offset) return ctx.reply.error(kBadBitOffset), Outcome::kDone;
  ReadValue value(ctx, kMaxBulkBytes);
  if (value.state() == ReadValue::Found::kNeedsWorker) return Outcome::kNeedsWorker;
  if (value.state() == ReadValue::Found::kAnswered) return Outcome::kDone;
  bool bit = false, answered = false;
  if (*offset / 8 < value.size()) {
    answered = !value.read(*offset / 8, 1, [&](std::string_view bytes, uint64_t) {
      bit = static_cast<uint8_t>(bytes[0]) >> (7 - *offset % 8) & 1;
      return true;
    });
  }
  value.finish();
  if (!answered) ctx.reply.integer(bit);
  return Outcome::kDone;
}

// The range of BITCOUNT and BITPOS.
struct BitRange {
  std::optional<int64_t> start, end;
  bool in_bits = false;
};

// start [end [BYTE|BIT]] from argument `at`, checked in Redis' order. False: the error was answered.
bool parse_range(CommandContext& ctx, size_t at, BitRange& range) {
  const auto number = [&](size_t index, std::optional<int64_t>& to) {
    to = integer_argument(ctx.arg(index));
    if (!to) ctx.reply.error(kNotAnInteger);
    return to.has_value();
  };
  const size_t given = ctx.argc() - at;
  if (given > 3) return ctx.reply.error(kSyntaxError), false;
  if (given >= 1 && !number(at, range.start)) return false;
  if (given == 3) {
    range.in_bits = same_word(ctx.arg(at + 2), "BIT");
    if (!range.in_bits && !same_word(ctx.arg(at + 2), "BYTE")) return ctx.reply.error(kSyntaxError), false;
  }
  return given < 2 || number(at + 1, range.end);
}

// First and last bit that the range means in a string of `size` bytes; empty: none.
std::optional<std::pair<uint64_t, uint64_t>> resolve(const BitRange& range, uint64_t size) {
  const auto total = static_cast<int64_t>(range.in_bits ? size * 8 : size);
  int64_t start = range.start.value_or(0), end = range.end.value_or(total - 1);
  if (start < 0) start = std::max<int64_t>(0, total + start);
  if (end < 0) end = std::max<int64_t>(0, total + end);
  end = std::min(end, total - 1);
  if (start > end) return std::nullopt;
  if (range.in_bits) return std::pair(static_cast<uint64_t>(start), static_cast<uint64_t>(end));
  return std::pair(static_cast<uint64_t>(start) * 8, static_cast<uint64_t>(end) * 8 + 7);
}

// Both ends count from the end, the wrong way round: BITCOUNT sees nothing, however short the string is.
bool crossed(const BitRange& range) {
  return range.start && range.end && *range.start < 0 && *range.end < 0 && *range.start > *range.end;
}

Outcome bitcount_command(CommandContext& ctx) {
  BitRange range;
  if (ctx.argc() == 3) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  if (ctx.argc() > 2 && ctx.argc() <= 5) {
    // Both numbers are checked before the unit is.
    for (size_t i : {2, 3}) {
      if (!integer_argument(ctx.arg(i))) return ctx.reply.error(kNotAnInteger), Outcome::kDone;
    }
  }
  if (!parse_range(ctx, 2, range)) return Outcome::kDone;
  ReadValue value(ctx, kReadOnReactor);
  if (value.state() == ReadValue::Found::kNeedsWorker) return Outcome::kNeedsWorker;
  if (value.state() == ReadValue::Found::kAnswered) return Outcome::kDone;
  uint64_t ones = 0;
  bool answered = false;
  const auto bits = crossed(range) ? std::nullopt : resolve(range, value.size());
  if (bits) {
    const auto [first, last] = *bits;
    answered = !value.read(first / 8, last / 8 - first / 8 + 1, [&](std::string_view bytes, uint64_t at) {
      const uint64_t from = std::max(first, at * 8), to = std::min(last, (at + bytes.size()) * 8 - 1);
      ones += count_bits(bytes, from - at * 8, to - at * 8);
      return true;
    });
  }
  value.finish();
  if (!answered) ctx.reply.integer(static_cast<int64_t>(ones));
  return Outcome::kDone;
}

Outcome bitpos_command(CommandContext& ctx) {
  const auto bit = integer_argument(ctx.arg(2));
  if (!bit) return ctx.reply.error(kNotAnInteger), Outcome::kDone;
  if (*bit != 0 && *bit != 1) return ctx.reply.error("ERR The bit argument must be 1 or 0."), Outcome::kDone;
  BitRange range;
  if (!parse_range(ctx, 3, range)) return Outcome::kDone;
  ReadValue value(ctx, kReadOnReactor);
  if (value.state() == ReadValue::Found::kNeedsWorker) return Outcome::kNeedsWorker;
  if (value.state() == ReadValue::Found::kAnswered) return Outcome::kDone;
  int64_t position = -1;
  bool answered = false;
  if (value.state() == ReadValue::Found::kMissing) {
    position = *bit ? -1 : 0;
  } else if (const auto bits = resolve(range, value.size())) {
    const auto [first, last] = *bits;
    answered = !value.read(first / 8, last / 8 - first / 8 + 1, [&](std::string_view bytes, uint64_t at) {
      const uint64_t from = std::max(first, at * 8), to = std::min(last, (at + bytes.size()) * 8 - 1);
      const auto found = find_bit(bytes, *bit != 0, from - at * 8, to - at * 8);
      if (found) position = static_cast<int64_t>(at * 8 + *found);
      return !found;
    });
    // Behind a string whose end was not named there are zeros without end.
    if (position < 0 && *bit == 0 && !range.end) position = static_cast<int64_t>(value.size() * 8);
  }
  value.finish();
  if (!answered) ctx.reply.integer(position);
  return Outcome::kDone;
}

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kBitmapCommands[] = {
    {.name = "bitcount", .handler = bitcount_command},
    {.name = "bitfield", .handler = bitfield_command, .status = "differs: a field may not end behind 512 MiB"},
    {.name = "bitfield_ro", .handler = bitfield_ro_command},
    {.name = "bitop", .handler = bitop_command},
    {.name = "bitpos", .handler = bitpos_command},
    {.name = "getbit", .handler = getbit_command},
    {.name = "setbit", .handler = setbit_command},
};

}  // namespace

std::optional<uint64_t> bit_offset_argument(std::string_view text) {
  const auto offset = integer_argument(text);
  if (!offset || *offset < 0 || static_cast<uint64_t>(*offset) / 8 >= kMaxBulkBytes) return std::nullopt;
  return static_cast<uint64_t>(*offset);
}

std::span<const CommandSpec> bitmap_commands() { return kBitmapCommands; }

}  // namespace pion
