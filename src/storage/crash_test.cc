// Random work, a crash at a random operation, a start, over and over on the faulty file system. Whatever was promised is
// there, bit for bit; everything else is whole or absent, and what is there is a prefix of what was done.
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <random>
#include <thread>

#include "base/log.h"
#include "io/faulty_filesystem.h"
#include "storage/test_life.h"

namespace pion {
namespace {

using State = std::map<std::string, std::string>;

// One directory through many lives. `history_[n]` is what record n changed.
class Lives {
 public:
  Lives(uint64_t seed, SyncMode mode) : random_(seed), disk_(seed * 7919 + 1, 48 * kMiB), mode_(mode) {}

  FaultyFileSystem& disk() { return disk_; }

  // Works until the crash (after `calls` changing calls, at most `steps` changes), then checks what a start finds.
  void live(uint64_t calls, int steps, CrashKind kind) {
    start();
    if (::testing::Test::HasFatalFailure()) return;
    disk_.crash_after(calls);
    for (int step = 0; step < steps && !disk_.crashed(); step++) act();
    const Lsn promised = kind == CrashKind::kKill ? written_ : synced_;
    disk_.crash_now();
    plane_.reset();
    storage_.reset();
    disk_.restart(kind);
    disk_.set_capacity(48 * kMiB);
    promised_ = promised;
  }

  void start() {
    StorageOptions options = small_options(mode_);
    options.journal_keep_bytes = 4 * kKiB;  // so that mending reads back
    Result<std::unique_ptr<Storage>> storage = Storage::open(disk_, std::move(options));
    ASSERT_TRUE(storage) << storage.error().message;
    storage_ = std::move(*storage);
    plane_ = std::make_unique<ModelPlane>(*storage_);
    const Status recovered = storage_->recover();
    ASSERT_TRUE(recovered) << recovered.error().message;
    check();
  }

  void check() {
    const Lsn last = storage_->journal().appended_lsn();
    ASSERT_GE(last, promised_) << "promised records are gone";
    ASSERT_LE(last, history_.size());
    history_.resize(last);
    State expected;
    for (const auto& changes : history_) apply(expected, changes);
    const std::vector<std::string> keys = plane_->keys();
    ASSERT_EQ(keys.size(), expected.size());
    for (const auto& [key, value] : expected) {
      const Result<std::optional<std::string>> found = plane_->get(key);
      ASSERT_TRUE(found) << key << ": " << found.error().message;
      ASSERT_TRUE(found->has_value()) << key;
      ASSERT_TRUE(**found == value) << key << " has other bytes";
    }
    EXPECT_EQ(storage_->stats().journal_corrupt_records, 0u);
    state_ = std::move(expected);
    written_ = storage_->journal().written_lsn();
    synced_ = storage_->journal().synced_lsn();
  }

  // From now on calls fail now and then, and the disk may be full for a while.
  void make_unreliable() { unreliable_ = true; }

  void act() {
    const uint64_t dice = random_() % 100;
    Journal& journal = storage_->journal();
    if (unreliable_ && random_() % 12 == 0) {
      constexpr FileCall kCalls[] = {FileCall::kWrite, FileCall::kSync, FileCall::kRename, FileCall::kAllocate, FileCall::kCreate, FileCall::kSyncDirectory, FileCall::kPunch};
      disk_.fail(kCalls[random_() % std::size(kCalls)], random_() % 4, random_() % 4 == 0 ? ENOSPC : EIO, 1 + random_() % 2);
    } else if (unreliable_ && random_() % 20 == 0) {
      disk_.set_capacity(random_() % 2 ? disk_.used_bytes() : 48 * kMiB);
    } else if (dice < 60) {
      change();
    } else if (dice < 85) {
      if (journal.write_pending()) written_ = std::max(written_, journal.written_lsn());
    } else if (dice < 97) {
      const Lsn lsn = journal.appended_lsn();
      if (journal.sync_up_to(lsn)) synced_ = std::max(synced_, lsn);
      written_ = std::max(written_, synced_);
    } else {
      static_cast<void>(storage_->checkpoint());
    }
  }

