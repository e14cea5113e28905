// Small things every family needs to read its arguments.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pion {

// Equal but for the case of ASCII letters.
inline bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  for (size_t i = 0; i < a.size(); i++) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// A decimal 64-bit integer as Redis takes it: no blanks, no plus sign, no leading zeros, no "-0".
inline std::optional<int64_t> integer_argument(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const std::string_view digits = text.front() == '-' ? text.substr(1) : text;
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  if (digits == "0" && text.size() == 2) return std::nullopt;
  return value;
}

inline constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kSyntaxError = "ERR syntax error";

}  // namespace pion
