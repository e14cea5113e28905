#include "command/glob.h"

#include <gtest/gtest.h>

namespace pion {
namespace {

TEST(Glob, AsRedis) {
  EXPECT_TRUE(glob_match("a*c", "abbbc"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("h?llo", "hello"));
  EXPECT_TRUE(glob_match("h[a-e]llo", "hello"));
  EXPECT_FALSE(glob_match("h[^e]llo", "hello"));
  EXPECT_TRUE(glob_match("h\\*llo", "h*llo"));
  EXPECT_FALSE(glob_match("h\\*llo", "hello"));
  EXPECT_TRUE(glob_match("[z-a]x", "mx"));
  EXPECT_TRUE(glob_match("A*", "abc", true));
  EXPECT_FALSE(glob_match("A*", "abc", false));
}

TEST(Glob, ManyStarsEndSoon) { EXPECT_FALSE(glob_match("a*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a'))); }

}  // namespace
}  // namespace pion
