// What the keyspace asks of every type but string. A type is one pair of files (hash_value.h, hash_value.cc) that fills one
// ValueOps, and one line in value_types.cc. "Adding a type" in docs/keyspace.md walks through it.
//
// A value is either packed bytes in its entry (small) or an Object (large); which of them, and when it changes, is the type's
// own matter. It is changed by deltas: runs of bytes that say what happened ("set these fields"). The command that changes a value
// and the replay of its record apply the same delta with the same function, so they cannot drift apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "keyspace/entry.h"
#include "keyspace/shard.h"

namespace pion {

// A key's value while a delta changes it.
class ValueEditor {
 public:
  ValueEditor(Shard& shard, Found found, KeyHash hash, std::string_view key, ValueType type, uint32_t clock)
      : shard_(shard), found_(found), hash_(hash), key_(key), type_(type), clock_(clock) {}

  // Null when there is no such key yet.
  Entry* entry() const { return found_.entry; }
  Found found() const { return found_; }
  std::string_view packed() const { return found_.entry->bytes(); }
  // The packed bytes, to be changed in place.
  char* writable() { return const_cast<char*>(packed().data()); }
  Object* object() const { return found_.entry && found_.entry->encoding() == Encoding::kObject ? found_.entry->object() : nullptr; }
  PagePool& pool() { return shard_.pool(); }

  // Replaces `removed` bytes at `at` of the packed bytes; `inserted` lies elsewhere.
  void splice(size_t at, size_t removed, std::string_view inserted) { shard_.splice(found_, hash_, at, removed, inserted); }
  // A new value in place of what is there. The packed bytes lie elsewhere.
  void store(std::string_view packed) { store({.kind = NewValue::Kind::kTyped, .type = type_, .bytes = packed}); }
  void store(std::unique_ptr<Object> object) { store({.kind = NewValue::Kind::kTyped, .type = type_, .object = object.release()}); }

 private:
  void store(const NewValue& value);

  Shard& shard_;
  Found found_;
  KeyHash hash_;
  std::string_view key_;
  ValueType type_;
  uint32_t clock_;
};

// A value that is not in an entry yet.
struct DecodedValue {
  std::string packed;
  std::unique_ptr<Object> object;  // null: packed
};

struct ValueOps {
  std::string_view name;  // as TYPE says it

  uint64_t (*length)(const Entry& entry);                       // elements; a key whose value has none is removed
  std::string_view (*encoding_name)(const Entry& entry);        // of OBJECT ENCODING
  void (*encode)(const Entry& entry, std::string& out);         // the whole value, for checkpoints and records
  bool (*check)(std::string_view encoded);                      // has `encode` written this? Any bytes may come
  DecodedValue (*decode)(std::string_view encoded, PagePool& pool);  // only after check()

  // Is it a delta, and does it fit what is there (null: no such key)? Any bytes may come.
  bool (*check_delta)(const Entry* entry, std::string_view delta);
  void (*apply)(ValueEditor& value, std::string_view delta);    // only after check_delta(), or as a command made it

  // Does the delta matter to who watches the key or waits for it? Null: each does.
  bool (*matters)(std::string_view delta) = nullptr;

  // Of types whose elements expire: the earliest time (INT64_MAX: none does), and a delta that removes at most `limit` of
  // those due at `now_ms` (false: none is). Null otherwise.
  int64_t (*next_due)(const Entry& entry) = nullptr;
  bool (*remove_due)(const Entry& entry, int64_t now_ms, uint64_t limit, std::string& delta) = nullptr;
};

// Null for strings and for what this server does not know.
const ValueOps* value_ops(ValueType type);

// Applies a delta and what follows from it: memory, the index of expiring elements, the removal of an empty key. What is
// there afterwards (empty: nothing).
Found apply_delta(Shard& shard, Found found, KeyHash hash, std::string_view key, ValueType type, std::string_view delta, uint32_t clock);

// Stores a whole value as `encode` wrote it.
Entry* store_encoded(Shard& shard, Found found, KeyHash hash, std::string_view key, const NewValue& value, int64_t expiry_ms, uint32_t clock);

// What an entry of any type holds, as a value for a record; `encoded` takes the bytes of one that is not a string.
NewValue whole_value(const Entry& entry, std::string& encoded);

// When the first element of the entry's value expires, INT64_MAX: never.
inline int64_t next_element_due(const Entry& entry);

// Bytes of memory a value takes beside its entry's block.
uint64_t value_memory_bytes(const Entry& entry);
// With the entry's block and its part of the table of keys.
uint64_t key_memory_bytes(const Entry& entry);

// The types.
extern const ValueOps kHashOps;
extern const ValueOps kListOps;
extern const ValueOps kSortedSetOps;
extern const ValueOps kStreamOps;
extern const ValueOps kSetOps;

inline int64_t next_element_due(const Entry& entry) { return entry.type() == ValueType::kHash ? kHashOps.next_due(entry) : INT64_MAX; }

}  // namespace pion
