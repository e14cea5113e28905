// PFADD PFCOUNT PFMERGE PFDEBUG PFSELFTEST.
#include <algorithm>
#include <cmath>
#include <vector>

#include "command/arguments.h"
#include "command/change_string.h"
#include "command/families.h"
#include "command/hyperloglog.h"

namespace pion {
namespace {

constexpr std::string_view kNoHyperLogLog = "WRONGTYPE Key is not a valid HyperLogLog string value.";
constexpr std::string_view kDamaged = "INVALIDOBJ Corrupted HLL object detected";
constexpr uint64_t kRecordBytes = hll::kDenseBytes + 64;
constexpr size_t kKeysOnReactor = 16;  // a merge of more is a worker's

uint64_t sparse_most_bytes(const CommandContext& ctx) {
  return ctx.services.keyspace->settings.hll_sparse_max_bytes.load(std::memory_order_relaxed);
}

// Is it a HyperLogLog? Otherwise the error is answered. None is long enough to lie in an extent.
bool check_value(CommandContext& ctx, const Found& found, char (&text)[20]) {
  if (found.entry->type() != ValueType::kString) return ctx.reply.error(kWrongType), false;
  if (is_extent(found) || !hll::is_valid(string_bytes(*found.entry, text))) return ctx.reply.error(kNoHyperLogLog), false;
  return true;
}

// A key that one command reads and changes, locked.
class Sketch {
 public:
  Sketch(CommandContext& ctx, KeyAccess& access, const Key& key, KeyAccess::Lookup lookup)
      : ctx_(ctx), access_(access), key_(key), found_(access.find(ctx.session.database, key, lookup)) {}

  explicit operator bool() const { return static_cast<bool>(found_); }
  bool valid() { return check_value(ctx_, found_, text_); }
  std::string_view bytes() { return string_bytes(*found_.entry, text_); }

  // A valid one that a client has SET becomes raw when a command may change it, as on Redis.
  void make_raw() {
    if (!found_ || found_.entry->encoding() != Encoding::kInline) return;
    const char last = bytes().back();
    access_.set_range(ctx_.session.database, key_, found_, bytes().size() - 1, {&last, 1});
    found_ = access_.find_again(ctx_.session.database, key_);
  }

  // Writes what differs: of a value that keeps its length the bytes from the first to the last change, of a longer one the
  // rest, of a shorter one all.
  void store(std::string_view fresh) {
    const int database = ctx_.session.database;
    if (!found_) {
      access_.set(database, key_, found_, NewValue::of_raw(fresh), 0);
    } else if (const std::string_view old = bytes(); fresh.size() < old.size()) {
      access_.set(database, key_, found_, NewValue::of_raw(fresh), found_.entry->has_expiry() ? found_.entry->expiry() : 0);
    } else {
      const auto first = static_cast<size_t>(std::ranges::mismatch(old, fresh).in1 - old.begin());
      size_t end = fresh.size();
      while (fresh.size() == old.size() && end > first && fresh[end - 1] == old[end - 1]) --end;
      if (first == end) return;
      access_.set_range(database, key_, found_, first, fresh.substr(first, end - first));
    }
    found_ = access_.find_again(database, key_);
  }

 private:
  CommandContext& ctx_;
  KeyAccess& access_;
  const Key& key_;
  Found found_;
  char text_[20];
};

Outcome pfadd_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(1));
  if (!admitted(ctx, key.bytes.size() + kRecordBytes)) return Outcome::kDone;
  KeyAccess access(keyspace, key);
  Sketch sketch(ctx, access, key, KeyAccess::Lookup::kWrite);
  if (sketch && !sketch.valid()) {
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  }
  sketch.make_raw();
  // Most additions raise nothing: they are recognised without a copy.
  std::string fresh;
  bool raised = !sketch, damaged = false;
  if (raised) fresh = hll::make_sparse();
  for (size_t i = 2; i < ctx.argc() && !damaged; ++i) {
    const hll::Place place = hll::place_of(ctx.arg(i));
    if (fresh.empty()) {
      const auto old = hll::register_at(sketch.bytes(), place.index);
      if (old && *old >= place.count) continue;
      fresh = sketch.bytes();
    }
    const hll::Raised result = hll::raise(fresh, place, sparse_most_bytes(ctx));
    raised = raised || result == hll::Raised::kRaised;
    damaged = result == hll::Raised::kDamaged;
  }
  if (raised) {
    if (!damaged) hll::mark_stale(fresh);
    sketch.store(fresh);
    if (!damaged) access.event(KeyEvent::kString, "pfadd", ctx.session.database, key);
  }
  ctx.require_lsn(access.finish());
  damaged ? ctx.reply.error(kDamaged) : ctx.reply.integer(raised);
  return Outcome::kDone;
}

