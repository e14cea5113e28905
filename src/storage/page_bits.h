// A bit a page: which pages of a payload file are in use.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace pion {

using PageBits = std::vector<uint64_t>;

// Bits of word `word` that lie in [from, end).
inline uint64_t page_mask(uint64_t word, uint64_t from, uint64_t end) {
  const uint64_t low = from > word * 64 ? from - word * 64 : 0;
  const uint64_t high = std::min<uint64_t>(end - word * 64, 64);
  return (high == 64 ? ~0ULL : (1ULL << high) - 1) & ~((1ULL << low) - 1);
}

// Sets bits [from, from + count). False, and nothing set, when one was set already.
inline bool set_pages(PageBits& bits, uint64_t from, uint64_t count) {
  const uint64_t end = from + count;
  if (bits.size() * 64 < end) bits.resize((end + 63) / 64);
  for (uint64_t word = from / 64; word * 64 < end; word++) {
    if (bits[word] & page_mask(word, from, end)) return false;
  }
  for (uint64_t word = from / 64; word * 64 < end; word++) bits[word] |= page_mask(word, from, end);
  return true;
}

inline void clear_pages(PageBits& bits, uint64_t from, uint64_t count) {
  const uint64_t end = std::min<uint64_t>(from + count, bits.size() * 64);
  for (uint64_t word = from / 64; word * 64 < end; word++) bits[word] &= ~page_mask(word, from, end);
}

// First page at or after `from` whose bit is `value`; `end` when there is none before it.
inline uint64_t next_page(const PageBits& bits, uint64_t from, uint64_t end, bool value) {
  for (uint64_t page = from; page < end; page = (page / 64 + 1) * 64) {
    uint64_t word = page / 64 < bits.size() ? bits[page / 64] : 0;
    if (!value) word = ~word;
    word >>= page % 64;
    if (word != 0) return std::min<uint64_t>(end, page + static_cast<uint64_t>(std::countr_zero(word)));
  }
  return end;
}

}  // namespace pion
