// Content::decode: bytes of an extent that say something impossible are refused, not walked.
#include "prompt/chain.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace pion {
namespace {

constexpr uint64_t kSegment = 7;
constexpr uint32_t kPool = 1, kFrom = 2;

Chain five_tokens(std::vector<MediaItem> media) { return {{10, 11, 0, 0, 14}, std::move(media)}; }

bool decodes(const Chain& chain) {
  const std::string aux = encode_content(kSegment, kPool, chain, kFrom, chain.size());
  return Content::decode(aux, kSegment, kPool, kFrom, chain.size() - kFrom).has_value();
}

TEST(ContentTest, MediaInsideTheTokensDecodes) {
  EXPECT_TRUE(decodes(five_tokens({{2, 2, "d"}})));
  EXPECT_TRUE(decodes(five_tokens({{2, 1, "d"}, {3, 2, "e"}})));
}

TEST(ContentTest, ImpossibleMediaIsRefused) {
  EXPECT_FALSE(decodes(five_tokens({{3, 0, "d"}}))) << "an item without length";
  EXPECT_FALSE(decodes(five_tokens({{3, 1, "d"}, {2, 1, "e"}}))) << "out of order";
  EXPECT_FALSE(decodes(five_tokens({{2, 2, "d"}, {3, 1, "e"}}))) << "overlapping";
  EXPECT_FALSE(decodes(five_tokens({{4, 2, "d"}}))) << "beyond the tokens";
}

TEST(ContentTest, PositionsBeyondTheLimitAreRefused) {
  std::string aux = encode_content(kSegment, kPool, five_tokens({}), kFrom, 5);
  const uint32_t last = UINT32_MAX;
  aux.replace(12, 4, reinterpret_cast<const char*>(&last), 4);
  EXPECT_FALSE(Content::decode(aux, kSegment, kPool, last, 3));
}

}  // namespace
}  // namespace pion
