// From a parsed command to its handler: what refuses it, in Redis' order.
#pragma once

#include <string>

#include "command/table.h"
#include "server/server_shared.h"

namespace pion {

// The error that keeps a resolved command from running (NOAUTH, OOM), empty when nothing does. Allocates only for an error.
// A journal that refuses (MISCONF) is asked by the handlers, which know how much they will write.
std::string refusal(const ServerShared& shared, const Session& session, const CommandSpec& spec);

// A command without keys that takes locks of the keyspace all the same (DBSIZE, KEYS, EXEC with its queue ...).
bool locks_without_keys(const CommandSpec& spec);

// HTTP talking to us is an attack through somebody's browser: such a connection is closed without a word.
bool is_http(const Arguments& arguments);

}  // namespace pion
