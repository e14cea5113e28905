// Little-endian encoding of records. Strings are bytes: views never imply text or a terminating zero.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace pion {

static_assert(std::endian::native == std::endian::little, "files and the wire are little-endian; so is every machine we build for");

template <typename T>
T load_le(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store_le(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// An empty view may have no address, which memcpy must not be given.
inline void copy_bytes(char* to, std::string_view from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

// Appends to a string that the caller owns.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  template <typename T>
  ByteWriter& put(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }

  // LEB128: 7 bits a byte, low bits first.
  ByteWriter& varint(uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    out_.push_back(static_cast<char>(value));
    return *this;
  }

  // A varint length, then the bytes.
  ByteWriter& bytes(std::string_view value) {
    varint(value.size());
    out_.append(value);
    return *this;
  }

  ByteWriter& raw(std::string_view value) {
    out_.append(value);
    return *this;
  }

 private:
  std::string& out_;
};

// Reads what ByteWriter wrote. Input may be anything: a read past the end, or a varint that does not fit, sets failed()
// and yields zeros and empty views from then on; check once at the end.
class ByteReader {
 public:
  explicit ByteReader(std::string_view in) : in_(in) {}

  template <typename T>
  T get() {
    if (in_.size() < sizeof(T)) return stop(), T{};
    T value = load_le<T>(in_.data());
    in_.remove_prefix(sizeof(T));
    return value;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !in_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(in_.front());
      in_.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return stop(), 0;
  }

  std::string_view bytes() { return raw(varint()); }

  std::string_view raw(uint64_t size) {
    if (size > in_.size()) return stop(), std::string_view{};
    std::string_view value = in_.substr(0, size);
    in_.remove_prefix(size);
    return value;
  }

  std::string_view rest() const { return in_; }
  bool empty() const { return in_.empty(); }
  bool failed() const { return failed_; }
  // True when everything was read and nothing was missing.
  bool complete() const { return !failed_ && in_.empty(); }

 private:
  void stop() {
    failed_ = true;
    in_ = {};
  }

  std::string_view in_;
  bool failed_ = false;
};

}  // namespace pion
