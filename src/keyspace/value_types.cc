#include "keyspace/value_types.h"

namespace pion {

const ValueOps* value_ops(ValueType type) {
  switch (type) {
    case ValueType::kHash: return &kHashOps;
    case ValueType::kList: return &kListOps;
    case ValueType::kSet: return &kSetOps;
    case ValueType::kSortedSet: return &kSortedSetOps;
    case ValueType::kStream: return &kStreamOps;
    case ValueType::kNone:
    case ValueType::kString: break;
  }
  return nullptr;
}

void ValueEditor::store(const NewValue& value) {
  const int64_t expiry_ms = found_ && found_.entry->has_expiry() ? found_.entry->expiry() : 0;
  shard_.store(found_, hash_, key_, value, expiry_ms, clock_);
  found_ = shard_.find(hash_, key_);
}

Found apply_delta(Shard& shard, Found found, KeyHash hash, std::string_view key, ValueType type, std::string_view delta, uint32_t clock) {
  const ValueOps& ops = *value_ops(type);
  const int64_t due_before = ops.next_due && found ? ops.next_due(*found.entry) : INT64_MAX;
  ValueEditor editor(shard, found, hash, key, type, clock);
  ops.apply(editor, delta);
  found = editor.found();
  if (!found) return found;
  shard.count_object(*found.entry);
  if (ops.length(*found.entry) == 0) {
    shard.erase(found, hash);
    return {};
  }
  if (ops.next_due) {
    const int64_t due = ops.next_due(*found.entry);
    if (due < due_before) shard.note_element_expiry(due, hash);
  }
  return found;
}

Entry* store_encoded(Shard& shard, Found found, KeyHash hash, std::string_view key, const NewValue& value, int64_t expiry_ms, uint32_t clock) {
  const ValueOps& ops = *value_ops(value.type);
  DecodedValue decoded = ops.decode(value.encoded, shard.pool());
  NewValue ready = value;
  ready.bytes = decoded.packed;
  ready.object = decoded.object.release();
  Entry* entry = shard.store(found, hash, key, ready, expiry_ms, clock);
  if (const int64_t due = next_element_due(*entry); due != INT64_MAX) shard.note_element_expiry(due, hash);
  return entry;
}

NewValue whole_value(const Entry& entry, std::string& encoded) {
  if (entry.type() == ValueType::kString) return NewValue::of_entry(entry);
  encoded.clear();
  value_ops(entry.type())->encode(entry, encoded);
  return {.kind = NewValue::Kind::kTyped, .type = entry.type(), .encoded = encoded};
}

uint64_t value_memory_bytes(const Entry& entry) {
  if (entry.encoding() == Encoding::kHeap) return entry.heap()->memory_bytes();
  if (entry.encoding() == Encoding::kObject) return entry.object()->memory_bytes();
  return 0;
}

uint64_t key_memory_bytes(const Entry& entry) {
  constexpr uint64_t kTableBytes = 12;  // 8 a slot, six of eight taken, and chains
  return Slab::rounded(entry.block_bytes()) + kTableBytes + value_memory_bytes(entry);
}

}  // namespace pion
