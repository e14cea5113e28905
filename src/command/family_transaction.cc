// MULTI EXEC DISCARD WATCH UNWATCH.
//
// EXEC takes the stripes of all keys of all its commands, and of the watched keys, once (all stripes when a command's keys cannot
// be told, or when it looks at the whole keyspace), runs the handlers under them, and appends one record. A command that answers
// later (CLIENT LIST asks all threads) leaves a gap in the reply; EXEC itself answers when the gaps are filled.
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/cycle_clock.h"
#include "base/limits.h"
#include "command/command_keys.h"
#include "command/command_statistics.h"
#include "command/families.h"
#include "command/notifications.h"
#include "command/slow_command.h"
#include "command/transaction.h"
#include "command/watched_keys.h"
#include "keyspace/keyspace.h"
#include "keyspace/keyspace_scope.h"

namespace pion {
namespace {

// The replies of a transaction, in order, and those that are still to come.
class ExecReplies {
 public:
  // Where the next command writes.
  OutputChain& tail() { return parts_.back(); }

  size_t leave_gap() {
    std::lock_guard lock(mutex_);
    gaps_++;
    missing_++;
    parts_.emplace_back();
    answers_.emplace_back();
    return gaps_ - 1;
  }
  bool has_gaps() const { return gaps_ > 0; }

  // Once for each gap, any thread.
  void fill(size_t gap, std::function<void(ReplyWriter&)> write, Lsn required) {
    std::lock_guard lock(mutex_);
    answers_[gap] = std::move(write);
    required_ = std::max(required_, required);
    if (--missing_ == 0 && completion_) finish();
  }
  // The transaction is through: answer as soon as nothing is missing.
  void run_out(std::shared_ptr<Completion> completion, Lsn required, const std::shared_ptr<ExecReplies>& self) {
    std::lock_guard lock(mutex_);
    completion_ = std::move(completion);
    self_ = self;
    required_ = std::max(required_, required);
    if (missing_ == 0) finish();
  }

 private:
  void finish() {
    const std::shared_ptr<Completion> completion = std::move(completion_);
    completion->complete(
        [self = std::move(self_)](ReplyWriter& reply) {
          for (size_t i = 0; i < self->parts_.size(); ++i) {
            reply.out().splice(std::move(self->parts_[i]));
            if (i < self->answers_.size()) self->answers_[i](reply);
          }
        },
        required_);
  }

  std::mutex mutex_;
  std::deque<OutputChain> parts_ = std::deque<OutputChain>(1);
  std::vector<std::function<void(ReplyWriter&)>> answers_;  // each behind the part of its number
  size_t gaps_ = 0, missing_ = 0;
  Lsn required_ = 0;
  std::shared_ptr<Completion> completion_;
  std::shared_ptr<ExecReplies> self_;
};

// The answer of one command of the transaction that comes later.
class GapCompletion final : public Completion {
 public:
  GapCompletion(std::shared_ptr<ExecReplies> replies, size_t gap) : replies_(std::move(replies)), gap_(gap) {}
  ~GapCompletion() override {
    if (!completed_) fill([](ReplyWriter& reply) { reply.error("ERR internal error: the command was given up"); }, 0);
  }
  void complete(std::function<void(ReplyWriter&)> write, Lsn required) override { fill(std::move(write), required); }
  bool abandoned() const override { return false; }
  // Nothing waits inside a transaction, so nothing times out.
  void on_timeout(int64_t, std::function<void()>) override {}
  void on_interrupt(std::function<bool(Interrupt)>) override {}

 private:
  void fill(std::function<void(ReplyWriter&)> write, Lsn required) {
    if (std::exchange(completed_, true)) return;
    replies_->fill(gap_, std::move(write), required);
  }

  const std::shared_ptr<ExecReplies> replies_;
  const size_t gap_;
  bool completed_ = false;
};

// The context of one command of the transaction.
class NestedContext final : public CommandContext {
 public:
  NestedContext(CommandContext& outer, QueuedCommand& command, ReplyWriter& reply, bool on_worker, RunningTransaction& running,
                std::shared_ptr<ExecReplies> replies)
      : CommandContext(outer.services, outer.session, *command.spec, command.arguments, reply, on_worker),
        outer_(outer), replies_(std::move(replies)) {
    transaction = &running;
  }

  std::shared_ptr<Completion> suspend() override { return std::make_shared<GapCompletion>(replies_, replies_->leave_gap()); }
  std::unique_ptr<Subscriber> make_subscriber() override { return outer_.make_subscriber(); }
  OutputChain& unmuted() override { return reply.out(); }

