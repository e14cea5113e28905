#include "command/sort_pattern.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "command/arguments.h"

namespace pion {

SortPattern::SortPattern(std::string_view text) : element_(text == "#") {
  // Redis looks for its signs up to a zero byte.
  const std::string_view shown = text.substr(0, text.find('\0'));
  const size_t star = shown.find('*');
  if (star == std::string_view::npos) return;
  names_keys_ = true;
  before_ = text.substr(0, star);
  behind_ = text.substr(star + 1);
  const size_t arrow = shown.find("->", star + 1);
  if (arrow == std::string_view::npos || arrow + 2 == shown.size()) return;
  behind_ = text.substr(star + 1, arrow - star - 1);
  field_ = text.substr(arrow + 2);
}

void SortPattern::key_of(std::string_view element, std::string& key) const {
  key.assign(before_);
  key.append(element).append(behind_);
}

std::optional<double> sort_weight(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  if (text.empty()) return 0;
  const size_t sign = text[0] == '+' && text.size() > 1 && text[1] != '-' && text[1] != '+' ? 1 : 0;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data() + sign, text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(text).c_str(), nullptr);
  if (std::isnan(value)) return std::nullopt;
  return value;
}

size_t sort_store_position(const Arguments& arguments) {
  size_t position = 0;
  for (size_t i = 2; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i].bytes;
    if (same_word(word, "LIMIT")) {
      i += 2;
    } else if (same_word(word, "BY") || same_word(word, "GET")) {
      i += 1;
    } else if (same_word(word, "STORE") && i + 1 < arguments.size()) {
      position = ++i;
    }
  }
  return position;
}

bool sort_reads_other_keys(const Arguments& arguments) {
  for (size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i].bytes.find('*') != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace pion
