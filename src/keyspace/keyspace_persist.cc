// The keyspace as a plane of storage: recovery from sections and records, checkpoints, live extents.
#include <mutex>

#include "keyspace/keyspace.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/latency_monitor.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

// A stripe's section is cut into several of about this size, so that one with large values needs no second copy of all.
constexpr size_t kSectionBytes = 64 * kMiB;

}  // namespace

void Keyspace::apply_to(Stripe& stripe, const Effect& effect, KeyHash hash) {
  if (effect.kind == EffectKind::kFlushAll || effect.kind == EffectKind::kFlushDatabase) {
    for (int db = 0; db < static_cast<int>(kDatabases); ++db) {
      Shard* shard = shard_if(stripe, db);
      const bool meant = effect.kind == EffectKind::kFlushAll || db == effect.database;
      if (!meant || !shard) continue;
      report_memory(stripe, -static_cast<int64_t>(shard->memory_bytes()));
      shard->clear([](ExtentRef) {});  // what no plane names after recovery is reclaimed by storage
    }
    return;
  }
  if (effect.kind == EffectKind::kSwapDatabases) {
    std::swap(stripe.shards[static_cast<size_t>(effect.database)], stripe.shards[static_cast<size_t>(effect.other_database)]);
    return;
  }
  Shard& target = shard(stripe, effect.database);
  const uint64_t before = target.memory_bytes();
  const Found found = target.find(hash, effect.key);
  switch (effect.kind) {
    case EffectKind::kSet:
      if (effect.value.kind == NewValue::Kind::kTyped) {
        store_encoded(target, found, hash, effect.key, effect.value, effect.expiry_ms, new_clock());
      } else {
        target.store(found, hash, effect.key, effect.value, effect.expiry_ms, new_clock());
      }
      break;
    case EffectKind::kDelta:
      apply_delta(target, found, hash, effect.key, effect.value.type, effect.value.encoded, new_clock());
      break;
    case EffectKind::kDelete:
      if (found) target.erase(found, hash);
      break;
    case EffectKind::kExpire:
      if (found) target.set_expiry(found, hash, effect.expiry_ms);
      break;
    default: {
      const std::string_view bytes = effect.value.bytes;
      const Shard::Writable writable = target.make_writable(found, hash, effect.offset + bytes.size());
      copy_bytes(writable.bytes + effect.offset, bytes);
    }
  }
  report_memory(stripe, static_cast<int64_t>(target.memory_bytes() - before));
}

// Whether the effect fits what is there: after a skipped (corrupt) record an APPEND may not.
Status Keyspace::check_effect(Lsn lsn, const Effect& effect) {
  const bool delta = effect.kind == EffectKind::kDelta;
  if (!delta && effect.kind != EffectKind::kAppend && effect.kind != EffectKind::kSetRange) return {};
  const KeyHash hash = Shard::hash(effect.key, seed_);
  Stripe& stripe = (*stripes_)[hash.stripe()];
  if (lsn <= stripe.loaded_lsn) return {};
  Shard* shard = shard_if(stripe, effect.database);
  const Found found = shard ? shard->find(hash, effect.key) : Found{};
  if (delta) {
    const bool other = found && found.entry->type() != effect.value.type;
    if (other || !value_ops(effect.value.type)->check_delta(found ? found.entry : nullptr, effect.value.encoded)) {
      return fail(ErrorCode::kCorrupt, "a record changes a value that it does not fit");
    }
    return {};
  }
  if (!found || found.entry->type() != ValueType::kString || found.entry->encoding() == Encoding::kExtent) return fail(ErrorCode::kCorrupt, "a record changes a string that is not there");
  if (effect.kind == EffectKind::kAppend && string_size(*found.entry) != effect.offset) {
    return fail(ErrorCode::kCorrupt, "a record appends to a string of another length");
  }
  return {};
}

void Keyspace::apply_effect(Lsn lsn, const Effect& effect) {
  const bool whole = effect.kind == EffectKind::kFlushAll || effect.kind == EffectKind::kFlushDatabase ||
                     effect.kind == EffectKind::kSwapDatabases;
  const KeyHash hash = whole ? KeyHash{} : Shard::hash(effect.key, seed_);
  const unsigned first = whole ? 0 : hash.stripe();
  const unsigned last = whole ? kStripes - 1 : first;
  for (unsigned i = first; i <= last; ++i) {
    Stripe& stripe = (*stripes_)[i];
    if (lsn <= stripe.loaded_lsn) continue;
    std::lock_guard lock(stripe.lock);
    apply_to(stripe, effect, hash);
    stripe.last_lsn = std::max(stripe.last_lsn, lsn);
  }
}

// All or nothing: a section is read to its end before anything of it counts.
Status Keyspace::check_section(uint32_t number, std::string_view body) const {
  if (number >= kStripes) return fail(ErrorCode::kCorrupt, "a section of a stripe that does not exist");
  for (ByteReader check(body); !check.empty();) {
    Effect effect;
    if (!read_effect(check, effect) || effect.kind != EffectKind::kSet || !check_typed(effect)) {
      return fail(ErrorCode::kCorrupt, "a section that holds something else than keys");
    }
  }
  return {};
}

