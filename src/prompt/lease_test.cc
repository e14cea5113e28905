// Leases and claims: what holds, until when, and who prefills.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "prompt/test_store.h"

namespace pion {
namespace {

using namespace prompt_test;

TEST(Lease, BelongsToItsConnection) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(20));
  ASSERT_TRUE(store.put("m", chain, 0));
  const auto lease = store.match("m", chain);
  const auto other = store.new_client();
  RangeRequest request;
  request.lease = lease->lease;
  EXPECT_EQ(store->range(request, *other).error().kind, FaultKind::kNoLease);
  EXPECT_FALSE(store->release(lease->lease, *other));
  EXPECT_TRUE(store.read(lease->lease, "kv"));
  EXPECT_TRUE(store->release(lease->lease, *store.client));
  EXPECT_FALSE(store->release(lease->lease, *store.client));
  EXPECT_EQ(store.read(lease->lease, "kv").error().kind, FaultKind::kNoLease);
  store->disconnect(other);
}

TEST(Lease, RunsOut) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(20));
  ASSERT_TRUE(store.put("m", chain, 0));
  const auto lease = store.match("m", chain, "", UINT32_MAX, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(store.read(lease->lease, "kv").error().kind, FaultKind::kNoLease);
  EXPECT_FALSE(store->release(lease->lease, *store.client));
  EXPECT_EQ(store.match("m", chain, "", UINT32_MAX, 0)->lease, 0u);
}

TEST(Lease, KeepsWhatItStandsForAndOnlyThat) {
  TestStore store(5 * 8192);  // a segment of one small pool is two pages
  store.declare("m", {{"kv", "all"}});
  const Chain leased = chain_of(count_up(20, 1000));
  ASSERT_TRUE(store.put("m", leased, 0));
  const auto lease = store.match("m", leased);
  for (uint32_t i = 0; i < 50; ++i) ASSERT_TRUE(store.put("m", chain_of(count_up(5, i * 10)), 0)) << i;
  EXPECT_EQ(*store.read(lease->lease, "kv"), rows_of(store->model("m")->pools()[0], 0, leased, store->model("m")->pools()[0].needed(20)));
  // A connection that dies with a lease gives it up.
  store->disconnect(store.client);
  store.client = store.new_client();
  for (uint32_t i = 0; i < 50; ++i) {
    const Chain next = chain_of(count_up(5, 5000 + i * 10));
    ASSERT_TRUE(store.put("m", next, 0));
    store->release(store.match("m", next)->lease, *store.client);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(store.matched("m", leased), 0u);
}

TEST(Lease, AllLeasedIsARefusalWithNumbers) {
  TestStore store(3 * 8192);
  store.declare("m", {{"kv", "all"}});
  for (uint32_t i = 0; i < 3; ++i) {
    const Chain chain = chain_of(count_up(5, i * 10));
    ASSERT_TRUE(store.put("m", chain, 0));
    ASSERT_NE(store.match("m", chain)->lease, 0u);
  }
  const auto refused = store.put("m", chain_of(count_up(5, 100)), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FaultKind::kNoRoom);
  EXPECT_NE(refused.error().text.find("budget 24576"), std::string::npos) << refused.error().text;
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(store.matched("m", chain_of(count_up(5, i * 10))), 5u);
  store->disconnect(store.client);
  store.client = store.new_client();
  EXPECT_TRUE(store.put("m", chain_of(count_up(5, 100)), 0));
}

TEST(Lease, ForgetEndsIt) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(20));
  ASSERT_TRUE(store.put("m", chain_of(count_up(10)), 0));
  ASSERT_TRUE(store.put("m", chain, 10));
  const auto head = store.match("m", chain_of(count_up(10))), whole = store.match("m", chain);
  EXPECT_EQ(store->forget("m", chain_of(count_up(15)), "")->tokens, 10u);
  EXPECT_EQ(store.read(whole->lease, "kv").error().kind, FaultKind::kRevoked);
  EXPECT_TRUE(store.read(head->lease, "kv"));
  EXPECT_EQ(store.matched("m", chain), 10u);
}

// A client on a thread of its own that asks with a claim.
class Asker {
 public:
  Asker(TestStore& store, Chain chain, int64_t claim_ms = 60'000, int64_t wait_ms = 60'000)
      : store_(store), client(store.new_client()) {
    MatchRequest request;
    request.model = "m";
    request.chain = std::move(chain);
    request.claim_ms = claim_ms;
    request.wait_ms = wait_ms;
    const auto now = store->match(std::move(request), client, [this](PromptResult<MatchReply> reply) {
      std::lock_guard lock(mutex_);
      reply_ = std::move(reply);
      came_.notify_all();
    });
    if (now) reply_ = *now;
  }
  bool answered() {
    std::lock_guard lock(mutex_);
    return reply_.has_value();
  }
  MatchReply wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(came_.wait_for(lock, std::chrono::seconds(30), [&] { return reply_.has_value(); }));
    EXPECT_TRUE(*reply_);
    return **reply_;
  }
  void leave() { store_->disconnect(client); }

 private:
  TestStore& store_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::optional<PromptResult<MatchReply>> reply_;

 public:
  std::shared_ptr<PromptClient> client;
};

