// BITOP.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/bits.h"
#include "command/change_string.h"
#include "command/family_bitmap.h"
#include "storage/storage.h"

namespace pion {
namespace {

constexpr uint64_t kWorkOnReactor = 128 * kKiB;  // bytes of all sources together; more is a worker's
constexpr uint64_t kPieceBytes = 256 * kKiB;
constexpr int kFreeAttempts = 3;                 // without the locks; then it holds them

enum class BitOp { kAnd, kOr, kXor, kNot, kDiff, kDiff1, kAndOr, kOne };

struct OpName {
  std::string_view name;
  BitOp op;
  bool needs_two;
};
constexpr OpName kOpNames[] = {{"AND", BitOp::kAnd, false},  {"OR", BitOp::kOr, false},      {"XOR", BitOp::kXor, false},
                               {"NOT", BitOp::kNot, false},  {"DIFF", BitOp::kDiff, true},   {"DIFF1", BitOp::kDiff1, true},
                               {"ANDOR", BitOp::kAndOr, true}, {"ONE", BitOp::kOne, false}};

// One piece of the result, fed with the same piece of each source, in order. Sources that end before it are fed short.
class Combiner {
 public:
  Combiner(BitOp op, size_t piece_bytes) : op_(op), result_(piece_bytes, '\0'), other_(piece_bytes, '\0') {}

  void start(size_t bytes) {
    result_.assign(bytes, '\0');
    if (op_ == BitOp::kDiff || op_ == BitOp::kDiff1 || op_ == BitOp::kAndOr || op_ == BitOp::kOne) other_.assign(bytes, '\0');
    first_ = true;
  }

  void feed(std::string_view bytes) {
    const bool first = std::exchange(first_, false);
    switch (op_) {
      case BitOp::kNot:
      case BitOp::kOr: or_into(result_.data(), bytes); break;
      case BitOp::kXor: xor_into(result_.data(), bytes); break;
      case BitOp::kAnd:
        if (first) {
          or_into(result_.data(), bytes);
        } else {
          and_into(result_.data(), bytes);
          std::fill(result_.begin() + static_cast<ptrdiff_t>(bytes.size()), result_.end(), '\0');
        }
        break;
      case BitOp::kDiff:
      case BitOp::kDiff1:
      case BitOp::kAndOr: or_into(first ? result_.data() : other_.data(), bytes); break;
      case BitOp::kOne: {
        // other: seen more than once; result: seen.
        scratch_.assign(bytes);
        and_into(scratch_.data(), std::string_view(result_).substr(0, bytes.size()));
        or_into(other_.data(), scratch_);
        or_into(result_.data(), bytes);
        break;
      }
    }
  }

  std::string_view finish() {
    switch (op_) {
      case BitOp::kNot:
        scratch_.assign(result_.size(), '\xff');
        xor_into(result_.data(), scratch_);
        break;
      case BitOp::kDiff:
      case BitOp::kOne: and_not_into(result_.data(), other_); break;
      case BitOp::kDiff1:
        and_not_into(other_.data(), result_);
        return other_;
      case BitOp::kAndOr: and_into(result_.data(), other_); break;
      default: break;
    }
    return result_;
  }

