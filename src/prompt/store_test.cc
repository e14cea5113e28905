// Prompt memory against a naive model of the contract: a list of what was stored, looked through row by row.
#include "io/faulty_filesystem.h"
#include "prompt/test_oracle.h"

namespace pion {
namespace {

using namespace prompt_test;

void check_rows(TestStore& store, const Chain& chain, const MatchReply& match) {
  const auto model = store->model("m");
  for (size_t i = 0; i < model->pools().size(); ++i) {
    const PoolSpec& pool = model->pools()[i];
    const auto rows = store.read(match.lease, pool.name);
    ASSERT_TRUE(rows) << rows.error().text;
    ASSERT_EQ(*rows, rows_of(pool, i, chain, pool.needed(match.matched))) << pool.name << " of " << match.matched;
  }
}

struct Shape {
  const char* name;
  std::vector<PoolShape> pools;
  bool forgets;
};

class AgainstOracle : public testing::TestWithParam<std::tuple<Shape, bool>> {};

TEST_P(AgainstOracle, RandomPutsMatchesAndRestarts) {
  const auto& [shape, media] = GetParam();
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    FaultyFileSystem memory(seed, 1 * kGiB);
    TestStore store(1 * kGiB, &memory);
    store.declare("m", shape.pools);
    Oracle oracle(store->model("m")->pools());
    ChainMaker chains(seed, media);
    const std::string salts[] = {"", "a"};
    for (int step = 0; step < 160; ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " step " + std::to_string(step));
      const std::string salt = salts[chains.pick(2)];
      const Chain chain = chains.next();
      const uint32_t action = chains.pick(20);
      if (action < 9) {
        const uint32_t known = oracle.stored(chain, salt);
        const uint32_t from = chain.outside_media(chains.pick(4) == 0 ? chains.pick(chain.size() + 1) : std::min(known, chains.pick(known + 3)));
        const auto expected = oracle.put(chain, from, salt);
        const auto got = store.put("m", chain, from, salt);
        ASSERT_EQ(got.has_value(), expected.has_value()) << (got ? "" : got.error().text);
        if (got) {
          ASSERT_EQ(std::pair(got->from, got->to), *expected);
        } else {
          ASSERT_EQ(got.error().kind, FaultKind::kGap);
        }
      } else if (action < 17) {
        const uint32_t max = chains.pick(3) == 0 ? chains.pick(chain.size() + 1) : UINT32_MAX;
        const auto got = store.match("m", chain, salt, max);
        ASSERT_TRUE(got) << got.error().text;
        ASSERT_EQ(got->matched, oracle.match(chain, salt, max));
        ASSERT_EQ(got->walked, oracle.stored(chain, salt));
        uint32_t covered = 0;
        for (const MatchedSegment& segment : got->segments) {
          ASSERT_EQ(segment.from, covered);
          covered = segment.to;
        }
        ASSERT_EQ(covered, got->matched);
        if (got->lease != 0) {
          check_rows(store, chain, *got);
          ASSERT_TRUE(store->release(got->lease, *store.client));
        }
      } else if (action == 17) {
        if (chains.pick(2)) {
          ASSERT_TRUE(store.storage().checkpoint());
        }
        store.restart();
      } else if (action == 18 && shape.forgets) {
        const Chain head = cut(chain, chain.outside_media(1 + chains.pick(chain.size())));
        if (head.size() == 0) continue;
        oracle.forget(head, salt);
        ASSERT_TRUE(store->forget("m", head, salt));
      } else if (action == 19 && chains.pick(4) == 0) {
        oracle.revoke(salt);
        ASSERT_TRUE(store->revoke_salt(salt, std::nullopt));
      }
      ASSERT_EQ(store->stats().tokens, oracle.tokens());
    }
    EXPECT_EQ(store->stats().corrupt_segments, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AgainstOracle,
    testing::Combine(testing::Values(Shape{"all", {{"kv", "all", 0, 0, 2, 2, 12}}, true},
                                     Shape{"two_all", {{"k", "all"}, {"v", "all", 0, 0, 3, 1, 4}}, true},
                                     Shape{"window", {{"kv", "all"}, {"w", "window", 9, 0, 2, 2, 4}}, false},
                                     Shape{"keep", {{"w", "window", 8, 3, 2, 2, 4}, {"kv", "all"}}, false},
                                     Shape{"only_window", {{"w", "window", 12, 0, 2, 2, 4}}, false},
                                     Shape{"trailing", {{"kv", "all"}, {"s", "trailing", 0, 0, 2, 1, 32}}, false},
                                     Shape{"only_trailing", {{"s", "trailing", 0, 0, 2, 1, 32}}, false},
                                     Shape{"everything", {{"kv", "all"}, {"w", "window", 10, 2}, {"x", "window", 5, 0}, {"s", "trailing"}}, false}),
                     testing::Bool()),
    [](const auto& info) { return std::string(std::get<0>(info.param).name) + (std::get<1>(info.param) ? "_media" : ""); });

// Under pressure the store may know less than the oracle, never more and never anything else.
TEST(PromptStore, EvictionNeverBreaksWhatItServes) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    FaultyFileSystem memory(seed, 1 * kGiB);
    TestStore store(40 * 8192, &memory);
    store.declare("m", {{"kv", "all"}, {"w", "window", 10, 0}, {"s", "trailing"}});
    Oracle oracle(store->model("m")->pools());
    ChainMaker chains(seed, true);
    for (int step = 0; step < 600; ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " step " + std::to_string(step));
      const Chain chain = chains.next();
      if (chains.pick(2) == 0) {
        // Only the naive model remembers all; the store says what it still has.
        const auto match = store.match("m", chain, "", UINT32_MAX, 0);
        const auto put = store.put("m", chain, chain.outside_media(chains.pick(match->walked + 1)));
        ASSERT_TRUE(put) << put.error().text;
        oracle.put(chain, 0, "");
      } else {
        const auto match = store.match("m", chain);
        ASSERT_LE(match->matched, oracle.stored(chain, ""));
        if (match->lease != 0) {
          check_rows(store, chain, *match);
          store->release(match->lease, *store.client);
        }
      }
      ASSERT_LE(store->stats().bytes, store->stats().budget_bytes);
      if (chains.pick(100) == 0) store.restart();
    }
    EXPECT_GT(store->stats().segments, 0u);
  }
}

