// Commands that wait for keys: BLPOP, BZPOPMIN, XREAD BLOCK and their kin. docs/blocking.md tells how it works.
//
// Such a command's handler does its work when it can, and otherwise, while it still holds its keys' locks, returns wait_for_keys().
// When one of the keys changes, the same handler runs again with the same arguments, in the changing thread: then it answers, or
// comes to wait_for_keys() again and goes on waiting. So a handler needs nothing special but two rules:
//  - it uses of the session only id, database, protocol and no_touch;
//  - before it takes something (that another one could be waiting for) it asks must_queue().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "command/context.h"
#include "keyspace/keyspace.h"

namespace pion {

inline constexpr std::string_view kUnblocked = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

enum class TimeUnit { kSeconds, kMilliseconds };

// A time-out as Redis reads it: seconds may have a fraction, 0 is for ever. In ms. Empty: the error was answered.
std::optional<int64_t> timeout_argument(CommandContext& ctx, size_t position, TimeUnit unit);

struct WaitFor {
  ValueType type;               // what a key must hold to be worth another try
  bool gone_too = false;        // also when the key is gone or holds something else: the command has an answer to that
  int64_t timeout_ms = 0;       // 0: for ever
};

// Answers now, as if the time was up, where nothing may wait (ctx.may_block()); otherwise suspends. `access` holds the locks of
// `keys`, all of which are the command's to wait for. Time is up: a null array.
Outcome wait_for_keys(CommandContext& ctx, KeyAccess& access, std::span<const Key> keys, const WaitFor& what);

// Somebody waits for this key already, and this command came later: it must not take anything, but wait. All who wait for the key
// are asked as soon as this command is over.
inline bool must_queue(const CommandContext& ctx, KeyAccess& access, const Key& key) {
  if (ctx.retrying() || !ctx.may_block() || !access.others_wait(ctx.session.database, key)) return false;
  KeyAccess::serve_later(ctx.session.database, key);
  return true;
}

}  // namespace pion
