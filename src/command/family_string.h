// Handlers of the string commands, for the table at the end of family_string.cc.
#pragma once

#include "command/context.h"

namespace pion {

// family_string_number.cc
Outcome incr_command(CommandContext& ctx);
Outcome decr_command(CommandContext& ctx);
Outcome incrby_command(CommandContext& ctx);
Outcome decrby_command(CommandContext& ctx);
Outcome incrbyfloat_command(CommandContext& ctx);

// family_string_range.cc
Outcome append_command(CommandContext& ctx);
Outcome setrange_command(CommandContext& ctx);
Outcome getrange_command(CommandContext& ctx);
Outcome strlen_command(CommandContext& ctx);

// family_string_lcs.cc
Outcome lcs_command(CommandContext& ctx);

}  // namespace pion
