// Checksums: XXH3-64 (seed 0 unless said) for everything we store.
#pragma once

#include <cstdint>
#include <string_view>

namespace pion {

// XXH3-64 of the bytes. Equal to the reference implementation's XXH3_64bits_withSeed.
uint64_t xxh3(std::string_view bytes, uint64_t seed = 0);

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
