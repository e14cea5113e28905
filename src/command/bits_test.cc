#include "command/bits.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace pion {
namespace {

std::string random_bytes(std::mt19937_64& random, size_t size) {
  std::string bytes(size, '\0');
  // Long runs of equal bytes, as bitmaps have them.
  for (size_t i = 0; i < size;) {
    const char byte = random() % 3 == 0 ? static_cast<char>(random()) : random() % 2 ? '\0' : '\xff';
    for (size_t run = random() % 40 + 1; run > 0 && i < size; --run) bytes[i++] = byte;
  }
  return bytes;
}

bool bit_at(std::string_view bytes, uint64_t at) {
  return at / 8 < bytes.size() && (static_cast<uint8_t>(bytes[at / 8]) >> (7 - at % 8) & 1);
}

TEST(Bits, CountAndFindAgreeWithALoopOverBits) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::string bytes = random_bytes(random, random() % 300 + 1);
    uint64_t first = random() % (bytes.size() * 8), last = random() % (bytes.size() * 8);
    if (first > last) std::swap(first, last);
    uint64_t ones = 0;
    std::optional<uint64_t> first_one, first_zero;
    for (uint64_t at = first; at <= last; ++at) {
      ones += bit_at(bytes, at);
      auto& seen = bit_at(bytes, at) ? first_one : first_zero;
      if (!seen) seen = at;
    }
    ASSERT_EQ(count_bits(bytes, first, last), ones) << first << " " << last;
    ASSERT_EQ(find_bit(bytes, true, first, last), first_one) << first << " " << last;
    ASSERT_EQ(find_bit(bytes, false, first, last), first_zero) << first << " " << last;
  }
}

TEST(Bits, CombiningTouchesOnlyTheShorterOnesBytes) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 500; ++round) {
    const std::string into = random_bytes(random, random() % 60 + 1), from = random_bytes(random, random() % (into.size() + 1));
    std::string both = into, either = into, one = into, without = into;
    and_into(both.data(), from);
    or_into(either.data(), from);
    xor_into(one.data(), from);
    and_not_into(without.data(), from);
    for (size_t i = 0; i < into.size(); ++i) {
      const bool covered = i < from.size();
      const char other = covered ? from[i] : '\0';
      ASSERT_EQ(both[i], covered ? static_cast<char>(into[i] & other) : into[i]);
      ASSERT_EQ(either[i], static_cast<char>(into[i] | other));
      ASSERT_EQ(one[i], static_cast<char>(into[i] ^ other));
      ASSERT_EQ(without[i], static_cast<char>(into[i] & ~other));
    }
  }
}

TEST(Bits, FieldsReadBackAndLeaveTheirNeighboursAlone) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 5000; ++round) {
    const std::string before = random_bytes(random, 40);
    BitField field{.is_signed = random() % 2 == 0};
    field.bits = static_cast<unsigned>(random() % (field.is_signed ? 64 : 63) + 1);
    field.offset = random() % (before.size() * 8 - field.bits + 1);
    const auto wanted = static_cast<int64_t>(random());
    const auto fits = fit_field(field, wanted, 0, Overflow::kWrap);
    ASSERT_TRUE(fits);
    std::string after = before;
    write_field(after.data() + field.first_byte(), field, *fits);
    ASSERT_EQ(read_field(after, field), *fits);
    for (uint64_t at = 0; at < before.size() * 8; ++at) {
      if (at >= field.offset && at < field.offset + field.bits) {
        const uint64_t shift = field.offset + field.bits - 1 - at;
        ASSERT_EQ(bit_at(after, at), static_cast<uint64_t>(wanted) >> shift & 1);
      } else {
        ASSERT_EQ(bit_at(after, at), bit_at(before, at)) << at;
      }
    }
  }
}

TEST(Bits, AFieldBehindTheEndReadsZeros) {
  EXPECT_EQ(read_field("\xff", {.bits = 16, .offset = 0}), 0xff00);
  EXPECT_EQ(read_field("\xff", {.is_signed = true, .bits = 4, .offset = 6}), -4);
  EXPECT_EQ(read_field("", {.is_signed = true, .bits = 64, .offset = 12345}), 0);
}

TEST(Bits, OverflowFollowsItsRule) {
  const BitField u8{.bits = 8}, i8{.is_signed = true, .bits = 8}, i64{.is_signed = true, .bits = 64};
  EXPECT_EQ(fit_field(u8, 250, 10, Overflow::kWrap), 4);
  EXPECT_EQ(fit_field(u8, 250, 10, Overflow::kSaturate), 255);
  EXPECT_EQ(fit_field(u8, 250, 10, Overflow::kFail), std::nullopt);
  EXPECT_EQ(fit_field(u8, 5, -10, Overflow::kSaturate), 0);
  EXPECT_EQ(fit_field(u8, 5, -10, Overflow::kWrap), 251);
  EXPECT_EQ(fit_field(u8, -1, 0, Overflow::kSaturate), 255) << "a negative SET is far above the range";
  EXPECT_EQ(fit_field(i8, 127, 1, Overflow::kWrap), -128);
  EXPECT_EQ(fit_field(i8, -128, -1, Overflow::kSaturate), -128);
  EXPECT_EQ(fit_field(i8, -128, -1, Overflow::kWrap), 127);
  EXPECT_EQ(fit_field(i64, INT64_MAX, 1, Overflow::kWrap), INT64_MIN);
  EXPECT_EQ(fit_field(i64, INT64_MAX, 1, Overflow::kSaturate), INT64_MAX);
  EXPECT_EQ(fit_field(i64, INT64_MIN, -1, Overflow::kFail), std::nullopt);
}

}  // namespace
}  // namespace pion
