// Places on the earth as Redis keeps them: longitude and latitude, each cut into 2^26 steps, bits interleaved into the 52-bit score
// of a sorted set's member. Places that are near each other mostly have scores that are near; an area is a few ranges of scores.
//
// Everything that decides on digits is as in Redis: the bounds (Web Mercator's latitudes), the earth's radius, the order of
// operations, and which cells a search looks at, in which order. Angles are in degrees.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pion {

inline constexpr double kMostLongitude = 180, kMostLatitude = 85.05112878;

struct GeoPoint {
  double longitude = 0, latitude = 0;
  bool valid() const {
    return longitude >= -kMostLongitude && longitude <= kMostLongitude && latitude >= -kMostLatitude && latitude <= kMostLatitude;
  }
};

// The score of a valid point.
double geo_score(const GeoPoint& point);
// The middle of the cell that a score names. Any score is taken, for ZADD gives any.
GeoPoint geo_point(double score);
// The 11 letters of a standard geohash, which divides latitudes from -90 to 90.
std::string geo_letters(const GeoPoint& point);
// Haversine, in metres.
double geo_distance(const GeoPoint& a, const GeoPoint& b);

// What a search looks for: a circle, or a box that is upright on the map.
struct GeoArea {
  GeoPoint center;
  bool box = false;
  double radius = 0, width = 0, height = 0;  // in units
  double metres = 1;                         // of a unit

  // The distance from the center in metres, of what lies inside.
  std::optional<double> distance_inside(const GeoPoint& point) const;
};

struct GeoCell {
  uint64_t begin = 0, end = 0;  // scores, without the end
};
// The ranges of scores that hold what lies in the area, and more than that: at most nine.
std::vector<GeoCell> geo_cells(const GeoArea& area);

}  // namespace pion