// One key: the estimate is kept in its header.
Outcome count_one(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(1));
  // Without room for the record the answer is given and not kept.
  const bool keeps = keyspace.admit(key.bytes.size() + 48, WriteKind::kGrows).has_value();
  KeyAccess access(keyspace, key);
  if (ctx.session.no_touch) access.no_touch();
  Sketch sketch(ctx, access, key, KeyAccess::Lookup::kRead);
  if (sketch && !sketch.valid()) {
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  }
  if (keeps) sketch.make_raw();
  std::optional<uint64_t> count = sketch ? hll::cached(sketch.bytes()) : 0;
  if (!count) {
    count = hll::estimate(sketch.bytes());
    if (count && keeps) {
      std::string fresh(sketch.bytes());
      store_le(fresh.data() + hll::kCardinalityOffset, *count);
      sketch.store(fresh);
    }
  }
  ctx.require_lsn(access.finish());
  count ? ctx.reply.integer(static_cast<int64_t>(*count)) : ctx.reply.error(kDamaged);
  return Outcome::kDone;
}

// Merges what lies under `keys`, in order. False: the error is answered.
bool merge_keys(CommandContext& ctx, KeyAccess& access, std::span<const Key> keys, hll::Registers& registers, bool& any_dense) {
  for (const Key& key : keys) {
    Sketch sketch(ctx, access, key, KeyAccess::Lookup::kRead);
    if (!sketch) continue;
    if (!sketch.valid()) return false;
    any_dense = any_dense || hll::encoding(sketch.bytes()) == hll::Encoding::kDense;
    if (!hll::merge_into(registers, sketch.bytes())) return ctx.reply.error(kDamaged), false;
  }
  return true;
}

