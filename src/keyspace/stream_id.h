// The id of an entry in a stream: milliseconds and a number within them, in order.
#pragma once

#include <charconv>
#include <compare>
#include <cstdint>
#include <string_view>

namespace pion {

struct StreamId {
  uint64_t ms = 0, seq = 0;

  auto operator<=>(const StreamId&) const = default;
  static constexpr StreamId last() { return {UINT64_MAX, UINT64_MAX}; }

  // False: there is none behind (before) it.
  bool increment() {
    if (*this == last()) return false;
    if (++seq == 0) ++ms;
    return true;
  }
  bool decrement() {
    if (*this == StreamId{}) return false;
    if (seq-- == 0) --ms;
    return true;
  }
  static constexpr size_t kTextBytes = 44;
  std::string_view text(char (&room)[kTextBytes]) const {
    char* end = std::to_chars(room, room + 20, ms).ptr;  // UINT64_MAX has 20 digits
    *end++ = '-';
    end = std::to_chars(end, room + kTextBytes, seq).ptr;
    return {room, static_cast<size_t>(end - room)};
  }
};

inline uint64_t zigzag(uint64_t difference) { return difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0); }
inline uint64_t unzigzag(uint64_t value) { return value >> 1 ^ (value & 1 ? UINT64_MAX : 0); }

}  // namespace pion
