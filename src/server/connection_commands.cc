// A connection's commands: batches, workers, suspension.
#include <utility>

#include "command/command_keys.h"
#include "command/slow_command.h"
#include "command/slow_log.h"
#include "command/transaction.h"
#include "keyspace/keyspace.h"
#include "prompt/store.h"
#include "server/connection.h"
#include "server/dispatch.h"
#include "server/io_thread.h"

namespace pion {
namespace {

// The context of one run of a handler, on the reactor or on a worker.
class RunContext final : public CommandContext {
 public:
  RunContext(IoThread& thread, Session& session, const CommandSpec& spec, Arguments& arguments, ReplyWriter& reply, bool on_worker,
             uint64_t turn, OutputChain& unmuted)
      : CommandContext(thread.shared().services, session, spec, arguments, reply, on_worker), thread_(thread), turn_(turn), unmuted_(unmuted) {}

  std::shared_ptr<Completion> suspend() override {
    completion_ = std::make_shared<ConnectionCompletion>(thread_, session.id, turn_);
    return completion_;
  }
  std::unique_ptr<Subscriber> make_subscriber() override { return make_connection_subscriber(thread_, session.id); }
  OutputChain& unmuted() override { return unmuted_; }
  // The connection keeps no strong reference: a completion dropped by everybody answers an error.
  const std::shared_ptr<ConnectionCompletion>& completion() const { return completion_; }
  std::shared_ptr<ConnectionCompletion> take_completion() { return std::move(completion_); }

