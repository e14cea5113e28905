// The text of INFO: sections of "name:value" lines.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "command/context.h"

namespace pion {

class InfoLines {
 public:
  InfoLines& section(std::string_view title) {
    if (!text_.empty()) text_ += "\r\n";
    text_.append("# ").append(title).append("\r\n");
    return *this;
  }
  InfoLines& add(std::string_view name, std::string_view value) {
    text_.append(name).append(":").append(value).append("\r\n");
    return *this;
  }
  InfoLines& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  template <typename Number>
    requires std::is_integral_v<Number>
  InfoLines& add(std::string_view name, Number value) {
    return add(name, std::string_view(std::to_string(value)));
  }
  InfoLines& add(std::string_view name, double value, const char* format = "%.2f") {
    char digits[64];
    std::snprintf(digits, sizeof digits, format, value);
    return add(name, std::string_view(digits));
  }
  // A size, and the same for people to read.
  InfoLines& size(const std::string& name, uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "K", "M", "G", "T"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, unit++;
    char human[64];
    std::snprintf(human, sizeof human, unit == 0 ? "%.0f%s" : "%.2f%s", value, kUnits[unit]);
    return add(name, bytes).add(name + "_human", std::string_view(human));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// family_info_stats.cc
void commandstats_section(CommandContext& context, InfoLines& lines);
void errorstats_section(CommandContext& context, InfoLines& lines);
void latencystats_section(CommandContext& context, InfoLines& lines);

}  // namespace pion
