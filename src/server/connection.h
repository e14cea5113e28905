// One client: its socket, what it sent and has not been executed, what it is owed. Lives on one IoThread at a
// time.
//
// The order of things. Commands of one connection run one after another; while one is on a worker or suspended, nothing
// else of the connection runs or is read. Replies gather in `out_`; at the end of the tick they go to `held_` until the
// journal has what they show, then to the sender. Both keep the order.
//
// Limits. A client that is owed more than kOutputPauseBytes is not read from and runs nothing, so its output is at most that
// and the reply of one command. What it may send ahead is one read (64 KiB), or the command under way.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "command/server_control.h"
#include "command/table.h"
#include "command/transaction.h"
#include "io/reactor.h"
#include "io/socket.h"
#include "resp/parser.h"
#include "server/completion.h"
#include "server/output_sender.h"

namespace pion {

class IoThread;
class WorkerPool;
struct MessageDelivery;
struct ThreadBatch;
struct BatchedCommand;
struct ParsedCommands;

class Connection final : public EventHandler {
 public:
  Connection(IoThread& thread, UniqueFd fd, Session session);
  ~Connection() override;

  void on_readable() override;
  void on_writable() override;
  void on_peer_closed(bool gone) override;

  // The end of a tick for a connection that has something to send or waits for the journal. False: it still waits.
  bool settle();
  // The last record its waiting replies show.
  Lsn waits_for() const { return std::max(held_required_, required_); }

  // At the end of the tick's events: first all connections' prefetch, then all their commands.
  void prefetch_entries(std::span<BatchedCommand> commands) const;
  void prefetch_chained_entries(std::span<const BatchedCommand> commands) const;
  void run_gathered(const ParsedCommands& parsed);

  // A suspended command's answer.
  void complete(uint64_t turn, const std::function<void(ReplyWriter&)>& write, Lsn required);
  // A suspended command's time-out. It goes with the command: who waits for ever leaves nothing behind.
  void set_timeout(uint64_t turn, int64_t delay_ms, std::function<void()> call);
  // A published message, if the client still wants it.
  void deliver(MessageDelivery delivery);
  // CLIENT UNBLOCK. False: it does not wait for keys.
  bool unblock(bool error);
  // The pause is over, or may be.
  void run_postponed();
  // CLIENT KILL: closes at the end of the tick. A client that kills itself has its reply by then.
  void kill();
  // The server stops: nothing more is run; the connection ends as soon as its replies are out.
  void drain();
  // Once a second. Closes when idle for too long.
  void check_idle(int64_t now_ms);

  // Moving to another thread: possible at the end of a tick, while nothing of the connection is under way and it has been
  // active since then. leave() on the old thread, join() on the new one.
  bool can_move(int64_t active_since_ms) const;
  void leave();
  void join(IoThread& thread);

  ClientInfo info() const;
  uint64_t id() const { return session_.id; }
  bool closed() const { return closed_; }
  // True while a worker uses the session: the connection must not be destroyed.
  bool in_use() const { return state_ == State::kWorker; }

  bool dirty = false;    // on the thread's list for the end of this tick
  bool waiting = false;  // on the thread's list of those who wait for the journal

 private:
  enum class State { kReady, kWorker, kSuspended };
  struct WorkerJob;

  // connection_input.cc: the socket's bytes.
  bool receive();
  bool receive_stream();
  ssize_t receive_bytes(char* to, size_t size);
  bool keep_descriptors(const msghdr& message, uint64_t end);
  void take_buffer();
  void return_buffer();
  void lend_descriptors(uint64_t command_end);
  void settle_descriptors(uint64_t command_end);

