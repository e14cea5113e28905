#include "command/geohash.h"

#include <cmath>
#include <numbers>

namespace pion {
namespace {

constexpr unsigned kMostSteps = 26;
constexpr double kEarthRadius = 6372797.560856;  // metres
constexpr double kMercatorMost = 20037726.37;    // half of the equator on the map, metres
constexpr double kDegree = std::numbers::pi / 180;

double radians(double degrees) { return degrees * kDegree; }
double degrees(double radians) { return radians / kDegree; }

// Bit i moves to bit 2 i.
uint64_t spread(uint32_t value) {
  uint64_t bits = value;
  bits = (bits | bits << 16) & 0x0000FFFF0000FFFFu;
  bits = (bits | bits << 8) & 0x00FF00FF00FF00FFu;
  bits = (bits | bits << 4) & 0x0F0F0F0F0F0F0F0Fu;
  bits = (bits | bits << 2) & 0x3333333333333333u;
  return (bits | bits << 1) & 0x5555555555555555u;
}

uint32_t gather(uint64_t bits) {
  bits &= 0x5555555555555555u;
  bits = (bits | bits >> 1) & 0x3333333333333333u;
  bits = (bits | bits >> 2) & 0x0F0F0F0F0F0F0F0Fu;
  bits = (bits | bits >> 4) & 0x00FF00FF00FF00FFu;
  bits = (bits | bits >> 8) & 0x0000FFFF0000FFFFu;
  return static_cast<uint32_t>(bits | bits >> 16);
}

// A cell of a grid with 2^steps columns and rows. The eastern and northern edges of the map are a column and a row of their own
// (2^steps), as in Redis.
struct Cell {
  uint32_t column = 0, row = 0;
  uint64_t bits() const { return spread(column) << 1 | spread(row); }
  bool operator==(const Cell&) const = default;
};

uint32_t step_of(double value, double most, unsigned steps) {
  return static_cast<uint32_t>((value + most) / (2 * most) * static_cast<double>(uint64_t{1} << steps));
}

Cell cell_of(const GeoPoint& point, unsigned steps, double most_latitude = kMostLatitude) {
  return {step_of(point.longitude, kMostLongitude, steps), step_of(point.latitude, most_latitude, steps)};
}

// Where a column or row begins.
double edge(uint32_t number, double most, unsigned steps) {
  return -most + number * 1.0 / static_cast<double>(uint64_t{1} << steps) * (2 * most);
}

double middle(uint32_t number, double most) {
  const double value = (edge(number, most, kMostSteps) + edge(number + 1, most, kMostSteps)) / 2;
  return value > most ? most : value < -most ? -most : value;
}

// As the processor turns a double into 64 bits without a sign: scores outside of that are not places, but must not be anything.
uint64_t bits_of_score(double score) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (score >= 2 * kTwo63) return 0;
  if (score >= kTwo63) return static_cast<uint64_t>(score);
  if (!(score >= -kTwo63)) return uint64_t{1} << 63;
  return static_cast<uint64_t>(static_cast<int64_t>(score));
}

double latitude_distance(double a, double b) { return kEarthRadius * std::fabs(radians(b) - radians(a)); }

struct Bounds {
  double west, south, east, north;
};

// Towards the pole a metre is more degrees of longitude, so the side there decides how wide the area is.
Bounds bounds_of(const GeoArea& area) {
  const double half_height = area.metres * (area.box ? area.height / 2 : area.radius);
  const double half_width = area.metres * (area.box ? area.width / 2 : area.radius);
  const GeoPoint& center = area.center;
  const double up = degrees(half_height / kEarthRadius);
  const double towards = center.latitude < 0 ? center.latitude - up : center.latitude + up;
  const double aside = degrees(half_width / kEarthRadius / std::cos(radians(towards)));
  return {center.longitude - aside, center.latitude - up, center.longitude + aside, center.latitude + up};
}

// How fine a grid may be so that the cell of the center and its neighbours cover a radius.
unsigned steps_of_radius(double metres, double latitude) {
  if (metres == 0) return kMostSteps;
  int steps = 1;
  for (; metres < kMercatorMost; metres *= 2) ++steps;
  steps -= 2;
  // Towards the poles a degree of longitude is shorter.
  if (std::fabs(latitude) > 66) --steps;
  if (std::fabs(latitude) > 80) --steps;
  return steps < 1 ? 1 : steps > static_cast<int>(kMostSteps) ? kMostSteps : static_cast<unsigned>(steps);
}

// A cell and its eight neighbours, over the edges of the map.
struct Neighbourhood {
  Neighbourhood(const GeoPoint& center, unsigned steps) : steps(steps), cell(cell_of(center, steps)) {}

