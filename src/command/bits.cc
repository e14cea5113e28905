#include "command/bits.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"

namespace pion {
namespace {

// Inlined into a function for each kind of processor.
[[gnu::always_inline]] inline uint64_t count_body(std::string_view bytes) {
  uint64_t sums[4] = {};  // four, so that they do not wait for each other
  size_t i = 0;
  for (; i + 32 <= bytes.size(); i += 32) {
    for (size_t lane = 0; lane < 4; ++lane) {
      sums[lane] += static_cast<uint64_t>(__builtin_popcountll(load_le<uint64_t>(bytes.data() + i + lane * 8)));
    }
  }
  for (; i < bytes.size(); ++i) sums[0] += static_cast<uint64_t>(__builtin_popcountll(static_cast<uint8_t>(bytes[i])));
  return sums[0] + sums[1] + sums[2] + sums[3];
}

uint64_t count_portable(std::string_view bytes) { return count_body(bytes); }

#if defined(__x86_64__)
// The baseline has no instruction for it; nearly every processor has.
__attribute__((target("popcnt"))) uint64_t count_popcnt(std::string_view bytes) { return count_body(bytes); }

uint64_t count_all(std::string_view bytes) {
  static const bool have_popcnt = __builtin_cpu_supports("popcnt");
  return have_popcnt ? count_popcnt(bytes) : count_portable(bytes);
}
#else
uint64_t count_all(std::string_view bytes) { return count_portable(bytes); }
#endif

// Which bits of byte `at` lie in first..last.
uint8_t mask_of(uint64_t at, uint64_t first, uint64_t last) {
  unsigned mask = 0xff;
  if (at == first / 8) mask &= 0xffu >> first % 8;
  if (at == last / 8) mask &= 0xff00u >> (last % 8 + 1);
  return static_cast<uint8_t>(mask);
}

std::optional<uint64_t> find_in_byte(uint8_t byte, bool value, uint8_t mask, uint64_t at) {
  const uint8_t candidates = static_cast<uint8_t>((value ? byte : ~byte) & mask);
  if (candidates == 0) return std::nullopt;
  return at * 8 + static_cast<unsigned>(std::countl_zero(candidates));
}

template <typename Op>
inline void combine(char* into, std::string_view from, Op op) {
  size_t i = 0;
  for (; i + 8 <= from.size(); i += 8) {
    store_le(into + i, op(load_le<uint64_t>(into + i), load_le<uint64_t>(from.data() + i)));
  }
  for (; i < from.size(); ++i) into[i] = static_cast<char>(op(static_cast<uint8_t>(into[i]), static_cast<uint8_t>(from[i])));
}

__extension__ typedef unsigned __int128 Wide;
__extension__ typedef __int128 Exact;

}  // namespace

uint64_t count_bits(std::string_view bytes, uint64_t first, uint64_t last) {
  const uint64_t head = first / 8, tail = last / 8;
  const auto masked = [&](uint64_t at) {
    return static_cast<uint64_t>(std::popcount(static_cast<uint8_t>(static_cast<uint8_t>(bytes[at]) & mask_of(at, first, last))));
  };
  if (head == tail) return masked(head);
  return masked(head) + count_all(bytes.substr(head + 1, tail - head - 1)) + masked(tail);
}

std::optional<uint64_t> find_bit(std::string_view bytes, bool value, uint64_t first, uint64_t last) {
  const uint64_t head = first / 8, tail = last / 8;
  if (const auto found = find_in_byte(static_cast<uint8_t>(bytes[head]), value, mask_of(head, first, last), head)) return found;
  const uint64_t skipped = value ? 0 : ~0ULL;
  uint64_t at = head + 1;
  while (at + 8 < tail && load_le<uint64_t>(bytes.data() + at) == skipped) at += 8;
  for (; at <= tail; ++at) {
    if (const auto found = find_in_byte(static_cast<uint8_t>(bytes[at]), value, mask_of(at, first, last), at)) return found;
  }
  return std::nullopt;
}

void and_into(char* into, std::string_view from) {
  combine(into, from, [](auto a, auto b) { return static_cast<decltype(a)>(a & b); });
}
void or_into(char* into, std::string_view from) {
  combine(into, from, [](auto a, auto b) { return static_cast<decltype(a)>(a | b); });
}
void xor_into(char* into, std::string_view from) {
  combine(into, from, [](auto a, auto b) { return static_cast<decltype(a)>(a ^ b); });
}
void and_not_into(char* into, std::string_view from) {
  combine(into, from, [](auto a, auto b) { return static_cast<decltype(a)>(a & ~b); });
}

int64_t read_field(std::string_view bytes, const BitField& field) {
  Wide window = 0;
  for (uint64_t at = field.first_byte(); at <= field.last_byte(); ++at) {
    window = window << 8 | (at < bytes.size() ? static_cast<uint8_t>(bytes[at]) : 0);
  }
  const unsigned below = static_cast<unsigned>(7 - (field.offset + field.bits - 1) % 8);
  auto value = static_cast<uint64_t>(window >> below);
  if (field.bits == 64) return static_cast<int64_t>(value);
  value &= (1ULL << field.bits) - 1;
  if (field.is_signed && value >> (field.bits - 1)) value |= ~0ULL << field.bits;
  return static_cast<int64_t>(value);
}

void write_field(char* window, const BitField& field, int64_t value) {
  const uint64_t count = field.last_byte() - field.first_byte() + 1;
  const unsigned below = static_cast<unsigned>(7 - (field.offset + field.bits - 1) % 8);
  const Wide mask = ((Wide{1} << field.bits) - 1) << below;
  Wide bits = 0;
  for (uint64_t i = 0; i < count; ++i) bits = bits << 8 | static_cast<uint8_t>(window[i]);
  bits = (bits & ~mask) | (Wide{static_cast<uint64_t>(value)} << below & mask);
  for (uint64_t i = count; i-- > 0; bits >>= 8) window[i] = static_cast<char>(static_cast<uint8_t>(bits));
}

std::optional<int64_t> fit_field(const BitField& field, int64_t value, int64_t increment, Overflow rule) {
  // SET hands a negative number to an unsigned field as one far above its range, as Redis does.
  const Exact start = field.is_signed ? Exact{value} : Exact{static_cast<uint64_t>(value)};
  const Exact sum = start + increment;
  const Exact highest = (Exact{1} << (field.bits - (field.is_signed ? 1 : 0))) - 1;
  const Exact lowest = field.is_signed ? -highest - 1 : 0;
  if (sum >= lowest && sum <= highest) return static_cast<int64_t>(sum);
  if (rule == Overflow::kFail) return std::nullopt;
  if (rule == Overflow::kSaturate) {
    // Redis subtracts in 64 bits: a SET so low that highest - value overflows counts as too high there.
    const bool wraps = field.is_signed && field.bits < 64 && highest - start > INT64_MAX;
    return static_cast<int64_t>(sum > highest || wraps ? highest : lowest);
  }
  const auto low_bits = static_cast<uint64_t>(static_cast<Wide>(sum));
  if (field.bits == 64) return static_cast<int64_t>(low_bits);
  const uint64_t kept = low_bits & ((1ULL << field.bits) - 1);
  const bool negative = field.is_signed && kept >> (field.bits - 1);
  return static_cast<int64_t>(negative ? kept | ~0ULL << field.bits : kept);
}

}  // namespace pion
