// Many threads on one store: what the thread sanitizer and the rows themselves have to say about it.
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "prompt/test_store.h"

namespace pion {
namespace {

using namespace prompt_test;

// Clients extend, read, forget and revoke the same few prompts under a budget that is too small, so that every match races with
// commits, evictions and cuts. Rows are checked against their prefixes: whatever is served is right.
TEST(Threads, ReadersUnderAStormOfEveryKind) {
  TestStore store(60 * 8192);
  const std::vector<PoolShape> pools = {{"kv", "all", 0, 0, 2, 1, 64}, {"w", "window", 12, 2, 1, 1, 64}};
  store.declare("m", pools);
  std::atomic<uint64_t> served{0}, wrong{0};
  const auto work = [&](uint32_t seed) {
    std::mt19937 random(seed);
    const auto client = store.new_client();
    for (int step = 0; step < 250; ++step) {
      std::vector<uint32_t> tokens = count_up(8 + random() % 40, (random() % 3) * 1000);
      if (random() % 2) tokens[random() % tokens.size()] += 500 * (1 + random() % 2);
      const Chain chain = chain_of(tokens);
      MatchRequest ask;
      ask.model = "m";
      ask.chain = chain;
      const auto match = *store->match(ask, client, nullptr);
      if (!match) continue;  // revoked and not declared again yet
      const auto model = store->model("m");
      if (!model) continue;
      if (match->lease != 0) {
        RangeRequest range;
        range.lease = match->lease;
        const auto got = store->range(range, *client);
        for (size_t i = 0; got && i < got->pools.size(); ++i) {
          std::string rows;
          bool whole = true;
          for (const auto& runs : got->pools[i].runs) {
            for (const ExtentRun& run : runs) {
              rows.resize(rows.size() + run.length);
              whole = whole && run.extent->read(run.offset, run.length, rows.data() + rows.size() - run.length);
            }
          }
          const PoolSpec& pool = model->pools()[i];
          if (!whole || rows != rows_of(pool, i, chain, pool.needed(match->matched))) ++wrong;
          ++served;
        }
        store->release(match->lease, *client);
      }
      PutRequest put;
      put.model = "m";
      put.chain = chain;
      put.from = random() % (match->walked + 1);
      std::vector<std::string> blobs;
      for (size_t i = 0; i < 2; ++i) {
        blobs.push_back(rows_of(model->pools()[i], i, chain, model->pools()[i].held(put.from, chain.size(), put.from, false)));
      }
      for (size_t i = 0; i < 2; ++i) put.blobs.emplace_back(pools[i].name, memory_blob(blobs[i]));
      (void)store->put(put, *client);
      if (random() % 12 == 0) (void)store->forget("m", chain_of({tokens.begin(), tokens.begin() + 1 + random() % tokens.size()}), "");
      if (random() % 120 == 0) {
        (void)store->revoke_model("m");
        (void)store->model_set("m", manifest_of(pools));
      }
      if (random() % 60 == 0) (void)store.storage().checkpoint();
      if (random() % 10 == 0) (void)store->stats();
    }
    store->disconnect(client);
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(served, 100u);
  EXPECT_EQ(store->stats().corrupt_segments, 0u);
  EXPECT_LE(store->stats().bytes, 60u * 8192);
  EXPECT_EQ(store->stats().leases, 0u);
}

// Eight threads on one cold prompt: each token is prefilled once.
TEST(Threads, OnePrefillForAllWhoAskAtOnce) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(120));
  std::atomic<uint32_t> prefilled{0};
  const auto work = [&] {
    const auto client = store.new_client();
    std::mutex mutex;
    std::condition_variable came;
    std::optional<PromptResult<MatchReply>> answer;
    MatchRequest ask;
    ask.model = "m";
    ask.chain = chain;
    ask.claim_ms = ask.wait_ms = 60'000;
    auto now = store->match(ask, client, [&](PromptResult<MatchReply> reply) {
      std::lock_guard lock(mutex);
      answer = std::move(reply);
      came.notify_all();
    });
    if (!now) {
      std::unique_lock lock(mutex);
      came.wait(lock, [&] { return answer.has_value(); });
      now = answer;
    }
    ASSERT_TRUE(*now);
    for (uint32_t at = (*now)->matched; at < 120 && (*now)->claimed; at += 20) {
      PutRequest put;
      put.model = "m";
      put.chain = chain_of(count_up(at + 20));
      put.from = at;
      const auto model = store->model("m");
      const std::string rows = rows_of(model->pools()[0], 0, put.chain, model->pools()[0].held(at, at + 20, at, false));
      put.blobs.emplace_back("kv", memory_blob(rows));
      ASSERT_TRUE(store->put(put, *client));
      prefilled += 20;
    }
    if (!(*now)->claimed) {
      EXPECT_EQ((*now)->matched, 120u);
    }
    store->disconnect(client);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(prefilled, 120u);
  EXPECT_EQ(store->stats().tokens, 120u);
}

// PC109: another salt's prompt and a random one are the same work: nothing of the other salt is looked at, or what is broken in it
// would have been noticed.
TEST(Salts, AMissLooksAtNothingOfAnotherSalt) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain theirs = chain_of(count_up(2000));
  ASSERT_TRUE(store.put("m", theirs, 0, "u1"));
  ASSERT_TRUE(store.put("m", chain_of(count_up(10, 77)), 0, "u2"));
  for (const auto& file : std::filesystem::directory_iterator(store.dir() + "/payload/0")) {
    std::filesystem::resize_file(file.path(), 0);  // whoever looks finds nothing
  }
  for (const Chain& probe : {theirs, chain_of(count_up(2000, 9'000'000))}) {
    const auto match = store.match("m", probe, "u2");
    ASSERT_TRUE(match);
    EXPECT_EQ(match->matched, 0u);
    EXPECT_EQ(match->walked, 0u);
    EXPECT_EQ(match->saved_ms, 0);
    EXPECT_EQ(store->stats().corrupt_segments, 0u);
  }
  EXPECT_EQ(store.matched("m", theirs, "u1"), 0u);
  EXPECT_EQ(store->stats().corrupt_segments, 1u);
}

}  // namespace
}  // namespace pion
