// Handlers of the set commands, for the table at the end of family_set.cc.
#pragma once

#include "command/context.h"

namespace pion {

// family_set_algebra.cc
Outcome sunion_command(CommandContext& ctx);
Outcome sinter_command(CommandContext& ctx);
Outcome sdiff_command(CommandContext& ctx);
Outcome sunionstore_command(CommandContext& ctx);
Outcome sinterstore_command(CommandContext& ctx);
Outcome sdiffstore_command(CommandContext& ctx);
Outcome sintercard_command(CommandContext& ctx);
Outcome smembers_command(CommandContext& ctx);

// family_set_random.cc
Outcome spop_command(CommandContext& ctx);
Outcome srandmember_command(CommandContext& ctx);

}  // namespace pion
