#include <cassert>
#include <iterator>

#include "base/clock.h"
#include "base/bytes.h"
#include "keyspace/keyspace.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

// One record is built at a time in a thread; its buffer is kept, unless a huge value went through it.
constexpr size_t kKeptEffectBytes = 1 << 20;

constexpr uint64_t kElementsPerAccess = 256;  // that one look at a key removes when they have expired

// Behind room for the record's header, so that the journal need not copy it together.
std::string& effects_of_thread() {
  thread_local std::string effects(kRecordRoomBytes, '\0');
  return effects;
}

thread_local uint64_t admitted_bytes = 0;  // for the record under way
constinit thread_local bool events_told = false;  // that wait for the end of the access or the scope

}  // namespace

Status Keyspace::admit(uint64_t record_bytes, WriteKind kind) {
  const uint64_t sum = admitted_bytes + record_bytes;
  if (sum > kMaxRecordBytes) return fail(ErrorCode::kTooLarge, "the command's values do not fit into one journal record");
  PION_TRY(storage_.journal().admit(sum, kind));
  admitted_bytes = sum;
  return {};
}

KeyAccess::KeyAccess(Keyspace& keyspace, const Key& key) : keyspace_(keyspace), effects_(effects_of_thread()) {
  assert(scope_ ? scope_->holds(key.hash.stripe()) : effects_.size() == kRecordRoomBytes);
  single_ = &stripe(key);
  if (scope_) return;
  if (holds_long) [[unlikely]] keyspace_.long_holds_.begin(key.hash.stripe());
  single_->lock.lock();
}

KeyAccess::KeyAccess(Keyspace& keyspace, std::span<const Key> keys) : keyspace_(keyspace), effects_(effects_of_thread()) {
  assert(scope_ || effects_.size() == kRecordRoomBytes);
  if (scope_) return;
  for (const Key& key : keys) stripes_.add(key.hash.stripe());
  keyspace_.lock_stripes(stripes_);
}

void Keyspace::lock_stripes(const StripeSet& stripes) {
  stripes.each([this](unsigned i) {
    if (holds_long) [[unlikely]] long_holds_.begin(i);
    (*stripes_)[i].lock.lock();
  });
}

KeyAccess::KeyAccess(Keyspace& keyspace, All) : keyspace_(keyspace), effects_(effects_of_thread()) {
  assert(scope_ || effects_.size() == kRecordRoomBytes);
  if (scope_) return;
  stripes_.add_all();
  keyspace_.lock_stripes(stripes_);
}

Lsn Keyspace::append_effects(std::vector<ExtentRef>& freed, std::vector<std::unique_ptr<Shard>>& detached) {
  admitted_bytes = 0;
  std::string& effects = effects_of_thread();
  if (effects.size() == kRecordRoomBytes) return 0;
  const Lsn lsn = storage_.journal().append_built(static_cast<uint8_t>(RecordType::kKeyspace), effects);
  if (effects.capacity() > kKeptEffectBytes) std::string(kRecordRoomBytes, '\0').swap(effects);
  effects.resize(kRecordRoomBytes);
  for (ExtentRef ref : freed) storage_.extents().free(ref, lsn);
  if (!detached.empty()) {
    std::lock_guard lock(garbage_mutex_);
    for (std::unique_ptr<Shard>& shard : detached) {
      flushed_waiting_.fetch_add(shard->count(), std::memory_order_relaxed);
      garbage_.push_back({std::move(shard), lsn});
    }
  }
  return lsn;
}

Lsn Keyspace::release(const StripeSet& stripes, Lsn lsn) {
  Lsn visible = lsn;
  if (events_told) [[unlikely]] {
    stripes.each([&](unsigned i) { visible = std::max(visible, (*stripes_)[i].last_lsn); });
    release_events(visible);
  }
  stripes.each([&](unsigned i) {
    Stripe& stripe = (*stripes_)[i];
    if (lsn != 0) stripe.last_lsn = lsn;
    visible = std::max(visible, stripe.last_lsn);
    stripe.lock.unlock();
    if (holds_long) [[unlikely]] long_holds_.end(i);
  });
  return visible;
}

void Keyspace::release_events(Lsn visible) {
  events_told = false;
  observer_->journalled(visible);
}

void KeyAccess::tell_event(KeyEvent kind, std::string_view name, int database, const Key& key) {
  if (keyspace_.observer_ && keyspace_.observer_->event(kind, name, database, key.bytes)) events_told = true;
}

