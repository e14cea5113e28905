// Checksums: XXH3-64 (seed 0 unless said) for everything we store, CRC-64 for what we exchange with Redis.
#pragma once

#include <cstdint>
#include <string_view>

namespace pion {

// XXH3-64 of the bytes. Equal to the reference implementation's XXH3_64bits_withSeed.
uint64_t xxh3(std::string_view bytes, uint64_t seed = 0);

// CRC-64 with the polynomial of D. Jones, "An improved 64-bit cyclic redundancy check for protein sequences" (2006): 0xad93d23594c935a9,
// bits reflected, initial value 0, nothing xored at the end; of "123456789" it is 0xe9c6d914c4b8d9ca. `crc`: of the bytes before.
uint64_t crc64(std::string_view bytes, uint64_t crc = 0);

// A 64-bit finaliser (the last step of MurmurHash3): every input bit changes about half the output bits.
inline uint64_t mix64(uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  value ^= value >> 33;
  return value;
}

}  // namespace pion
