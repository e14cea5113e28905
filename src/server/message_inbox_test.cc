#include "server/message_inbox.h"

#include <gtest/gtest.h>

namespace pion {
namespace {

std::shared_ptr<const PublishedMessage> message(size_t payload_bytes) {
  return std::make_shared<PublishedMessage>(SubscriptionKind::kChannel, "c", std::string(payload_bytes, 'x'), 0);
}

TEST(MessageInbox, WakesOnceAndKeepsTheOrder) {
  MessageInbox inbox(1 << 20);
  EXPECT_TRUE(inbox.empty());
  EXPECT_TRUE(inbox.push({1, message(1), nullptr}));
  EXPECT_FALSE(inbox.push({2, message(2), nullptr}));
  EXPECT_FALSE(inbox.empty());
  std::vector<MessageDelivery> taken;
  EXPECT_TRUE(inbox.take(taken).empty());
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].client, 1u);
  EXPECT_EQ(taken[1].client, 2u);
  EXPECT_TRUE(inbox.empty());
  EXPECT_TRUE(inbox.push({1, message(1), nullptr}));
}

TEST(MessageInbox, AClientThatMissedAMessageGetsNoneBehindIt) {
  MessageInbox inbox(1000);
  inbox.push({1, message(600), nullptr});
  inbox.push({2, message(600), nullptr});  // too much
  inbox.push({2, message(1), nullptr});    // would fit
  inbox.push({1, message(1), nullptr});
  std::vector<MessageDelivery> taken;
  EXPECT_EQ(inbox.take(taken), std::unordered_set<uint64_t>{2});
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[1].client, 1u);
  taken.clear();
  inbox.push({2, message(1), nullptr});
  EXPECT_TRUE(inbox.take(taken).empty());
  EXPECT_EQ(taken.size(), 1u);
}

TEST(MessageInbox, OneMessageForManyCountsOnce) {
  MessageInbox inbox(100'000);
  const auto one = message(50'000);
  for (uint64_t client = 0; client < 100; ++client) inbox.push({client, one, nullptr});
  std::vector<MessageDelivery> taken;
  EXPECT_TRUE(inbox.take(taken).empty());
  EXPECT_EQ(taken.size(), 100u);
}

}  // namespace
}  // namespace pion
