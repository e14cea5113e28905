#include "server/output_sender.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "io/socket.h"

namespace pion {
namespace {

class OutputSenderTest : public ::testing::Test {
 protected:
  OutputSenderTest() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    ours_ = UniqueFd(fds[0]);
    theirs_ = UniqueFd(fds[1]);
    file_ = UniqueFd(::memfd_create("payload", MFD_CLOEXEC));
    payload_.resize(1 << 20);
    std::mt19937 random(3);
    for (char& c : payload_) c = static_cast<char>(random());
    EXPECT_EQ(::write(file_.get(), payload_.data(), payload_.size()), static_cast<ssize_t>(payload_.size()));
  }

  FileSlice slice(uint64_t offset, uint64_t length) { return {pin_, file_.get(), offset, length}; }

  // Reads what is there, at most `limit` bytes.
  void read_some(size_t limit) {
    std::string piece(limit, 0);
    const ssize_t got = ::recv(theirs_.get(), piece.data(), limit, MSG_DONTWAIT);
    if (got > 0) received_.append(piece, 0, static_cast<size_t>(got));
  }

  UniqueFd ours_, theirs_, file_;
  std::string payload_, received_;
  std::shared_ptr<const void> pin_ = std::make_shared<int>(1);
};

TEST_F(OutputSenderTest, BytesAndSlicesArriveInOrderThroughAnySocketBuffer) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    OutputSender sender;
    std::string expected;
    uint64_t sent = 0;
    received_.clear();
    for (int part = 0; part < 20; ++part) {
      OutputChain chain;
      for (int i = static_cast<int>(random() % 4); i >= 0; --i) {
        const std::string bytes(random() % 3 == 0 ? random() % 100000 : random() % 20, static_cast<char>('a' + i));
        chain.tail() += bytes;
        expected += bytes;
        if (random() % 2) continue;
        const uint64_t offset = random() % 1000, length = random() % 200000;
        chain.slice(slice(offset, length));
        expected += payload_.substr(offset, length);
      }
      sender.take(chain);
      EXPECT_TRUE(chain.empty());
      ASSERT_NE(sender.send(ours_.get(), sent), OutputSender::Result::kBroken);
      ASSERT_EQ(sent + sender.pending_bytes(), expected.size());
      if (random() % 2) read_some(random() % 300000);
    }
    while (sender.send(ours_.get(), sent) == OutputSender::Result::kBlocked) read_some(1 << 20);
    while (received_.size() < expected.size()) read_some(1 << 20);
    EXPECT_TRUE(sender.empty());
    EXPECT_EQ(sent, expected.size());
    ASSERT_TRUE(received_ == expected);
    EXPECT_EQ(pin_.use_count(), 1) << "what was sent is let go";
  }
}

TEST_F(OutputSenderTest, DescriptorsComeWithTheirFirstByte) {
  OutputChain chain;
  chain.tail() = "before";
  chain.descriptors({file_.get()}, pin_);
  chain.tail() += "with";
  OutputSender sender;
  sender.take(chain);
  uint64_t sent = 0;
  ASSERT_EQ(sender.send(ours_.get(), sent), OutputSender::Result::kDone);
  EXPECT_EQ(pin_.use_count(), 1);

  std::string seen;
  int fds = 0;
  while (seen.size() < 10) {
    char bytes[64];
    iovec part{bytes, sizeof bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(theirs_.get(), &message, MSG_CMSG_CLOEXEC);
    ASSERT_GT(got, 0);
    if (cmsghdr* header = CMSG_FIRSTHDR(&message)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
      char first = 0;
      EXPECT_EQ(::pread(fd, &first, 1, 0), 1);
      EXPECT_EQ(first, payload_[0]);
      ::close(fd);
      fds++;
      // Linux may join the bytes before, never the bytes behind.
      EXPECT_TRUE(std::string(bytes, static_cast<size_t>(got)).ends_with("with"));
    }
    seen.append(bytes, static_cast<size_t>(got));
  }
  EXPECT_EQ(fds, 1);
  EXPECT_EQ(seen, "beforewith");
}

TEST_F(OutputSenderTest, APeerThatIsGoneOrAFileThatShrankBreaks) {
  OutputChain chain;
  chain.tail() = "x";
  chain.slice(slice(payload_.size() - 10, 100));
  OutputSender sender;
  sender.take(chain);
  uint64_t sent = 0;
  EXPECT_EQ(sender.send(ours_.get(), sent), OutputSender::Result::kBroken);

  theirs_ = UniqueFd();
  OutputChain more;
  more.tail() = "y";
  OutputSender second;
  second.take(more);
  EXPECT_EQ(second.send(ours_.get(), sent), OutputSender::Result::kBroken);
}

}  // namespace
}  // namespace pion
