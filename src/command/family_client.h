// CLIENT and its subcommands: handlers that family_connection.cc puts into the table.
#pragma once

#include <string>
#include <string_view>

#include "command/context.h"
#include "command/server_control.h"

namespace pion {

inline constexpr std::string_view kBadClientName = "ERR Client names cannot contain spaces, newlines or special characters.";
// Names and library names: printable ASCII without blanks, so that a line of CLIENT LIST can be cut at blanks.
bool valid_client_text(std::string_view text);

// One line of CLIENT LIST, without the newline.
std::string client_line(const ClientInfo& client);

Outcome client_getname(CommandContext& context);
Outcome client_getredir(CommandContext& context);
Outcome client_help(CommandContext& context);
Outcome client_id(CommandContext& context);
Outcome client_info(CommandContext& context);
Outcome client_kill(CommandContext& context);
Outcome client_list(CommandContext& context);
Outcome client_no_evict(CommandContext& context);
Outcome client_no_touch(CommandContext& context);
Outcome client_pause(CommandContext& context);
Outcome client_reply(CommandContext& context);
Outcome client_setinfo(CommandContext& context);
Outcome client_setname(CommandContext& context);
Outcome client_trackinginfo(CommandContext& context);
Outcome client_unblock(CommandContext& context);
Outcome client_unpause(CommandContext& context);

}  // namespace pion
