#include "command/command_keys.h"

#include "command/arguments.h"

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

std::optional<Range> range_of(const KeySpecDoc& spec, const Arguments& arguments) {
  const auto count = static_cast<int64_t>(arguments.size());
  Range range{begin_of(spec, arguments), 0, 1};
  if (range.first == 0) return Range{1, 0, 1};  // an optional keyword that is not there: no keys
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
    if (!keys || *keys < 0 || *keys > count) return std::nullopt;
    range.first += spec.step;
    range.step = spec.limit;
    range.last = range.first + (*keys - 1) * range.step;
  }
  if (range.last >= count) return std::nullopt;
  return range;
}

// Flags that depend on the arguments: SET reads the key only when it is asked for the old value.
std::string_view flags_of(const CommandSpec& command, const KeySpecDoc& spec, const Arguments& arguments) {
  if (command.name != "set") return spec.flags;
  for (size_t i = 3; i < arguments.size(); i++) {
    if (same_word(arguments[i].bytes, "get")) return "RW access update";
  }
  return "OW update";
}

}  // namespace

std::optional<std::vector<CommandKey>> command_keys(const CommandSpec& command, const Arguments& arguments) {
  std::vector<CommandKey> keys;
  for (const KeySpecDoc& spec : command.key_specs) {
    if (spec.begin == KeySpecDoc::Begin::kUnknown || spec.find == KeySpecDoc::Find::kUnknown) continue;
    const auto range = range_of(spec, arguments);
    if (!range) return std::nullopt;
    for (int64_t i = range->first; i <= range->last; i += range->step) {
      keys.push_back({static_cast<size_t>(i), flags_of(command, spec, arguments)});
    }
  }
  return keys;
}

}  // namespace pion