  void change() {
    std::vector<ModelPlane::Change> changes;
    for (uint64_t count = 1 + random_() % 3; changes.size() < count;) {
      ModelPlane::Change one{.key = "key" + std::to_string(random_() % 12), .value = std::nullopt, .large = false};
      const bool twice = std::any_of(changes.begin(), changes.end(), [&](const auto& other) { return other.key == one.key; });
      if (twice) continue;
      const uint64_t dice = random_() % 10;
      if (dice < 6) {
        one.value = bytes_of_seed(random_() % 200, random_());
      } else if (dice < 9) {
        one.value = bytes_of_seed(random_() % 100'000, random_());
        one.large = true;
      }
      changes.push_back(std::move(one));
    }
    const Result<Lsn> lsn = plane_->change(changes);
    if (!lsn) return;
    history_.resize(*lsn);
    history_[*lsn - 1] = std::move(changes);
  }

  Lsn synced() const { return synced_; }
  Storage& storage() { return *storage_; }

 private:
  static void apply(State& state, const std::vector<ModelPlane::Change>& changes) {
    for (const ModelPlane::Change& one : changes) {
      if (one.value) {
        state[one.key] = *one.value;
      } else {
        state.erase(one.key);
      }
    }
  }

  std::mt19937_64 random_;
  FaultyFileSystem disk_;
  const SyncMode mode_;
  bool unreliable_ = false;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<ModelPlane> plane_;
  std::vector<std::vector<ModelPlane::Change>> history_;
  State state_;
  Lsn written_ = 0;
  Lsn synced_ = 0;
  Lsn promised_ = 0;
};

class Crash : public ::testing::Test {
 protected:
  // PION_CRASH_SEED=n runs that seed alone, with its log.
  void SetUp() override {
    if (getenv("PION_CRASH_SEED")) {
      set_log_level(LogLevel::kDebug);
    } else {
      set_log_file("/dev/null");
    }
  }
  void TearDown() override { set_log_file(""); }
};

// PION_CRASH_SEEDS=n runs n seeds instead (the long form).
void many_lives(uint64_t first_seed, uint64_t seeds, int lives, std::vector<CrashKind> kinds, bool unreliable = false) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  seeds /= 4;  // ten times slower there
#endif
  if (const char* count = getenv("PION_CRASH_SEEDS")) seeds = strtoull(count, nullptr, 10);
  for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
    if (const char* only = getenv("PION_CRASH_SEED"); only && seed != strtoull(only, nullptr, 10)) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Lives directory(seed, seed % 3 == 0 ? SyncMode::kAlways : SyncMode::kEverySecond);
    if (unreliable) directory.make_unreliable();
    for (int life = 0; life < lives; life++) {
      SCOPED_TRACE("life " + std::to_string(life));
      directory.live(1 + random() % 400, 60, kinds[random() % kinds.size()]);
      if (::testing::Test::HasFatalFailure()) return;
    }
    directory.start();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST_F(Crash, KillsLoseNothingThatWasWritten) { many_lives(1, 20, 20, {CrashKind::kKill}); }

TEST_F(Crash, PowerLossesLoseNothingThatWasSynced) { many_lives(1000, 20, 20, {CrashKind::kPowerLoss}); }

// A start after a kill finds what was written only in the page cache; a power loss then must not take what it answered.
TEST_F(Crash, KillsAndPowerLossesInTurn) { many_lives(4000, 20, 20, {CrashKind::kKill, CrashKind::kPowerLoss}); }

TEST_F(Crash, KillsOnAFailingDiskLoseNothing) { many_lives(2000, 12, 15, {CrashKind::kKill}, true); }

TEST_F(Crash, PowerLossesOnAFailingDiskLoseNothing) { many_lives(3000, 12, 15, {CrashKind::kKill, CrashKind::kPowerLoss}, true); }

// Several threads append, write and wait for syncs at once; then the power goes.
TEST_F(Crash, ThreadsShareOneJournal) {
  for (uint64_t seed = 1; seed <= 5; seed++) {
    FaultyFileSystem disk(seed, 48 * kMiB);
    std::map<std::string, int> promised;
    {
      Life life(disk, small_options(SyncMode::kAlways));
      std::mutex mutex;
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
          const std::string key = "thread" + std::to_string(t);
          for (int i = 1; i <= 200; i++) {
            const Result<Lsn> lsn = life.set(key, std::to_string(i));
            if (!lsn) break;
            if (i % 3 == 0 && !life.journal().write_pending()) break;
            if (i % 10 != 0) continue;
            if (!life.journal().sync_up_to(*lsn)) break;
            std::lock_guard lock(mutex);
            promised[key] = i;
          }
        });
      }
      threads.emplace_back([&] {
        for (int i = 0; i < 3; i++) static_cast<void>(life.storage->checkpoint());
      });
      if (seed > 1) disk.crash_after(150 * seed);
      for (std::thread& thread : threads) thread.join();
      disk.crash_now();
    }
    disk.restart(CrashKind::kPowerLoss);
    Life life(disk);
    for (const auto& [key, value] : promised) {
      const std::string found = life.get(key);
      EXPECT_NE(found, "(none)");
      EXPECT_GE(atoi(found.c_str()), value) << key;
    }
    EXPECT_EQ(life.storage->stats().journal_corrupt_records, 0u);
    if (seed > 1) continue;
    EXPECT_EQ(promised.size(), 4u);  // nothing stopped these
    for (const auto& [key, value] : promised) EXPECT_EQ(value, 200) << key;
  }
}

}  // namespace
}  // namespace pion
