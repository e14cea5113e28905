#include "io/reactor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "io/socket.h"

namespace pion {
namespace {

class Recorder : public EventHandler {
 public:
  explicit Recorder(std::function<void(char)> call) : call_(std::move(call)) {}
  void on_readable() override { call_('r'); }
  void on_writable() override { call_('w'); }
  void on_peer_closed(bool gone) override { call_(gone ? 'g' : 'h'); }

 private:
  std::function<void(char)> call_;
};

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    ours = UniqueFd(fds[0]);
    theirs = UniqueFd(fds[1]);
  }
  UniqueFd ours, theirs;
};

TEST(Reactor, TimersRunInOrderOfTimeThenOfMaking) {
  Reactor reactor;
  std::string order;
  reactor.after(30, [&] { order += 'd', reactor.stop(); });
  reactor.after(10, [&] { order += 'b'; });
  reactor.after(10, [&] { order += 'c'; });
  const auto cancelled = reactor.after(5, [&] { order += 'x'; });
  reactor.after(0, [&] {
    order += 'a';
    reactor.cancel(cancelled);
  });
  reactor.run();
  EXPECT_EQ(order, "abcd");
}

TEST(Reactor, CancelledTimersDoNotPileUp) {
  Reactor reactor;
  int ran = 0;
  for (int i = 0; i < 100000; ++i) reactor.cancel(reactor.after(1'000'000, [&] { ran++; }));
  reactor.after(0, [&] { reactor.stop(); });
  reactor.run();
  EXPECT_EQ(ran, 0);
}

TEST(Reactor, PostsOfManyThreadsAllRunInTheirOrder) {
  Reactor reactor;
  constexpr int kThreads = 4, kPosts = 5000;
  std::vector<int> last(kThreads, 0);
  int total = 0;
  bool ordered = true;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= kPosts; ++i) {
        reactor.post([&, t, i] {
          ordered &= last[static_cast<size_t>(t)] == i - 1;
          last[static_cast<size_t>(t)] = i;
          if (++total == kThreads * kPosts) reactor.stop();
        });
      }
    });
  }
  reactor.run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(ordered);
  EXPECT_EQ(total, kThreads * kPosts);
}

TEST(Reactor, APostFromAPostRunsInALaterTick) {
  Reactor reactor;
  int ticks = 0, posted_at = 0, ran_at = 0;
  reactor.at_tick_end([&] { ticks++; });
  reactor.post([&] {
    posted_at = ticks;
    reactor.post([&] { ran_at = ticks, reactor.stop(); });
  });
  reactor.run();
  EXPECT_EQ(posted_at, 0);
  EXPECT_EQ(ran_at, 1);
}

TEST(Reactor, ReadableWritableAndBothKindsOfClosing) {
  Reactor reactor;
  Pair pair;
  std::string seen;
  Recorder recorder([&](char what) {
    seen += what;
    if (what == 'w') {
      EXPECT_TRUE(reactor.change(pair.ours.get(), {.read = true}));
    }
    if (what == 'r') {
      EXPECT_TRUE(reactor.change(pair.ours.get(), {.peer_close = true}));
      ::shutdown(pair.theirs.get(), SHUT_WR);
    }
    if (what == 'h') {
      EXPECT_TRUE(reactor.change(pair.ours.get(), {}));
      pair.theirs = UniqueFd();
    }
    if (what == 'g') reactor.remove(pair.ours.get()), reactor.stop();
  });
  ASSERT_TRUE(reactor.add(pair.ours.get(), &recorder, {.write = true}));
  ASSERT_EQ(::write(pair.theirs.get(), "x", 1), 1);
  reactor.run();
  EXPECT_EQ(seen, "wrhg");
}

// Both are ready in one tick; the one that comes first takes the other off, which must not be called any more, also when its
// descriptor number is in use again.
TEST(Reactor, NothingIsCalledAfterRemoveInTheSameTick) {
  Reactor reactor;
  Pair a, b, c;
  int calls = 0, calls_of_new = 0;
  std::unique_ptr<Recorder> first, second, fresh;
  fresh = std::make_unique<Recorder>([&](char) { calls_of_new++; });
  const auto once = [&](UniqueFd& other) {
    return [&](char) {
      calls++;
      reactor.remove(other.get());
      const int number = other.get();
      ASSERT_EQ(::dup2(c.ours.get(), number), number);
      ASSERT_TRUE(reactor.add(number, fresh.get(), {.read = true}));
      reactor.after(5, [&] { reactor.stop(); });
      reactor.remove(a.ours.get() == number ? b.ours.get() : a.ours.get());
    };
  };
  first = std::make_unique<Recorder>(once(b.ours));
  second = std::make_unique<Recorder>(once(a.ours));
  ASSERT_TRUE(reactor.add(a.ours.get(), first.get(), {.read = true}));
  ASSERT_TRUE(reactor.add(b.ours.get(), second.get(), {.read = true}));
  ASSERT_EQ(::write(a.theirs.get(), "x", 1), 1);
  ASSERT_EQ(::write(b.theirs.get(), "x", 1), 1);
  reactor.run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(calls_of_new, 0);
}

TEST(Socket, UnixSocketReplacesOnlyADeadOneAndKeepsLongPaths) {
  char folder[] = "/tmp/pion-socket-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string deep = std::string(folder) + "/" + std::string(120, 'd');
  ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  for (const std::string& path : {std::string(folder) + "/pion.sock", deep + "/pion.sock"}) {
    auto first = listen_unix(path, 8);
    ASSERT_TRUE(first) << first.error().message;
    auto second = listen_unix(path, 8);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kBusy);
    *first = UniqueFd();  // dead, but the file stays
    auto third = listen_unix(path, 8);
    EXPECT_TRUE(third);
    ::unlink(path.c_str());
  }
  const std::string file = std::string(folder) + "/file";
  UniqueFd made(::open(file.c_str(), O_CREAT | O_WRONLY, 0600));
  auto refused = listen_unix(file, 8);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExists);
  ::unlink(file.c_str());
  ::rmdir(deep.c_str());
  ::rmdir(folder);
}

TEST(Socket, TcpListensWhereItWasTold) {
  auto listener = listen_tcp("127.0.0.1", 0, 8);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_GT(local_port(listener->get()), 0);
  auto nobody = accept_tcp(listener->get());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::kUnavailable);
  auto taken = listen_tcp("127.0.0.1", local_port(listener->get()), 8);
  EXPECT_FALSE(taken);
}

}  // namespace
}  // namespace pion