 private:
  IoThread& thread_;
  const uint64_t turn_;
  OutputChain& unmuted_;
  std::shared_ptr<ConnectionCompletion> completion_;
};

}  // namespace

struct Connection::WorkerJob {
  Connection& connection;
  const CommandSpec& spec;
  Arguments arguments;  // views into the connection's buffer, which nobody touches meanwhile
  OutputChain out;
  std::string shown;  // to monitors
  uint64_t turn = 0;
  Outcome outcome = Outcome::kDone;
  Lsn required = 0;
  bool sync = false;
  uint64_t ticks = 0;
  bool failed = false;
  std::shared_ptr<ConnectionCompletion> completion;
};

void Connection::process() {
  while (may_run()) {
    const ParsedCommands parsed = parse_batch(thread_->batch().commands);
    if (parsed.commands.size() > 1) {
      prefetch_buckets(parsed.commands);
      prefetch_entries(parsed.commands);
      prefetch_chained_entries(parsed.commands);
    }
    if (!run_batch(parsed)) return;
  }
}

// What came is parsed now and run behind the tick's other events.
void Connection::gather() {
  const ParsedCommands parsed = parse_batch(thread_->gather_room());
  if (parsed.commands.empty()) {
    if (run_batch(parsed)) process();
    return;
  }
  prefetch_buckets(parsed.commands);
  gathered_ = true;
  thread_->gather(*this, parsed);
}

void Connection::run_gathered(const ParsedCommands& parsed) {
  gathered_ = false;
  if (closed_) return;
  if (run_batch(parsed)) process();
  if (!closed_) return_buffer();
}

// True: there may be more to run.
bool Connection::run_batch(const ParsedCommands& parsed) {
  const std::span<BatchedCommand> commands = parsed.commands;
  size_t done = 0;
  thread_->command_clock().begin();
  while (done < commands.size() && may_run()) execute(commands[done++]);
  if (closed_) return false;
  if (done < commands.size()) {  // stopped before the end: the rest is parsed again when it may run
    if (done > 0) in_.consume(commands[done - 1].end);
    parser_.rewind();
  } else {
    const size_t bytes = parser_.parsed_bytes();
    in_.consume(bytes);
    parser_.consumed(bytes);
  }
  if (!may_run()) {
    batch_limit_ = 1;
    return false;
  }
  if (parsed.last == RequestParser::Result::kError) return protocol_error(), false;
  if (parsed.last == RequestParser::Result::kNeedMore || parsed.last == RequestParser::Result::kStream) {
    if (!session_.begun_at && parser_.inside_command()) session_.begun_at = parsed.revocations;
    return false;
  }
  batch_limit_ = std::min(batch_limit_ * 2, kBatchCommands);
  return true;
}

ParsedCommands Connection::parse_batch(std::span<BatchedCommand> room) {
  ParsedCommands parsed;
  const PromptStore* prompt = thread_->shared().services.prompt;
  parsed.revocations = prompt ? prompt->revocations() : 0;
  const LiveSettings& live = thread_->shared().live;
  const bool trusted = session_.authenticated || !live.password_required.load(std::memory_order_relaxed);
  // One at a time before AUTH: what follows it has other limits.
  const size_t limit = trusted ? std::min(batch_limit_, room.size()) : 1;
  parser_.set_limits({.authenticated = trusted,
                      .max_bulk_bytes = live.max_bulk_bytes.load(std::memory_order_relaxed),
                      .max_held_bytes = live.query_buffer_bytes.load(std::memory_order_relaxed)});
  size_t count = 0;
  while (count < limit) {
    BatchedCommand& command = room[count];
    parsed.last = parser_.next(in_, command.arguments, count == 0);
    if (parsed.last != RequestParser::Result::kCommand) break;
    command.end = parser_.parsed_bytes();
    command.command = resolve_command(command.arguments);
    count++;
  }
  parsed.commands = room.first(count);
  return parsed;
}

// Random keys are cache misses; asked for together they overlap. First the buckets, then what they point to.
void Connection::prefetch_buckets(std::span<BatchedCommand> commands) const {
  const Keyspace& keyspace = *thread_->shared().services.keyspace;
  for (BatchedCommand& command : commands) {
    const CommandSpec* const spec = command.command.spec;
    const size_t first = spec ? static_cast<size_t>(spec->keys.first) : 0;
    command.has_key = first > 0 && first < command.arguments.size();
    if (!command.has_key) continue;
    command.hash = keyspace.key(command.arguments[first].bytes).hash;
    keyspace.prefetch_bucket(session_.database, command.hash);
  }
}

void Connection::prefetch_entries(std::span<BatchedCommand> commands) const {
  const Keyspace& keyspace = *thread_->shared().services.keyspace;
  for (BatchedCommand& command : commands) {
    command.chained = command.has_key && !keyspace.prefetch_entry(session_.database, command.hash);
  }
}

void Connection::prefetch_chained_entries(std::span<const BatchedCommand> commands) const {
  const Keyspace& keyspace = *thread_->shared().services.keyspace;
  for (const BatchedCommand& command : commands) {
    if (command.chained) keyspace.prefetch_chained_entry(session_.database, command.hash);
  }
}

void Connection::execute(BatchedCommand& command) {
  turn_++;
  session_.commands++;
  session_.last_command_wall_ms = thread_->wall_ms();
  lend_descriptors(input_bytes_ - (in_.size() - command.end));
  thread_->mark_dirty(*this);
  dispatch(command);
}

void Connection::dispatch(BatchedCommand& command) {
  const bool muted = session_.reply_mode != Session::ReplyMode::kOn;
  ReplyWriter reply(muted ? thread_->muted_output() : out_, session_.protocol);
  if (!command.command.spec) {
    if (is_http(command.arguments)) return close();
    if (command.command.misused) thread_->statistics().rejected(*command.command.misused);
    reply.error(refused_in_transaction(session_, find_command(command.arguments[0].bytes), command.command.error));
  } else {
    session_.last_command = command.command.spec->name.data();
    if (const std::string error = refusal(thread_->shared(), session_, *command.command.spec); !error.empty()) {
      thread_->statistics().rejected(*command.command.spec);
      reply.error(refused_in_transaction(session_, command.command.spec, error));
    } else if (must_wait(*command.command.spec)) {
      return postpone(command);
    } else if (session_.transaction && is_queued(*command.command.spec)) {
      queue(command, reply);
    } else {
      run_handler(command, reply);
    }
  }
  if (state_ == State::kReady) finish_command();
  if (ready_keys != 0) {
    thread_->shared().services.keyspace->serve_waiters();
    thread_->command_clock().begin();  // the next command is not to blame
  }
}

bool Connection::must_wait(const CommandSpec& spec) const {
  const ClientPause::Mode mode = thread_->shared().pause.mode();
  if (mode == ClientPause::Mode::kNone) [[likely]] return false;
  const uint32_t flags = session_.transaction && spec.name == "exec" ? session_.transaction->flags() : spec.flags;
  return mode == ClientPause::Mode::kAll || (flags & (kWrite | kMayReplicate));
}

// The command keeps its place: nothing else of the connection runs until it did. It owns its bytes from here on.
void Connection::postpone(BatchedCommand& command) {
  blocked_spec_ = command.command.spec;
  postponed_ = std::make_unique<QueuedCommand>(*command.command.spec, command.arguments);
  suspended(nullptr, false);
  thread_->add_postponed(session_.id);
}

void Connection::run_postponed() {
  if (closed_ || !postponed_) return;
  state_ = State::kReady;
  ThreadCounters::add(thread_->counters().blocked, static_cast<uint64_t>(-1));
  const std::unique_ptr<QueuedCommand> kept = std::move(postponed_);
  BatchedCommand command{std::move(kept->arguments), {kept->spec, {}}};
  thread_->command_clock().begin();
  dispatch(command);
  if (may_run()) resume();
}

// MULTI: for EXEC to run.
void Connection::queue(BatchedCommand& command, ReplyWriter& reply) {
  if (session_.transaction->queue(*command.command.spec, command.arguments)) return reply.simple("QUEUED");
  session_.transaction->abort();
  reply.error("ERR the transaction is too long: at most " + std::to_string(kMaxQueuedCommands) + " commands and " +
              std::to_string(kMaxQueuedBytes) + " bytes of arguments");
}

void Connection::run_handler(BatchedCommand& command, ReplyWriter& reply) {
  const CommandSpec& spec = *command.command.spec;
  std::string shown;
  if (thread_->shared().services.keyspace->long_holds().any()) [[unlikely]] {
    if (would_meet_long_hold(spec, command.arguments)) return run_on(*thread_->shared().patient, command, std::move(shown));
  }
  RunContext context(*thread_, session_, spec, command.arguments, reply, false, turn_, out_);
  MonitorFeed& monitors = *context.services.monitors;
  if (monitors.watched()) [[unlikely]] shown = monitored_arguments(spec, command.arguments);
  const uint32_t errors = errors_written;
  const Outcome outcome = spec.handler(context);
  if (!shown.empty() && outcome != Outcome::kNeedsWorker) tell_monitors(monitors, session_, shown);
  require(context.required_lsn(), context.sync_required());
  switch (outcome) {
    case Outcome::kDone: {
      const uint64_t ticks = thread_->command_clock().lap();
      if (thread_->statistics().called(spec, ticks, errors_written != errors)) [[unlikely]] {
        tell_slow_command(thread_->shared().services, spec, command.arguments, session_, ticks);
      }
      break;
    }
    case Outcome::kNeedsWorker: run_on(*thread_->shared().workers, command, std::move(shown)); break;
    case Outcome::kSuspended:
      blocked_spec_ = &spec;
      keep_for_slow_log(spec, command.arguments, thread_->command_clock().lap());
      suspended(context.completion(), context.sync_required());
      break;
  }
}

namespace {

// Waits for somebody else, as long as it takes: only what it ran is its time. Other suspended commands are slow if they answer late.
bool waits_for_others(const CommandSpec& spec) { return spec.flags & (kBlocking | kPion); }

}  // namespace

// The command is suspended, and its arguments go: what the slow log would show of them is kept, if it may come to that.
void Connection::keep_for_slow_log(const CommandSpec& spec, const Arguments& arguments, uint64_t ticks) {
  blocked_ticks_ = ticks;
  const int64_t threshold_us = thread_->shared().services.slow_log->threshold_us();
  const auto ran_us = static_cast<int64_t>(CycleClock::to_ns(ticks) / 1000);
  if (threshold_us < 0 || (waits_for_others(spec) && ran_us < threshold_us)) return;
  slow_arguments_ = std::make_unique<std::vector<std::string>>(slow_log_arguments(spec, arguments));
}

void Connection::account_suspended(bool failed) {
  const CommandSpec& spec = *blocked_spec_;
  const std::unique_ptr<std::vector<std::string>> shown = std::move(slow_arguments_);
  uint64_t ticks = blocked_ticks_;
  if (!waits_for_others(spec)) ticks += CycleClock::now() - suspended_at_;
  if (!thread_->statistics().called(spec, ticks, failed)) return;
  if (shown) return tell_slow_command(thread_->shared().services, spec, std::move(*shown), session_, ticks);
  tell_slow_command(thread_->shared().services, spec, Arguments{}, session_, ticks);
}

void Connection::suspended(const std::shared_ptr<ConnectionCompletion>& completion, bool sync) {
  state_ = State::kSuspended;
  completion_ = completion;
  blocked_sync_ = sync;
  suspended_at_ = CycleClock::now();
  ThreadCounters::add(thread_->counters().blocked, 1);
}

// Would the command wait for a stripe that somebody holds for long? Then a thread that may wait runs it, and the other connections
// go on.
bool Connection::would_meet_long_hold(const CommandSpec& spec, const Arguments& arguments) const {
  const Keyspace& keyspace = *thread_->shared().services.keyspace;
  if (spec.key_specs.empty()) return locks_without_keys(spec);
  const auto keys = command_keys(spec, arguments);
  if (!keys) return true;
  for (const CommandKey& key : *keys) {
    if (keyspace.long_holds().at(keyspace.key(arguments[key.position].bytes).hash.stripe())) return true;
  }
  return false;
}

void Connection::run_on(WorkerPool& pool, BatchedCommand& command, std::string shown) {
  state_ = State::kWorker;
  blocked_spec_ = command.command.spec;
  auto job = std::make_shared<WorkerJob>(*this, *command.command.spec);
  job->arguments = std::move(command.arguments);
  job->turn = turn_;
  job->shown = std::move(shown);
  const bool as_worker = &pool == thread_->shared().workers;
  pool.run([job, &thread = *thread_, &session = session_, as_worker] { run_job(job, thread, session, as_worker); });
}

// On another thread. Not as a worker: the command is a short one that only waits for its keys; if it turns out to be long, a worker
// takes over.
void Connection::run_job(const std::shared_ptr<WorkerJob>& job, IoThread& thread, Session& session, bool as_worker) {
  ReplyWriter reply(job->out, session.protocol);
  RunContext context(thread, session, job->spec, job->arguments, reply, as_worker, job->turn, job->out);
  MonitorFeed& monitors = *context.services.monitors;
  if (!as_worker && monitors.watched()) job->shown = monitored_arguments(job->spec, job->arguments);
  const uint64_t begun = CycleClock::now();
  const uint32_t errors = errors_written;
  {
    const HoldsLong marks(as_worker);
    job->outcome = job->spec.handler(context);
  }
  job->ticks = CycleClock::now() - begun;
  job->failed = errors_written != errors;
  if (job->outcome == Outcome::kNeedsWorker && !as_worker) {
    return thread.shared().workers->run([job, &thread, &session] { run_job(job, thread, session, true); });
  }
  if (!job->shown.empty()) tell_monitors(monitors, session, job->shown);
  job->required = context.required_lsn();
  job->sync = context.sync_required();
  job->completion = context.take_completion();
  if (ready_keys != 0) thread.shared().services.keyspace->serve_waiters();
  thread.reactor().post([job] { job->connection.worker_done(*job); });
}

void Connection::worker_done(WorkerJob& job) {
  state_ = State::kReady;
  if (job.outcome == Outcome::kSuspended) {
    keep_for_slow_log(job.spec, job.arguments, job.ticks);
  } else {
    if (thread_->statistics().called(job.spec, job.ticks, job.failed)) {
      tell_slow_command(thread_->shared().services, job.spec, job.arguments, session_, job.ticks);
    }
  }
  job.arguments.clear();
  if (closed_ || job.outcome != Outcome::kSuspended) cancel_timeout();
  if (closed_) {
    if (job.completion) job.completion->abandon();
    return thread_->retire(*this);
  }
  require(job.required, job.sync);
  if (job.outcome == Outcome::kSuspended) {
    suspended(job.completion, job.sync);
    job.completion.reset();
    deliver_delayed();
    if (early_) {
      const std::unique_ptr<EarlyAnswer> answer = std::move(early_);
      complete(turn_, answer->write, answer->required);
    }
    return;
  }
  if (job.outcome == Outcome::kNeedsWorker) {
    ReplyWriter(job.out, session_.protocol).error("ERR internal error: a worker was asked for twice");
  }
  (session_.reply_mode != Session::ReplyMode::kOn ? thread_->muted_output() : out_).splice(std::move(job.out));
  deliver_delayed();
  finish_command();
  resume();
}

void Connection::complete(uint64_t turn, const std::function<void(ReplyWriter&)>& write, Lsn required) {
  if (closed_ || turn != turn_ || state_ == State::kReady) return;
  if (state_ == State::kWorker) {
    early_ = std::make_unique<EarlyAnswer>(EarlyAnswer{write, required});
    return;
  }
  ReplyWriter reply(session_.reply_mode != Session::ReplyMode::kOn ? thread_->muted_output() : out_, session_.protocol);
  const uint32_t errors = errors_written;
  write(reply);
  account_suspended(errors_written != errors);
  require(required, blocked_sync_);
  cancel_timeout();
  state_ = State::kReady;
  completion_.reset();
  ThreadCounters::add(thread_->counters().blocked, static_cast<uint64_t>(-1));
  finish_command();
  resume();
}

void Connection::set_timeout(uint64_t turn, int64_t delay_ms, std::function<void()> call) {
  if (closed_ || turn != turn_ || state_ == State::kReady) return;
  timeout_ = thread_->reactor().after(delay_ms, [this, call = std::move(call)] {
    timeout_ = 0;
    call();
  });
}

void Connection::cancel_timeout() {
  if (timeout_ != 0) thread_->reactor().cancel(std::exchange(timeout_, 0));
}

// What follows every command: descriptors it left, CLIENT REPLY, the limit on what the client is owed.
void Connection::finish_command() {
  session_.begun_at.reset();
  settle_descriptors(command_end_);
  using Mode = Session::ReplyMode;
  OutputChain& muted = thread_->muted_output();
  if (session_.reply_mode == Mode::kOn) {
    if (!muted.empty()) out_.splice(std::move(muted));  // CLIENT REPLY ON itself is answered
  } else {
    muted.clear();
    if (session_.reply_mode == Mode::kSkipThis) session_.reply_mode = Mode::kOn;
    if (session_.reply_mode == Mode::kSkipNext) session_.reply_mode = Mode::kSkipThis;
  }
  if (session_.receives_messages()) thread_->deliver_messages();  // its own messages come right behind the reply
  if (closed_) return;
  const uint64_t owed = owed_bytes();
  if (owed > kOutputPauseBytes) output_full_ = true;
  if (owed > thread_->shared().live.least_output_limit_bytes.load(std::memory_order_relaxed)) check_output_limit(owed);
  thread_->mark_dirty(*this);
}

void Connection::protocol_error() {
  if (session_.reply_mode == Session::ReplyMode::kOn) ReplyWriter(out_, session_.protocol).error("ERR " + parser_.protocol_error());
  session_.close_after_reply = true;
  thread_->mark_dirty(*this);
}

}  // namespace pion
