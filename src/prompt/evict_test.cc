// What goes when room is needed, what stays, what a segment weighs, and what corruption costs. PCnnn: cases of public reports,
// listed in docs/prompt-memory.md.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "prompt/test_store.h"

namespace pion {
namespace {

using namespace prompt_test;

// One pool whose rows are whole pages, so that budgets can be told in tokens: a segment of n tokens takes n + 1 pages.
const std::vector<PoolShape> kPages = {{"kv", "all", 0, 0, 1, 1, 4096}};
constexpr uint64_t kPage = 4096;

Chain branch(const std::vector<uint32_t>& head, uint32_t tokens, uint32_t first) {
  std::vector<uint32_t> all = head;
  for (uint32_t i = 0; i < tokens; ++i) all.push_back(first + i);
  return chain_of(all);
}

void use(TestStore& store, const Chain& chain) {
  const auto match = store.match("m", chain);
  if (match->lease != 0) store->release(match->lease, *store.client);
}

// PC078: larger than the budget is refused, and nothing goes for it.
TEST(Evict, WhatCannotFitIsRefused) {
  TestStore store(25 * kPage);
  store.declare("m", kPages);
  ASSERT_TRUE(store.put("m", chain_of(count_up(9)), 0));
  ASSERT_TRUE(store.put("m", chain_of(count_up(9, 100)), 0));
  const auto refused = store.put("m", chain_of(count_up(70, 200)), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FaultKind::kNoRoom);
  EXPECT_EQ(store.matched("m", chain_of(count_up(9))), 9u);
  EXPECT_EQ(store.matched("m", chain_of(count_up(9, 100))), 9u);
}

// PC077: reads refresh; what nobody reads goes first.
TEST(Evict, TheUnreadOneGoes) {
  TestStore store(12 * kPage);
  store.declare("m", kPages);
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(store.put("m", chain_of(count_up(3, i * 10)), 0));
  for (int i = 0; i < 5; ++i) use(store, chain_of(count_up(3, 0)));
  use(store, chain_of(count_up(3, 20)));
  ASSERT_TRUE(store.put("m", chain_of(count_up(3, 30)), 0));
  EXPECT_EQ(store.matched("m", chain_of(count_up(3, 0))), 3u);
  EXPECT_EQ(store.matched("m", chain_of(count_up(3, 10))), 0u);
  EXPECT_EQ(store.matched("m", chain_of(count_up(3, 20))), 3u);
}

// PC114: a live conversation outlives another's fresh steps, which go leaves first.
TEST(Evict, LiveHeadsOutliveFreshSteps) {
  TestStore store(1000 * kPage);
  store.declare("m", kPages);
  const Chain live = chain_of(count_up(600, 10'000));
  ASSERT_TRUE(store.put("m", live, 0));
  use(store, live);
  const auto head = count_up(60);
  ASSERT_TRUE(store.put("m", chain_of(head), 0));
  for (uint32_t step = 0; step < 40; ++step) {
    const Chain next = branch(head, 60, 20'000 + step * 100);
    const auto put = store.put("m", next, 60);
    ASSERT_TRUE(put) << put.error().text;
    EXPECT_EQ(store.matched("m", next), 120u);
  }
  EXPECT_EQ(store.matched("m", live), 600u);
  EXPECT_LE(store->stats().bytes, 1000 * kPage);
  EXPECT_EQ(store.matched("m", branch(head, 60, 20'000)), 60u);
  EXPECT_GT(store->stats().evicted_segments, 30u);
}

// PC056: after a compaction the head stays, the old tail goes.
TEST(Evict, TheOldTailGoesTheHeadStays) {
  TestStore store(460 * kPage);
  store.declare("m", kPages);
  const auto head = count_up(300);
  const Chain before = branch(head, 90, 1000), after = branch(head, 12, 2000);
  ASSERT_TRUE(store.put("m", chain_of(head), 0));
  ASSERT_TRUE(store.put("m", before, 300));
  use(store, chain_of(head));
  EXPECT_EQ(store.matched("m", after), 300u);
  ASSERT_TRUE(store.put("m", after, 300));
  use(store, after);
  ASSERT_TRUE(store.put("m", chain_of(count_up(80, 5000)), 0));
  EXPECT_EQ(store.matched("m", after), 312u);
  EXPECT_EQ(store.matched("m", before), 300u);
}

// PC040: two histories on one head alternate; both stay, the head is stored once.
TEST(Evict, TwoBranchesStayAndShareTheirHead) {
  TestStore store(1000 * kPage);
  store.declare("m", kPages);
  const auto head = count_up(200);
  const Chain a = branch(head, 150, 1000), b = branch(head, 150, 2000);
  for (int round = 0; round < 10; ++round) {
    for (const Chain& chain : {a, b}) {
      const uint32_t matched = store.matched("m", chain);
      if (round > 0) {
        EXPECT_EQ(matched, 350u);
      }
      ASSERT_TRUE(store.put("m", chain, matched));
    }
  }
  EXPECT_LE(store->stats().bytes, (200 + 150 + 150 + 3) * kPage);
}

// PC084: window states that a deeper one supersedes go before any attention rows; the chain can be used at its newest end always.
TEST(Evict, SupersededWindowStatesGoFirst) {
  const std::vector<PoolShape> pools = {{"kv", "all", 0, 0, 1, 1, 256}, {"w", "window", 16, 0, 1, 1, 16384}};
  // 20 turns of 16 tokens: attention 20 x 2 pages, a window state 64 + 1 pages; room for about four of these.
  TestStore store((20 * 2 + 4 * 65 + 8) * kPage);
  store.declare("m", pools);
  std::vector<uint32_t> tokens;
  for (uint32_t turn = 0; turn < 20; ++turn) {
    const auto from = static_cast<uint32_t>(tokens.size());
    for (uint32_t i = 0; i < 16; ++i) tokens.push_back(turn * 100 + i);
    const auto put = store.put("m", chain_of(tokens), from);
    ASSERT_TRUE(put) << put.error().text;
    EXPECT_EQ(store.matched("m", chain_of(tokens)), tokens.size()) << "turn " << turn;
    use(store, chain_of(tokens));
  }
  EXPECT_EQ(store->stats().evicted_segments, 0u);
  EXPECT_GT(store->stats().evicted_boundaries, 0u);
  const auto match = store.match("m", chain_of(tokens));
  const std::shared_ptr<const Model> kept = store->model("m");
  const Model& model = *kept;
  EXPECT_EQ(*store.read(match->lease, "kv"), rows_of(model.pools()[0], 0, chain_of(tokens), model.pools()[0].needed(320)));
  EXPECT_EQ(*store.read(match->lease, "w"), rows_of(model.pools()[1], 1, chain_of(tokens), model.pools()[1].needed(320)));
  store.restart();
  EXPECT_EQ(store.matched("m", chain_of(tokens)), tokens.size());
}

TEST(Evict, SupersededStatesOfRecurrentModelsGoFirst) {
  const std::vector<PoolShape> pools = {{"kv", "all", 0, 0, 1, 1, 256}, {"s", "trailing", 0, 0, 1, 1, 64 * 4096}};
  TestStore store((20 * 2 + 4 * 65 + 8) * kPage);
  store.declare("m", pools);
  std::vector<uint32_t> tokens;
  for (uint32_t turn = 0; turn < 20; ++turn) {
    const auto from = static_cast<uint32_t>(tokens.size());
    for (uint32_t i = 0; i < 16; ++i) tokens.push_back(turn * 100 + i);
    ASSERT_TRUE(store.put("m", chain_of(tokens), from));
    EXPECT_EQ(store.matched("m", chain_of(tokens)), tokens.size()) << "turn " << turn;
  }
  EXPECT_EQ(store->stats().evicted_segments, 0u);
  EXPECT_GT(store->stats().evicted_boundaries, 0u);
}

TEST(Evict, TheBudgetHoldsAfterARestartWithASmallerOne) {
  TestStore store;
  store.declare("m", kPages);
  for (uint32_t i = 0; i < 50; ++i) ASSERT_TRUE(store.put("m", chain_of(count_up(3, i * 10)), 0));
  store.set_budget_at_start(40 * kPage);
  store.restart();
  EXPECT_LE(store->stats().bytes, 40 * kPage);
  EXPECT_GE(store->stats().segments, 8u);
  store.restart();
  EXPECT_LE(store->stats().bytes, 40 * kPage);
}

// Rows that stream to disk before their PUT is looked at count against the budget from their first byte.
TEST(Evict, StreamsTakeTheirRoomBeforeTheyAreWritten) {
  TestStore store(25 * kPage);
  store.declare("m", kPages);
  ASSERT_TRUE(store.put("m", chain_of(count_up(4)), 0));
  auto room = store->stream_room(20 * kPage);
  ASSERT_TRUE(room);
  EXPECT_FALSE(store->stream_room(kPage));
  EXPECT_EQ(store.put("m", chain_of(count_up(5, 100)), 0).error().kind, FaultKind::kNoRoom);
  EXPECT_EQ(store.matched("m", chain_of(count_up(4))), 0u) << "went for the one that was refused";
  // The PUT it belongs to does not need the room twice.
  auto writer = store.storage().extents().create(Space::kPrompt, 19 * kPage, 1000);
  ASSERT_TRUE(writer);
  const Chain chain = chain_of(count_up(19, 300));
  const auto model = store->model("m");
  const std::string rows = rows_of(model->pools()[0], 0, chain, model->pools()[0].held(0, 19, 0, false));
  ASSERT_TRUE((*writer)->append(rows));
  PutRequest request;
  request.model = "m";
  request.chain = chain;
  request.blobs.emplace_back("kv", streamed_blob(store->extents(), std::move(*writer), rows.size(), 1000, std::move(room)));
  const auto put = store->put(request, *store.client);
  ASSERT_TRUE(put) << put.error().text;
  EXPECT_EQ(store->stats().bytes, 20 * kPage);
  EXPECT_TRUE(store->extents().await_given_back(Space::kPrompt, 0, 10'000));
  EXPECT_TRUE(store->stream_room(5 * kPage));
  const auto match = store.match("m", chain);
  EXPECT_EQ(*store.read(match->lease, "kv"), rows);
}

// What lies on the disk, not what is reachable, stays under the budget: an evicted extent is a hole only once the journal states
// that its drop is synced.
TEST(Evict, WhatWasEvictedCountsUntilItIsOffTheDisk) {
  const uint64_t budget = 20 * kPage;
  TestStore store(budget);
  store.declare("m", kPages);
  for (uint32_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(store.put("m", chain_of(count_up(8, i * 100)), 0));
    const uint64_t on_disk = store->extents().allocated_bytes(Space::kPrompt) + store->extents().waiting_bytes(Space::kPrompt);
    EXPECT_LE(on_disk, budget) << "after PUT " << i;
  }
  EXPECT_GT(store->stats().evicted_segments, 30u);
}

// A reader that holds what was evicted keeps it on the disk: no room until it is done.
TEST(Evict, NoRoomWhileAReaderHoldsWhatWasEvicted) {
  TestStore store(20 * kPage);
  store.declare("m", kPages);
  ASSERT_TRUE(store.put("m", chain_of(count_up(15)), 0));
  auto match = store.match("m", chain_of(count_up(15)));
  ASSERT_TRUE(match);
  RangeRequest request;
  request.lease = match->lease;
  auto range = store->range(request, *store.client);
  ASSERT_TRUE(range);
  ASSERT_TRUE(store->release(match->lease, *store.client));
  EXPECT_EQ(store.put("m", chain_of(count_up(10, 100)), 0).error().kind, FaultKind::kNoRoom);
  range = {};
  EXPECT_TRUE(store.put("m", chain_of(count_up(10, 100)), 0));
}

// A streamed blob of which a part is stored already is laid out anew, and nothing of it stays on the disk.
TEST(Streamed, KnownRowsAreLeftOut) {
  TestStore store;
  store.declare("m", {{"kv", "all", 0, 0, 2, 2, 4096}});
  const Chain chain = chain_of(count_up(40));
  ASSERT_TRUE(store.put("m", chain_of(count_up(25)), 0));
  const auto model = store->model("m");
  const std::string rows = rows_of(model->pools()[0], 0, chain, model->pools()[0].held(10, 40, 10, false));
  auto writer = store.storage().extents().create(Space::kPrompt, rows.size(), 1000);
  ASSERT_TRUE(writer && (*writer)->append(rows));
  {
    PutRequest request;
    request.model = "m";
    request.chain = chain;
    request.from = 10;
    request.blobs.emplace_back("kv", streamed_blob(store->extents(), std::move(*writer), rows.size(), 1000));
    const auto put = store->put(request, *store.client);
    ASSERT_TRUE(put) << put.error().text;
    EXPECT_EQ(put->from, 25u);
  }
  const auto match = store.match("m", chain);
  EXPECT_EQ(*store.read(match->lease, "kv"), rows_of(model->pools()[0], 0, chain, model->pools()[0].needed(40)));
  EXPECT_EQ(store.storage().extents().allocated_bytes(Space::kPrompt), store->stats().bytes);
}

void flip(const std::string& path, off_t at) {
  const int fd = ::open(path.c_str(), O_RDWR);
  char byte;
  ASSERT_EQ(pread(fd, &byte, 1, at), 1);
  byte ^= 0x40;
  ASSERT_EQ(pwrite(fd, &byte, 1, at), 1);
  ::close(fd);
}

// PC024 and P2: a flipped bit is a miss with a counter; the match falls to what all pools still cover.
TEST(Corrupt, RowsAreDroppedAndNeverServed) {
  for (const char* pool : {"kv", "w"}) {
    TestStore store;
    store.declare("m", {{"kv", "all", 0, 0, 2, 2, 64}, {"w", "window", 8, 0, 2, 2, 64}});
    const Chain chain = chain_of(count_up(30));
    for (uint32_t to = 10; to <= 30; to += 10) ASSERT_TRUE(store.put("m", chain_of(count_up(to)), to - 10));
    const auto match = store.match("m", chain);
    RangeRequest request;
    request.lease = match->lease;
    request.pool = pool;
    request.verify = false;
    const auto range = store->range(request, *store.client);
    const ExtentRun& run = range->pools[0].runs[0].back();
    flip(store.dir() + "/payload/0/" + std::to_string(run.extent->ref().file) + ".dat",
         static_cast<off_t>(run.extent->payload_offset() + run.offset));
    EXPECT_EQ(store.read(match->lease, pool).error().kind, FaultKind::kCorrupt);
    EXPECT_EQ(store->stats().corrupt_segments, 1u);
    EXPECT_EQ(store.matched("m", chain), 20u);
    EXPECT_EQ(store.read(match->lease, pool).error().kind, FaultKind::kCorrupt);
    EXPECT_FALSE(store->release(match->lease, *store.client));
    ASSERT_TRUE(store.put("m", chain, 20));
    EXPECT_EQ(store.matched("m", chain), 30u);
    store.restart();
    EXPECT_EQ(store.matched("m", chain), 30u);
    EXPECT_TRUE(store.read(store.match("m", chain)->lease, pool));
  }
}

TEST(Corrupt, TokensAreAMiss) {
  TestStore store;
  store.declare("m", {{"kv", "all"}});
  const Chain chain = chain_of(count_up(30));
  for (uint32_t to = 10; to <= 30; to += 10) ASSERT_TRUE(store.put("m", chain_of(count_up(to)), to - 10));
  const auto match = store.match("m", chain);
  RangeRequest request;
  request.lease = match->lease;
  const auto range = store->range(request, *store.client);
  const ExtentRun& second = range->pools[0].runs[0][1];
  // The header's page, somewhere in the aux bytes.
  flip(store.dir() + "/payload/0/" + std::to_string(second.extent->ref().file) + ".dat",
       static_cast<off_t>(uint64_t{second.extent->ref().page} * 4096 + 72));
  EXPECT_EQ(store.matched("m", chain), 10u);
  EXPECT_EQ(store->stats().corrupt_segments, 1u);
  EXPECT_EQ(store->stats().segments, 1u);
}

TEST(Weight, AtMost200BytesASegment) {
  constexpr uint32_t kSegments = 200'000;
  for (const size_t pools : {size_t{1}, size_t{3}}) {
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    {
      SegmentTree tree(1);
      const uint32_t root = tree.make_root(1, "");
      uint32_t parent = kRootParent | root;
      for (uint32_t i = 0; i < kSegments; ++i) {
        const uint32_t slot = tree.slots.allocate();
        Segment& segment = tree.slots[slot];
        segment.id = i + 1;
        segment.root = root;
        segment.parent = parent;
        segment.from = i % 100, segment.to = i % 100 + 1, segment.edge = i;
        segment.set_refs(std::vector<ExtentRef>(pools, ExtentRef{1, i, 1}));
        tree.link(slot);
        parent = i % 100 == 99 ? kRootParent | root : slot;
      }
      const size_t used = mallinfo2().uordblks + mallinfo2().hblkhd - before;
      EXPECT_LE(used / kSegments, 200u) << pools << " pools";
      EXPECT_EQ(tree.segments(), kSegments);
    }
  }
}

}  // namespace
}  // namespace pion
