// Prompt memory on the faulty file system: a crash at any operation, a start, over and over. What is there afterwards is what a
// prefix of the history says, with at least everything that was promised, and every row it serves is right.
#include <thread>

#include "io/faulty_filesystem.h"
#include "prompt/test_oracle.h"

namespace pion {
namespace {

using namespace prompt_test;

const std::vector<PoolShape> kPools = {{"kv", "all", 0, 0, 1, 2, 512}, {"s", "trailing", 0, 0, 1, 1, 3000}};

class Lives {
 public:
  Lives(uint32_t seed, SyncMode mode) : disk_(seed, 96 * kMiB), mode_(mode), chains_(seed, true) {}

  FaultyFileSystem& disk() { return disk_; }

  void start() {
    auto storage = Storage::open(disk_, {.dir = "/data", .sync = mode_, .journal_file_bytes = 1 * kMiB, .checkpoint_after_bytes = 64 * kKiB});
    ASSERT_TRUE(storage) << storage.error().message;
    storage_ = std::move(*storage);
    store_ = std::make_unique<PromptStore>(*storage_, PromptOptions{64 * kMiB});
    storage_->add_plane(store_.get());
    const Status recovered = storage_->recover();
    ASSERT_TRUE(recovered) << recovered.error().message;
    ASSERT_TRUE(store_->start());
    check();
  }

  void end(CrashKind kind) {
    promised_ = kind == CrashKind::kKill ? written_ : synced_;
    disk_.crash_now();
    store_->stop();
    storage_->stop();
    store_.reset();
    storage_.reset();
    disk_.heal();
    disk_.restart(kind);
  }

  void act() {
    const uint32_t action = chains_.pick(20);
    if (!store_->model("m")) {
      if (auto lsn = store_->model_set("m", manifest_of(kPools))) note(*lsn, {Op::kModel, {}, 0});
    } else if (action < 14) {
      const Chain chain = chains_.next();
      PutRequest request;
      request.model = "m";
      request.chain = chain;
      const auto model = store_->model("m");
      std::vector<std::string> blobs;
      for (size_t i = 0; i < 2; ++i) blobs.push_back(rows_of(model->pools()[i], i, chain, model->pools()[i].held(0, chain.size(), 0, false)));
      for (size_t i = 0; i < 2; ++i) request.blobs.emplace_back(model->pools()[i].name, memory_blob(blobs[i]));
      const auto reply = store_->put(request, client_);
      if (reply && reply->segment != 0) note(reply->lsn, {Op::kPut, chain, 0});
    } else if (action == 14) {
      const uint64_t before = store_->stats().segments;
      const auto reply = store_->revoke_salt("", std::nullopt);
      if (reply && before > 0) note(reply->lsn, {Op::kRevoke, {}, 0});
    } else if (action < 17) {
      (void)storage_->journal().sync_up_to(storage_->journal().appended_lsn());
    } else if (action == 17) {
      (void)storage_->checkpoint();
    } else {
      (void)storage_->journal().write_pending();
    }
    written_ = std::max(written_, storage_->journal().written_lsn());
    synced_ = std::max(synced_, storage_->journal().synced_lsn());
  }

 private:
  struct Op {
    enum Kind { kModel, kPut, kRevoke, kNothing } kind = kNothing;
    Chain chain;
    uint32_t from = 0;
  };

  void note(Lsn lsn, Op op) {
    ASSERT_GT(lsn, 0u);
    if (history_.size() < lsn) history_.resize(lsn);
    history_[lsn - 1] = std::move(op);
  }

  void check() {
    const Lsn last = storage_->journal().appended_lsn();
    ASSERT_GE(last, promised_) << "promised records are gone";
    ASSERT_LE(last, history_.size());
    history_.resize(last);
    written_ = synced_ = promised_ = last;
    const auto model = store_->model("m");
    if (!model) {
      ASSERT_EQ(last, 0u);
      return;
    }
    Oracle oracle(model->pools());
    std::vector<Chain> asked;
    for (const Op& op : history_) {
      if (op.kind == Op::kPut) {
        oracle.put(op.chain, 0, "");
        asked.push_back(op.chain);
      }
      if (op.kind == Op::kRevoke) oracle.revoke("");
    }
    for (size_t i = asked.size() > 40 ? asked.size() - 40 : 0; i < asked.size(); ++i) {
      MatchRequest request;
      request.model = "m";
      request.chain = asked[i];
      auto client = std::make_shared<PromptClient>(2);
      const auto match = *store_->match(request, client, nullptr);
      ASSERT_TRUE(match);
      ASSERT_EQ(match->matched, oracle.match(asked[i], "", UINT32_MAX));
      if (match->lease != 0) check_rows(asked[i], *match, *client);
      store_->disconnect(client);
    }
    ASSERT_EQ(store_->stats().corrupt_segments, 0u);
  }

