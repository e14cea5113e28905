// A sequence of short strings in one run of bytes: what small hashes, sets, sorted sets and lists lie in.
//
// An item is head | data | back. The head says what it is (below), the back is the length of head and data, written so that it
// is read from its last byte: the walk goes both ways. Strings that are canonical integers are kept as integers.
//
//   00..7f          the integer 0..127
//   80..bf          a string of 0..63 bytes
//   c0..df, u8      a string of up to 8191 bytes (5 bits, then 8)
//   e0, u32         a longer string
//   e1..e8          an integer in 1, 2, 3, 4, 6 or 8 bytes (the low digit), little-endian
//   f0..ff, u8      an integer 128..4223 (4 bits, then 8)
//
// These bytes are made here only, never read from a file or a client, so reading them checks nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pion {

// A string, or an integer that stands for its decimal text.
struct ShortText {
  std::string_view bytes;
  int64_t number = 0;
  bool integer = false;

  ShortText() = default;
  // As an element is stored: an integer when it is one in canonical form. Borrows.
  explicit ShortText(std::string_view text);
  static ShortText raw(std::string_view text) {
    ShortText made;
    made.bytes = text;
    return made;
  }
  static ShortText of(int64_t value) {
    ShortText made;
    made.number = value;
    made.integer = true;
    return made;
  }

  std::string_view view(char (&room)[20]) const;
  std::string string() const;
  bool operator==(const ShortText& other) const {
    return integer == other.integer && (integer ? number == other.number : bytes == other.bytes);
  }
};

struct PackedItem {
  const char* at = nullptr;
  uint32_t size = 0;  // of the whole item
  ShortText text;
  const char* end() const { return at + size; }
};

// The item that begins here.
PackedItem packed_item(const char* at);
// Where the item behind the one that begins here begins.
const char* packed_next(const char* at);
// Where the item that ends here begins.
const char* packed_before(const char* end);

// Appends one item.
void pack(std::string& out, const ShortText& text);
inline void pack(std::string& out, std::string_view text) { pack(out, ShortText(text)); }
// About what pack() appends, at most.
inline size_t packed_bytes(std::string_view text) { return text.size() + 10; }

}  // namespace pion