 private:
  const BitOp op_;
  bool first_ = true;
  std::string result_, other_, scratch_;
};

// A source as it was under the locks.
struct Source {
  std::optional<PendingValue> value;  // empty: no such key
  uint64_t size = 0;
};

bool same_value(const Source& source, const Found& found) {
  if (!source.value || !found) return !source.value && !found;
  if (found.entry->type() != ValueType::kString) return false;
  if (source.value->extent()) return is_extent(found) && found.entry->extent() == source.value->extent()->ref();
  char text[20];
  return !is_extent(found) && string_bytes(*found.entry, text) == source.value->memory_bytes();
}

// The result, on the heap or, from kStreamBulkBytes on, in an extent.
struct Combined {
  std::string bytes;
  ExtentRef extent;
  uint64_t size = 0;
};

// False: the error was answered.
bool combine(CommandContext& ctx, BitOp op, const std::vector<Source>& sources, uint64_t size, Combined& to) {
  std::unique_ptr<ExtentWriter> writer;
  const auto refuse = [&](const Error& error) { return ctx.reply.error("MISCONF Errors writing the value: " + error.message), false; };
  if (size >= kStreamBulkBytes && ctx.on_worker) {
    auto made = ctx.services.storage->extents().create(Space::kValues, size, 0);
    if (!made) return refuse(made.error());
    writer = std::move(*made);
  }
  Combiner combiner(op, std::min(size, kPieceBytes));
  to.size = size;
  for (uint64_t at = 0; at < size; at += kPieceBytes) {
    const uint64_t piece = std::min(kPieceBytes, size - at);
    combiner.start(piece);
    for (const Source& source : sources) {
      std::string bytes;
      if (at < source.size) {
        const bool read = source.value->read_pieces(ctx, at, std::min(piece, source.size - at), [&](std::string_view part, uint64_t) {
          bytes.append(part);
          return true;
        });
        if (!read) return false;
      }
      combiner.feed(bytes);
    }
    if (!writer) {
      to.bytes.append(combiner.finish());
    } else if (const Status written = writer->append(combiner.finish()); !written) {
      return refuse(written.error());
    }
  }
  if (!writer) return true;
  const Result<ExtentRef> ref = writer->finish();
  if (!ref) return refuse(ref.error());
  to.extent = *ref;
  return true;
}

void store(CommandContext& ctx, KeyAccess& access, const Key& destination, const Combined& result) {
  const Found found = access.find(ctx.session.database, destination, KeyAccess::Lookup::kPeek);
  if (result.size > 0) {
    const NewValue value = result.extent ? NewValue::of_extent(result.extent, result.size) : NewValue::of_raw(result.bytes);
    access.event_overwritten(ctx.session.database, destination, found, ValueType::kString);
    access.set(ctx.session.database, destination, found, value, 0);
    access.event(KeyEvent::kString, "set", ctx.session.database, destination);
  } else if (found) {
    access.erase(ctx.session.database, destination, found);
    access.event(KeyEvent::kGeneric, "del", ctx.session.database, destination);
  }
}

enum class Look { kReady, kAnswered, kNeedsWorker };

// Under the locks: what the sources hold. Hits and misses are counted at the `first` look.
Look look_at(CommandContext& ctx, KeyAccess& access, std::span<const Key> keys, bool first, std::vector<Source>& sources) {
  using Lookup = KeyAccess::Lookup;
  uint64_t work = 0;
  for (const Key& key : keys) {
    const Found found = access.find(ctx.session.database, key, Lookup::kPeek);
    if (found && found.entry->type() != ValueType::kString) break;
    if (found) work += is_extent(found) ? kWorkOnReactor + 1 : string_size(*found.entry);
    if (work > kWorkOnReactor && !ctx.on_worker) return Look::kNeedsWorker;
  }
  for (const Key& key : keys) {
    const Found found = access.find(ctx.session.database, key, first ? Lookup::kRead : Lookup::kPeek);
    if (found && found.entry->type() != ValueType::kString) {
      ctx.reply.error(kWrongType);
      return Look::kAnswered;
    }
  }
  sources.clear();
  for (const Key& key : keys) {
    const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kPeek);
    Source& source = sources.emplace_back();
    if (!found) continue;
    source.size = string_size(*found.entry);
    source.value = PendingValue::open(ctx, *found.entry);
  }
  return Look::kReady;
}

Outcome run(CommandContext& ctx, BitOp op) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const std::vector<Key> keys = keys_of_arguments(ctx, 2);  // the destination first
  const std::span<const Key> source_keys = std::span(keys).subspan(1);
  std::vector<Source> sources;
  for (int attempt = 0;; ++attempt) {
    std::optional<KeyAccess> access(std::in_place, keyspace, keys);
    const Look look = look_at(ctx, *access, source_keys, attempt == 0, sources);
    if (look == Look::kNeedsWorker) return Outcome::kNeedsWorker;
    if (look == Look::kAnswered) {
      ctx.require_lsn(access->finish());
      return Outcome::kDone;
    }
    uint64_t size = 0;
    for (const Source& source : sources) size = std::max(size, source.size);
    // What a reactor takes is quick. A worker gives the keys free meanwhile and starts over when a source was changed.
    const bool holds = !ctx.on_worker || attempt == kFreeAttempts;
    if (!holds) {
      ctx.require_lsn(access->finish());
      access.reset();
    }
    Combined result;
    if (!combine(ctx, op, sources, size, result)) return Outcome::kDone;
    const auto give_back = [&] {
      if (result.extent) ctx.services.storage->extents().free(result.extent, 0);
    };
    if (!admitted(ctx, keys[0].bytes.size() + result.bytes.size() + 64)) return give_back(), Outcome::kDone;
    if (!holds) {
      access.emplace(keyspace, keys);
      const auto unchanged = [&](size_t i) {
        return same_value(sources[i], access->find(ctx.session.database, source_keys[i], KeyAccess::Lookup::kPeek));
      };
      bool same = true;
      for (size_t i = 0; i < sources.size() && same; ++i) same = unchanged(i);
      if (!same) {
        ctx.require_lsn(access->finish());
        give_back();
        continue;
      }
    }
    store(ctx, *access, keys[0], result);
    ctx.require_lsn(access->finish());
    ctx.reply.integer(static_cast<int64_t>(size));
    return Outcome::kDone;
  }
}

}  // namespace

Outcome bitop_command(CommandContext& ctx) {
  const auto* named = std::ranges::find_if(kOpNames, [&](const OpName& entry) { return same_word(entry.name, ctx.arg(1)); });
  if (named == std::end(kOpNames)) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  if (named->op == BitOp::kNot && ctx.argc() != 4) {
    return ctx.reply.error("ERR BITOP NOT must be called with a single source key."), Outcome::kDone;
  }
  if (named->needs_two && ctx.argc() < 5) {
    return ctx.reply.error("ERR BITOP " + std::string(named->name) + " must be called with at least two source keys."), Outcome::kDone;
  }
  return run(ctx, named->op);
}

}  // namespace pion
