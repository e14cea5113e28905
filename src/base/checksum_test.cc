#include "base/checksum.h"

#include <gtest/gtest.h>

#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pion {
namespace {

// Whatever this processor chose must be the reference's value, at every length around the limits of its loops.
TEST(Checksum, EqualsTheReferenceAtEveryLength) {
  std::string bytes(20'000, '\0');
  uint64_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>(state = mix64(state + 1));
  for (size_t size = 0; size <= bytes.size(); size += size < 2100 ? 1 : 61) {
    const std::string_view view = std::string_view(bytes).substr(size % 7, size > 7 ? size - 7 : size);
    ASSERT_EQ(xxh3(view), XXH3_64bits(view.data(), view.size())) << view.size();
    ASSERT_EQ(xxh3(view, 42), XXH3_64bits_withSeed(view.data(), view.size(), 42)) << view.size();
  }
  EXPECT_EQ(xxh3(""), 0x2d06800538d394c2ULL);  // published test vector
}

TEST(Checksum, Crc64IsThatOfRedis) {
  EXPECT_EQ(crc64("123456789"), 0xe9c6d914c4b8d9caULL);  // published test vector
  EXPECT_EQ(crc64(""), 0u);
  // By the definition, a bit at a time, at every length and from every sum so far.
  std::string bytes(300, '\0');
  uint64_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>(state = mix64(state + 1));
  uint64_t expected = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_EQ(crc64(std::string_view(bytes).substr(0, size)), expected) << size;
    const size_t half = size / 2;
    ASSERT_EQ(crc64(std::string_view(bytes).substr(half, size - half), crc64(std::string_view(bytes).substr(0, half))), expected) << size;
    expected ^= static_cast<uint8_t>(bytes[size]);
    for (int bit = 0; bit < 8; bit++) expected = expected >> 1 ^ (expected & 1 ? 0x95ac9329ac4bc9b5ULL : 0);
  }
}

TEST(Checksum, MixingChangesEveryBitAboutHalfTheTime) {
  for (int bit = 0; bit < 64; bit++) {
    int flipped = 0;
    for (uint64_t value = 1; value <= 256; value++) flipped += __builtin_popcountll(mix64(value) ^ mix64(value ^ (1ULL << bit)));
    EXPECT_NEAR(flipped / 256.0, 32, 4) << bit;
  }
}

}  // namespace
}  // namespace pion
