#include "prompt/sha256.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace pion {
namespace {

// The round constants are defined as the first 32 bits of the fractional parts of the cube roots of the first 64 primes, the
// initial state as those of the square roots of the first 8; they are computed exactly in integers rather than listed.
struct Constants {
  std::array<uint32_t, 64> round{};
  std::array<uint32_t, 8> initial{};
};

// floor(root(prime) * 2^32) mod 2^32 by bisection: the largest x with x^power <= prime * 2^(32 * power).
uint32_t root_fraction(uint32_t prime, int power) {
  __extension__ using Wide = unsigned __int128;
  uint64_t low = 0, high = 1ULL << 37;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    // x^2 fits 74 bits; x^3 fits 111 bits; the right side fits 9 + 96 bits.
    Wide value = static_cast<Wide>(middle) * middle;
    if (power == 3) value *= middle;
    const Wide limit = static_cast<Wide>(prime) << (32 * power);
    (value <= limit ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

const Constants& constants() {
  static const Constants made = [] {
    Constants c;
    unsigned found = 0;
    for (uint32_t n = 2; found < 64; ++n) {
      bool prime = true;
      for (uint32_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
      if (!prime) continue;
      c.round[found] = root_fraction(n, 3);
      if (found < 8) c.initial[found] = root_fraction(n, 2);
      ++found;
    }
    return c;
  }();
  return made;
}

void compress(std::array<uint32_t, 8>& state, const unsigned char* block) {
  const auto& k = constants().round;
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    uint32_t word;
    std::memcpy(&word, block + 4 * i, 4);
    w[i] = __builtin_bswap32(word);
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + k[static_cast<size_t>(i)] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t add[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += add[i];
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  std::array<uint32_t, 8> state = constants().initial;
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  for (; left >= 64; at += 64, left -= 64) compress(state, at);
  unsigned char last[128] = {};
  if (left > 0) std::memcpy(last, at, left);
  last[left] = 0x80;
  const size_t size = left < 56 ? 64 : 128;
  const uint64_t bits = __builtin_bswap64(static_cast<uint64_t>(bytes.size()) * 8);
  std::memcpy(last + size - 8, &bits, 8);
  compress(state, last);
  if (size == 128) compress(state, last + 64);
  std::string hex;
  for (uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) hex.push_back("0123456789abcdef"[word >> shift & 15]);
  }
  return hex;
}

}  // namespace pion
