#include "server/dispatch.h"

#include <algorithm>
#include <iterator>

#include "command/arguments.h"
#include "command/transaction.h"
#include "keyspace/keyspace.h"

namespace pion {
namespace {

bool may_subscriber_use(const CommandSpec& spec) {
  constexpr std::string_view kNames[] = {"ping",       "psubscribe",   "punsubscribe", "quit",       "reset",
                                         "ssubscribe", "subscribe",    "sunsubscribe", "unsubscribe"};
  return std::find(std::begin(kNames), std::end(kNames), spec.name) != std::end(kNames);
}

}  // namespace


std::string refusal(const ServerShared& shared, const Session& session, const CommandSpec& spec) {
  if (!session.authenticated && !(spec.flags & kNoAuth) && shared.live.password_required.load(std::memory_order_relaxed)) {
    return "NOAUTH Authentication required.";
  }
  if (session.transaction && (spec.flags & kNoMulti)) return "ERR Command not allowed inside a transaction";
  const bool runs_queue = session.transaction && spec.name == "exec";
  if ((runs_queue ? session.transaction->flags() : spec.flags) & kDenyOom) {
    Keyspace& keyspace = *shared.services.keyspace;
    if (keyspace.settings.maxmemory.load(std::memory_order_relaxed) > 0 && !keyspace.ensure_memory()) {
      return "OOM command not allowed when used memory > 'maxmemory'.";
    }
  }
  if (session.monitor && (spec.flags & (kWrite | kReadOnly | kMayReplicate))) return "ERR Replica can't interact with the keyspace";
  if (session.subscribed_mode() && !may_subscriber_use(spec)) {
    return "ERR Can't execute '" + std::string(spec.name) +
           "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
  }
  return {};
}

bool locks_without_keys(const CommandSpec& spec) {
  constexpr std::string_view kNames[] = {"config|resetstat", "dbsize", "debug",        "exec",      "flushall", "flushdb", "info",
                                         "keys",             "memory|doctor", "memory|stats", "randomkey", "scan",     "swapdb"};
  return std::find(std::begin(kNames), std::end(kNames), spec.name) != std::end(kNames);
}

bool is_http(const Arguments& arguments) {
  return same_word(arguments[0].bytes, "post") || same_word(arguments[0].bytes, "host:");
}

}  // namespace pion
