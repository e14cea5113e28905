#include "command/transaction.h"

#include <cstring>

#include "base/bytes.h"
#include "base/limits.h"
#include "command/session.h"
#include "command/table.h"
#include "command/watched_keys.h"

namespace pion {

QueuedCommand::QueuedCommand(const CommandSpec& called, Arguments& taken) : spec(&called), arguments(std::move(taken)) {
  size_t size = 0;
  for (const Argument& argument : arguments) size += argument.bytes.size();
  bytes = std::make_unique<char[]>(size);
  char* at = bytes.get();
  for (Argument& argument : arguments) {
    copy_bytes(at, argument.bytes);
    argument.bytes = {at, argument.bytes.size()};
    at += argument.bytes.size();
  }
}

bool Transaction::queue(const CommandSpec& spec, Arguments& arguments) {
  uint64_t size = 0;
  for (const Argument& argument : arguments) size += argument.bytes.size();
  const uint64_t cost = size + arguments.size() * sizeof(Argument) + sizeof(QueuedCommand);
  if (commands_.size() >= kMaxQueuedCommands || bytes_ + cost > kMaxQueuedBytes) return false;
  commands_.emplace_back(spec, arguments);
  bytes_ += cost;
  flags_ |= spec.flags;
  return true;
}

bool is_queued(const CommandSpec& spec) {
  for (std::string_view name : {"exec", "discard", "multi", "watch", "quit", "reset"}) {
    if (spec.name == name) return false;
  }
  return true;
}

std::string refused_in_transaction(Session& session, const CommandSpec* spec, std::string error) {
  if (session.transaction) session.transaction->abort();
  if (!spec || spec->name != "exec") return error;
  session.transaction.reset();
  session.watched.reset();
  constexpr std::string_view kPlain = "ERR ";
  return "EXECABORT Transaction discarded because of: " + (error.starts_with(kPlain) ? error.substr(kPlain.size()) : error);
}

}  // namespace pion
