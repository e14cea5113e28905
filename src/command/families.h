// What each family file exports to the join in table.cc. To add a family: a file family_<x>.cc, a line here, a line there.
#pragma once

#include <span>

#include "command/table.h"

namespace pion {

std::span<const CommandSpec> connection_commands();
std::span<const CommandSpec> server_commands();
std::span<const CommandSpec> command_commands();  // COMMAND ...
std::span<const CommandSpec> string_commands();
std::span<const CommandSpec> set_commands();
std::span<const CommandSpec> bitmap_commands();
std::span<const CommandSpec> hyperloglog_commands();
std::span<const CommandSpec> key_commands();
std::span<const CommandSpec> dump_commands();
std::span<const CommandSpec> hash_commands();
std::span<const CommandSpec> list_commands();
std::span<const CommandSpec> sorted_set_commands();
std::span<const CommandSpec> geo_commands();
std::span<const CommandSpec> sort_commands();
std::span<const CommandSpec> stream_commands();
std::span<const CommandSpec> prompt_commands();
std::span<const CommandSpec> pubsub_commands();
std::span<const CommandSpec> transaction_commands();
std::span<const CommandSpec> memory_commands();
std::span<const CommandSpec> observing_commands();  // SLOWLOG LATENCY

// Redis' own table, for the commands we have: sorted by name, subcommands as entries of their own ("client|list"), no
// handlers. Printed by scripts/command-facts.
std::span<const CommandSpec> redis_facts();

}  // namespace pion