PromptResult<PutReply> put_as(TestStore& store, const std::shared_ptr<PromptClient>& client, const Chain& chain, uint32_t from) {
  std::swap(store.client, const_cast<std::shared_ptr<PromptClient>&>(client));
  auto reply = store.put("m", chain, from);
  std::swap(store.client, const_cast<std::shared_ptr<PromptClient>&>(client));
  return reply;
}

TEST(Claim, OnePrefillsTheOthersAreServed) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(60));
  Asker holder(store, chain);
  ASSERT_TRUE(holder.answered());
  EXPECT_TRUE(holder.wait().claimed);
  std::vector<std::unique_ptr<Asker>> others;
  for (int i = 0; i < 7; ++i) others.push_back(std::make_unique<Asker>(store, chain));
  Asker shorter(store, chain_of(count_up(25)));
  for (const auto& other : others) EXPECT_FALSE(other->answered());
  for (uint32_t to = 20; to <= 60; to += 20) {
    EXPECT_FALSE(others[0]->answered());
    ASSERT_TRUE(put_as(store, holder.client, chain_of(count_up(to)), to - 20));
    EXPECT_EQ(shorter.answered(), to >= 40) << "nothing more could come for it";
  }
  for (const auto& other : others) {
    const MatchReply reply = other->wait();
    EXPECT_EQ(reply.matched, 60u);
    EXPECT_FALSE(reply.claimed);
    EXPECT_NE(reply.lease, 0u);
  }
  EXPECT_FALSE(shorter.wait().claimed);
  EXPECT_EQ(store->stats().claims, 0u);
}

TEST(Claim, IsTakenOverByOneWhenItsHolderGoes) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(60));
  Asker holder(store, chain), second(store, chain), third(store, chain);
  ASSERT_TRUE(put_as(store, holder.client, chain_of(count_up(30)), 0));
  holder.leave();
  const MatchReply taken = second.wait();
  EXPECT_TRUE(taken.claimed);
  EXPECT_EQ(taken.matched, 30u);
  EXPECT_FALSE(third.answered());
  ASSERT_TRUE(put_as(store, second.client, chain, 30));
  EXPECT_EQ(third.wait().matched, 60u);
  EXPECT_FALSE(third.wait().claimed);
  EXPECT_EQ(store->stats().claims_taken_over, 1u);
}

TEST(Claim, LapsesAndIsRenewedByItsHoldersPuts) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(60));
  Asker holder(store, chain, 50), second(store, chain);
  EXPECT_TRUE(second.wait().claimed);  // after 50 ms
  second.leave();
}

TEST(Claim, WaitEndsWithWhatThereIs) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(60));
  Asker holder(store, chain), short_of_time(store, chain, 60'000, 20), at_once(store, chain, 60'000, 0);
  ASSERT_TRUE(at_once.answered());
  EXPECT_FALSE(at_once.wait().claimed);
  ASSERT_TRUE(put_as(store, holder.client, chain_of(count_up(10)), 0));
  EXPECT_FALSE(short_of_time.wait().claimed);
}

TEST(Claim, OfAnotherPromptIsNoReasonToWait) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  std::vector<uint32_t> forked = count_up(60);
  forked[0] = 999;
  Asker holder(store, chain_of(count_up(60))), other(store, chain_of(forked));
  EXPECT_TRUE(other.answered());
  EXPECT_TRUE(other.wait().claimed);
  // A shared head is worth waiting for, and no longer than it takes.
  forked = count_up(60);
  forked[30] = 999;
  Asker head(store, chain_of(forked));
  EXPECT_FALSE(head.answered());
  ASSERT_TRUE(put_as(store, holder.client, chain_of(count_up(40)), 0));
  const MatchReply reply = head.wait();
  EXPECT_EQ(reply.matched, 30u);
  EXPECT_TRUE(reply.claimed);
}

TEST(Claim, RevokedModelAnswersItsWaiters) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  Asker holder(store, chain_of(count_up(60)));
  std::optional<PromptResult<MatchReply>> answer;
  MatchRequest request;
  request.model = "m";
  request.chain = chain_of(count_up(60));
  request.claim_ms = request.wait_ms = 60'000;
  const auto client = store.new_client();
  ASSERT_FALSE(store->match(request, client, [&](PromptResult<MatchReply> reply) { answer = std::move(reply); }));
  ASSERT_TRUE(store->revoke_model("m"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error().kind, FaultKind::kNoModel);
}

}  // namespace
}  // namespace pion