Outcome pfcount_command(CommandContext& ctx) {
  if (ctx.argc() == 2) return count_one(ctx);
  if (ctx.argc() - 1 > kKeysOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  Keyspace& keyspace = *ctx.services.keyspace;
  const std::vector<Key> keys = keys_of_arguments(ctx, 1);
  hll::Registers registers{};
  bool any_dense = false;
  KeyAccess access(keyspace, keys);
  if (ctx.session.no_touch) access.no_touch();
  const bool merged = merge_keys(ctx, access, keys, registers, any_dense);
  ctx.require_lsn(access.finish());
  if (merged) ctx.reply.integer(static_cast<int64_t>(hll::estimate(registers)));
  return Outcome::kDone;
}

Outcome pfmerge_command(CommandContext& ctx) {
  if (ctx.argc() - 1 > kKeysOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  Keyspace& keyspace = *ctx.services.keyspace;
  const std::vector<Key> keys = keys_of_arguments(ctx, 1);  // the destination is the first source too
  if (!admitted(ctx, keys[0].bytes.size() + kRecordBytes)) return Outcome::kDone;
  hll::Registers registers{};
  bool any_dense = false, damaged = false;
  KeyAccess access(keyspace, keys);
  if (!merge_keys(ctx, access, keys, registers, any_dense)) {
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  }
  Sketch destination(ctx, access, keys[0], KeyAccess::Lookup::kWrite);
  destination.make_raw();
  std::string fresh = destination ? std::string(destination.bytes()) : hll::make_sparse();
  if (any_dense) {
    damaged = !hll::make_dense(fresh);
    if (!damaged) hll::write_dense(fresh, registers);
  } else {
    for (unsigned i = 0; i < hll::kRegisters && !damaged; ++i) {
      if (registers[i] == 0) continue;
      damaged = hll::raise(fresh, {i, registers[i]}, sparse_most_bytes(ctx)) == hll::Raised::kDamaged;
    }
  }
  if (!damaged) {
    hll::mark_stale(fresh);
    destination.store(fresh);
    access.event(KeyEvent::kString, "pfadd", ctx.session.database, keys[0]);
  }
  ctx.require_lsn(access.finish());
  damaged ? ctx.reply.error(kDamaged) : ctx.reply.ok();
  return Outcome::kDone;
}

void reply_registers(ReplyWriter& reply, std::string_view dense) {
  reply.array(hll::kRegisters);
  for (unsigned i = 0; i < hll::kRegisters; ++i) reply.integer(hll::register_at(dense, i).value_or(0));
}

Outcome pfdebug_command(CommandContext& ctx) {
  Keyspace& keyspace = *ctx.services.keyspace;
  const Key key = keyspace.key(ctx.arg(2));
  const std::string_view what = ctx.arg(1);
  if (!admitted(ctx, key.bytes.size() + kRecordBytes)) return Outcome::kDone;
  KeyAccess access(keyspace, key);
  Sketch sketch(ctx, access, key, KeyAccess::Lookup::kWrite);
  const auto finish = [&] {
    ctx.require_lsn(access.finish());
    return Outcome::kDone;
  };
  if (!sketch) return ctx.reply.error("ERR The specified key does not exist"), finish();
  if (!sketch.valid()) return finish();
  sketch.make_raw();
  const bool sparse = hll::encoding(sketch.bytes()) == hll::Encoding::kSparse;
  if (same_word(what, "ENCODING")) return ctx.reply.simple(sparse ? "sparse" : "dense"), finish();
  if (same_word(what, "DECODE")) {
    if (!sparse) return ctx.reply.error("ERR HLL encoding is not sparse"), finish();
    return ctx.reply.bulk(hll::describe_runs(sketch.bytes())), finish();
  }
  const bool registers = same_word(what, "GETREG");
  if (!registers && !same_word(what, "TODENSE")) {
    return ctx.reply.error("ERR Unknown PFDEBUG subcommand '" + std::string(what) + "'"), finish();
  }
  if (sparse) {
    std::string dense(sketch.bytes());
    if (!hll::make_dense(dense)) return ctx.reply.error(kDamaged), finish();
    sketch.store(dense);
  }
  if (registers) {
    reply_registers(ctx.reply, sketch.bytes());
  } else {
    ctx.reply.integer(sparse);
  }
  return finish();
}

// Registers read back as they were written, both encodings agree, and the error of the estimate is what theory allows.
Outcome pfselftest_command(CommandContext& ctx) {
  if (!ctx.on_worker) return Outcome::kNeedsWorker;
  constexpr uint64_t kElements = 300'000;
  const double relative_error = 1.04 / std::sqrt(static_cast<double>(hll::kRegisters));
  std::string dense = hll::make_sparse(), sparse = hll::make_sparse();
  hll::make_dense(dense);
  hll::Registers model{};
  uint64_t next_check = 1;
  for (uint64_t n = 1; n <= kElements; ++n) {
    char element[8];
    store_le(element, n * 0x9E3779B97F4A7C15u);
    const hll::Place place = hll::place_of({element, sizeof element});
    model[place.index] = std::max(model[place.index], place.count);
    hll::raise(dense, place, 0);
    hll::raise(sparse, place, sparse_most_bytes(ctx));
    if (n != next_check) continue;
    next_check = next_check * 2;
    const auto estimate = hll::estimate(dense);
    if (estimate != hll::estimate(sparse)) return ctx.reply.error("TESTFAILED dense/sparse disagree"), Outcome::kDone;
    const double off = std::fabs(static_cast<double>(*estimate) - static_cast<double>(n));
    // Six standard errors; small counts are exact but for collisions.
    if (off > std::max(6 * relative_error * static_cast<double>(n), n < 10 ? 1.0 : 2.0)) {
      return ctx.reply.error("TESTFAILED Too big error. card:" + std::to_string(n)), Outcome::kDone;
    }
  }
  for (unsigned i = 0; i < hll::kRegisters; ++i) {
    if (hll::register_at(dense, i) != model[i] || hll::register_at(sparse, i) != model[i]) {
      return ctx.reply.error("TESTFAILED Register " + std::to_string(i) + " differs"), Outcome::kDone;
    }
  }
  ctx.reply.ok();
  return Outcome::kDone;
}

// Arity, flags, keys and documentation come from Redis' own table (redis_facts.cc).
constexpr CommandSpec kHyperLogLogCommands[] = {
    {.name = "pfadd", .handler = pfadd_command},
    {.name = "pfcount", .flags = kMayReplicate, .handler = pfcount_command},
    {.name = "pfdebug", .handler = pfdebug_command, .status = "differs: no SIMD"},
    {.name = "pfmerge", .handler = pfmerge_command},
    {.name = "pfselftest", .handler = pfselftest_command},
};

}  // namespace

std::span<const CommandSpec> hyperloglog_commands() { return kHyperLogLogCommands; }

}  // namespace pion
