#include <set>
#include <string>
#include <vector>

#include "command/arguments.h"
#include "command/family_server.h"
#include "command/server_control.h"
#include "keyspace/keyspace.h"
#include "prompt/store.h"

namespace pion {

Outcome config_get(CommandContext& context) {
  std::set<std::string> seen;
  std::vector<ConfigValue> values;
  for (size_t i = 2; i < context.argc(); i++) {
    const bool is_pattern = context.arg(i).find_first_of("[*?") != std::string_view::npos;
    for (ConfigValue& value : context.services.server->config_get(context.arg(i))) {
      if (!seen.insert(value.name).second) continue;
      if (!is_pattern) value.name = context.arg(i);  // answered as it was asked, also in its case
      values.push_back(std::move(value));
    }
  }
  context.reply.map(static_cast<int64_t>(values.size()));
  for (const ConfigValue& value : values) {
    context.reply.bulk(value.name);
    context.reply.bulk(value.value);
  }
  return Outcome::kDone;
}

Outcome config_set(CommandContext& context) {
  if (context.argc() % 2 != 0) return context.reply.error(kSyntaxError), Outcome::kDone;
  std::vector<ConfigValue> values;
  for (size_t i = 2; i < context.argc(); i += 2) {
    values.push_back({std::string(context.arg(i)), std::string(context.arg(i + 1))});
  }
  if (const Status status = context.services.server->config_set(values); !status) {
    context.reply.error("ERR " + status.error().message);
  } else {
    context.reply.ok();
  }
  return Outcome::kDone;
}

Outcome config_rewrite(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;  // it syncs a file
  if (const Status status = context.services.server->config_rewrite(); !status) {
    context.reply.error("ERR " + status.error().message);
  } else {
    context.reply.ok();
  }
  return Outcome::kDone;
}

Outcome config_resetstat(CommandContext& context) {
  context.services.server->reset_stats();
  context.services.keyspace->reset_stats();
  context.services.prompt->reset_stats();
  context.reply.ok();
  return Outcome::kDone;
}

Outcome config_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "GET <pattern>",
      "    Return parameters matching the glob-like <pattern> and their values.",
      "SET <directive> <value>",
      "    Set the configuration <directive> to <value>.",
      "RESETSTAT",
      "    Reset statistics reported by the INFO command.",
      "REWRITE",
      "    Rewrite the configuration file.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(context, kLines);
}

}  // namespace pion