Lsn KeyAccess::finish() {
  assert(locked_);
  locked_ = false;
  if (scope_) {
    scope_->freed_.insert(scope_->freed_.end(), freed_.begin(), freed_.end());
    std::move(detached_.begin(), detached_.end(), std::back_inserter(scope_->detached_));
    return 0;
  }
  Lsn lsn = keyspace_.append_effects(freed_, detached_);
  if (!single_) return keyspace_.release(stripes_, lsn);
  if (lsn != 0) single_->last_lsn = lsn;
  lsn = single_->last_lsn;
  if (events_told) [[unlikely]] keyspace_.release_events(lsn);
  single_->lock.unlock();
  if (holds_long) [[unlikely]] keyspace_.long_holds_.end(static_cast<unsigned>(single_ - keyspace_.stripes_->data()));
  return lsn;
}

void KeyAccess::watch(int database, const Key& key, WatchToken& token) {
  keyspace_.watches_.add(key.hash.stripe(), database, key.bytes, token);
  keyspace_.listen_to(key);
}

void Keyspace::unwatch(int database, const Key& key, WatchToken& token) {
  watches_.remove(key.hash.stripe(), database, key.bytes, token);
  stop_listening(key);
}

// Whole databases go or change places: a watched key changes if there is something on either side.
void KeyAccess::watched_databases_change(int a, int b) {
  for (const int database : {a, b}) {
    for (const auto& [owner, bytes] : keyspace_.watches_.keys(database)) {
      const Key key = keyspace_.key(bytes);
      const bool here = static_cast<bool>(find(owner, key, Lookup::kPeek));
      const int other = b == a ? owner : owner == a ? b : a;
      const bool there = other != owner && find(other, key, Lookup::kPeek);
      if (here || there) changed(stripe(key), owner, key);
    }
    if (a == b) break;
  }
}

Found KeyAccess::find(int database, const Key& key, Lookup lookup) {
  Keyspace::Stripe& home = stripe(key);
  Shard* shard = keyspace_.shard_if(home, database);
  Found found = shard ? shard->find(key.hash, key.bytes) : Found{};
  if (found && found.entry->has_expiry() && wall_ms() > found.entry->expiry()) {
    if (!keyspace_.keeps_all()) expire(database, key, found);
    found = {};
  }
  if (lookup == Lookup::kRead || lookup == Lookup::kNoTouch) count_lookup(database, key, static_cast<bool>(found));
  if (found && found.entry->type() == ValueType::kHash && !keyspace_.keeps_all()) found = expire_elements(database, key, found);
  if (found && !no_touch_ && (lookup == Lookup::kRead || lookup == Lookup::kWrite)) keyspace_.touch(*found.entry);
  return found;
}

void KeyAccess::expire(int database, const Key& key, Found found) {
  // The record is small and frees: the journal keeps a reserve for it, so a full disk does not stand in the way.
  (void)keyspace_.admit(key.bytes.size() + 16, WriteKind::kFrees);
  erase(database, key, found);
  event(KeyEvent::kExpired, "expired", database, key);
  ++stripe(key).expired;
}

// A key that expired under CLIENT PAUSE was not found, and is there: it goes when another one takes its place.
void KeyAccess::drop_hidden(int database, const Key& key) {
  if (const Found hidden = find_again(database, key)) expire(database, key, hidden);
}

// Elements that are due are removed before anybody sees the value, as far as that is quickly done; readers skip the rest.
Found KeyAccess::expire_elements(int database, const Key& key, Found found) {
  const int64_t due = next_element_due(*found.entry);
  if (due == INT64_MAX) return found;
  const int64_t now = wall_ms();
  if (due >= now) return found;
  thread_local std::string delta;
  if (!value_ops(found.entry->type())->remove_due(*found.entry, now, kElementsPerAccess, delta)) return found;
  (void)keyspace_.admit(key.bytes.size() + delta.size() + 24, WriteKind::kFrees);
  found = change(database, key, found, found.entry->type(), delta);
  event(KeyEvent::kHash, "hexpired", database, key);
  if (!found) event(KeyEvent::kGeneric, "del", database, key);
  return found;
}

Found KeyAccess::change(int database, const Key& key, Found found, ValueType type, std::string_view delta) {
  const Effect effect{.kind = EffectKind::kDelta, .database = database, .key = key.bytes,
                      .value = {.kind = NewValue::Kind::kTyped, .type = type, .encoded = delta}};
  write_effect(effects_, effect);
  Keyspace::Stripe& home = stripe(key);
  Shard& shard = keyspace_.shard(home, database);
  const uint64_t before = shard.memory_bytes();
  if (!found) make_way(database, key);
  found = apply_delta(shard, found, key.hash, key.bytes, type, delta, keyspace_.new_clock());
  keyspace_.report_memory(home, static_cast<int64_t>(shard.memory_bytes() - before));
  const ValueOps& ops = *value_ops(type);
  if (!ops.matters || ops.matters(delta)) changed(home, database, key);
  return found;
}

