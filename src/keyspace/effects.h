// The journal records of the keyspace: a record is a list of effects, all of one command. Each effect is self-contained:
// applying it reads nothing but the key it writes. What a value of another type than string looks like inside is that type's
// matter: see check_typed(). Checkpoint sections are lists of kSet. Format: docs/keyspace.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "keyspace/entry.h"

namespace pion {

enum class EffectKind : uint8_t {
  kSet = 1,            // database, key, value, expiry
  kDelete = 2,         // database, key
  kExpire = 3,         // database, key, expiry (0: none any more)
  kAppend = 4,         // database, key, length before, bytes
  kSetRange = 5,       // database, key, offset, bytes
  kFlushDatabase = 6,  // database
  kFlushAll = 7,
  kSwapDatabases = 8,  // database, other database
  kDelta = 9,          // database, key, type, what happened to the value: value_types.h
};

struct Effect {
  EffectKind kind = EffectKind::kFlushAll;
  int database = 0;
  std::string_view key;
  NewValue value;           // kSet; its bytes alone for kAppend and kSetRange; type and encoded bytes for kDelta
  int64_t expiry_ms = 0;
  uint64_t offset = 0;      // kAppend: length before; kSetRange: first byte written
  int other_database = 0;
};

void write_effect(std::string& out, const Effect& effect);
// False when the bytes are no effect. Views point into the reader's bytes.
bool read_effect(ByteReader& in, Effect& effect);
// Of what read_effect() read: is a typed value or delta one that its type could have written?
bool check_typed(const Effect& effect);

}  // namespace pion
