// Values of options: from text, to text, and what was expected.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "command/arguments.h"
#include "command/notifications.h"
#include "server/config_syntax.h"
#include "server/options_table.h"

namespace pion {
namespace {

using Parsed = std::expected<void, OptionError>;

Parsed refuse(const OptionSpec& spec, std::string redis_text) {
  return std::unexpected(OptionError{std::move(redis_text), expected_values(spec)});
}

std::optional<uint64_t> unsigned_number(std::string_view digits, int base = 10) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

struct Unit {
  std::string_view name;
  uint64_t bytes;
};

// As in redis.conf: k is 1000, kb is 1024.
constexpr Unit kUnits[] = {{"", 1},           {"b", 1},           {"k", 1000},          {"kb", kKiB},      {"m", 1'000'000},
                           {"mb", kMiB},      {"g", 1'000'000'000}, {"gb", kGiB}};

std::optional<uint64_t> memory_value(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = unsigned_number(text.substr(0, end));
  if (!number) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (!same_word(text.substr(end), unit.name)) continue;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(*number, unit.bytes, &bytes) || bytes > INT64_MAX) return std::nullopt;
    return bytes;
  }
  return std::nullopt;
}

uint64_t machine_memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::expected<uint64_t, OptionError> memory_argument(const OptionSpec& spec, std::string_view text) {
  const auto refusal = [&](std::string redis_text) { return std::unexpected(OptionError{std::move(redis_text), expected_values(spec)}); };
  // Redis takes shares of other parameters than we do, and says so of those.
  const bool says_percent = spec.kind == OptionKind::kPercent && spec.holding != Holding::kTyped;
  const std::string_view what = says_percent ? "argument must be a memory or percent value" : "argument must be a memory value";
  if (spec.kind == OptionKind::kPercent && text.ends_with('%')) {
    const auto share = unsigned_number(text.substr(0, text.size() - 1));
    if (share && *share > 100 && says_percent) return refusal("percentage argument must be less or equal to 100");
    if (!share || *share > 100) return refusal(std::string(what));
    return machine_memory_bytes() / 100 * *share;
  }
  const auto bytes = memory_value(text);
  if (!bytes) return refusal(std::string(what));
  return *bytes;
}

std::string between(const OptionSpec& spec) {
  return "argument must be between " + std::to_string(spec.min) + " and " + std::to_string(spec.max) + " inclusive";
}

Parsed parse_number(const OptionSpec& spec, std::string_view text, Settings& settings) {
  if (spec.kind == OptionKind::kInteger) {
    auto value = integer_argument(text);
    if (!value) return refuse(spec, "argument couldn't be parsed into an integer");
    if (spec.clamps) value = std::clamp(*value, spec.min, spec.max);
    if (*value < spec.min || *value > spec.max) return refuse(spec, between(spec));
    settings.*std::get<int64_t Settings::*>(spec.target) = *value;
    return {};
  }
  if (spec.kind == OptionKind::kOctal) {
    const auto value = unsigned_number(text, 8);
    if (!value || *value > static_cast<uint64_t>(spec.max)) return refuse(spec, "argument couldn't be parsed as an octal number");
    settings.*std::get<int64_t Settings::*>(spec.target) = static_cast<int64_t>(*value);
    return {};
  }
  const auto value = memory_argument(spec, text);
  if (!value) return std::unexpected(value.error());
  if (*value < static_cast<uint64_t>(spec.min) || *value > static_cast<uint64_t>(spec.max)) return refuse(spec, between(spec));
  settings.*std::get<uint64_t Settings::*>(spec.target) = *value;
  return {};
}

constexpr std::string_view kClientClassNames[] = {"normal", "slave", "pubsub"};

// Classes that are not named keep theirs.
Parsed parse_limits(const OptionSpec& spec, std::string_view text, Settings& settings) {
  const auto words = split_words(text);
  if (!words || words->size() % 4 != 0) return refuse(spec, "Wrong number of arguments in buffer limit configuration.");
  OutputLimitSettings limits = settings.*std::get<OutputLimitSettings Settings::*>(spec.target);
  for (size_t i = 0; i < words->size(); i += 4) {
    const std::string& name = (*words)[i];
    const auto* found = std::find_if(std::begin(kClientClassNames), std::end(kClientClassNames), [&](auto known) { return same_word(known, name); });
    if (found == std::end(kClientClassNames) && same_word(name, "replica")) found = kClientClassNames + kReplicaClients;
    if (found == std::end(kClientClassNames)) return refuse(spec, "Invalid client class specified in buffer limit configuration.");
    const auto hard = memory_value((*words)[i + 1]), soft = memory_value((*words)[i + 2]);
    const auto seconds = integer_argument((*words)[i + 3]);
    if (!hard || !soft || !seconds || *seconds < 0 || *seconds > INT32_MAX) {
      return refuse(spec, "Error in hard, soft or soft_seconds setting in buffer limit configuration.");
    }
    limits[static_cast<size_t>(found - kClientClassNames)] = {*hard, *soft, *seconds};
  }
  settings.*std::get<OutputLimitSettings Settings::*>(spec.target) = limits;
  return {};
}

Parsed parse_percentiles(const OptionSpec& spec, std::string_view text, Settings& settings) {
  const auto words = split_words(text);
  std::vector<double> percentiles;
  for (const std::string& word : words.value_or(std::vector<std::string>{"?"})) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return refuse(spec, "Invalid " + std::string(spec.name) + " parameters");
    if (!(value >= 0 && value <= 100)) return refuse(spec, std::string(spec.name) + " parameters should sit between [0.0,100.0]");
    percentiles.push_back(value);
  }
  if (percentiles.size() > kMaxPercentiles) return refuse(spec, "Too many " + std::string(spec.name) + " parameters");
  settings.*std::get<std::vector<double> Settings::*>(spec.target) = std::move(percentiles);
  return {};
}

// Six digits behind the point at most, as Redis prints them.
std::string percentile_text(double value) {
  char digits[32];
  std::string text(digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%.6f", value)));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string joined(std::span<const std::string_view> words, std::string_view separator) {
  std::string all;
  for (std::string_view word : words) all.append(all.empty() ? "" : separator).append(word);
  return all;
}

// Pairs of positive numbers, as one text.
Parsed parse_save_points(const OptionSpec& spec, std::string_view text, Settings& settings) {
  const auto words = split_words(text);
  if (!words || words->size() % 2 != 0) return refuse(spec, "Invalid save parameters");
  std::string all;
  for (size_t i = 0; i < words->size(); i++) {
    const auto number = integer_argument((*words)[i]);
    const int64_t least = i % 2 == 0 ? 1 : 0;  // seconds, changes
    if (!number || *number < least || *number > INT32_MAX) return refuse(spec, "Invalid save parameters");
    all.append(all.empty() ? "" : " ").append(std::to_string(*number));
  }
  settings.*std::get<std::string Settings::*>(spec.target) = all;
  return {};
}

// A value of a parameter that is not typed, as CONFIG GET shows it.
std::expected<std::string, OptionError> held_value(const OptionSpec& spec, std::string_view text) {
  const auto refusal = [&](std::string redis_text) { return std::unexpected(OptionError{std::move(redis_text), expected_values(spec)}); };
  switch (spec.kind) {
    case OptionKind::kInteger: {
      const auto value = integer_argument(text);
      if (!value) return refusal("argument couldn't be parsed into an integer");
      if (*value < spec.min || *value > spec.max) return refusal(between(spec));
      return std::to_string(*value);
    }
    case OptionKind::kBytes:
    case OptionKind::kPercent: {
      const auto value = memory_argument(spec, text);
      if (!value) return std::unexpected(value.error());
      return std::to_string(*value);
    }
    case OptionKind::kYesNo:
      if (!same_word(text, "yes") && !same_word(text, "no")) return refusal("argument must be 'yes' or 'no'");
      return same_word(text, "yes") ? "yes" : "no";
    case OptionKind::kChoice:
      for (std::string_view choice : spec.choices) {
        if (same_word(choice, text)) return std::string(choice);
      }
      return refusal("argument(s) must be one of the following: " + joined(spec.choices, ", "));
    default: return std::string(text);
  }
}

Parsed parse_held(const OptionSpec& spec, std::string_view text, Settings& settings) {
  auto value = held_value(spec, text);
  if (!value) return std::unexpected(value.error());
  if (spec.holding == Holding::kFixed) {
    if (*value == spec.initial) return {};
    const std::string why = ": " + std::string(spec.doc);
    return std::unexpected(OptionError{"it is always '" + std::string(spec.initial) + "' here" + why, expected_values(spec) + why});
  }
  if (*value == spec.initial) {
    settings.kept.erase(std::string(spec.name));
  } else {
    settings.kept.insert_or_assign(std::string(spec.name), std::move(*value));
  }
  return {};
}

std::string with_unit(uint64_t bytes) {
  for (const Unit& unit : {Unit{"gb", kGiB}, Unit{"mb", kMiB}, Unit{"kb", kKiB}}) {
    if (bytes > 0 && bytes % unit.bytes == 0) return std::to_string(bytes / unit.bytes).append(unit.name);
  }
  return std::to_string(bytes);
}

}  // namespace

std::string expected_values(const OptionSpec& spec) {
  if (spec.holding == Holding::kFixed) return spec.initial.empty() ? "an empty value" : std::string(spec.initial);
  switch (spec.kind) {
    case OptionKind::kInteger:
      if (spec.min == spec.max) return std::to_string(spec.min);
      return "an integer from " + std::to_string(spec.min) + " to " + std::to_string(spec.max);
    case OptionKind::kBytes:
    case OptionKind::kPercent: {
      std::string text = "a number of bytes such as 100mb or 2gb";
      if (spec.kind == OptionKind::kPercent) text += ", or a share of the machine's memory such as 50%";
      if (spec.min > 0) text += ", at least " + with_unit(static_cast<uint64_t>(spec.min));
      if (spec.max < INT64_MAX) text += ", at most " + with_unit(static_cast<uint64_t>(spec.max));
      return text;
    }
    case OptionKind::kOctal: return "an octal file mode such as 700";
    case OptionKind::kYesNo:
    case OptionKind::kSwitch:
    case OptionKind::kNotice: return "yes or no";
    case OptionKind::kChoice:
      if (spec.choices.size() == 1 && spec.choices[0].empty()) return "an empty value";
      return "one of " + joined(spec.choices, ", ");
    case OptionKind::kWords: return "one word or more";
    case OptionKind::kSavePoints: return "pairs of seconds and changes, or nothing";
    case OptionKind::kEvents: return "letters of KEg$lshzxetdmnocA";
    case OptionKind::kLimits: return "normal, slave or pubsub, hard limit, soft limit, seconds; for one class or more";
    case OptionKind::kPercentiles: return "numbers from 0 to 100 separated by blanks";
    case OptionKind::kText:
    case OptionKind::kRefused:
    case OptionKind::kAction: break;
  }
  return "text";
}

Parsed parse_option(const OptionSpec& spec, std::string_view text, Settings& settings) {
  if (spec.holding != Holding::kTyped) return parse_held(spec, text, settings);
  switch (spec.kind) {
    case OptionKind::kInteger:
    case OptionKind::kBytes:
    case OptionKind::kPercent:
    case OptionKind::kOctal: return parse_number(spec, text, settings);
    case OptionKind::kYesNo:
    case OptionKind::kSwitch:
    case OptionKind::kNotice:
      if (!same_word(text, "yes") && !same_word(text, "no")) return refuse(spec, "argument must be 'yes' or 'no'");
      if (spec.is_setting()) settings.*std::get<bool Settings::*>(spec.target) = same_word(text, "yes");
      return {};
    case OptionKind::kChoice:
      for (std::string_view choice : spec.choices) {
        if (!same_word(choice, text)) continue;
        settings.*std::get<std::string Settings::*>(spec.target) = choice;
        return {};
      }
      return refuse(spec, "argument(s) must be one of the following: " + joined(spec.choices, ", "));
    case OptionKind::kText:
      settings.*std::get<std::string Settings::*>(spec.target) = text;
      return {};
    case OptionKind::kWords: {
      const auto words = split_words(text);
      if (!words || words->empty()) return refuse(spec, "argument must be one word or more");
      settings.*std::get<std::vector<std::string> Settings::*>(spec.target) = *words;
      return {};
    }
    case OptionKind::kLimits: return parse_limits(spec, text, settings);
    case OptionKind::kPercentiles: return parse_percentiles(spec, text, settings);
    case OptionKind::kSavePoints: return parse_save_points(spec, text, settings);
    case OptionKind::kEvents: {
      const auto classes = parse_event_classes(text);
      if (!classes) return refuse(spec, "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
      settings.*std::get<int64_t Settings::*>(spec.target) = *classes;
      return {};
    }
    case OptionKind::kRefused:
    case OptionKind::kAction: break;
  }
  return refuse(spec, "not a parameter");
}

std::string format_option(const OptionSpec& spec, const Settings& settings) {
  if (spec.holding != Holding::kTyped) {
    const auto found = settings.kept.find(spec.name);
    return found == settings.kept.end() ? std::string(spec.initial) : found->second;
  }
  struct Visitor {
    const OptionSpec& spec;
    const Settings& settings;
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool Settings::*field) const { return settings.*field ? "yes" : "no"; }
    std::string operator()(int64_t Settings::*field) const {
      if (spec.kind == OptionKind::kEvents) return format_event_classes(static_cast<uint32_t>(settings.*field));
      if (spec.kind != OptionKind::kOctal) return std::to_string(settings.*field);
      char digits[24];
      const auto [end, error] = std::to_chars(digits, digits + sizeof digits, settings.*field, 8);
      return std::string(digits, error == std::errc() ? end : digits);
    }
    std::string operator()(uint64_t Settings::*field) const { return std::to_string(settings.*field); }
    std::string operator()(std::string Settings::*field) const { return settings.*field; }
    std::string operator()(std::vector<std::string> Settings::*field) const {
      std::string all;
      for (const std::string& word : settings.*field) all.append(all.empty() ? "" : " ").append(word);
      return all;
    }
    std::string operator()(std::vector<double> Settings::*field) const {
      std::string all;
      for (const double value : settings.*field) all.append(all.empty() ? "" : " ").append(percentile_text(value));
      return all;
    }
    std::string operator()(OutputLimitSettings Settings::*field) const {
      std::string all;
      for (size_t i = 0; i < kClientClasses; i++) {
        const OutputLimitSetting& limit = (settings.*field)[i];
        all.append(i == 0 ? "" : " ").append(kClientClassNames[i]).append(" ").append(std::to_string(limit.hard_bytes));
        all.append(" ").append(std::to_string(limit.soft_bytes)).append(" ").append(std::to_string(limit.soft_s));
      }
      return all;
    }
  };
  return std::visit(Visitor{spec, settings}, spec.target);
}

std::string format_option_for_file(const OptionSpec& spec, const Settings& settings) {
  if (const auto* field = std::get_if<uint64_t Settings::*>(&spec.target)) return with_unit(settings.**field);
  const std::string text = format_option(spec, settings);
  if (spec.name == "unixsocket" && text.empty()) return "off";
  if (spec.kind == OptionKind::kEvents) {
    return quote_word(format_event_classes(static_cast<uint32_t>(settings.*std::get<int64_t Settings::*>(spec.target)), true));
  }
  if (spec.kind == OptionKind::kSavePoints) return text.empty() ? "\"\"" : text;
  return spec.kind == OptionKind::kText || spec.kind == OptionKind::kChoice ? quote_word(text) : text;
}

std::vector<Settings::SavePoint> Settings::save_points() const {
  std::vector<SavePoint> points;
  const auto words = split_words(save).value_or(std::vector<std::string>());
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    points.push_back({integer_argument(words[i]).value_or(0), integer_argument(words[i + 1]).value_or(0)});
  }
  return points;
}

}  // namespace pion
