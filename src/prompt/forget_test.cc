// FORGET, what a cut leaves to others, and rows that were brought more than once.
#include <thread>

#include "io/faulty_filesystem.h"
#include "prompt/test_oracle.h"

namespace pion {
namespace {

using namespace prompt_test;

void expect_rows(TestStore& store, const Chain& chain, uint32_t expected) {
  const auto match = store.match("m", chain);
  ASSERT_TRUE(match);
  ASSERT_EQ(match->matched, expected);
  const auto model = store->model("m");
  for (size_t i = 0; i < model->pools().size() && expected > 0; ++i) {
    const PoolSpec& pool = model->pools()[i];
    EXPECT_EQ(*store.read(match->lease, pool.name), rows_of(pool, i, chain, pool.needed(expected))) << pool.name;
  }
}

TEST(Forget, TakesAllThatServesNobodyElse) {
  TestStore store;
  store.declare("m", {{"kv", "all", 0, 0, 2, 2, 12}, {"x", "all", 0, 0, 1, 1, 4}});
  const Chain chain = chain_of(count_up(60));
  for (uint32_t n : {60u, 59u, 31u, 1u}) {
    ASSERT_TRUE(store.put("m", chain, 0));
    EXPECT_EQ(store->forget("m", cut(chain, n), "")->tokens, 60u) << n;
    EXPECT_EQ(store->forget("m", cut(chain, n), "")->tokens, 0u) << "nothing begins with it any more";
    EXPECT_EQ(store.matched("m", chain), 0u);
    EXPECT_EQ(store->stats().segments, 0u);
    store.restart();
    EXPECT_EQ(store.matched("m", chain), 0u);
  }
  // What other prompts share stays, to the token; what is behind the cut is stored anew.
  std::vector<uint32_t> other = count_up(40);
  other[20] = 999;
  for (uint32_t n : {21u, 45u, 60u}) {
    ASSERT_TRUE(store.put("m", chain, 0));
    ASSERT_TRUE(store.put("m", chain_of(other), 0));
    EXPECT_EQ(store->forget("m", cut(chain, n), "")->tokens, 40u) << n;
    expect_rows(store, chain_of(other), 40);
    expect_rows(store, chain, 20);
    store.restart();
    expect_rows(store, chain, 20);
  }
  EXPECT_EQ(store->forget("m", cut(chain, 20), "")->tokens, 40u) << "both prompts begin with these";
  EXPECT_EQ(store->stats().corrupt_segments, 0u);
}

// A prompt that was stored first and then continued does not begin with the longer one.
TEST(Forget, LeavesWhatWasContinued) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(60));
  ASSERT_TRUE(store.put("m", cut(chain, 25), 0));
  ASSERT_TRUE(store.put("m", chain, 25));
  EXPECT_EQ(store->forget("m", chain, "")->tokens, 35u);
  expect_rows(store, chain, 25);
}

TEST(Forget, LeavesMediaWhole) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain dog = chain_of(count_up(30), {{10, 8, "dog"}}), cat = chain_of(count_up(30), {{10, 8, "cat"}});
  ASSERT_TRUE(store.put("m", dog, 0));
  EXPECT_EQ(store->forget("m", chain_of(count_up(18), {{10, 8, "cat"}}), "")->tokens, 0u);
  ASSERT_TRUE(store.put("m", cat, 0));
  EXPECT_EQ(store->forget("m", chain_of(count_up(18), {{10, 8, "dog"}}), "")->tokens, 20u);
  expect_rows(store, dog, 10);
  expect_rows(store, cat, 30);
}

