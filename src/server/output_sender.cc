#include "server/output_sender.h"

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/limits.h"

namespace pion {
namespace {

constexpr uint64_t kTurnBytes = 2 * kMiB;  // then other connections have their turn
constexpr size_t kGather = 32;

}  // namespace

void OutputSender::take(OutputChain& chain) {
  if (link_ == 0 && offset_ == 0 && chain_.empty()) {
    std::swap(chain_, chain);
    chain.clear();
  } else {
    chain_.splice(std::move(chain));
  }
}

uint64_t OutputSender::pending_bytes() const {
  uint64_t sum = 0;
  for (size_t i = link_; i < chain_.links().size(); ++i) {
    sum += chain_.links()[i].bytes.size() + chain_.links()[i].slice.length;
  }
  return sum - offset_;
}

void OutputSender::skip_finished() {
  std::vector<OutputChain::Link>& links = chain_.links();
  while (link_ < links.size() && offset_ == links[link_].bytes.size() && links[link_].slice.length == 0) {
    if (link_ + 1 < links.size()) links[link_] = {};  // lets go of pins early
    link_++;
    offset_ = 0;
  }
}

// Gathers bytes up to the next slice, or the next link that passes descriptors (they go with its first byte).
OutputSender::Result OutputSender::send_bytes(int fd, uint64_t& budget, uint64_t& sent_bytes) {
  if (budget == 0) return Result::kBlocked;
  std::vector<OutputChain::Link>& links = chain_.links();
  iovec parts[kGather];
  size_t count = 0, end = link_;
  bool more = false;
  uint64_t room = budget;  // one call could go on as long as the peer reads
  while (end < links.size() && count < kGather && room > 0) {
    OutputChain::Link& link = links[end];
    if (end > link_ && !link.descriptors.empty()) break;
    const size_t from = end == link_ ? offset_ : 0;
    const uint64_t size = std::min<uint64_t>(link.bytes.size() - from, room);
    if (size > 0) parts[count++] = {link.bytes.data() + from, size};
    room -= size;
    end++;
    if (from + size < link.bytes.size()) break;
    if (link.slice.length > 0) {
      more = true;
      break;
    }
  }
  if (count == 0) return Result::kDone;

  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kPassedDescriptors)];
  const std::vector<int>& descriptors = links[link_].descriptors;
  if (offset_ == 0 && !descriptors.empty()) {
    const size_t bytes = sizeof(int) * std::min(descriptors.size(), kPassedDescriptors);
    std::memset(control, 0, sizeof control);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  }
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
  ssize_t sent;
  do {
    sent = count == 1 && !message.msg_control ? ::send(fd, parts[0].iov_base, parts[0].iov_len, flags)
                                              : ::sendmsg(fd, &message, flags);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Result::kBlocked : Result::kBroken;

  budget -= static_cast<uint64_t>(sent);
  sent_bytes += static_cast<uint64_t>(sent);
  auto left = static_cast<size_t>(sent);
  bool whole = true;
  while (link_ < end && whole) {
    const size_t here = std::min(left, links[link_].bytes.size() - offset_);
    offset_ += here;
    left -= here;
    whole = offset_ == links[link_].bytes.size();
    if (links[link_].slice.length > 0) break;
    skip_finished();
  }
  return whole ? Result::kDone : Result::kBlocked;
}

OutputSender::Result OutputSender::send_slice(int fd, uint64_t& budget, uint64_t& sent_bytes) {
  FileSlice& slice = chain_.links()[link_].slice;
  while (slice.length > 0) {
    if (budget == 0) return Result::kBlocked;
    auto offset = static_cast<off_t>(slice.offset);
    const ssize_t sent = ::sendfile(fd, slice.fd, &offset, std::min(slice.length, budget));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Result::kBlocked : Result::kBroken;
    if (sent == 0) return Result::kBroken;  // the file is shorter than it was
    slice.offset += static_cast<uint64_t>(sent);
    slice.length -= static_cast<uint64_t>(sent);
    budget -= static_cast<uint64_t>(sent);
    sent_bytes += static_cast<uint64_t>(sent);
  }
  slice = {};
  return Result::kDone;
}

OutputSender::Result OutputSender::send(int fd, uint64_t& sent_bytes) {
  uint64_t budget = kTurnBytes;
  while (true) {
    skip_finished();
    if (link_ == chain_.links().size()) break;
    if (offset_ < chain_.links()[link_].bytes.size()) {
      const Result result = send_bytes(fd, budget, sent_bytes);
      if (result != Result::kDone) return result;
      continue;
    }
    const Result result = send_slice(fd, budget, sent_bytes);
    if (result != Result::kDone) return result;
  }
  link_ = offset_ = 0;
  chain_.clear();
  return Result::kDone;
}

}  // namespace pion
