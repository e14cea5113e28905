#include "command/command_keys.h"

#include <algorithm>

#include "command/arguments.h"
#include "command/sort_pattern.h"

namespace pion {
namespace {

struct Range {
  int64_t first = 0, last = 0, step = 1;
};

// Where the keys of one specification begin; 0: not there.
int64_t begin_of(const KeySpecDoc& spec, const Arguments& arguments) {
  if (spec.begin == KeySpecDoc::Begin::kIndex) return spec.index;
  const auto count = static_cast<int64_t>(arguments.size());
  const int64_t start = spec.index >= 0 ? spec.index : count + spec.index;
  for (int64_t i = start; i > 0 && i < count; i += spec.index >= 0 ? 1 : -1) {
    if (same_word(arguments[static_cast<size_t>(i)].bytes, spec.keyword)) return i + 1;
  }
  return 0;
}

std::optional<Range> range_of(const CommandSpec& command, const KeySpecDoc& spec, const Arguments& arguments) {
  const auto count = static_cast<int64_t>(arguments.size());
  Range range{begin_of(spec, arguments), 0, 1};
  const bool keyword = spec.begin == KeySpecDoc::Begin::kKeyword;
  // An optional keyword that is not there, or has nothing behind it: no keys.
  if (keyword && (range.first == 0 || range.first >= count)) return Range{1, 0, 1};
  if (range.first >= count) return std::nullopt;
  if (spec.find == KeySpecDoc::Find::kRange) {
    range.step = spec.step;
    if (spec.last >= 0) {
      range.last = range.first + spec.last;
    } else {
      range.last = spec.limit <= 1 ? count + spec.last : range.first + (count - range.first) / spec.limit + spec.last;
    }
  } else {
    const int64_t at = range.first + spec.last;
    if (at >= count) return std::nullopt;
    const auto keys = integer_argument(arguments[static_cast<size_t>(at)].bytes);
    const int64_t least = command.group == "scripting" ? 0 : 1;
    if (!keys || *keys < least || *keys > count) return std::nullopt;
    range.first += spec.step;
    range.step = spec.limit;
    range.last = range.first + (*keys - 1) * range.step;
  }
  if (range.last >= count) return std::nullopt;
  return range;
}

bool is_unknown(const KeySpecDoc& spec) {
  return spec.begin == KeySpecDoc::Begin::kUnknown || spec.find == KeySpecDoc::Find::kUnknown;
}

// A channel or the like.
bool is_no_key(const KeySpecDoc& spec) { return spec.flags.find("not_key") != std::string_view::npos; }

bool is_sort(const CommandSpec& command) { return command.name == "sort" || command.name == "sort_ro"; }

constexpr std::string_view kReads = "RO access", kReadsAndWrites = "RW access update", kOverwrites = "OW update";

// BITFIELD that only has GET, and where an option does not go wrong, reads.
std::string_view bitfield_flags(const Arguments& arguments) {
  for (size_t i = 2; i < arguments.size();) {
    const std::string_view word = arguments[i].bytes;
    const size_t behind = arguments.size() - i - 1;
    if (same_word(word, "get") && behind >= 2) {
      i += 3;
    } else if (same_word(word, "overflow") && behind >= 1) {
      i += 2;
    } else {
      return kReadsAndWrites;
    }
  }
  return kReads;
}

// Flags that depend on the arguments: SET reads the key only when it is asked for the old value.
std::string_view flags_of(const CommandSpec& command, const KeySpecDoc& spec, const Arguments& arguments) {
  if (command.name == "bitfield") return bitfield_flags(arguments);
  if (command.name != "set") return spec.flags;
  for (size_t i = 3; i < arguments.size(); i++) {
    if (same_word(arguments[i].bytes, "get")) return kReadsAndWrites;
  }
  return kOverwrites;
}

}  // namespace

std::optional<std::vector<CommandKey>> command_keys(const CommandSpec& command, const Arguments& arguments) {
  std::vector<CommandKey> keys;
  for (const KeySpecDoc& spec : command.key_specs) {
    if (is_unknown(spec) || is_no_key(spec)) continue;
    const auto range = range_of(command, spec, arguments);
    if (!range) return std::nullopt;
    for (int64_t i = range->first; i <= range->last; i += range->step) {
      keys.push_back({static_cast<size_t>(i), flags_of(command, spec, arguments)});
    }
  }
  if (command.name == "sort") {
    if (const size_t store = sort_store_position(arguments)) keys.push_back({store, kOverwrites});
  }
  return keys;
}

bool has_keys(const CommandSpec& command) {
  return std::any_of(command.key_specs.begin(), command.key_specs.end(), [](const KeySpecDoc& spec) { return !is_no_key(spec); });
}

std::optional<std::vector<size_t>> touched_keys(const CommandSpec& command, const Arguments& arguments) {
  if (is_sort(command)) {
    if (sort_reads_other_keys(arguments)) return std::nullopt;
  } else if (std::any_of(command.key_specs.begin(), command.key_specs.end(), is_unknown)) {
    return std::nullopt;
  }
  const auto keys = command_keys(command, arguments);
  if (!keys) return std::nullopt;
  std::vector<size_t> positions;
  for (const CommandKey& key : *keys) positions.push_back(key.position);
  // An option that is given several times (GEORADIUS's STORE): the specification finds one, the command may mean another.
  for (const KeySpecDoc& spec : command.key_specs) {
    if (spec.begin != KeySpecDoc::Begin::kKeyword || spec.find != KeySpecDoc::Find::kRange || spec.last != 0) continue;
    for (size_t i = 1; i + 1 < arguments.size(); ++i) {
      if (same_word(arguments[i].bytes, spec.keyword)) positions.push_back(i + 1);
    }
  }
  return positions;
}

}  // namespace pion
