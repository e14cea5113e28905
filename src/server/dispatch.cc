#include "server/dispatch.h"

#include "command/arguments.h"
#include "keyspace/keyspace.h"

namespace pion {

std::string refusal(const ServerShared& shared, const Session& session, const CommandSpec& spec) {
  if (!session.authenticated && !(spec.flags & kNoAuth) && shared.live.password_required.load(std::memory_order_relaxed)) {
    return "NOAUTH Authentication required.";
  }
  if (spec.flags & kDenyOom) {
    Keyspace& keyspace = *shared.services.keyspace;
    if (keyspace.settings.maxmemory.load(std::memory_order_relaxed) > 0 && !keyspace.ensure_memory()) {
      return "OOM command not allowed when used memory > 'maxmemory'.";
    }
  }
  return {};
}

bool is_http(const Arguments& arguments) {
  return same_word(arguments[0].bytes, "post") || same_word(arguments[0].bytes, "host:");
}

}  // namespace pion