// Where a state was stored a match can end: that is kept.
TEST(Forget, ModelsWithBoundariesAreCutWhereAMatchCanEnd) {
  TestStore store;
  store.declare("m", {{"kv", "all"}, {"s", "trailing"}});
  const Chain chain = chain_of(count_up(60));
  ASSERT_TRUE(store.put("m", chain, 0));
  ASSERT_TRUE(store.put("m", cut(chain, 25), 0));  // a boundary inside
  EXPECT_EQ(store->forget("m", cut(chain, 40), "")->tokens, 35u);
  expect_rows(store, chain, 25);
  EXPECT_EQ(store->forget("m", cut(chain, 25), "")->tokens, 25u);
  expect_rows(store, chain, 0);

  TestStore windows;
  windows.declare("m", {{"kv", "all"}, {"w", "window", 8, 0}});
  ASSERT_TRUE(windows.put("m", cut(chain, 8), 0));  // all rows are within the window
  ASSERT_TRUE(windows.put("m", cut(chain, 16), 8));
  EXPECT_EQ(windows->forget("m", cut(chain, 13), "")->tokens, 8u);
  expect_rows(windows, chain, 8);
}

TEST(Forget, OthersKeepWhatTheyHaveInModelsOfEveryRule) {
  const std::vector<std::vector<PoolShape>> shapes = {{{"kv", "all"}, {"s", "trailing"}},
                                                      {{"kv", "all"}, {"w", "window", 9, 0}},
                                                      {{"w", "window", 8, 3}},
                                                      {{"kv", "all"}, {"w", "window", 10, 2}, {"x", "window", 5, 0}, {"s", "trailing"}}};
  for (size_t shape = 0; shape < shapes.size(); ++shape) {
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      FaultyFileSystem memory(seed, 1 * kGiB);
      TestStore store(1 * kGiB, &memory);
      store.declare("m", shapes[shape]);
      ChainMaker chains(seed, true);
      std::vector<Chain> all;
      for (int step = 0; step < 80; ++step) {
        SCOPED_TRACE("shape " + std::to_string(shape) + " seed " + std::to_string(seed) + " step " + std::to_string(step));
        all.push_back(chains.next());
        ASSERT_TRUE(store.put("m", all.back(), 0));
        if (step % 4 != 3) continue;
        const Chain& some = all[chains.pick(static_cast<uint32_t>(all.size()))];
        const Chain head = cut(some, some.outside_media(1 + chains.pick(some.size())));
        if (head.size() == 0) continue;
        std::vector<uint32_t> before;
        for (const Chain& chain : all) before.push_back(store.matched("m", chain));
        ASSERT_TRUE(store->forget("m", head, ""));
        if (chains.pick(4) == 0) store.restart();
        for (size_t i = 0; i < all.size(); ++i) {
          const bool begins = shared(all[i], head) == head.size();
          const uint32_t now = store.matched("m", all[i]);
          ASSERT_LE(now, before[i]);
          if (begins) {
            ASSERT_LT(now, head.size());
          } else if (shape == 0) {
            ASSERT_EQ(now, before[i]);  // elsewhere window rows may have come from a branch that went
          }
          expect_rows(store, all[i], now);
        }
      }
      EXPECT_EQ(store->stats().corrupt_segments, 0u);
    }
  }
}

