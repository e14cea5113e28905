// One reactor thread and its connections. All members but post_*() and counters() belong to the thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/page_buffer.h"
#include "command/command_statistics.h"
#include "io/reactor.h"
#include "keyspace/shard.h"
#include "resp/parser.h"
#include "server/connection.h"
#include "server/message_inbox.h"
#include "server/payload_target.h"
#include "server/server_shared.h"

namespace pion {

inline constexpr size_t kReadBytes = 64 * kKiB;     // one read of small commands
// Of a buffer for it. A little more, so that the beginnings of several do not fall on the same sets of the cache.
inline constexpr size_t kReadCapacity = kReadBytes + 5 * 64;
inline constexpr size_t kSpareReadBuffers = 32;
inline constexpr uint64_t kTurnReadBytes = 1 * kMiB;  // of one connection, then others have their turn

struct BatchedCommand {
  Arguments arguments;
  ResolvedCommand command;
  size_t end = 0;  // in the read buffer
  bool has_key = false;
  bool chained = false;  // its key is behind the first bucket of a chain
  KeyHash hash;    // of its first key
};

// Commands parsed and not yet executed. One a thread: a connection that stops in the middle parses the rest again later.
struct ThreadBatch {
  std::vector<BatchedCommand> commands{kBatchCommands};
};

struct ParsedCommands {
  std::span<BatchedCommand> commands;
  RequestParser::Result last = RequestParser::Result::kCommand;  // the room is full; otherwise why parsing ended
  uint64_t revocations = 0;    // when it began
};

// A connection's first commands of this tick, to be run together with those of others: their cache misses overlap, and the
// code of each step stays warm.
struct GatheredCommands {
  Connection* connection;
  ParsedCommands parsed;
};

class IoThread {
 public:
  IoThread(ServerShared& shared, unsigned index);
  ~IoThread();

  void start();
  // Any thread. Ends when all connections have, at the latest after `grace_ms`.
  void post_drain(int64_t grace_ms);
  void join();

  // Any thread.
  void post_connection(Accepted accepted, bool unix_socket, uint64_t id);
  void post_completion(uint64_t client, uint64_t turn, std::function<void(ReplyWriter&)> write, Lsn required);
  void post_timeout(uint64_t client, uint64_t turn, int64_t delay_ms, std::function<void()> call);
  void post_kill(uint64_t client);
  // `done` runs on this thread, with whether the client was ended waiting.
  void post_unblock(uint64_t client, bool error, std::function<void(bool)> done);
  // CLIENT UNPAUSE, or the pause is over: commands that waited for it are run.
  void post_unpause();
  void post_clients(std::function<void(std::vector<ClientInfo>)> done);
  // Gives clients that have nothing under way to another thread: all, or half of those that are active.
  void post_move(IoThread& to, bool all);
  // A published message for one of our clients.
  void post_message(MessageDelivery delivery);
  // The journal got further.
  void post_journal_progress();

  Reactor& reactor() { return reactor_; }
  ServerShared& shared() { return shared_; }
  ThreadCounters& counters() { return counters_; }
  const ThreadCounters& counters() const { return counters_; }
  ThreadStatistics& statistics() { return *statistics_; }
  CommandClock& command_clock() { return command_clock_; }
  unsigned index() const { return index_; }
  // The thread that runs, null when it is none of ours.
  static IoThread* current();

  // For connections.
  ThreadBatch& batch() { return batch_; }
  // Where a connection that sent little may put its commands until the events of the tick are through: a few slots.
  std::span<BatchedCommand> gather_room();
  void gather(Connection& connection, const ParsedCommands& parsed);
  ReadBuffer take_buffer();
  void give_buffer(ReadBuffer buffer);
  char* stream_buffer() { return stream_.get(); }
  StreamTarget* stream_target() { return &target_; }
  OutputChain& muted_output() { return muted_; }
  // Messages that have arrived go into their clients' outputs.
  void deliver_messages();
  int64_t now_ms() const { return reactor_.now_ms(); }
  int64_t wall_ms();  // read once a tick
  void mark_dirty(Connection& connection);
  // A command of the connection waits for the end of the pause.
  void add_postponed(uint64_t client);
  void retire(Connection& connection);  // destroyed at the end of the tick, or when no worker uses it any more

 private:
  void tick_end();
  void run_gathered();
  void write_journal();
  void hand_over_journal();
  void retry_waiting();
  void every_second();
  void drain(int64_t grace_ms);
  void stop_when_empty();
  Connection* find(uint64_t client);
  void kill(uint64_t client);
  void end_pause();
  void move_connections(IoThread& to, bool all);
  void adopt(std::vector<std::unique_ptr<Connection>> connections);
  void destroy_retired();

  ServerShared& shared_;
  const unsigned index_;
  Reactor reactor_;
  std::thread thread_;
  ThreadCounters counters_;
  ThreadStatistics* statistics_ = nullptr;  // once the thread runs
  CommandClock command_clock_;
  std::unordered_map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> dirty_, settling_;
  std::vector<Connection*> waiting_;
  std::vector<uint64_t> retired_, postponed_;
  MessageInbox messages_{kMessageInboxBytes};
  std::vector<MessageDelivery> delivering_;
  std::atomic<bool> progress_posted_{false};
  bool journal_failing_ = false;
  IoThread* move_to_ = nullptr;  // at the end of this tick
  bool move_all_ = false;
  bool draining_ = false;
  int64_t wall_ms_ = 0;
  int64_t wall_at_ms_ = -1;

  ThreadBatch batch_;
  ThreadBatch gathered_batch_;
  size_t gathered_slots_ = 0;  // in use
  std::vector<GatheredCommands> gathered_;
  std::vector<ReadBuffer> spare_;
  const PageBuffer stream_{kTurnReadBytes};
  OutputChain muted_;
  PayloadTarget target_;
};

}  // namespace pion
