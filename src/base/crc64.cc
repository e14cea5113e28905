// CRC-64 eight bytes at a time ("slicing by 8": M. Kounavis and F. Berry, "Novel table lookup-based algorithms for
// high-performance CRC generation", 2008).
#include <array>

#include "base/bytes.h"
#include "base/checksum.h"

namespace pion {
namespace {

constexpr uint64_t kReflected = 0x95ac9329ac4bc9b5ULL;  // the polynomial, bits in reverse

using Table = std::array<uint64_t, 256>;

// tables[n][b]: what byte b does to the sum when n more bytes follow it.
constexpr std::array<Table, 8> kTables = [] {
  std::array<Table, 8> tables{};
  for (uint64_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReflected : 0);
    tables[0][byte] = crc;
  }
  for (size_t n = 1; n < 8; ++n) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint64_t before = tables[n - 1][byte];
      tables[n][byte] = tables[0][before & 0xff] ^ before >> 8;
    }
  }
  return tables;
}();

}  // namespace

uint64_t crc64(std::string_view bytes, uint64_t crc) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t word = crc ^ load_le<uint64_t>(at);
    crc = 0;
    for (unsigned i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> 8 * i & 0xff];
  }
  for (; left > 0; ++at, --left) crc = kTables[0][(crc ^ static_cast<uint8_t>(*at)) & 0xff] ^ crc >> 8;
  return crc;
}

}  // namespace pion