TEST(PromptStore, FirstRowsStay) {
  TestStore store;
  store.declare("m", {{"kv", "all", 0, 0, 1, 1, 4}});
  const Chain chain = chain_of(count_up(4));
  const auto put = [&](const std::string& rows, uint32_t from, const Chain& tokens) {
    PutRequest request;
    request.model = "m";
    request.chain = tokens;
    request.from = from;
    request.blobs.emplace_back("kv", memory_blob(rows));
    return store->put(request, *store.client);
  };
  ASSERT_EQ(put("aaaabbbbccccdddd", 0, chain)->segment != 0, true);
  const auto again = put("AAAABBBBCCCCDDDD", 0, chain);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->segment, 0u);
  EXPECT_EQ(again->from, again->to);
  const auto longer = put("XXXXYYYYeeee", 2, chain_of(count_up(5)));
  ASSERT_TRUE(longer);
  EXPECT_EQ(longer->from, 4u);
  const auto match = store.match("m", chain_of(count_up(5)));
  EXPECT_EQ(*store.read(match->lease, "kv"), "aaaabbbbccccddddeeee");
  EXPECT_EQ(*store.read(match->lease, "kv", 1, 3), "bbbbcccc");
  EXPECT_EQ(*store.read(match->lease, "kv", 2, 2), "");
  EXPECT_EQ(store.read(match->lease, "kv", 2, 6).error().kind, FaultKind::kInvalid);
  EXPECT_EQ(store->stats().corrupt_segments, 0u);
}

TEST(PromptStore, SaysWhatIsWrongWithAPut) {
  TestStore store;
  store.declare("m", {{"kv", "all", 0, 0, 2, 2, 8}, {"s", "trailing", 0, 0, 1, 1, 16}});
  const auto error = [&](std::vector<std::pair<std::string, std::string>> blobs, uint32_t from = 0) {
    PutRequest request;
    request.model = "m";
    request.chain = chain_of(count_up(3));
    request.from = from;
    for (const auto& [name, rows] : blobs) request.blobs.emplace_back(name, memory_blob(rows));
    const auto reply = store->put(request, *store.client);
    return reply ? std::string("stored") : reply.error().text;
  };
  const std::string kv(3 * 32, 'x'), state(16, 's');
  EXPECT_EQ(error({{"kv", kv}}), "pool s is missing");
  EXPECT_EQ(error({{"kv", kv}, {"s", state}, {"t", state}}), "model m has no pool t");
  EXPECT_EQ(error({{"kv", kv}, {"kv", kv}, {"s", state}}), "pool kv was given twice");
  EXPECT_EQ(error({{"kv", kv.substr(1)}, {"s", state}}), "pool kv: expected 96 bytes (3 rows of 32), given 95");
  EXPECT_EQ(error({{"kv", kv}, {"s", state + state}}), "pool s: expected 16 bytes (1 rows of 16, the state at boundary 3), given 32");
  EXPECT_EQ(error({{"kv", kv.substr(32)}, {"s", state}}, 1), "stored up to 0");
  EXPECT_EQ(error({{"kv", kv}, {"s", state}}, 4), "from 4 is beyond the 3 tokens");
  EXPECT_EQ(error({{"kv", kv}, {"s", state}}), "stored");
  EXPECT_EQ(store->stats().segments, 1u);
}

