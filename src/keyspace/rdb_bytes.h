// The lowest level of Redis' serialization: lengths, numbers and strings.
//
//   length   00nnnnnn | 01nnnnnn n | 0x80, u32 big-endian | 0x81, u64 big-endian
//   string   a length and the bytes | 0xc0, i8 | 0xc1, i16 | 0xc2, i32 (a number as text) | 0xc3, length compressed, length, LZF
//
// Fixed-width numbers are little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace pion {

// One that has nothing and has failed.
inline ByteReader failed_reader() {
  ByteReader reader{std::string_view()};
  reader.get<uint8_t>();
  return reader;
}

// Any bytes may come: what does not fit sets failed() and yields zeros and empty views from then on.
class RdbReader {
 public:
  explicit RdbReader(std::string_view in) : in_(in) {}

  template <typename T>
  T get() {
    return in_.get<T>();
  }
  std::string_view raw(uint64_t size) { return in_.raw(size); }
  uint64_t length();
  // A view of the input, or of `room` when it had to be made.
  std::string_view string(std::string& room);

  std::string_view rest() const { return in_.rest(); }
  bool failed() const { return in_.failed(); }
  void fail() { in_ = failed_reader(); }

 private:
  uint64_t length_behind(uint8_t head);
  std::string_view compressed(std::string& room);

  ByteReader in_;
};

// Appends to a string of the caller's.
class RdbWriter {
 public:
  explicit RdbWriter(std::string& out) : out_(out) {}

  template <typename T>
  RdbWriter& put(T value) {
    return ByteWriter(out_).put(value), *this;
  }
  RdbWriter& length(uint64_t value);
  // As a number or compressed when that takes fewer bytes.
  RdbWriter& string(std::string_view text);

 private:
  std::string& out_;
};

}  // namespace pion
