// A connection's socket: reading, descriptors, buffers.
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "server/connection.h"
#include "server/io_thread.h"

namespace pion {
namespace {

// A connection that sent no more than this waits with it for the others of the tick. Who sends more has a batch of its own.
constexpr size_t kGatheredBytes = 1 * kKiB;

}  // namespace

void Connection::on_readable() {
  if (!may_run()) {  // told again once it may: see resume()
    return set_interest({.read = false, .write = interest_.write, .peer_close = true});
  }
  if (parser_.stream_remaining() > 0) {
    if (receive_stream()) process();
  } else if (receive()) {
    in_.size() <= kGatheredBytes ? gather() : process();
  }
  if (!closed_ && !gathered_) return_buffer();
}

// False: nothing new.
bool Connection::receive() {
  take_buffer();
  // Room grows with what has come, never with what was announced.
  if (in_.room() < kReadBytes / 4) in_.reserve(kReadBytes);
  const ssize_t got = receive_bytes(in_.reserve(1), std::min<size_t>(in_.room(), kTurnReadBytes));
  if (got <= 0) return false;
  in_.received(static_cast<size_t>(got));
  return true;
}

// A payload goes from the socket to its sink through one buffer of the thread's, which is filled before it is fed: a write of many
// whole chunks costs half of what it costs in small or odd pieces. True: it is complete.
bool Connection::receive_stream() {
  const uint64_t room = kTurnReadBytes - parser_.stream_taken() % kChunkBytes;
  const size_t wanted = std::min<uint64_t>(parser_.stream_remaining(), room);
  size_t filled = 0;
  while (filled < wanted) {
    const ssize_t got = receive_bytes(thread_->stream_buffer() + filled, wanted - filled);
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  if (closed_ || filled == 0) return false;
  parser_.feed_stream({thread_->stream_buffer(), filled});
  return parser_.stream_remaining() == 0;
}

// What arrived; 0 or less: nothing, and the connection was closed if it is at its end.
ssize_t Connection::receive_bytes(char* to, size_t size) {
  iovec part{to, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kPassedDescriptors)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = session_.unix_socket ? ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC) : ::recv(fd_.get(), to, size, 0);
  if (got > 0) {
    input_bytes_ += static_cast<uint64_t>(got);
    ThreadCounters::add(thread_->counters().net_input_bytes, static_cast<uint64_t>(got));
    last_active_ms_ = thread_->now_ms();
    if (session_.unix_socket && message.msg_controllen > 0 && !keep_descriptors(message, input_bytes_)) return close(), -1;
    return got;
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return -1;
  if (got < 0) return close(), -1;
  // A half-closed client still gets what it is owed.
  end_of_input_ = true;
  set_interest({.read = false, .write = interest_.write, .peer_close = false});
  thread_->mark_dirty(*this);
  return 0;
}

// False: more than a client may have in flight, or cut off by the kernel.
bool Connection::keep_descriptors(const msghdr& message, uint64_t end) {
  PassedDescriptors arrived;
  msghdr& walk = const_cast<msghdr&>(message);  // the macros want it so
  for (cmsghdr* header = CMSG_FIRSTHDR(&walk); header; header = CMSG_NXTHDR(&walk, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      arrived.add(fd);
    }
  }
  if (arrived.fds().empty()) return true;
  if (!received_) received_ = std::make_unique<std::deque<ReceivedDescriptors>>();
  size_t held = arrived.fds().size();
  for (const ReceivedDescriptors& entry : *received_) held += entry.descriptors.fds().size();
  if ((message.msg_flags & MSG_CTRUNC) || held > kPassedDescriptors) {
    log_notice("client " + std::to_string(session_.id) + " passed more than " + std::to_string(kPassedDescriptors) +
               " descriptors at once: closed");
    return false;
  }
  received_->push_back({end, std::move(arrived)});
  return true;
}

// Gives a command the descriptors that came with its bytes: those of pieces that end inside it, or of the piece it shares with
// later commands. What it does not take goes to the next command of the same piece, then it is closed.
void Connection::lend_descriptors(uint64_t command_end) {
  command_end_ = command_end;
  if (!received_) return;
  bool lent = false;
  for (ReceivedDescriptors& entry : *received_) {
    if (entry.end > command_end && lent) break;
    session_.descriptors.take_all(entry.descriptors);
    lent = true;
    if (entry.end > command_end) break;
  }
}

void Connection::settle_descriptors(uint64_t command_end) {
  if (!received_) return;
  while (!received_->empty() && received_->front().end <= command_end) received_->pop_front();
  if (!received_->empty() && !session_.descriptors.fds().empty()) {
    std::swap(received_->front().descriptors, session_.descriptors);
  } else {
    session_.descriptors.close_all();
  }
  if (received_->empty()) received_.reset();
}

// Connections without a command under way own no buffer: they read into one of the thread's.
void Connection::take_buffer() {
  if (in_.capacity() >= kReadBytes) return;
  ReadBuffer taken = thread_->take_buffer();
  taken.append(in_.view());
  in_.swap(taken);
}

void Connection::return_buffer() {
  // A worker holds views into it.
  if (state_ != State::kReady || in_.capacity() == 0) return;
  ReadBuffer rest;
  if (!in_.empty()) {
    if (in_.capacity() < kReadBytes || in_.size() > kReadBytes / 4) return;
    rest.append(in_.view());
  }
  in_.swap(rest);
  rest.consume(rest.size());
  thread_->give_buffer(std::move(rest));
}

}  // namespace pion