  void check_rows(const Chain& chain, const MatchReply& match, PromptClient& client) {
    RangeRequest request;
    request.lease = match.lease;
    const auto range = store_->range(request, client);
    ASSERT_TRUE(range) << range.error().text;
    const auto model = store_->model("m");
    for (size_t i = 0; i < 2; ++i) {
      std::string got;
      for (const auto& runs : range->pools[i].runs) {
        for (const ExtentRun& run : runs) {
          got.resize(got.size() + run.length);
          ASSERT_TRUE(run.extent->read(run.offset, run.length, got.data() + got.size() - run.length));
        }
      }
      ASSERT_EQ(got, rows_of(model->pools()[i], i, chain, model->pools()[i].needed(match.matched)));
    }
  }

  FaultyFileSystem disk_;
  SyncMode mode_;
  ChainMaker chains_;
  PromptClient client_{1};
  std::vector<Op> history_;
  Lsn written_ = 0, synced_ = 0, promised_ = 0;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<PromptStore> store_;
};

class Crash : public testing::TestWithParam<std::pair<CrashKind, SyncMode>> {};

TEST_P(Crash, AtAnyOperation) {
  set_log_level(static_cast<LogLevel>(99));  // crashes are loud
  const auto [kind, mode] = GetParam();
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Lives lives(seed, mode);
    std::mt19937 random(seed);
    for (int life = 0; life < 12; ++life) {
      SCOPED_TRACE("life " + std::to_string(life));
      lives.start();
      if (HasFatalFailure()) return;
      lives.disk().crash_after(1 + random() % 200);
      for (int step = 0; step < 40 && !lives.disk().crashed(); ++step) lives.act();
      lives.end(kind);
    }
    lives.start();
    if (HasFatalFailure()) return;
    lives.end(CrashKind::kKill);
  }
  set_log_level(LogLevel::kNotice);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Crash,
                         testing::Values(std::pair{CrashKind::kKill, SyncMode::kNo}, std::pair{CrashKind::kKill, SyncMode::kEverySecond},
                                         std::pair{CrashKind::kPowerLoss, SyncMode::kAlways}));

// A full disk refuses PUTs, serves what is there, lets FORGET and REVOKE through, and takes PUTs again by itself.
TEST(FullDisk, RefusesServesAndRecovers) {
  set_log_level(static_cast<LogLevel>(99));
  FaultyFileSystem disk(5, 64 * kMiB);
  auto storage = *Storage::open(disk, {.dir = "/data", .sync = SyncMode::kNo, .journal_file_bytes = 1 * kMiB});
  PromptStore store(*storage, {1 * kGiB});
  storage->add_plane(&store);
  ASSERT_TRUE(storage->recover());
  ASSERT_TRUE(store.start());
  PromptClient client(1);
  ASSERT_TRUE(store.model_set("m", manifest_of({{"kv", "all", 0, 0, 1, 1, 65536}})));
  const auto put = [&](uint32_t first) {
    PutRequest request;
    request.model = "m";
    request.salt = first % 2 ? "odd" : "";
    request.chain = chain_of(count_up(30, first * 1000));
    const std::string rows(30 * 65536, static_cast<char>(first));
    request.blobs.emplace_back("kv", memory_blob(rows));
    return store.put(request, client);
  };
  uint32_t stored = 0;
  PromptResult<PutReply> refused = put(0);
  while (refused && stored < 100) refused = put(++stored);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FaultKind::kDisk) << refused.error().text;
  EXPECT_GT(stored, 10u);
  MatchRequest request;
  request.model = "m";
  request.chain = chain_of(count_up(30, 0));
  EXPECT_EQ((*store.match(request, std::make_shared<PromptClient>(2), nullptr))->matched, 30u);
  const auto revoked = store.revoke_salt("odd", std::nullopt);
  ASSERT_TRUE(revoked) << revoked.error().text;
  EXPECT_GT(revoked->tokens, 0u);
  ASSERT_TRUE(storage->journal().sync_up_to(revoked->lsn));
  bool again = false;
  for (int i = 0; i < 200 && !again; ++i) {
    again = put(1000 + static_cast<uint32_t>(i) * 2).has_value();
    if (!again) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(again);
  store.stop();
  storage->stop();
  set_log_level(LogLevel::kNotice);
}

}  // namespace
}  // namespace pion
