// DEBUG: for tests. Guarded by nothing but the password, as everything else.
#include <cmath>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "command/arguments.h"
#include "command/family_server.h"
#include "command/server_control.h"

namespace pion {
namespace {

// Stops this connection only: a timer answers it, so no thread waits.
Outcome debug_sleep(CommandContext& context) {
  const double seconds = std::strtod(std::string(context.arg(2)).c_str(), nullptr);
  constexpr double kLongest_s = 24 * 3600;
  if (!(seconds > 0)) return context.reply.ok(), Outcome::kDone;
  const auto delay_ms = static_cast<int64_t>(std::ceil(std::min(seconds, kLongest_s) * 1000));
  std::shared_ptr<Completion> completion = context.suspend();
  completion->on_timeout(delay_ms, [completion] { completion->complete([](ReplyWriter& reply) { reply.ok(); }, 0); });
  return Outcome::kSuspended;
}

Outcome debug_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "ERROR <string>",
      "    Return a Redis protocol error with <string> as message. Useful for clients",
      "    unit tests to simulate Redis errors.",
      "PANIC",
      "    Crash the server simulating a panic.",
      "SET-ACTIVE-EXPIRE <0|1>",
      "    Setting it to 0 disables expiring keys (and hash-fields) in background ",
      "    when they are not accessed (otherwise the Redis behavior). Setting it",
      "    to 1 reenables back the default.",
      "SLEEP <seconds>",
      "    Stop this connection for <seconds>. Decimals allowed. Others go on.",
      "HELP",
      "    Print this help.",
  };
  context.reply.array(std::size(kLines));
  for (std::string_view line : kLines) context.reply.simple(line);
  return Outcome::kDone;
}

}  // namespace

Outcome debug(CommandContext& context) {
  const std::string_view name = context.arg(1);
  const auto is = [&](std::string_view word, size_t count) { return same_word(name, word) && context.argc() == count; };
  if (is("help", 2)) return debug_help(context);
  if (is("sleep", 3)) return debug_sleep(context);
  if (is("set-active-expire", 3)) {
    const bool on = std::atoi(std::string(context.arg(2)).c_str()) != 0;
    const Status status = context.services.server->config_set({{"active-expire", on ? "yes" : "no"}});
    if (!status) return context.reply.error("ERR " + status.error().message), Outcome::kDone;
    return context.reply.ok(), Outcome::kDone;
  }
  if (is("error", 3)) return context.reply.error(context.arg(2)), Outcome::kDone;
  if (is("panic", 2)) {
    log_warning("DEBUG PANIC: the process ends at once, as asked");
    std::abort();
  }
  context.reply.error("ERR unknown subcommand or wrong number of arguments for '" + std::string(name) + "'. Try DEBUG HELP.");
  return Outcome::kDone;
}

}  // namespace pion