  Cell at(int east, int north) const {
    const uint32_t mask = (uint32_t{1} << steps) - 1;
    return {east == 0 ? cell.column : (cell.column + static_cast<uint32_t>(east)) & mask,
            north == 0 ? cell.row : (cell.row + static_cast<uint32_t>(north)) & mask};
  }
  double west_of(const Cell& of) const { return edge(of.column, kMostLongitude, steps); }
  double east_of(const Cell& of) const { return edge(of.column + 1, kMostLongitude, steps); }
  double south_of(const Cell& of) const { return edge(of.row, kMostLatitude, steps); }
  double north_of(const Cell& of) const { return edge(of.row + 1, kMostLatitude, steps); }
  bool covers(const Bounds& bounds) const {
    return !(north_of(at(0, 1)) < bounds.north || south_of(at(0, -1)) > bounds.south || east_of(at(1, 0)) < bounds.east ||
             west_of(at(-1, 0)) > bounds.west);
  }

  unsigned steps;
  Cell cell;
};

}  // namespace

double geo_score(const GeoPoint& point) { return static_cast<double>(cell_of(point, kMostSteps).bits()); }

GeoPoint geo_point(double score) {
  const uint64_t bits = bits_of_score(score);
  return {middle(gather(bits >> 1), kMostLongitude), middle(gather(bits), kMostLatitude)};
}

std::string geo_letters(const GeoPoint& point) {
  constexpr char kAlphabet[] = "0123456789bcdefghjkmnpqrstuvwxyz";
  const uint64_t bits = cell_of(point, kMostSteps, 90).bits();
  // 52 bits are ten letters and two bits; the last letter is always 0.
  std::string letters(11, kAlphabet[0]);
  for (unsigned i = 0; i < 10; ++i) letters[i] = kAlphabet[bits >> (52 - 5 * (i + 1)) & 31];
  return letters;
}

double geo_distance(const GeoPoint& a, const GeoPoint& b) {
  const double v = std::sin((radians(b.longitude) - radians(a.longitude)) / 2);
  if (v == 0) return latitude_distance(a.latitude, b.latitude);
  const double from = radians(a.latitude), to = radians(b.latitude);
  const double u = std::sin((to - from) / 2);
  return 2.0 * kEarthRadius * std::asin(std::sqrt(u * u + std::cos(from) * std::cos(to) * v * v));
}

std::optional<double> GeoArea::distance_inside(const GeoPoint& point) const {
  if (box) {
    // A box is as wide at each latitude as it says.
    if (latitude_distance(point.latitude, center.latitude) > height * metres / 2) return std::nullopt;
    if (geo_distance({center.longitude, point.latitude}, point) > width * metres / 2) return std::nullopt;
    return geo_distance(center, point);
  }
  const double distance = geo_distance(center, point);
  if (distance > radius * metres) return std::nullopt;
  return distance;
}

std::vector<GeoCell> geo_cells(const GeoArea& area) {
  const Bounds bounds = bounds_of(area);
  const double radius = area.box ? std::sqrt(area.width / 2 * (area.width / 2) + area.height / 2 * (area.height / 2)) : area.radius;
  Neighbourhood around(area.center, steps_of_radius(radius * area.metres, area.center.latitude));
  if (around.steps > 1 && !around.covers(bounds)) around = Neighbourhood(area.center, around.steps - 1);

  // What the center's own cell covers on a side, no neighbour on that side needs to.
  const Cell& cell = around.cell;
  const bool fine = around.steps >= 2;
  const bool no_south = fine && around.south_of(cell) < bounds.south, no_north = fine && around.north_of(cell) > bounds.north;
  const bool no_west = fine && around.west_of(cell) < bounds.west, no_east = fine && around.east_of(cell) > bounds.east;

  constexpr int kOrder[][2] = {{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}};  // {east, north}
  std::vector<GeoCell> cells;
  Cell last;
  for (const auto& [east, north] : kOrder) {
    if ((no_south && north < 0) || (no_north && north > 0) || (no_west && east < 0) || (no_east && east > 0)) continue;
    const Cell next = around.at(east, north);
    // On a grid of two columns or rows, neighbours on both sides are the same.
    if (cells.size() > 1 && next == last) continue;
    last = next;
    const unsigned shift = 2 * (kMostSteps - around.steps);
    cells.push_back({next.bits() << shift, (next.bits() + 1) << shift});
  }
  return cells;
}

}  // namespace pion
