// What becomes of a command that took long: the slow log and the latency monitor hear of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/context.h"

namespace pion {

struct CommandSpec;

// CommandStatistics::set_slow_ns() for these thresholds: microseconds, below 0 none; milliseconds, 0 none.
uint64_t slow_ns_of(int64_t slow_log_us, int64_t monitor_ms);

void tell_slow_command(const Services& services, const CommandSpec& spec, const Arguments& arguments, const Session& session, uint64_t ticks);
// The same for a command whose arguments are gone by now; they were made by slow_log_arguments().
void tell_slow_command(const Services& services, const CommandSpec& spec, std::vector<std::string> shown, const Session& session, uint64_t ticks);

}  // namespace pion