TEST(PromptStore, ForkNamesWhatIsStoredThere) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  ASSERT_TRUE(store.put("m", chain_of({1, 2, 3, 4}), 0));
  EXPECT_EQ(store.match("m", chain_of({1, 2, 9}))->fork, (std::pair<uint32_t, int64_t>(2, 3)));
  EXPECT_EQ(store.match("m", chain_of({1, 2}))->fork, (std::pair<uint32_t, int64_t>(2, 3)));
  EXPECT_EQ(store.match("m", chain_of({8}))->fork, (std::pair<uint32_t, int64_t>(0, 1)));
  EXPECT_FALSE(store.match("m", chain_of({1, 2, 3, 4, 5}))->fork);
  EXPECT_FALSE(store.match("m", chain_of({1}), "other salt")->fork);
}

TEST(PromptStore, MediaIsComparedWhole) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const std::vector<uint32_t> tokens = count_up(120);
  const std::string digest(64, 'd');
  ASSERT_TRUE(store.put("m", chain_of(tokens, {{50, 64, digest}}), 0));
  EXPECT_EQ(store.matched("m", chain_of(tokens, {{50, 64, digest}})), 120u);
  EXPECT_EQ(store.matched("m", chain_of(tokens)), 50u);
  EXPECT_EQ(store.matched("m", chain_of(tokens, {{50, 63, digest}})), 50u);
  for (size_t i = 0; i < 64; ++i) {
    std::string other = digest;
    other[i] = 'e';
    EXPECT_EQ(store.matched("m", chain_of(tokens, {{50, 64, other}})), 50u) << "byte " << i;
  }
  EXPECT_EQ(store.matched("m", chain_of(tokens, {{50, 64, digest}}), "", 100), 50u);
  EXPECT_EQ(store.matched("m", chain_of(tokens, {{50, 64, digest}}), "", 114), 114u);
}

TEST(PromptStore, IdentityIsTheManifest) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  ASSERT_TRUE(store->model_set("m", manifest_of({{"kv", "all"}}, ",\"notes\":\"another day\"")));
  const auto other = store->model_set("m", manifest_of({{"kv", "all"}}, ",\"rope\":{\"base\":10000}"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, FaultKind::kMismatch);
  EXPECT_EQ(other.error().text, "model m: rope is missing there, {\"base\":10000} here");
  MatchRequest request;
  request.model = "m";
  request.chain = chain_of({1});
  request.manifest_hash = std::string(64, '0');
  EXPECT_EQ(store->match(request, store.client, nullptr)->error().kind, FaultKind::kMismatch);
  request.manifest_hash = store->model("m")->manifest.hash;
  EXPECT_TRUE(store->match(request, store.client, nullptr)->has_value());
  request.model = "nobody";
  EXPECT_EQ(store->match(request, store.client, nullptr)->error().kind, FaultKind::kNoModel);
}

TEST(PromptStore, RevokedIsGoneAfterARestartToo) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(50));
  ASSERT_TRUE(store.put("m", chain, 0, "tenant"));
  ASSERT_TRUE(store.put("m", chain, 0));
  const auto lease = store.match("m", chain, "tenant");
  EXPECT_EQ(store->revoke_salt("tenant", std::nullopt)->tokens, 50u);
  EXPECT_EQ(store.read(lease->lease, "kv").error().kind, FaultKind::kRevoked);
  EXPECT_FALSE(store->release(lease->lease, *store.client));
  EXPECT_EQ(store.matched("m", chain, "tenant"), 0u);
  EXPECT_EQ(store.matched("m", chain), 50u);
  store.restart();
  EXPECT_EQ(store.matched("m", chain, "tenant"), 0u);
  EXPECT_EQ(store.matched("m", chain), 50u);
  EXPECT_EQ(store->revoke_model("m")->tokens, 50u);
  store.restart();
  EXPECT_EQ(store.match("m", chain).error().kind, FaultKind::kNoModel);
  store.declare("m", {{"kv", "all", 0, 0, 5, 1, 4}});
  EXPECT_EQ(store.matched("m", chain), 0u);
}

TEST(PromptStore, CheckpointHoldsAllOfIt) {
  TestStore store;
  store.declare("m", {{"kv", "all"}, {"s", "trailing"}});
  for (uint32_t i = 0; i < 300; ++i) ASSERT_TRUE(store.put("m", chain_of(count_up(3 + i % 7, i * 100)), 0, i % 2 ? "x" : ""));
  ASSERT_TRUE(store.storage().checkpoint());
  ASSERT_TRUE(store.put("m", chain_of({7, 7}), 0));
  const PromptStats before = store->stats();
  store.restart();
  EXPECT_EQ(store->stats().segments, before.segments);
  EXPECT_EQ(store->stats().bytes, before.bytes);
  EXPECT_EQ(store->stats().tokens, before.tokens);
  for (uint32_t i = 0; i < 300; ++i) EXPECT_EQ(store.matched("m", chain_of(count_up(3 + i % 7, i * 100)), i % 2 ? "x" : ""), 3 + i % 7);
  EXPECT_EQ(store.matched("m", chain_of({7, 7})), 2u);
}

}  // namespace
}  // namespace pion
