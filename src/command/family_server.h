// Commands about the server itself; family_server.cc puts them into the table.
#pragma once

#include "command/context.h"

namespace pion {

Outcome config_get(CommandContext& context);
Outcome config_set(CommandContext& context);
Outcome config_rewrite(CommandContext& context);
Outcome config_resetstat(CommandContext& context);
Outcome config_help(CommandContext& context);

Outcome debug(CommandContext& context);

Outcome module_help(CommandContext& context);
Outcome module_list(CommandContext& context);
Outcome module_refused(CommandContext& context);  // LOAD, LOADEX, UNLOAD
Outcome lolwut(CommandContext& context);

// INFO [section ...]
Outcome info(CommandContext& context);

}  // namespace pion
