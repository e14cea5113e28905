// Who we say we are.
#pragma once

#include <string_view>

namespace pion {

inline constexpr std::string_view kPionVersion = "0.1.0";
// The Redis whose replies we give.
inline constexpr std::string_view kRedisVersion = "8.2.3";

}  // namespace pion
