// Packed sequences against a vector of strings: both directions, every size class and integer width.
#include "keyspace/packed.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace pion {
namespace {

std::vector<std::string> samples() {
  std::vector<std::string> texts = {"", "0", "-0", "00", "127", "128", "-1", "-128", "-129", "9223372036854775807",
                                    "-9223372036854775808", "9223372036854775808", "1.5", "abc", std::string(1, '\0')};
  for (size_t size : {62, 63, 64, 65, 126, 127, 128, 8190, 8191, 8192, 16383, 16384, 70000}) texts.push_back(std::string(size, 'x'));
  for (unsigned bits = 1; bits < 63; ++bits) {
    for (int64_t value : {(1LL << bits) - 1, 1LL << bits, -(1LL << bits), -(1LL << bits) - 1}) texts.push_back(std::to_string(value));
  }
  return texts;
}

TEST(Packed, BothDirectionsGiveWhatWasPacked) {
  std::mt19937_64 random(1);
  const std::vector<std::string> texts = samples();
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> expected;
    std::string packed;
    for (int i = 0; i < 200; ++i) {
      expected.push_back(texts[random() % texts.size()]);
      pack(packed, expected.back());
    }
    const char* at = packed.data();
    std::vector<const char*> places;
    for (const std::string& text : expected) {
      const PackedItem item = packed_item(at);
      ASSERT_EQ(item.text.string(), text);
      ASSERT_EQ(item.text.integer, ShortText(text).integer);
      ASSERT_EQ(packed_next(at), item.end());
      places.push_back(at);
      at = item.end();
    }
    ASSERT_EQ(at, packed.data() + packed.size());
    while (!places.empty()) {
      at = packed_before(at);
      ASSERT_EQ(at, places.back());
      places.pop_back();
    }
  }
}

TEST(Packed, EqualStringsArePackedEqually) {
  for (const std::string& text : samples()) {
    std::string once, again;
    pack(once, text);
    pack(again, packed_item(once.data()).text);
    EXPECT_EQ(once, again);
    EXPECT_LE(once.size(), packed_bytes(text));
  }
}

TEST(Packed, SmallOnesTakeLittle) {
  std::string packed;
  pack(packed, "7");
  EXPECT_EQ(packed.size(), 2u);
  packed.clear();
  pack(packed, "abc");
  EXPECT_EQ(packed.size(), 5u);
  packed.clear();
  pack(packed, "1700000000000");
  EXPECT_EQ(packed.size(), 8u);
}

}  // namespace
}  // namespace pion
