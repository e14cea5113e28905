// Handlers of the key commands, for the table at the end of family_key.cc.
#pragma once

#include "command/context.h"

namespace pion {

// family_key_expire.cc
Outcome expire_command(CommandContext& ctx);
Outcome pexpire_command(CommandContext& ctx);
Outcome expireat_command(CommandContext& ctx);
Outcome pexpireat_command(CommandContext& ctx);
Outcome ttl_command(CommandContext& ctx);
Outcome pttl_command(CommandContext& ctx);
Outcome expiretime_command(CommandContext& ctx);
Outcome pexpiretime_command(CommandContext& ctx);
Outcome persist_command(CommandContext& ctx);

// family_key_move.cc
Outcome rename_command(CommandContext& ctx);
Outcome renamenx_command(CommandContext& ctx);
Outcome copy_command(CommandContext& ctx);
Outcome move_command(CommandContext& ctx);

// family_key_space.cc
Outcome keys_command(CommandContext& ctx);
Outcome scan_command(CommandContext& ctx);
Outcome randomkey_command(CommandContext& ctx);
Outcome dbsize_command(CommandContext& ctx);
Outcome flushdb_command(CommandContext& ctx);
Outcome flushall_command(CommandContext& ctx);
Outcome swapdb_command(CommandContext& ctx);

}  // namespace pion
