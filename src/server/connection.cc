// A connection's replies, and its end.
#include "server/connection.h"

#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "command/transaction.h"
#include "command/watched_keys.h"
#include "server/io_thread.h"
#include "storage/journal.h"

namespace pion {
namespace {

// A journal that cannot be written (full disk, failed device) may be mended; a client waits this long for it.
constexpr int64_t kHeldMs = 30'000;

}  // namespace

Connection::Connection(IoThread& thread, UniqueFd fd, Session session)
    : thread_(&thread),
      fd_(std::move(fd)),
      session_(std::move(session)),
      parser_(thread.stream_target()),
      batch_limit_(kBatchCommands),
      last_active_ms_(thread.now_ms()) {
  session_.fd = fd_.get();
  listen();
}

Connection::~Connection() {
  if (const auto completion = completion_.lock()) completion->abandon();
}

void Connection::require(Lsn lsn, bool sync) {
  required_ = std::max(required_, lsn);
  sync_required_ |= sync;
}

bool Connection::satisfied(Lsn lsn, bool sync) const {
  const Journal& journal = *thread_->shared().journal;
  if (lsn > journal.written_lsn()) return false;
  return lsn <= journal.synced_lsn() || !(sync || journal.mode() == SyncMode::kAlways);
}

void Connection::listen() {
  if (!thread_->reactor().add(fd_.get(), this, interest_)) close();
}

bool Connection::can_move(int64_t active_since_ms) const {
  return may_run() && !session_.receives_messages() && last_active_ms_ >= active_since_ms && !dirty && !waiting && interest_ == Interest{.read = true} &&
         parser_.stream_remaining() == 0 && owed_bytes() == 0 && !end_of_input_;
}

void Connection::leave() { thread_->reactor().remove(fd_.get()); }

void Connection::join(IoThread& thread) {
  thread_ = &thread;
  listen();
}

bool Connection::settle() {
  if (closed_) return true;
  if (!held_.empty()) {
    if (!satisfied(held_required_, held_sync_)) {
      if (thread_->now_ms() - held_since_ms_ < kHeldMs) return false;
      log_warning("client " + std::to_string(session_.id) + " is closed: the journal could not be written or synced for " +
                  std::to_string(kHeldMs / 1000) + " s, and its replies rest on it");
      close();
      return true;
    }
    sender_.take(held_);
    held_required_ = 0;
  }
  if (!out_.empty() && !satisfied(required_, sync_required_)) {
    std::swap(held_, out_);
    held_required_ = required_;
    held_sync_ = sync_required_;
    held_since_ms_ = thread_->now_ms();
  } else {
    sender_.take(out_);
  }
  required_ = 0;
  sync_required_ = false;
  flush();
  if (killed_ && held_.empty()) close();
  return held_.empty();
}

void Connection::flush() {
  uint64_t sent = 0;
  const OutputSender::Result result = sender_.send(fd_.get(), sent);
  output_bytes_ += sent;
  ThreadCounters::add(thread_->counters().net_output_bytes, sent);
  if (result == OutputSender::Result::kBroken) return close();
  const bool all_sent = sender_.empty();
  // While a worker runs, the session is its own: the state is looked at first.
  if (state_ == State::kReady && all_sent && held_.empty() && out_.empty()) {
    if (session_.close_after_reply || draining_ || (end_of_input_ && !output_full_)) return close();
  }
  set_interest({.read = interest_.read, .write = !all_sent, .peer_close = interest_.peer_close});
  if (output_full_ && owed_bytes() <= kOutputPauseBytes / 2) {
    output_full_ = false;
    resume();
  }
}

void Connection::on_writable() { flush(); }

void Connection::on_peer_closed(bool gone) {
  // Redis ends a client that waits when its peer half-closes; what only takes long is still answered.
  const bool waits = state_ == State::kSuspended && (postponed_ || (blocked_spec_->flags & (kBlocking | kPion)));
  if (gone || waits) return close();
  set_interest({.read = false, .write = interest_.write, .peer_close = false});
}

// After a stop: what is in the buffer first, then the socket.
void Connection::resume() {
  process();
  if (closed_) return;
  return_buffer();
  if (end_of_input_) {
    thread_->mark_dirty(*this);  // there may be nothing left to wait for
  } else if (may_run()) {
    set_interest({.read = true, .write = interest_.write, .peer_close = false});
  }
}

void Connection::set_interest(Interest interest) {
  if (closed_ || interest == interest_) return;
  interest_ = interest;
  if (!thread_->reactor().change(fd_.get(), interest)) close();
}

void Connection::kill() {
  if (state_ != State::kReady) return close();
  killed_ = true;
  thread_->mark_dirty(*this);
}

bool Connection::unblock(bool error) {
  const auto completion = state_ == State::kSuspended ? completion_.lock() : nullptr;
  return completion && completion->interrupt(error ? Interrupt::kError : Interrupt::kTimeout);
}

void Connection::drain() {
  draining_ = true;
  if (closed_) return;
  if (state_ == State::kSuspended) return close();
  thread_->mark_dirty(*this);
}

void Connection::check_idle(int64_t now_ms) {
  const int64_t timeout_s = thread_->shared().live.idle_timeout_s.load(std::memory_order_relaxed);
  if (state_ == State::kReady && owed_bytes() > thread_->shared().live.least_output_limit_bytes.load(std::memory_order_relaxed)) {
    check_output_limit(owed_bytes());
    if (closed_) return;
  }
  if (timeout_s > 0 && state_ == State::kReady && !session_.receives_messages() && now_ms - last_active_ms_ > timeout_s * 1000) close();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  cancel_timeout();
  if (state_ == State::kSuspended) ThreadCounters::add(thread_->counters().blocked, static_cast<uint64_t>(-1));
  if (const auto completion = completion_.lock()) completion->abandon();
  thread_->reactor().remove(fd_.get());
  // Bytes that were never read would make the kernel answer with a reset, which can overtake the last reply.
  char unread[16 * 1024];
  for (int i = 0; i < 64 && ::recv(fd_.get(), unread, sizeof unread, MSG_DONTWAIT) > 0; ++i) {
  }
  fd_ = UniqueFd();
  out_.clear();
  held_.clear();
  sender_ = OutputSender();
  if (state_ != State::kWorker) {
    session_.subscriptions.reset();
    session_.monitor.reset();
  }
  thread_->retire(*this);
}

ClientInfo Connection::info() const {
  ClientInfo info;
  info.id = session_.id;
  info.address = session_.peer_address;
  info.local_address = session_.local_address;
  info.user = "default";
  info.fd = fd_.get();
  info.unix_socket = session_.unix_socket;
  info.age_s = (thread_->wall_ms() - session_.created_wall_ms) / 1000;
  info.idle_s = (thread_->now_ms() - last_active_ms_) / 1000;
  info.thread = thread_->index();
  info.reads = interest_.read;
  info.query_buffer_bytes = in_.size();
  info.query_buffer_free_bytes = in_.capacity() - in_.size();
  info.reply_buffer_bytes = out_.links().empty() ? 0 : out_.links().back().bytes.capacity();
  info.output_bytes = owed_bytes();
  info.output_parts = info.output_bytes > 0 ? std::max<size_t>(1, out_.links().size() + held_.links().size()) : 0;
  info.memory_bytes = sizeof *this + in_.capacity() + info.reply_buffer_bytes + info.output_bytes;
  info.net_input_bytes = input_bytes_;
  info.net_output_bytes = output_bytes_;
  info.blocked = state_ == State::kSuspended && (postponed_ || (blocked_spec_->flags & kBlocking));
  if (state_ == State::kWorker) return info;  // the rest is the worker's now
  info.closing = session_.close_after_reply;
  info.memory_bytes += session_.peer_address.capacity() + session_.local_address.capacity() + session_.name.capacity() +
                       session_.lib_name.capacity() + session_.lib_ver.capacity();
  info.name = session_.name;
  info.lib_name = session_.lib_name;
  info.lib_ver = session_.lib_ver;
  info.database = session_.database;
  info.protocol = session_.protocol;
  info.commands = session_.commands;
  info.last_command = session_.last_command;
  info.no_evict = session_.no_evict;
  info.no_touch = session_.no_touch;
  info.monitor = session_.monitor != nullptr;
  if (session_.transaction) {
    info.queued = static_cast<int64_t>(session_.transaction->commands().size());
    info.queued_bytes = session_.transaction->bytes();
    info.memory_bytes += info.queued_bytes;
  }
  if (session_.watched) {
    info.watched = session_.watched->count();
    info.watched_changed = session_.watched->changed();
  }
  if (const Subscriptions* subscriptions = session_.subscriptions.get()) {
    info.subscriber = true;
    info.channels = subscriptions->count(SubscriptionKind::kChannel);
    info.patterns = subscriptions->count(SubscriptionKind::kPattern);
    info.shard_channels = subscriptions->count(SubscriptionKind::kShard);
  }
  return info;
}

}  // namespace pion