Entry* KeyAccess::set_typed(int database, const Key& key, Found found, const NewValue& value, int64_t expiry_ms) {
  write_effect(effects_, {.kind = EffectKind::kSet, .database = database, .key = key.bytes, .value = value, .expiry_ms = expiry_ms});
  drop_extent(found);
  Keyspace::Stripe& home = stripe(key);
  Shard& shard = keyspace_.shard(home, database);
  const uint64_t before = shard.memory_bytes();
  if (!found) make_way(database, key);
  Entry* entry;
  if (value.object || !value.bytes.empty()) {
    entry = shard.store(found, key.hash, key.bytes, value, expiry_ms, keyspace_.new_clock());
    if (const int64_t due = next_element_due(*entry); due != INT64_MAX) shard.note_element_expiry(due, key.hash);
  } else {
    entry = store_encoded(shard, found, key.hash, key.bytes, value, expiry_ms, keyspace_.new_clock());
  }
  keyspace_.report_memory(home, static_cast<int64_t>(shard.memory_bytes() - before));
  changed(home, database, key);
  return entry;
}

std::unique_ptr<Object> KeyAccess::take_object(int database, const Key& key, Found found) {
  Keyspace::Stripe& home = stripe(key);
  Shard& shard = keyspace_.shard(home, database);
  const uint64_t before = shard.memory_bytes();
  std::unique_ptr<Object> object = shard.take_object(*found.entry);
  keyspace_.report_memory(home, static_cast<int64_t>(shard.memory_bytes() - before));
  return object;
}

void KeyAccess::drop_extent(const Found& found) {
  if (!found || found.entry->encoding() != Encoding::kExtent) return;
  const ExtentRef ref = found.entry->extent();
  if (ref == kept_) return;
  freed_.push_back(ref);
}

Entry* KeyAccess::set(int database, const Key& key, Found found, const NewValue& value, int64_t expiry_ms) {
  write_effect(effects_, {.kind = EffectKind::kSet, .database = database, .key = key.bytes, .value = value, .expiry_ms = expiry_ms});
  drop_extent(found);
  Keyspace::Stripe& home = stripe(key);
  Shard& shard = keyspace_.shard(home, database);
  const uint64_t before = shard.memory_bytes();
  if (!found) make_way(database, key);
  Entry* entry = shard.store(found, key.hash, key.bytes, value, expiry_ms, keyspace_.new_clock());
  keyspace_.report_memory(home, static_cast<int64_t>(shard.memory_bytes() - before));
  changed(home, database, key);
  return entry;
}

void KeyAccess::erase(int database, const Key& key, Found found) {
  write_effect(effects_, {.kind = EffectKind::kDelete, .database = database, .key = key.bytes});
  drop_extent(found);
  Keyspace::Stripe& home = stripe(key);
  changed(home, database, key);  // before: the key may lie in the entry
  Shard& shard = keyspace_.shard(home, database);
  const uint64_t before = shard.memory_bytes();
  shard.erase(found, key.hash);
  keyspace_.report_memory(home, static_cast<int64_t>(shard.memory_bytes() - before));
}

Entry* KeyAccess::set_expiry(int database, const Key& key, Found found, int64_t expiry_ms) {
  write_effect(effects_, {.kind = EffectKind::kExpire, .database = database, .key = key.bytes, .expiry_ms = expiry_ms});
  Keyspace::Stripe& home = stripe(key);
  Shard& shard = keyspace_.shard(home, database);
  const uint64_t before = shard.memory_bytes();
  Entry* entry = shard.set_expiry(found, key.hash, expiry_ms);
  keyspace_.report_memory(home, static_cast<int64_t>(shard.memory_bytes() - before));
  changed(home, database, key);
  return entry;
}

uint64_t KeyAccess::append(int database, const Key& key, Found found, std::string_view tail) {
  const uint64_t before = string_size(*found.entry);
  return set_range(database, key, found, before, tail);
}

uint64_t KeyAccess::set_range(int database, const Key& key, Found found, uint64_t offset, std::string_view bytes) {
  const uint64_t size_before = string_size(*found.entry);
  const auto kind = offset == size_before ? EffectKind::kAppend : EffectKind::kSetRange;
  write_effect(effects_, {.kind = kind, .database = database, .key = key.bytes, .value = NewValue::of_raw(bytes), .offset = offset});
  Keyspace::Stripe& home = stripe(key);
  Shard& shard = keyspace_.shard(home, database);
  const uint64_t before = shard.memory_bytes();
  const Shard::Writable writable = shard.make_writable(found, key.hash, offset + bytes.size());
  copy_bytes(writable.bytes + offset, bytes);
  keyspace_.report_memory(home, static_cast<int64_t>(shard.memory_bytes() - before));
  changed(home, database, key);
  return string_size(*writable.entry);
}

}  // namespace pion
