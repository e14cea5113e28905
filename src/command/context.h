// What a command handler gets, and the ways it can answer: now, from a worker thread, or later.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "command/session.h"
#include "resp/reply.h"
#include "resp/request.h"
#include "storage/journal.h"

namespace pion {

class Keyspace;
class MonitorFeed;
class Notifications;
class PromptStore;
class PubSub;
class SlowLog;
class Storage;
struct CommandSpec;
struct RunningTransaction;
class CommandContext;

// What may end a wait from outside.
enum class Interrupt { kGone /* the connection ended */, kTimeout, kError /* CLIENT UNBLOCK ... ERROR */ };

// Answers a suspended command, once, from any thread. Destroyed unused: the command answers an internal error.
// A connection that is gone by then is no error: the answer is dropped.
class Completion {
 public:
  virtual ~Completion() = default;
  // `write` runs on the connection's reactor thread. `required` as in CommandContext::require_lsn.
  virtual void complete(std::function<void(ReplyWriter&)> write, Lsn required) = 0;
  // True once the connection is gone (the work may be given up).
  virtual bool abandoned() const = 0;
  // Runs on the reactor thread when `delay_ms` has passed and the command was not completed; at most one timer a completion.
  virtual void on_timeout(int64_t delay_ms, std::function<void()> call) = 0;
  // For commands that CLIENT UNBLOCK may end, and that leave something behind when the connection goes: runs on the reactor thread,
  // without locks, for each interrupt. Answers whether it ended the wait; then it has completed the command, unless it is kGone.
  virtual void on_interrupt(std::function<bool(Interrupt)> call) = 0;
};

enum class Outcome {
  kDone,         // the reply was written
  kNeedsWorker,  // nothing was done or written: run the same handler again on the worker pool (slow work: P12)
  kSuspended,    // a Completion was taken with suspend(); the connection executes nothing until it is completed
};

// What the commands about the server itself reach: configuration, clients, statistics, shutdown. Implemented by server/.
class ServerControl;

struct Services {
  Storage* storage = nullptr;
  Keyspace* keyspace = nullptr;
  PromptStore* prompt = nullptr;
  ServerControl* server = nullptr;
  PubSub* pubsub = nullptr;
  MonitorFeed* monitors = nullptr;
  SlowLog* slow_log = nullptr;
  Notifications* notifications = nullptr;
};

class CommandContext {
 public:
  CommandContext(const Services& services, Session& session, const CommandSpec& spec, Arguments& arguments, ReplyWriter& reply,
                 bool on_worker)
      : services(services), session(session), spec(spec), args(arguments), reply(reply), on_worker(on_worker) {}
  virtual ~CommandContext() = default;

  const Services& services;
  Session& session;
  const CommandSpec& spec;
  Arguments& args;       // args[0] is the command's name as sent; handlers may move streamed payloads out
  ReplyWriter& reply;
  const bool on_worker;  // a handler that must not block a reactor returns kNeedsWorker when this is false

  std::string_view arg(size_t index) const { return args[index].bytes; }
  size_t argc() const { return args.size(); }

  // The reply must not leave before this record is written (and synced under `always`): the writer's own records, and the last
  // record of every stripe or plane the command read.
  void require_lsn(Lsn lsn) {
    if (lsn > required_lsn_) required_lsn_ = lsn;
  }
  Lsn required_lsn() const { return required_lsn_; }
  // DURABLE, WAITAOF, SAVE: the reply waits for the sync whatever the mode is.
  void require_sync() { sync_required_ = true; }
  bool sync_required() const { return sync_required_; }

  // It waited for keys, and is run again by whoever changed one (blocking.h).
  virtual bool retrying() const { return false; }
  // Set while EXEC runs the command. Such a command must not wait for anything: a blocking one answers as if its time were up.
  RunningTransaction* transaction = nullptr;
  bool may_block() const { return !transaction; }

  // Answer later. Return kSuspended right after.
  virtual std::shared_ptr<Completion> suspend() = 0;

  // Where published messages for this connection are to go.
  virtual std::unique_ptr<Subscriber> make_subscriber() = 0;
  // The output behind `reply`, also while CLIENT REPLY silences that: for pushes.
  virtual OutputChain& unmuted() = 0;

 private:
  Lsn required_lsn_ = 0;
  bool sync_required_ = false;
};

using Handler = Outcome (*)(CommandContext&);

// An array of simple strings, as every HELP subcommand answers.
inline Outcome answer_lines(CommandContext& context, std::span<const std::string_view> lines) {
  context.reply.array(static_cast<int64_t>(lines.size()));
  for (std::string_view line : lines) context.reply.simple(line);
  return Outcome::kDone;
}

// What Redis answers when a subcommand's arguments are none of its forms. `container` in upper case.
inline Outcome bad_subcommand(CommandContext& context, std::string_view container) {
  std::string text("ERR unknown subcommand or wrong number of arguments for '");
  context.reply.error(text.append(context.arg(1)).append("'. Try ").append(container).append(" HELP."));
  return Outcome::kDone;
}

}  // namespace pion
