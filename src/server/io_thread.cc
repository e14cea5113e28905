#include "server/io_thread.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "storage/journal.h"

namespace pion {
namespace {

constexpr int64_t kJournalRetryMs = 100;
constexpr int64_t kActiveMs = 200;      // a client that sent something since then is active
constexpr size_t kMovedAtOnce = 1000;
constexpr size_t kGatheredCommands = 4;  // of one connection
constexpr size_t kKeptDeliveries = 4096;

thread_local IoThread* current_thread = nullptr;

}  // namespace

IoThread::IoThread(ServerShared& shared, unsigned index)
    : shared_(shared), index_(index), target_(*shared.extents, &shared.services) {
  reactor_.at_tick_end([this] { tick_end(); });
}

IoThread::~IoThread() = default;

IoThread* IoThread::current() { return current_thread; }

void IoThread::start() {
  thread_ = std::thread([this] {
    current_thread = this;
    statistics_ = &command_statistics().local();
    pthread_setname_np(pthread_self(), ("pion-io-" + std::to_string(index_)).c_str());
    reactor_.after(1000, [this] { every_second(); });
    reactor_.run();
  });
}

void IoThread::join() {
  if (thread_.joinable()) thread_.join();
}

void IoThread::post_drain(int64_t grace_ms) {
  reactor_.post([this, grace_ms] { drain(grace_ms); });
}

void IoThread::drain(int64_t grace_ms) {
  draining_ = true;
  for (auto& [id, connection] : connections_) connection->drain();
  reactor_.after(grace_ms, [this] { reactor_.stop(); });
  stop_when_empty();
}

void IoThread::stop_when_empty() {
  if (draining_ && connections_.empty()) reactor_.stop();
}

void IoThread::post_connection(Accepted accepted, bool unix_socket, uint64_t id) {
  // std::function wants to be copied; the descriptor's owner does not.
  reactor_.post([this, arrived = std::make_shared<Accepted>(std::move(accepted)), unix_socket, id] {
    if (draining_) return shared_.clients.remove(id);
    Session session;
    session.id = id;
    session.unix_socket = unix_socket;
    session.peer_address = std::move(arrived->peer);
    session.local_address = std::move(arrived->local);
    session.created_wall_ms = wall_ms();
    session.authenticated = !shared_.live.password_required.load(std::memory_order_relaxed);
    if (!unix_socket) {
      set_no_delay(arrived->fd.get());
      set_keepalive(arrived->fd.get(), static_cast<int>(shared_.live.keepalive_s.load(std::memory_order_relaxed)));
    }
    ThreadCounters::add(counters_.connections_received, 1);
    ThreadCounters::add(counters_.connected, 1);
    connections_.emplace(id, std::make_unique<Connection>(*this, std::move(arrived->fd), std::move(session)));
  });
}

Connection* IoThread::find(uint64_t client) {
  const auto found = connections_.find(client);
  return found == connections_.end() ? nullptr : found->second.get();
}

void IoThread::post_completion(uint64_t client, uint64_t turn, std::function<void(ReplyWriter&)> write, Lsn required) {
  reactor_.post([this, client, turn, write = std::move(write), required] {
    if (Connection* connection = find(client)) connection->complete(turn, write, required);
  });
}

void IoThread::post_timeout(uint64_t client, uint64_t turn, int64_t delay_ms, std::function<void()> call) {
  reactor_.post([this, client, turn, delay_ms, call = std::move(call)]() mutable {
    if (Connection* connection = find(client)) connection->set_timeout(turn, delay_ms, std::move(call));
  });
}

void IoThread::post_kill(uint64_t client) {
  reactor_.post([this, client] { kill(client); });
}

void IoThread::post_unblock(uint64_t client, bool error, std::function<void(bool)> done) {
  reactor_.post([this, client, error, done = std::move(done)]() mutable {
    if (Connection* connection = find(client)) return done(connection->unblock(error));
    const int thread = shared_.clients.thread_of(client);  // it may have moved meanwhile
    if (thread < 0 || static_cast<unsigned>(thread) == index_) return done(false);
    shared_.threads[static_cast<size_t>(thread)]->post_unblock(client, error, std::move(done));
  });
}

void IoThread::kill(uint64_t client) {
  if (Connection* connection = find(client)) return connection->kill();
  const int thread = shared_.clients.thread_of(client);  // it may have moved meanwhile
  if (thread >= 0 && static_cast<unsigned>(thread) != index_) shared_.threads[static_cast<size_t>(thread)]->post_kill(client);
}

void IoThread::post_unpause() {
  reactor_.post([this] { end_pause(); });
}

void IoThread::add_postponed(uint64_t client) {
  if (postponed_.empty()) reactor_.after(std::max<int64_t>(shared_.pause.until_ms() - pion::monotonic_ms(), 0) + 1, [this] { end_pause(); });
  postponed_.push_back(client);
}

void IoThread::end_pause() {
  // Who must wait on comes back to the list.
  for (uint64_t client : std::exchange(postponed_, {})) {
    if (Connection* connection = find(client)) connection->run_postponed();
  }
}

void IoThread::post_move(IoThread& to, bool all) {
  reactor_.post([this, &to, all] {
    move_to_ = &to;
    move_all_ = all;
  });
}

void IoThread::move_connections(IoThread& to, bool all) {
  std::lock_guard lock(shared_.move_mutex);
  if (shared_.gatherings > 0 || draining_) return;
  std::vector<uint64_t> chosen;
  for (const auto& [id, connection] : connections_) {
    if (chosen.size() < kMovedAtOnce && connection->can_move(all ? 0 : now_ms() - kActiveMs)) chosen.push_back(id);
  }
  if (!all) chosen.resize(chosen.size() / 2);  // of one active client none: the work would only change its place
  auto moved = std::make_shared<std::vector<std::unique_ptr<Connection>>>();
  for (uint64_t id : chosen) {
    auto found = connections_.find(id);
    found->second->leave();
    moved->push_back(std::move(found->second));
    connections_.erase(found);
  }
  ThreadCounters::add(counters_.connected, -static_cast<uint64_t>(chosen.size()));
  to.reactor().post([&to, moved] { to.adopt(std::move(*moved)); });
  // After the post: who finds a client on its new thread comes there behind it.
  for (uint64_t id : chosen) shared_.clients.add(id, to.index_);
}

void IoThread::adopt(std::vector<std::unique_ptr<Connection>> connections) {
  ThreadCounters::add(counters_.connected, connections.size());
  for (std::unique_ptr<Connection>& connection : connections) {
    Connection& joining = *connection;
    connections_.emplace(joining.id(), std::move(connection));
    joining.join(*this);
    if (draining_) joining.drain();
  }
}

void IoThread::post_clients(std::function<void(std::vector<ClientInfo>)> done) {
  reactor_.post([this, done = std::move(done)] {
    std::vector<ClientInfo> clients;
    clients.reserve(connections_.size());
    for (const auto& [id, connection] : connections_) {
      if (!connection->closed()) clients.push_back(connection->info());
    }
    done(std::move(clients));
  });
}

void IoThread::post_message(MessageDelivery delivery) {
  // The thread itself looks at the end of its tick.
  if (messages_.push(std::move(delivery)) && current_thread != this) reactor_.post([] {});
}

void IoThread::deliver_messages() {
  if (messages_.empty()) return;
  const std::unordered_set<uint64_t> overrun = messages_.take(delivering_);
  for (MessageDelivery& delivery : delivering_) {
    if (Connection* connection = find(delivery.client)) connection->deliver(std::move(delivery));
  }
  if (delivering_.capacity() > kKeptDeliveries) std::vector<MessageDelivery>().swap(delivering_);
  delivering_.clear();
  for (uint64_t client : overrun) {
    log_warning("client " + std::to_string(client) + " is closed: its messages came faster than its thread took them");
    kill(client);
  }
}

void IoThread::post_journal_progress() {
  if (progress_posted_.exchange(true, std::memory_order_acq_rel)) return;
  reactor_.post([this] {
    progress_posted_.store(false, std::memory_order_release);
    retry_waiting();
  });
}

int64_t IoThread::wall_ms() {
  if (wall_at_ms_ != reactor_.now_ms()) {
    wall_at_ms_ = reactor_.now_ms();
    wall_ms_ = pion::wall_ms();
  }
  return wall_ms_;
}

void IoThread::mark_dirty(Connection& connection) {
  if (connection.dirty) return;
  connection.dirty = true;
  dirty_.push_back(&connection);
}

void IoThread::retire(Connection& connection) { retired_.push_back(connection.id()); }

std::span<BatchedCommand> IoThread::gather_room() {
  if (gathered_slots_ + kGatheredCommands > gathered_batch_.commands.size()) run_gathered();
  return {gathered_batch_.commands.data() + gathered_slots_, kGatheredCommands};
}

void IoThread::gather(Connection& connection, const ParsedCommands& parsed) {
  gathered_.push_back({&connection, parsed});
  gathered_slots_ += parsed.commands.size();
}

// Buckets were asked for when the commands were parsed; now what they point to.
void IoThread::run_gathered() {
  if (gathered_.size() > 1) {
    for (const GatheredCommands& gathered : gathered_) gathered.connection->prefetch_entries(gathered.parsed.commands);
    for (const GatheredCommands& gathered : gathered_) gathered.connection->prefetch_chained_entries(gathered.parsed.commands);
  }
  for (size_t i = 0; i < gathered_.size(); ++i) gathered_[i].connection->run_gathered(gathered_[i].parsed);
  gathered_.clear();
  gathered_slots_ = 0;
}

ReadBuffer IoThread::take_buffer() {
  ReadBuffer buffer;
  if (spare_.empty()) {
    buffer.reserve(kReadCapacity);
  } else {
    buffer.swap(spare_.back());
    spare_.pop_back();
  }
  return buffer;
}

void IoThread::give_buffer(ReadBuffer buffer) {
  if (buffer.capacity() == kReadCapacity && spare_.size() < kSpareReadBuffers) spare_.push_back(std::move(buffer));
}

// Replies leave here, behind the journal.
void IoThread::tick_end() {
  if (!gathered_.empty()) run_gathered();
  deliver_messages();
  if (!dirty_.empty()) {
    settling_.swap(dirty_);
    write_journal();
    Lsn sync_up_to = 0;
    for (Connection* connection : settling_) {
      connection->dirty = false;
      if (connection->settle()) continue;
      sync_up_to = std::max(sync_up_to, connection->waits_for());
      if (!std::exchange(connection->waiting, true)) waiting_.push_back(connection);
    }
    settling_.clear();
    if (sync_up_to > 0) shared_.journal->request_sync(sync_up_to);
    if (!dirty_.empty() || !messages_.empty()) reactor_.post([] {});  // a full output drained at once and more was run: next tick
  }
  if (!retired_.empty()) destroy_retired();
  if (move_to_) move_connections(*std::exchange(move_to_, nullptr), move_all_);
}

void IoThread::destroy_retired() {
  for (uint64_t id : std::exchange(retired_, {})) {
    Connection* connection = find(id);
    if (!connection || connection->in_use()) continue;
    if (connection->waiting) std::erase(waiting_, connection);
    if (connection->dirty) std::erase(dirty_, connection);
    connections_.erase(id);
    shared_.clients.remove(id);
    ThreadCounters::add(counters_.connected, static_cast<uint64_t>(-1));
  }
  stop_when_empty();
}

// One write for all connections of the tick, and for whatever other threads have pending.
void IoThread::write_journal() {
  Lsn needed = 0;
  for (const Connection* connection : settling_) needed = std::max(needed, connection->waits_for());
  if (needed <= shared_.journal->written_lsn()) return;
  if (shared_.journal->long_write_ahead()) return hand_over_journal();
  const Status written = shared_.journal->write_pending();
  if (written.has_value() != journal_failing_) return;
  journal_failing_ = !written.has_value();
  if (journal_failing_) {
    log_warning("the journal cannot be written, replies wait: " + written.error().message);
    reactor_.after(kJournalRetryMs, [this] { retry_waiting(); });
  } else {
    log_notice("the journal is written again");
  }
}

// A thread that may take its time writes, and tells everybody; who waits for it is looked at again then.
void IoThread::hand_over_journal() {
  if (shared_.journal_write_posted.exchange(true, std::memory_order_acq_rel)) return;
  shared_.journal_writer->run([&shared = shared_] {
    static_cast<void>(shared.journal->write_pending());  // a failure meets the next one who writes
    shared.journal_write_posted.store(false, std::memory_order_release);
    for (IoThread* thread : shared.threads) thread->post_journal_progress();
  });
}

// Marks who waits for the journal, so that the end of this tick looks at them again.
void IoThread::retry_waiting() {
  for (Connection* connection : std::exchange(waiting_, {})) {
    connection->waiting = false;
    mark_dirty(*connection);
  }
  if (journal_failing_) reactor_.after(kJournalRetryMs, [this] { retry_waiting(); });
}

void IoThread::every_second() {
  reactor_.after(1000, [this] { every_second(); });
  for (auto& [id, connection] : connections_) connection->check_idle(now_ms());
  if (!waiting_.empty()) retry_waiting();
}

}  // namespace pion
