#include "command/sort_pattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

namespace pion {
namespace {

using namespace std::string_view_literals;

std::string key_of(std::string_view pattern, std::string_view element) {
  std::string key;
  SortPattern(pattern).key_of(element, key);
  return key;
}

TEST(SortPattern, NamesKeysAndFields) {
  EXPECT_EQ(key_of("weight_*", "7"), "weight_7");
  EXPECT_EQ(key_of("*:x*", "7"), "7:x*");
  EXPECT_EQ(key_of("a*b->f", "7"), "a7b");
  EXPECT_EQ(SortPattern("a*b->f").field(), "f");
  EXPECT_EQ(SortPattern("a*->f->g").field(), "f->g");
  // An arrow before the star, or with nothing behind it, belongs to the key.
  EXPECT_EQ(key_of("a->b*", "7"), "a->b7");
  EXPECT_EQ(key_of("a*->", "7"), "a7->");
  EXPECT_EQ(SortPattern("a*->").field(), "");
}

TEST(SortPattern, ReadsSignsUpToAZeroByte) {
  EXPECT_FALSE(SortPattern("a\0*"sv).names_keys());
  EXPECT_EQ(key_of("a*\0->f"sv, "7"), "a7\0->f"sv);
  EXPECT_EQ(SortPattern("a*->f\0g"sv).field(), "f\0g"sv);
}

TEST(SortPattern, TheElementItself) {
  EXPECT_TRUE(SortPattern("#").element());
  EXPECT_FALSE(SortPattern("#").names_keys());
  EXPECT_FALSE(SortPattern("#*").element());
  EXPECT_FALSE(SortPattern("nosort").names_keys());
}

TEST(SortWeight, IsWhatRedisTakesForANumber) {
  for (const auto& [text, value] : std::initializer_list<std::pair<std::string_view, double>>{
           {"5", 5}, {"+5", 5}, {"-.5", -.5}, {"5.", 5}, {"1e5", 1e5}, {"1E+5", 1e5}, {"007", 7}, {"", 0}, {"5\0abc"sv, 5}, {"\0abc"sv, 0},
           {"inf", INFINITY}, {"-INF", -INFINITY}, {"infinity", INFINITY}, {"1e400", INFINITY}, {"-1e400", -INFINITY}, {"1e-400", 0}}) {
    ASSERT_TRUE(sort_weight(text).has_value()) << text;
    EXPECT_EQ(*sort_weight(text), value) << text;
  }
  for (std::string_view text : {"x", "0x10", " 7", "7 ", "1e", "1e+", "nan", "-nan", "nan(1)", ".", "-", "+", "++5", "+-5", "1_0", "5f", "\t5", "infx"}) {
    EXPECT_FALSE(sort_weight(text).has_value()) << text;
  }
}

Arguments arguments_of(std::initializer_list<std::string_view> words) {
  Arguments arguments;
  for (std::string_view word : words) arguments.push_back({word, nullptr, word.size()});
  return arguments;
}

TEST(SortArguments, WhereItStoresAndWhatItReads) {
  EXPECT_EQ(sort_store_position(arguments_of({"sort", "k", "store", "a", "STORE", "b"})), 5u);
  EXPECT_EQ(sort_store_position(arguments_of({"sort", "k", "BY", "store", "x"})), 0u);
  EXPECT_EQ(sort_store_position(arguments_of({"sort", "k", "LIMIT", "store", "x", "STORE", "y"})), 6u);
  EXPECT_EQ(sort_store_position(arguments_of({"sort", "k", "STORE"})), 0u);
  EXPECT_FALSE(sort_reads_other_keys(arguments_of({"sort", "k*", "BY", "nosort", "GET", "#"})));
  EXPECT_TRUE(sort_reads_other_keys(arguments_of({"sort", "k", "GET", "w_*"})));
}

}  // namespace
}  // namespace pion
