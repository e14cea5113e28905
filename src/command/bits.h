// Bits of strings as Redis counts them: bit 0 is the highest of the first byte. Positions beyond a string's end read as zero
// where a function says so. Pure functions over bytes, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pion {

// Ones among the bits first..last (inclusive; both inside `bytes`).
uint64_t count_bits(std::string_view bytes, uint64_t first, uint64_t last);

// The first bit of this value among first..last (inclusive; both inside `bytes`).
std::optional<uint64_t> find_bit(std::string_view bytes, bool value, uint64_t first, uint64_t last);

// into[i] op= from[i] for every byte of `from`, which is not longer than `into`.
void and_into(char* into, std::string_view from);
void or_into(char* into, std::string_view from);
void xor_into(char* into, std::string_view from);
void and_not_into(char* into, std::string_view from);  // into &= ~from

// A field of BITFIELD: `bits` bits at bit `offset`, the highest first.
struct BitField {
  bool is_signed = false;
  unsigned bits = 1;     // 1 to 64, unsigned at most 63
  uint64_t offset = 0;

  uint64_t first_byte() const { return offset / 8; }
  uint64_t last_byte() const { return (offset + bits - 1) / 8; }
};
inline constexpr size_t kFieldBytes = 9;  // the most bytes a field touches

// The field's value; bits beyond the end are zero.
int64_t read_field(std::string_view bytes, const BitField& field);
// `window` holds the bytes first_byte() .. last_byte(); the field's bits are replaced.
void write_field(char* window, const BitField& field, int64_t value);

enum class Overflow : uint8_t { kWrap, kSaturate, kFail };
// value + increment brought into the field's range. Empty: it does not fit and the rule is kFail.
std::optional<int64_t> fit_field(const BitField& field, int64_t value, int64_t increment, Overflow rule);

}  // namespace pion
