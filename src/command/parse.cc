#include "command/parse.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace pion {
namespace {

constexpr size_t kLongestNumber = 5 * 1024;  // the longest an 80-bit float can print in plain decimal is below it

}  // namespace

std::optional<long double> long_double_argument(std::string_view text) {
  if (text.empty() || text.size() >= kLongestNumber || std::isspace(static_cast<unsigned char>(text.front()))) return std::nullopt;
  const std::string terminated(text);
  char* end = nullptr;
  errno = 0;
  const long double value = std::strtold(terminated.c_str(), &end);
  if (static_cast<size_t>(end - terminated.c_str()) != text.size() || std::isnan(value)) return std::nullopt;
  if (errno == ERANGE && (std::isinf(value) || value == 0)) return std::nullopt;
  return value;
}

std::string format_long_double(long double value) {
  char text[kLongestNumber];
  const int length = std::snprintf(text, sizeof text, "%.17Lf", value);
  std::string_view shown(text, static_cast<size_t>(length));
  while (shown.back() == '0') shown.remove_suffix(1);
  if (shown.back() == '.') shown.remove_suffix(1);
  return shown == "-0" ? "0" : std::string(shown);
}

}  // namespace pion
