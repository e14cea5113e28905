#include "command/parse.h"

#include <gtest/gtest.h>

namespace pion {
namespace {

std::string round_trip(std::string_view text) {
  const auto value = long_double_argument(text);
  return value ? format_long_double(*value) : "(none)";
}

TEST(Parse, LongDoublesAsRedisPrintsThem) {
  EXPECT_EQ(round_trip("828582.7"), "828582.69999999999998863");
  EXPECT_EQ(round_trip("3.0e3"), "3000");
  EXPECT_EQ(round_trip("-0.0"), "0");
  EXPECT_EQ(round_trip("4.9e-324"), "0");
  EXPECT_EQ(round_trip("0x1p3"), "8");
  EXPECT_EQ(round_trip("1e400").size(), 401u);
}

TEST(Parse, RefusesWhatIsNoLongDouble) {
  for (const char* text : {"", " 1", "1 ", "1e", "abc", "nan", "1e5000", "1_0", "--1"}) EXPECT_EQ(round_trip(text), "(none)") << text;
  EXPECT_FALSE(long_double_argument(std::string_view("1\0", 2)));
  EXPECT_FALSE(long_double_argument(std::string(6000, '1')));
}

}  // namespace
}  // namespace pion
