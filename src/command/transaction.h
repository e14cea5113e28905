// MULTI: the queue of a connection's transaction, and what its commands share while EXEC runs them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "resp/request.h"

namespace pion {

struct CommandSpec;
struct Session;

// A command and its arguments, which it owns; streamed ones lie on disk already.
struct QueuedCommand {
  QueuedCommand() = default;
  // Takes the arguments over.
  QueuedCommand(const CommandSpec& spec, Arguments& taken);

  const CommandSpec* spec = nullptr;
  std::unique_ptr<char[]> bytes;
  Arguments arguments;
};

// The connection is between MULTI and EXEC.
class Transaction {
 public:
  // Takes the arguments over. Not above the limits: false, and nothing is queued.
  bool queue(const CommandSpec& spec, Arguments& arguments);
  // EXEC will refuse: a command could not be queued.
  void abort() { aborted_ = true; }
  bool aborted() const { return aborted_; }
  std::vector<QueuedCommand>& commands() { return commands_; }
  const std::vector<QueuedCommand>& commands() const { return commands_; }
  uint64_t bytes() const { return bytes_; }
  uint32_t flags() const { return flags_; }  // of all commands together

 private:
  std::vector<QueuedCommand> commands_;
  uint64_t bytes_ = 0;
  uint32_t flags_ = 0;
  bool aborted_ = false;
};

// While EXEC runs.
struct RunningTransaction {
  bool published = false;  // messages wait for its record
};

// A command of an open transaction that is queued, not run at once.
bool is_queued(const CommandSpec& spec);
// What follows a refused command: the transaction is aborted; EXEC itself ends it. Returns the error to answer.
std::string refused_in_transaction(Session& session, const CommandSpec* spec, std::string error);

}  // namespace pion