void Keyspace::apply_section(Stripe& stripe, std::string_view body) {
  for (ByteReader reader(body); !reader.empty();) {
    Effect effect;
    read_effect(reader, effect);
    const KeyHash hash = Shard::hash(effect.key, seed_);
    // The section's checksum held, so a key of another stripe was never written; were it, nobody could find it here.
    if (&(*stripes_)[hash.stripe()] == &stripe) apply_to(stripe, effect, hash);
  }
}

Status Keyspace::load_section(uint32_t number, Lsn lsn, std::string_view body) {
  PION_TRY(check_section(number, body));
  Stripe& stripe = (*stripes_)[number];
  std::lock_guard lock(stripe.lock);
  apply_section(stripe, body);
  stripe.loaded_lsn = stripe.last_lsn = std::max(stripe.loaded_lsn, lsn);
  return {};
}

Result<bool> Keyspace::reload_stripe(uint32_t number, Lsn lsn, std::span<const std::string> bodies) {
  for (const std::string& body : bodies) PION_TRY(check_section(number, body));
  if (number >= kStripes) return fail(ErrorCode::kInvalid, "there is no such stripe");
  Stripe& stripe = (*stripes_)[number];
  std::vector<std::unique_ptr<Shard>> old;  // freed without the lock; their extents live on, the new keys name them
  std::lock_guard lock(stripe.lock);
  if (stripe.last_lsn > lsn) return false;
  for (Shard* shard : stripe.shards) {
    if (!shard || !shard->has_table()) continue;
    report_memory(stripe, -static_cast<int64_t>(shard->memory_bytes()));
    old.push_back(shard->detach());
  }
  for (const std::string& body : bodies) apply_section(stripe, body);
  return true;
}

Status Keyspace::apply(Lsn lsn, uint8_t type, std::string_view body) {
  if (type != static_cast<uint8_t>(RecordType::kKeyspace)) return fail(ErrorCode::kCorrupt, "a record of a type the keyspace does not know");
  Effect effect;
  for (ByteReader check(body); !check.empty();) {
    if (!read_effect(check, effect) || !check_typed(effect)) return fail(ErrorCode::kCorrupt, "a record that holds no effects");
  }
  for (ByteReader reader(body); !reader.empty();) {
    read_effect(reader, effect);
    PION_TRY(check_effect(lsn, effect));
    apply_effect(lsn, effect);
  }
  return {};
}

void Keyspace::record_extents(uint8_t, std::string_view body, const std::function<void(ExtentRef)>& visit) {
  Effect effect;
  for (ByteReader reader(body); !reader.empty() && read_effect(reader, effect);) {
    if (effect.kind == EffectKind::kSet && effect.value.kind == NewValue::Kind::kExtent) visit(effect.value.extent);
  }
}

void Keyspace::live_extents(const std::function<void(ExtentRef)>& visit) {
  for (Stripe& stripe : *stripes_) {
    std::lock_guard lock(stripe.lock);
    for (const Shard* shard : stripe.shards) {
      if (!shard) continue;
      shard->each([&](Entry& entry) {
        if (entry.encoding() == Encoding::kExtent) visit(entry.extent());
      });
    }
  }
}

void Keyspace::note_checkpoint_hold(int64_t us) {
  const auto held_us = static_cast<uint64_t>(us);
  if (held_us > longest_checkpoint_hold_us_.load(std::memory_order_relaxed)) longest_checkpoint_hold_us_.store(held_us, std::memory_order_relaxed);
  latency_monitor().note("checkpoint-stripe", us / 1000);
}

Status Keyspace::write_checkpoint(CheckpointSink& sink) {
  std::string body, encoded;
  for (unsigned number = 0; number < kStripes; ++number) {
    std::vector<std::string> bodies;
    Lsn lsn;
    {
      Stripe& stripe = (*stripes_)[number];
      StripeHoldForLong lock(stripe.lock, long_holds_, number);
      const int64_t begun_us = monotonic_us();
      // Every record up to here that touched this stripe was appended under this lock.
      lsn = storage_.journal().appended_lsn();
      for (int db = 0; db < static_cast<int>(kDatabases); ++db) {
        const Shard* shard = shard_if(stripe, db);
        if (!shard) continue;
        shard->each([&](Entry& entry) {
          write_effect(body, {.kind = EffectKind::kSet,
                              .database = db,
                              .key = entry.key(),
                              .value = whole_value(entry, encoded),
                              .expiry_ms = entry.has_expiry() ? entry.expiry() : 0});
          if (body.size() < kSectionBytes) return;
          bodies.emplace_back().swap(body);
        });
      }
      note_checkpoint_hold(monotonic_us() - begun_us);
    }
    for (const std::string& full : bodies) PION_TRY(sink.section(number, lsn, full));
    PION_TRY(sink.section(number, lsn, body));
    body.clear();
  }
  return {};
}

}  // namespace pion
