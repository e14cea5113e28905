// Handlers of the hash commands, for the table at the end of family_hash.cc.
#pragma once

#include "command/context.h"

namespace pion {

// family_hash_walk.cc
Outcome hgetall_command(CommandContext& ctx);
Outcome hkeys_command(CommandContext& ctx);
Outcome hvals_command(CommandContext& ctx);
Outcome hrandfield_command(CommandContext& ctx);
Outcome hscan_command(CommandContext& ctx);

// family_hash_expire.cc
Outcome hexpire_command(CommandContext& ctx);
Outcome hpexpire_command(CommandContext& ctx);
Outcome hexpireat_command(CommandContext& ctx);
Outcome hpexpireat_command(CommandContext& ctx);
Outcome httl_command(CommandContext& ctx);
Outcome hpttl_command(CommandContext& ctx);
Outcome hexpiretime_command(CommandContext& ctx);
Outcome hpexpiretime_command(CommandContext& ctx);
Outcome hpersist_command(CommandContext& ctx);

// family_hash_getset.cc
Outcome hgetex_command(CommandContext& ctx);
Outcome hgetdel_command(CommandContext& ctx);
Outcome hsetex_command(CommandContext& ctx);

}  // namespace pion
