// LEB128 in blocks of memory that were written here: nothing is checked.
#pragma once

#include <cstdint>

namespace pion {

inline unsigned varint_size(uint64_t value) {
  unsigned size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

inline char* write_varint(char* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<char>(value | 0x80);
  *to++ = static_cast<char>(value);
  return to;
}

inline uint64_t read_varint(const char*& from) {
  auto byte = static_cast<uint8_t>(*from++);
  if (byte < 0x80) return byte;
  uint64_t value = byte & 0x7f;
  for (unsigned shift = 7;; shift += 7) {
    byte = static_cast<uint8_t>(*from++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

}  // namespace pion
