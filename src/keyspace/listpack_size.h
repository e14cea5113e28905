// Sizes in Redis' listpack: its serialization has them, and they decide when its encodings change.
#pragma once

#include <cstdint>

namespace pion {

// Bytes that an element's size takes behind it. (The limits are Redis' own: not all of them are powers of two less one.)
inline unsigned listpack_back_bytes(uint64_t size) {
  return size < 128 ? 1 : size < 16383 ? 2 : size < 2097151 ? 3 : size < 268435455 ? 4 : 5;
}

}  // namespace pion
