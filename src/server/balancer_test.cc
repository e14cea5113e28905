#include "server/balancer.h"

#include <gtest/gtest.h>

#include <vector>

namespace pion {
namespace {

using Loads = std::vector<ThreadLoad>;

TEST(Balancer, OneThreadThatKeepsUpKeepsAll) {
  EXPECT_EQ(suggest_move(Loads{{.busy = 0.7, .clients = 50}, {.busy = 0, .clients = 0}}), std::nullopt);
}

TEST(Balancer, ABusyThreadGivesToACalmOne) {
  EXPECT_EQ(suggest_move(Loads{{.busy = 0.95, .clients = 50}, {.busy = 0.1, .clients = 0}}), (ClientMove{0, 1, false}));
  EXPECT_EQ(suggest_move(Loads{{.busy = 0.6, .clients = 50}, {.busy = 0.99, .clients = 9}, {.busy = 0.2, .clients = 3}}),
            (ClientMove{1, 2, false}));
}

TEST(Balancer, OneClientCannotBeDivided) {
  EXPECT_EQ(suggest_move(Loads{{.busy = 1, .clients = 1}, {.busy = 0, .clients = 0}}), std::nullopt);
}

TEST(Balancer, TwoBusyThreadsStay) {
  EXPECT_EQ(suggest_move(Loads{{.busy = 0.95, .clients = 50}, {.busy = 0.9, .clients = 50}}), std::nullopt);
}

TEST(Balancer, IdleThreadsBecomeOne) {
  EXPECT_EQ(suggest_move(Loads{{.busy = 0.2, .clients = 5}, {.busy = 0.1, .clients = 5}}), (ClientMove{1, 0, true}));
  EXPECT_EQ(suggest_move(Loads{{.busy = 0.8, .clients = 5}, {.busy = 0.1, .clients = 5}, {.busy = 0.2, .clients = 5}}),
            (ClientMove{2, 1, true}));
  EXPECT_EQ(suggest_move(Loads{{.busy = 0.3, .clients = 5}, {.busy = 0.3, .clients = 5}}), std::nullopt);
}

// After either move nothing must suggest the way back at once.
TEST(Balancer, ASplitIsNotJoinedAgain) {
  EXPECT_EQ(suggest_move(Loads{{.busy = 0.45, .clients = 25}, {.busy = 0.45, .clients = 25}}), std::nullopt);
}

TEST(Balancer, NewClientsGoWhereClientsAreAndItIsCalm) {
  EXPECT_EQ(thread_for_new_client(Loads{{.busy = 0.5, .clients = 5}, {.busy = 0, .clients = 0}}), 0u);
  EXPECT_EQ(thread_for_new_client(Loads{{.busy = 0.9, .clients = 5}, {.busy = 0.6, .clients = 5}}), 1u);
}

}  // namespace
}  // namespace pion
