#include "command/pubsub.h"

#include <gtest/gtest.h>

#include <thread>

namespace pion {
namespace {

using Kind = SubscriptionKind;

// Keeps what it gets.
class Listener final : public Subscriber {
 public:
  explicit Listener(std::vector<std::string>& heard) : heard_(heard) {}
  void deliver(std::shared_ptr<const PublishedMessage> message, std::shared_ptr<const std::string> pattern) override {
    std::lock_guard lock(mutex_);
    heard_.push_back((pattern ? *pattern + ">" : "") + message->channel + "=" + message->payload);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string>& heard_;
};

TEST(PubSub, ChannelsPatternsAndShardsAreApart) {
  PubSub hub;
  std::vector<std::string> heard;
  Subscriptions mine(hub, std::make_unique<Listener>(heard));
  EXPECT_TRUE(mine.add(Kind::kChannel, "news"));
  EXPECT_FALSE(mine.add(Kind::kChannel, "news"));
  EXPECT_TRUE(mine.add(Kind::kPattern, "n*"));
  EXPECT_TRUE(mine.add(Kind::kShard, "news"));
  EXPECT_EQ(mine.total(), 3u);
  EXPECT_EQ(mine.bytes(), 10u);
  EXPECT_EQ(hub.publish(Kind::kChannel, "news", "1", 0), 2u);
  EXPECT_EQ(hub.publish(Kind::kShard, "news", "2", 0), 1u);
  EXPECT_EQ(hub.publish(Kind::kChannel, "nothing", "3", 0), 1u);
  EXPECT_EQ(hub.publish(Kind::kShard, "nothing", "4", 0), 0u);
  EXPECT_EQ(hub.count_receivers(Kind::kChannel, "news"), 2u);
  EXPECT_EQ(heard, (std::vector<std::string>{"news=1", "n*>news=1", "news=2", "n*>nothing=3"}));
  EXPECT_EQ(hub.channels(Kind::kChannel, std::nullopt), std::vector<std::string>{"news"});
  EXPECT_TRUE(hub.channels(Kind::kChannel, "x*").empty());
  EXPECT_EQ(hub.subscribers(Kind::kChannel, "news"), 1u);
}

TEST(PubSub, NothingIsLeftOfWhoWent) {
  PubSub hub;
  std::vector<std::string> heard;
  {
    Subscriptions mine(hub, std::make_unique<Listener>(heard)), other(hub, std::make_unique<Listener>(heard));
    for (Subscriptions* both : {&mine, &other}) {
      both->add(Kind::kChannel, "a");
      both->add(Kind::kPattern, "*");
      both->add(Kind::kShard, "a");
    }
    EXPECT_EQ(hub.count(Kind::kPattern), 1u);
    EXPECT_TRUE(other.remove(Kind::kChannel, "a"));
    EXPECT_FALSE(other.remove(Kind::kChannel, "a"));
    EXPECT_EQ(hub.subscribers(Kind::kChannel, "a"), 1u);
  }
  for (Kind kind : {Kind::kChannel, Kind::kPattern, Kind::kShard}) EXPECT_EQ(hub.count(kind), 0u);
  EXPECT_EQ(hub.publish(Kind::kChannel, "a", "x", 0), 0u);
  EXPECT_TRUE(heard.empty());
}

TEST(PubSub, AllHearOneOrderWhileOthersComeAndGo) {
  PubSub hub;
  constexpr int kEach = 2000;
  std::vector<std::string> first, second, pattern, passing;
  Subscriptions a(hub, std::make_unique<Listener>(first)), b(hub, std::make_unique<Listener>(second));
  Subscriptions c(hub, std::make_unique<Listener>(pattern));
  a.add(Kind::kChannel, "c");
  b.add(Kind::kChannel, "c");
  c.add(Kind::kPattern, "c*");
  std::vector<std::thread> threads;
  for (int publisher = 0; publisher < 2; ++publisher) {
    threads.emplace_back([&hub, publisher] {
      for (int i = 0; i < kEach; ++i) hub.publish(Kind::kChannel, "c", std::to_string(publisher) + ":" + std::to_string(i), 0);
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kEach; ++i) {
      Subscriptions guest(hub, std::make_unique<Listener>(passing));
      guest.add(Kind::kChannel, "c");
      guest.add(Kind::kPattern, "x*");
    }
  });
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(first.size(), 2u * kEach);
  EXPECT_EQ(first, second);
  ASSERT_EQ(pattern.size(), first.size());
  int next[2] = {0, 0};
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(pattern[i], "c*>" + first[i]);
    const int publisher = first[i][2] - '0';
    EXPECT_EQ(std::stoi(first[i].substr(4)), next[publisher]++);
  }
}

}  // namespace
}  // namespace pion