// The copy is made under no lock: matches, PUTs that branch off and FORGETs of the same segment go on beside it.
TEST(Forget, BesideEverythingElse) {
  TestStore store;
  store.declare("m", {{"kv", "all", 0, 0, 4, 2, 256}});
  const std::vector<uint32_t> tokens = count_up(400);
  std::atomic<bool> stop{false};
  std::atomic<int> cuts{0};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (int i = 0; cuts < 40; i = (i + 1) % 200) {
      const auto gone = store->forget("m", chain_of({tokens.begin(), tokens.begin() + 150 + i}), "");
      if (gone && gone->tokens > 0) ++cuts;
    }
    stop = true;
  });
  const auto put = [&](const std::shared_ptr<PromptClient>& client, const Chain& chain) {
    PutRequest request;
    request.model = "m";
    request.chain = chain;
    const PoolSpec& pool = store->model("m")->pools()[0];
    const std::string rows = rows_of(pool, 0, chain, pool.held(0, chain.size(), 0, false));
    request.blobs.emplace_back("kv", memory_blob(rows));
    return store->put(request, *client);
  };
  for (int number = 0; number < 2; ++number) {
    threads.emplace_back([&, number] {
      const auto client = store.new_client();
      std::mt19937 random(static_cast<uint32_t>(number));
      while (!stop) {
        std::vector<uint32_t> mine = tokens;
        if (number == 1) mine[100 + random() % 250] = 9999;
        const Chain chain = chain_of(mine);
        ASSERT_TRUE(put(client, chain));
        MatchRequest request;
        request.model = "m";
        request.chain = chain;
        const auto match = *store->match(request, client, nullptr);
        ASSERT_TRUE(match);
        RangeRequest range;
        range.lease = match->lease;
        const auto rows = store->range(range, *client);
        if (!rows) {
          ASSERT_TRUE(rows.error().kind == FaultKind::kRevoked || match->lease == 0) << rows.error().text;
        }
        store->release(match->lease, *client);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->stats().corrupt_segments, 0u);
  const uint64_t bytes = store->stats().bytes;
  EXPECT_EQ(store.storage().extents().allocated_bytes(Space::kPrompt), bytes) << "what was written and not used was given back";
  store.restart();
  EXPECT_EQ(store->stats().bytes, bytes);
  expect_rows(store, chain_of(tokens), store.matched("m", chain_of(tokens)));
}

PromptResult<PutReply> put_bits(TestStore& store, const Chain& chain, uint32_t from, char bits) {
  PutRequest request;
  request.model = "m";
  request.chain = chain;
  request.from = from;
  std::vector<std::string> blobs;
  const auto model = store->model("m");
  for (const PoolSpec& pool : model->pools()) {
    blobs.emplace_back(pool.token_bytes() * pool.held(from, chain.size(), from, false).count(), bits);
  }
  for (size_t i = 0; i < blobs.size(); ++i) request.blobs.emplace_back(model->pools()[i].name, memory_blob(blobs[i]));
  return store->put(request, *store.client);
}

// A window's rows may come twice, with a branch or a boundary that needed some of them. Each token's first row stays: for the
// lease that there was, and for the next one.
TEST(WindowRows, FirstOnesStay) {
  TestStore store;
  store.declare("m", {{"w", "window", 10, 0, 1, 1, 1}});
  const Chain chain = chain_of(count_up(30));
  ASSERT_TRUE(put_bits(store, chain, 0, 'a'));  // rows 20..30
  const auto lease = store.match("m", chain);
  EXPECT_EQ(*store.read(lease->lease, "w"), "aaaaaaaaaa");
  ASSERT_TRUE(put_bits(store, cut(chain, 25), 0, 'b'));  // a boundary with rows 15..25
  std::vector<uint32_t> other = count_up(32);
  other[26] = 999;
  ASSERT_TRUE(put_bits(store, chain_of(other), 10, 'c'));  // branches off at 26, with rows 22..32
  EXPECT_EQ(*store.read(lease->lease, "w"), "aaaaaaaaaa");
  EXPECT_EQ(*store.read(store.match("m", chain)->lease, "w"), "aaaaaaaaaa");
  EXPECT_EQ(*store.read(store.match("m", cut(chain, 25))->lease, "w"), "bbbbbaaaaa");
  EXPECT_EQ(*store.read(store.match("m", chain_of(other))->lease, "w"), "aaaacccccc");
  store.restart();
  EXPECT_EQ(*store.read(store.match("m", chain_of(other))->lease, "w"), "aaaacccccc");
}

// Rows below the place where it branched off are everybody's who has these tokens.
TEST(WindowRows, OfABranchServeItsSiblings) {
  TestStore store;
  store.declare("m", {{"kv", "all"}, {"w", "window", 50, 0}});
  const Chain chain = chain_of(count_up(100));
  ASSERT_TRUE(store.put("m", chain, 0));  // window rows 50..100
  std::vector<uint32_t> other = count_up(40);
  other[30] = 999;
  EXPECT_EQ(store.matched("m", cut(chain, 20)), 0u);
  ASSERT_TRUE(store.put("m", chain_of(other), 0));  // branches off at 30, with rows 0..40
  for (uint32_t n : {30u, 20u, 1u}) expect_rows(store, cut(chain, n), n);
  other[25] = 777;
  expect_rows(store, chain_of(other), 25);
  EXPECT_EQ(store.matched("m", cut(chain, 31)), 30u);
}

}  // namespace
}  // namespace pion
