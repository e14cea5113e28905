// Where the keys of a request stand, by the key specifications of the table.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "command/table.h"

namespace pion {

struct CommandKey {
  size_t position = 0;     // in the arguments
  std::string_view flags;  // as COMMAND GETKEYSANDFLAGS prints them
};

// Nothing when the arguments do not fit the specifications. Specifications of keys that cannot be told from the arguments
// (SORT's patterns) give no key, nor do those of what only looks like a key (SPUBLISH's channel).
std::optional<std::vector<CommandKey>> command_keys(const CommandSpec& spec, const Arguments& arguments);

// Does any specification speak of keys?
bool has_keys(const CommandSpec& spec);

// The positions of all keys that a command may touch. Nothing: it may be any.
std::optional<std::vector<size_t>> touched_keys(const CommandSpec& spec, const Arguments& arguments);

}  // namespace pion
