// Values in Redis' own serialization, as DUMP gives them away and RESTORE takes them: what Redis 8.2.3 and every version
// before it wrote is read, and what is written is read by Redis 8.2.3. Format: docs/formats.md, "Values as Redis writes them".
//
//   u8 type | body by type | u16 version of the format | u64 CRC-64 of all before it
//
// On our side a value of another type than string is what ValueOps::encode writes and ValueOps::decode reads; these functions
// only translate, touch no key and need no lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "keyspace/entry.h"

namespace pion {

inline constexpr uint16_t kRdbVersion = 12;  // what Redis 8.2 writes

struct RdbValue {
  ValueType type = ValueType::kNone;
  std::string bytes;  // a string's bytes, or the value as ValueOps::encode writes it
};

// Type and body out of a payload; empty when its version is above ours or its checksum does not hold.
std::optional<std::string_view> rdb_open(std::string_view payload);
// Any bytes may come, and the same as in Redis may follow the value. Empty: they are no value, or one without elements, or one
// that no journal record could hold. Memory: a small multiple of the bytes, or of what they decompress to.
std::optional<RdbValue> rdb_read(std::string_view bytes);

// Appends type and body.
void rdb_write_string(std::string_view text, std::string& out);
void rdb_write_value(ValueType type, std::string_view encoded, std::string& out);
// Appends version and checksum to what the functions above made, which begins at the string's beginning.
void rdb_seal(std::string& out);

}  // namespace pion