 private:
  CommandContext& outer_;
  const std::shared_ptr<ExecReplies> replies_;
};

// Commands without keys that do not look at the keyspace either.
bool leaves_keyspace_alone(const CommandSpec& spec) {
  for (std::string_view group : {"connection", "pubsub", "transactions"}) {
    if (spec.group == group) return true;
  }
  for (std::string_view name : {"command", "slowlog", "latency"}) {
    if (spec.name.starts_with(name)) return true;
  }
  return spec.name == "time" || spec.name == "wait" || spec.name == "role";
}

// Nothing: the whole keyspace.
std::optional<std::vector<Key>> keys_of(const Keyspace& keyspace, const Transaction& transaction, const WatchedKeys* watched) {
  std::vector<Key> keys;
  for (const QueuedCommand& command : transaction.commands()) {
    if (command.spec->key_specs.empty()) {
      if (leaves_keyspace_alone(*command.spec)) continue;
      return std::nullopt;
    }
    const auto positions = touched_keys(*command.spec, command.arguments);
    if (!positions) return std::nullopt;
    for (size_t position : *positions) keys.push_back(keyspace.key(command.arguments[position].bytes));
  }
  if (watched) watched->add_keys(keys);
  return keys;
}

void run(CommandContext& context, QueuedCommand& command, RunningTransaction& running, const std::shared_ptr<ExecReplies>& replies,
         Session::ReplyMode mode_before) {
  using Mode = Session::ReplyMode;
  Session& session = context.session;
  OutputChain& out = replies->tail();
  // CLIENT REPLY OFF within the transaction silences the rest of it, although the length was told.
  const bool muted = session.reply_mode == Mode::kOff && mode_before != Mode::kOff;
  OutputChain silent;
  ReplyWriter reply(muted ? silent : out, session.protocol);
  session.last_command = command.spec->name.data();
  MonitorFeed& monitors = *context.services.monitors;
  const std::string shown = monitors.watched() ? monitored_arguments(*command.spec, command.arguments) : std::string();
  const uint64_t begun = CycleClock::now();
  const uint32_t errors = errors_written;
  for (const bool on_worker : {context.on_worker, true}) {
    NestedContext nested(context, command, reply, on_worker, running, replies);
    const Outcome outcome = command.spec->handler(nested);
    context.require_lsn(nested.required_lsn());
    if (nested.sync_required()) context.require_sync();
    // What is slow runs here all the same: the stripes are held, and nothing may come between.
    if (outcome != Outcome::kNeedsWorker) break;
  }
  const uint64_t ticks = CycleClock::now() - begun;
  const bool failed = errors_written != errors;
  errors_written = errors;  // it is not EXEC that failed
  if (command_statistics().local().called(*command.spec, ticks, failed)) {
    tell_slow_command(context.services, *command.spec, command.arguments, session, ticks);
  }
  if (!shown.empty()) tell_monitors(monitors, session, shown);
  if (muted && session.reply_mode == Mode::kOn) out.splice(std::move(silent));
}

Outcome exec(CommandContext& context) {
  Session& session = context.session;
  if (!session.transaction) return context.reply.error("ERR EXEC without MULTI"), Outcome::kDone;
  Keyspace& keyspace = *context.services.keyspace;
  if (session.transaction->aborted()) {
    session.transaction.reset();
    session.watched.reset();
    context.reply.error("EXECABORT Transaction discarded because of previous errors.");
    return Outcome::kDone;
  }
  const auto keys = keys_of(keyspace, *session.transaction, session.watched.get());
  // What looks at the whole keyspace may take long.
  if (!keys && !context.on_worker) return Outcome::kNeedsWorker;

  std::optional<KeyspaceScope> scope;
  if (keys) {
    scope.emplace(keyspace, *keys);
  } else {
    scope.emplace(keyspace, KeyspaceScope::All::kAll);
  }
  if (session.watched) session.watched->expire();
  if (session.watched && session.watched->changed()) {
    session.transaction.reset();
    context.require_lsn(scope->finish());
    session.watched.reset();
    context.reply.nil_array();
    return Outcome::kDone;
  }
  session.watched.reset();
  const std::unique_ptr<Transaction> transaction = std::move(session.transaction);
  RunningTransaction running;
  const auto replies = std::make_shared<ExecReplies>();
  ReplyWriter(replies->tail(), session.protocol).array(static_cast<int64_t>(transaction->commands().size()));
  const Session::ReplyMode mode_before = session.reply_mode;
  for (QueuedCommand& command : transaction->commands()) run(context, command, running, replies, mode_before);
  context.require_lsn(scope->finish());
  if (running.published) context.services.notifications->journalled(context.required_lsn());
  if (replies->has_gaps()) {
    replies->run_out(context.suspend(), context.required_lsn(), replies);
    return Outcome::kSuspended;
  }
  context.reply.out().splice(std::move(replies->tail()));
  return Outcome::kDone;
}

Outcome multi(CommandContext& context) {
  if (context.session.transaction) return context.reply.error("ERR MULTI calls can not be nested"), Outcome::kDone;
  context.session.transaction = std::make_unique<Transaction>();
  context.reply.ok();
  return Outcome::kDone;
}

Outcome discard(CommandContext& context) {
  if (!context.session.transaction) return context.reply.error("ERR DISCARD without MULTI"), Outcome::kDone;
  context.session.transaction.reset();
  context.session.watched.reset();
  context.reply.ok();
  return Outcome::kDone;
}

Outcome watch(CommandContext& context) {
  Session& session = context.session;
  if (session.transaction) return context.reply.error("ERR WATCH inside MULTI is not allowed"), Outcome::kDone;
  if (!session.watched) session.watched = std::make_unique<WatchedKeys>(*context.services.keyspace);
  if (session.watched->count() + context.argc() - 1 > kMaxWatchedKeys) {
    context.reply.error("ERR too many watched keys: at most " + std::to_string(kMaxWatchedKeys) + " of one connection");
    return Outcome::kDone;
  }
  for (size_t i = 1; i < context.argc(); i++) context.require_lsn(session.watched->add(session.database, context.arg(i)));
  context.reply.ok();
  return Outcome::kDone;
}

Outcome unwatch(CommandContext& context) {
  context.session.watched.reset();
  context.reply.ok();
  return Outcome::kDone;
}

constexpr CommandSpec kCommands[] = {
    {.name = "discard", .handler = discard},
    {.name = "exec", .handler = exec},
    {.name = "multi", .handler = multi},
    {.name = "unwatch", .handler = unwatch},
    {.name = "watch", .handler = watch},
};

}  // namespace

std::span<const CommandSpec> transaction_commands() { return kCommands; }

}  // namespace pion
