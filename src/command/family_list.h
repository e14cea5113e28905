// Handlers of the list commands, for the table at the end of family_list.cc.
#pragma once

#include "command/context.h"

namespace pion {

// family_list_edit.cc
Outcome lset_command(CommandContext& ctx);
Outcome linsert_command(CommandContext& ctx);
Outcome lrem_command(CommandContext& ctx);
Outcome ltrim_command(CommandContext& ctx);
Outcome lpos_command(CommandContext& ctx);

// family_list_pop.cc
Outcome lpop_command(CommandContext& ctx);
Outcome rpop_command(CommandContext& ctx);
Outcome lmpop_command(CommandContext& ctx);
Outcome lmove_command(CommandContext& ctx);
Outcome rpoplpush_command(CommandContext& ctx);

Outcome blpop_command(CommandContext& ctx);
Outcome brpop_command(CommandContext& ctx);
Outcome blmpop_command(CommandContext& ctx);
Outcome blmove_command(CommandContext& ctx);
Outcome brpoplpush_command(CommandContext& ctx);

}  // namespace pion
