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

// INFO [section ...]
Outcome info(CommandContext& context);

}  // namespace pion