  // connection_commands.cc: running commands.
  bool may_run() const {
    return state_ == State::kReady && !session_.close_after_reply && !closed_ && !draining_ && !killed_ && !output_full_;
  }
  void process();
  void gather();
  ParsedCommands parse_batch(std::span<BatchedCommand> room);
  void prefetch_buckets(std::span<BatchedCommand> commands) const;
  bool run_batch(const ParsedCommands& parsed);
  void execute(BatchedCommand& command);
  void dispatch(BatchedCommand& command);
  bool must_wait(const CommandSpec& spec) const;
  void postpone(BatchedCommand& command);
  void queue(BatchedCommand& command, ReplyWriter& reply);
  void run_handler(BatchedCommand& command, ReplyWriter& reply);
  void keep_for_slow_log(const CommandSpec& spec, const Arguments& arguments, uint64_t ticks);
  void account_suspended(bool failed);
  bool would_meet_long_hold(const CommandSpec& spec, const Arguments& arguments) const;
  void run_on(WorkerPool& pool, BatchedCommand& command, std::string shown);
  static void run_job(const std::shared_ptr<WorkerJob>& job, IoThread& thread, Session& session, bool as_worker);
  void worker_done(WorkerJob& job);
  void suspended(const std::shared_ptr<ConnectionCompletion>& completion, bool sync);
  void cancel_timeout();
  void finish_command();
  void protocol_error();

  // connection_messages.cc: published messages, limits on the output.
  void deliver_delayed();
  void check_output_limit(uint64_t owed);

  // connection.cc: replies and the end.
  void listen();
  void require(Lsn lsn, bool sync);
  bool satisfied(Lsn lsn, bool sync) const;
  void flush();
  void set_interest(Interest interest);
  void resume();
  uint64_t owed_bytes() const { return out_.pending_bytes() + held_.pending_bytes() + sender_.pending_bytes(); }
  void close();

  IoThread* thread_;
  UniqueFd fd_;
  Session session_;
  Interest interest_{.read = true};
  State state_ = State::kReady;
  bool closed_ = false;
  bool draining_ = false;
  bool killed_ = false;
  bool end_of_input_ = false;
  bool output_full_ = false;
  bool gathered_ = false;  // parsed commands wait for the end of the tick's events

  ReadBuffer in_;
  RequestParser parser_;
  size_t batch_limit_;  // commands parsed ahead; small while the connection keeps stopping in the middle of batches
  int64_t last_active_ms_ = 0;
  uint64_t input_bytes_ = 0, output_bytes_ = 0;

  // Descriptors that came with a piece of the stream that ends at `end` (the kernel does not say with which byte of it).
  struct ReceivedDescriptors {
    uint64_t end;
    PassedDescriptors descriptors;
  };
  std::unique_ptr<std::deque<ReceivedDescriptors>> received_;

  // The command being run, on a worker, or suspended.
  uint64_t turn_ = 0;
  uint64_t command_end_ = 0;  // in the stream
  const CommandSpec* blocked_spec_ = nullptr;
  bool blocked_sync_ = false;
  uint64_t blocked_ticks_ = 0;  // it ran for, before it was suspended
  uint64_t suspended_at_ = 0;   // ticks
  std::unique_ptr<std::vector<std::string>> slow_arguments_;  // of the suspended command, if it may be slow
  Reactor::TimerId timeout_ = 0;
  std::unique_ptr<QueuedCommand> postponed_;  // CLIENT PAUSE: what the client waits to have run
  std::weak_ptr<ConnectionCompletion> completion_;
  struct EarlyAnswer {
    std::function<void(ReplyWriter&)> write;
    Lsn required;
  };
  std::unique_ptr<EarlyAnswer> early_;  // completed before its worker returned

  std::unique_ptr<std::vector<MessageDelivery>> delayed_;  // while a worker has the session
  int64_t over_soft_since_ms_ = 0;

  OutputChain out_;
  Lsn required_ = 0;
  bool sync_required_ = false;
  OutputChain held_;
  Lsn held_required_ = 0;
  bool held_sync_ = false;
  int64_t held_since_ms_ = 0;
  OutputSender sender_;
};

std::unique_ptr<Subscriber> make_connection_subscriber(IoThread& thread, uint64_t client);

}  // namespace pion
