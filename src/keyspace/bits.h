// Bit tricks of the hash tables.
#pragma once

#include <cstdint>

namespace pion {

inline uint64_t reverse32(uint64_t value) {
  auto v = static_cast<uint32_t>(value);
  v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
  v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
  v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(v);
}

}  // namespace pion
