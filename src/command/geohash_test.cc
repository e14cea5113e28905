#include "command/geohash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pion {
namespace {

constexpr GeoPoint kPalermo{13.361389, 38.115556}, kCatania{15.087269, 37.502669};

TEST(Geohash, ScoresAndLettersAsRedisGivesThem) {
  EXPECT_EQ(geo_score(kPalermo), 3479099956230698);
  EXPECT_EQ(geo_score(kCatania), 3479447370796909);
  EXPECT_EQ(geo_score({-180, -85.05112878}), 0);
  // The eastern and northern edge is a cell of its own, beyond the 52 bits.
  EXPECT_EQ(geo_score({180, 85.05112878}), 13510798882111488);
  EXPECT_EQ(geo_letters(geo_point(3479099956230698)), "sqc8b49rny0");
  EXPECT_EQ(geo_letters(geo_point(13510798882111488)), "bp05b5048p0");
  const GeoPoint point = geo_point(3479099956230698);
  EXPECT_DOUBLE_EQ(point.longitude, 13.361389338970184);
  EXPECT_DOUBLE_EQ(point.latitude, 38.1155563954963);
}

TEST(Geohash, AnyScoreIsAPlaceOnTheMap) {
  for (double score : {-1.0, -0.5, 5.5, 1e300, -1e300, 9e18, 1.5e19, static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
    EXPECT_TRUE(geo_point(score).valid()) << score;
  }
  EXPECT_DOUBLE_EQ(geo_point(1e300).longitude, geo_point(0).longitude);
  EXPECT_DOUBLE_EQ(geo_point(-1).longitude, 180);
}

TEST(Geohash, APointLiesInItsCell) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> longitudes(-180, 180), latitudes(-85.05, 85.05);
  for (int round = 0; round < 100'000; ++round) {
    const GeoPoint point{longitudes(random), latitudes(random)};
    const double score = geo_score(point);
    const GeoPoint middle = geo_point(score);
    ASSERT_LE(std::fabs(middle.longitude - point.longitude), 180 / 67108864.0);
    ASSERT_LE(std::fabs(middle.latitude - point.latitude), 85.06 / 67108864.0);
    ASSERT_EQ(geo_score(middle), score);
  }
}

TEST(Geohash, Distances) {
  EXPECT_NEAR(geo_distance(geo_point(geo_score(kPalermo)), geo_point(geo_score(kCatania))), 166274.1516, 0.0001);
  EXPECT_EQ(geo_distance(kPalermo, kPalermo), 0);
  EXPECT_NEAR(geo_distance({0, 0}, {180, 0}), 3.14159265358979 * 6372797.560856, 0.001);
  EXPECT_EQ(geo_distance({10, 20}, {11, 21}), geo_distance({11, 21}, {10, 20}));
}

bool covered(const std::vector<GeoCell>& cells, double score) {
  for (const GeoCell& cell : cells) {
    if (score >= static_cast<double>(cell.begin) && score < static_cast<double>(cell.end)) return true;
  }
  return false;
}

// What lies inside an area lies in one of its cells. (Not at the edges of the map, where Redis' cells leave places out, and ours
// are Redis'.)
TEST(Geohash, CellsCoverTheArea) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> longitudes(-150, 150), latitudes(-60, 60), magnitude(0, 5.8), around(-1, 1);
  int inside = 0;
  for (int round = 0; round < 3000; ++round) {
    GeoArea area{.center = {longitudes(random), latitudes(random)}, .box = round % 2 == 1};
    const double size = std::pow(10, magnitude(random));
    area.radius = area.width = size;
    area.height = size * (round % 3 == 0 ? 0.2 : 1.5);
    const std::vector<GeoCell> cells = geo_cells(area);
    ASSERT_LE(cells.size(), 9u);
    for (int i = 0; i < 50; ++i) {
      const double degrees = size / 100'000;
      const GeoPoint near{area.center.longitude + degrees * around(random), area.center.latitude + degrees * around(random)};
      if (!near.valid()) continue;
      const double score = geo_score(near);
      if (!area.distance_inside(geo_point(score))) continue;
      ++inside;
      ASSERT_TRUE(covered(cells, score)) << near.longitude << " " << near.latitude << " size " << size << " box " << area.box;
    }
  }
  EXPECT_GT(inside, 20'000);
}

TEST(Geohash, SmallAreasHaveSmallCells) {
  uint64_t scores = 0;
  for (const GeoCell& cell : geo_cells({.center = kPalermo, .radius = 100})) scores += cell.end - cell.begin;
  EXPECT_LT(scores, (uint64_t{1} << 52) / 1'000'000);
}

}  // namespace
}  // namespace pion
