// MODULE and LOLWUT: there are no modules and none can be loaded; LOLWUT names the version and draws nothing.
#include <string>

#include "command/arguments.h"
#include "command/family_server.h"
#include "command/version.h"

namespace pion {

Outcome module_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "LIST",
      "    Return a list of loaded modules: there are none.",
      "HELP",
      "    Print this help.",
  };
  context.reply.array(std::size(kLines));
  for (const std::string_view line : kLines) context.reply.simple(line);
  return Outcome::kDone;
}

Outcome module_list(CommandContext& context) {
  context.reply.array(0);
  return Outcome::kDone;
}

// What Redis says where enable-module-command is at its default.
Outcome module_refused(CommandContext& context) {
  context.reply.error(
      "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, "
      "otherwise you need to set this option in the configuration file, and then restart the server.");
  return Outcome::kDone;
}

// LOLWUT [VERSION n] [parameters]
Outcome lolwut(CommandContext& context) {
  if (context.argc() >= 3 && same_word(context.arg(1), "version") && !integer_argument(context.arg(2))) {
    context.reply.error(kNotAnInteger);
    return Outcome::kDone;
  }
  context.reply.verbatim("Redis ver. " + std::string(kRedisVersion) + "\n");
  return Outcome::kDone;
}

}  // namespace pion
