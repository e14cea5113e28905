// Numbers in arguments and values as Redis reads and prints them. Integers: command/arguments.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pion {

// An 80-bit float as INCRBYFLOAT takes it: no leading blank, nothing behind it, no NaN, in range.
std::optional<long double> long_double_argument(std::string_view text);

// In plain decimal, 17 digits behind the point at most, no trailing zeros, never "-0".
std::string format_long_double(long double value);

}  // namespace pion
