// One fault at a time: torn tails, flipped bits, full disks, failing calls, garbage. Each start succeeds, no byte served is wrong.
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <thread>

#include "base/log.h"
#include "storage/format.h"
#include "storage/test_life.h"

namespace pion {
namespace {

class Fault : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!getenv("PION_TEST_LOG")) set_log_file("/dev/null");
  }
  void TearDown() override { set_log_file(""); }
};

// Waits for something that another thread does; false after ten seconds.
bool becomes_true(const std::function<bool()>& condition) {
  for (int wait = 0; wait < 2000; wait++) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::string newest(const FaultyFileSystem& disk, const std::string& folder) {
  std::string found;
  for (const std::string& path : disk.paths()) {
    if (path.find(folder) != std::string::npos) found = path;
  }
  return found;
}

TEST_F(Fault, ATornTailIsCutAtAWholeRecordWhereverItTears) {
  FaultyFileSystem disk(1);
  FaultyFileSystem::Image image;
  std::string path;
  size_t begin = 0, end = 0;
  {
    Life life(disk);
    ASSERT_TRUE(life.set("synced", "1"));
    ASSERT_TRUE(life.journal().sync_up_to(1));
    path = newest(disk, "journal/");
    begin = disk.content(path).find_last_not_of('\0') / 8 * 8 + 8;
    for (int i = 0; i < 5; i++) ASSERT_TRUE(life.set("k" + std::to_string(i), "value " + std::to_string(i)));
    ASSERT_TRUE(life.journal().write_pending());
    disk.crash_now();
    image = disk.image();
    end = image[path].find_last_not_of('\0') + 1;
  }
  ASSERT_GT(end, begin + 5 * sizeof(RecordHeader));
  int seen = 0;
  for (size_t cut = begin; cut <= end; cut++) {
    for (const char rest : {'\0', '\x5a'}) {  // behind the tear: zeros laid ahead, or anything
      FaultyFileSystem torn(2);
      FaultyFileSystem::Image changed = image;
      std::fill(changed[path].begin() + static_cast<ptrdiff_t>(cut), changed[path].begin() + static_cast<ptrdiff_t>(end), rest);
      torn.load(changed);
      int whole = 0;
      {
        Life life(torn);
        ASSERT_EQ(life.get("synced"), "1");
        while (whole < 5 && life.get("k" + std::to_string(whole)) != "(none)") {
          ASSERT_EQ(life.get("k" + std::to_string(whole)), "value " + std::to_string(whole));
          whole++;
        }
        for (int i = whole; i < 5; i++) ASSERT_EQ(life.get("k" + std::to_string(i)), "(none)") << "a hole, cut at " << cut;
        ASSERT_EQ(life.journal().appended_lsn(), 1u + static_cast<unsigned>(whole));
        ASSERT_EQ(life.storage->stats().journal_corrupt_records, 0u);
        ASSERT_TRUE(life.set("after", "x"));
      }
      ASSERT_GE(whole, seen) << "fewer records although less was torn";
      if (rest == '\0') seen = whole;
      torn.restart(CrashKind::kPowerLoss);
      Life again(torn);  // the cut was durable: nothing of the tail is back behind the new record
      ASSERT_EQ(again.get("after"), "x");
      ASSERT_EQ(again.journal().appended_lsn(), 2u + static_cast<unsigned>(whole));
      ASSERT_EQ(again.storage->stats().journal_torn_bytes, 0u);
    }
  }
  EXPECT_EQ(seen, 5);
}

// Wherever the file ends, also inside a record's padding, what is written and synced afterwards is found again.
TEST_F(Fault, WhatFollowsACutTailIsFound) {
  FaultyFileSystem disk(1);
  FaultyFileSystem::Image image;
  std::string path;
  size_t begin = 0;
  {
    Life life(disk);
    ASSERT_TRUE(life.set("synced", "1"));
    ASSERT_TRUE(life.journal().sync_up_to(1));
    path = newest(disk, "journal/");
    begin = disk.content(path).find_last_not_of('\0') / 8 * 8 + 8;
    for (int i = 0; i < 3; i++) ASSERT_TRUE(life.set("k" + std::to_string(i), std::string(static_cast<size_t>(i) + 3, 'v')));
    ASSERT_TRUE(life.journal().write_pending());
    disk.crash_now();
    image = disk.image();
  }
  const size_t end = image[path].find_last_not_of('\0') + 8;
  for (size_t cut = begin; cut <= end; cut++) {
    FaultyFileSystem torn(2);
    FaultyFileSystem::Image changed = image;
    changed[path].resize(cut);
    torn.load(changed);
    for (int life_number = 0; life_number < 3; life_number++) {
      Life life(torn);
      ASSERT_EQ(life.get("synced"), "1") << "cut at " << cut;
      for (int i = 0; i < life_number; i++) ASSERT_EQ(life.get("after" + std::to_string(i)), "x") << "cut at " << cut << ", life " << life_number;
      const Result<Lsn> lsn = life.set("after" + std::to_string(life_number), "x");
      ASSERT_TRUE(lsn);
      ASSERT_TRUE(life.journal().sync_up_to(*lsn));
      torn.crash_now();
      life.plane.reset();
      life.storage.reset();
      torn.restart(CrashKind::kPowerLoss);
    }
  }
}

TEST_F(Fault, ABadRecordBelowASyncIsSkippedAlone) {
  FaultyFileSystem disk(1);
  std::string path;
  {
    Life life(disk);
    path = newest(disk, "journal/");
    for (int i = 0; i < 50; i++) {
      ASSERT_TRUE(life.set("k" + std::to_string(i), "needle-" + std::to_string(i)));
      ASSERT_TRUE(life.journal().write_pending());
    }
  }
  disk.flip_bit(path, disk.content(path).find("needle-20") * 8 + 3);
  for (int round = 0; round < 2; round++) {
    Life life(disk);
    EXPECT_EQ(life.storage->stats().journal_corrupt_records, 1u);
    EXPECT_EQ(life.storage->stats().journal_torn_bytes, 0u);
    for (int i = 0; i < 50; i++) EXPECT_EQ(life.get("k" + std::to_string(i)), i == 20 ? "(none)" : "needle-" + std::to_string(i));
  }
}

// What a user stores must not become a record, even when the record around it is damaged.
TEST_F(Fault, ARecordInsideAValueIsNoRecord) {
  FaultyFileSystem disk(1);
  std::string path;
  {
    Life life(disk);
    path = newest(disk, "journal/");
    for (int i = 0; i < 4; i++) ASSERT_TRUE(life.set("k", "old"));
    ASSERT_TRUE(life.journal().write_pending());
    std::string forged(256, '\0');
    std::string body;
    ByteWriter(body).put<uint8_t>(1).bytes("stolen").bytes("wrong");
    const auto total = static_cast<uint32_t>(sizeof(RecordHeader) + body.size());
    for (size_t shift = 0; shift < 8; shift++) {  // at every alignment
      std::string value = std::string(shift, '\0');
      RecordHeader header{.total_bytes = total, .type = ModelPlane::kType, .flags = 0, .header_check = 0, .lsn = 6, .hash = 0};
      seal_record(header, 0, body);
      value.append(bytes_of(header)).append(body);
      forged += value + std::string(64, '\0');
    }
    ASSERT_TRUE(life.set("carrier-key", forged));
    ASSERT_TRUE(life.set("k", "new"));
  }
  disk.flip_bit(path, disk.content(path).find("carrier-key") * 8);
  Life life(disk);
  EXPECT_EQ(life.get("stolen"), "(none)");
  EXPECT_EQ(life.get("k"), "new");
  EXPECT_EQ(life.storage->stats().journal_corrupt_records, 1u);
}

// Bits anywhere in the directory: the start succeeds, each key has a value it once had or is known to be gone.
TEST_F(Fault, NoFlippedBitServesAWrongByte) {
  FaultyFileSystem disk(1);
  std::map<std::string, std::set<std::string>> had;
  std::map<std::string, std::string> last;
  {
    Life life(disk);
    const auto put = [&](const std::string& key, size_t size, bool large) {
      const std::string value = bytes_of_seed(size, had[key].size() + std::hash<std::string>()(key));
      ASSERT_TRUE(life.set(key, value, large));
      had[key].insert(value);
      last[key] = value;
    };
    for (int i = 0; i < 8; i++) put("small" + std::to_string(i), 40, false);
    for (int i = 0; i < 4; i++) put("large" + std::to_string(i), 70'000, true);
    ASSERT_TRUE(life.storage->checkpoint());
    for (int i = 0; i < 8; i += 2) put("small" + std::to_string(i), 50, false);
    for (int i = 0; i < 4; i += 2) put("large" + std::to_string(i), 5'000, true);
    put("new", 30, false);
  }
  const FaultyFileSystem::Image image = disk.image();
  std::mt19937_64 random(5);
  uint64_t noticed = 0, starts = 0;
  for (const auto& [path, bytes] : image) {
    if (bytes.empty()) continue;
    const size_t used = bytes.find_last_not_of('\0') + 1;
    const int flips = path.find("payload") != std::string::npos ? 60 : 250;
    for (int flip = 0; flip < flips; flip++) {
      const uint64_t bit = random() % (std::min(used + 64, bytes.size()) * 8);
      FaultyFileSystem spoiled(3);
      spoiled.load(image);
      spoiled.flip_bit(path, bit);
      Life life(spoiled);
      starts++;
      const StorageStats stats = life.storage->stats();
      bool all = true;
      for (const std::string& key : life.plane->keys()) ASSERT_TRUE(had.contains(key)) << key;
      for (const auto& [key, values] : had) {
        const Result<std::optional<std::string>> value = life.plane->get(key);
        if (!value) {
          ASSERT_EQ(value.error().code, ErrorCode::kCorrupt) << value.error().message;
          all = false;
          continue;
        }
        if (!*value) {
          ASSERT_GT(stats.journal_corrupt_records + stats.journal_torn_bytes, 0u) << key << " is gone without a word, " << path << " bit " << bit;
          all = false;
          continue;
        }
        ASSERT_TRUE(values.contains(**value)) << key << " has bytes it never had, " << path << " bit " << bit;
        if (**value != last[key]) {
          ASSERT_GT(stats.journal_corrupt_records + stats.journal_torn_bytes, 0u) << key << " is old without a word, " << path << " bit " << bit;
          all = false;
        }
      }
      noticed += !all;
    }
  }
  EXPECT_GT(noticed, starts / 20);  // else the flips hit nothing
}

TEST_F(Fault, CutFilesServeNoWrongByte) {
  FaultyFileSystem disk(1);
  {
    Life life(disk);
    for (int i = 0; i < 6; i++) ASSERT_TRUE(life.set("s" + std::to_string(i), bytes_of_seed(100, static_cast<uint64_t>(i))));
    ASSERT_TRUE(life.set("large", bytes_of_seed(200'000, 7), true));
    ASSERT_TRUE(life.storage->checkpoint());
    for (int i = 6; i < 12; i++) ASSERT_TRUE(life.set("s" + std::to_string(i), bytes_of_seed(100, static_cast<uint64_t>(i))));
  }
  const FaultyFileSystem::Image image = disk.image();
  std::mt19937_64 random(6);
  for (const auto& [path, bytes] : image) {
    for (int cut = 0; cut < 40 && !bytes.empty(); cut++) {
      FaultyFileSystem::Image changed = image;
      changed[path].resize(cut == 0 ? 0 : random() % bytes.size());
      if (cut == 1) changed.erase(path);
      FaultyFileSystem spoiled(3);
      spoiled.load(changed);
      Life life(spoiled);
      for (int i = 0; i < 12; i++) {
        const std::string value = life.get("s" + std::to_string(i));
        ASSERT_TRUE(value == "(none)" || value == bytes_of_seed(100, static_cast<uint64_t>(i)));
      }
      const std::string value = life.get("large");
      ASSERT_TRUE(value == "(none)" || value.starts_with("error") || value == bytes_of_seed(200'000, 7));
    }
  }
}

TEST_F(Fault, GarbageEverywhereStillStarts) {
  FaultyFileSystem empty(1);
  { Life life(empty); }
  const FaultyFileSystem::Image image = empty.image();
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; round++) {
    FaultyFileSystem::Image changed = image;
    for (const char* name : {"data/journal/00000000000000000001.log", "data/journal/00000000000000000777.log", "data/seed",
                             "data/checkpoint/00000000000000000005.ckpt", "data/payload/1/3.dat", "data/payload/0/4294967295.dat"}) {
      std::string bytes = bytes_of_seed(random() % 20'000, random());
      // Right beginnings make it go further.
      const uint64_t magic = std::string(name).ends_with(".log") ? kJournalMagic : kCheckpointMagic;
      if (bytes.size() > 8 && random() % 2) std::memcpy(bytes.data(), &magic, 8);
      changed[name] = bytes;
    }
    FaultyFileSystem spoiled(3);
    spoiled.load(changed);
    Life life(spoiled);
    ASSERT_TRUE(life.set("k", "v"));
    ASSERT_TRUE(life.journal().sync_up_to(life.journal().appended_lsn()));
    ASSERT_TRUE(life.plane->keys().size() == 1);
  }
}

TEST_F(Fault, AFullDiskRefusesWritesServesReadsAndComesBackByItself) {
  FaultyFileSystem disk(1, 8 * kMiB);
  Life life(disk);
  ASSERT_TRUE(life.set("large", bytes_of_seed(100'000, 1), true));
  std::vector<std::string> keys;
  Result<Lsn> lsn = Lsn{0};
  for (int i = 0; i < 3000 && lsn; i++) {
    const std::string key = "k" + std::to_string(i);
    lsn = life.set(key, bytes_of_seed(4000, static_cast<uint64_t>(i)));
    if (lsn) keys.push_back(key);
    if (lsn) {
      ASSERT_TRUE(life.journal().write_pending()) << "a write that was admitted met a full disk";
    }
  }
  ASSERT_FALSE(lsn);
  EXPECT_EQ(lsn.error().code, ErrorCode::kNoSpace);
  ASSERT_GT(keys.size(), 1000u);
  EXPECT_FALSE(life.storage->stats().accepting_writes);
  EXPECT_FALSE(life.storage->stats().refusal.empty());
  EXPECT_EQ(life.set("large2", bytes_of_seed(1'000'000, 1), true).error().code, ErrorCode::kNoSpace);
  EXPECT_TRUE(life.get("large") == bytes_of_seed(100'000, 1));
  // What frees is not refused, and is durable.
  for (int i = 0; i < 100; i++) ASSERT_TRUE(life.del(keys[static_cast<size_t>(i)]));
  EXPECT_FALSE(life.set("no", std::string(4000, 'x')));
  ASSERT_TRUE(life.del("large"));
  ASSERT_TRUE(life.journal().sync_up_to(life.journal().appended_lsn()));

  disk.set_capacity(16 * kMiB);
  EXPECT_TRUE(becomes_true([&] { return life.set("again", "yes").has_value(); }));
  EXPECT_TRUE(becomes_true([&] { return life.storage->stats().accepting_writes; }));
  EXPECT_TRUE(life.journal().write_pending());
  EXPECT_EQ(life.storage->stats().write_failures, 0u);
}

TEST_F(Fault, AFullDiskHealsWhenItsOwnPayloadIsFreed) {
  FaultyFileSystem disk(1, 8 * kMiB);
  Life life(disk);
  int stored = 0;
  while (life.set("k" + std::to_string(stored), bytes_of_seed(500'000, 1), true)) stored++;
  ASSERT_GT(stored, 8);
  for (int i = 0; i < stored; i++) ASSERT_TRUE(life.del("k" + std::to_string(i)));
  EXPECT_TRUE(becomes_true([&] { return life.set("again", bytes_of_seed(500'000, 2), true).has_value(); }));
  EXPECT_TRUE(life.get("again") == bytes_of_seed(500'000, 2));
}

TEST_F(Fault, StartsOnAFullDisk) {
  FaultyFileSystem disk(1, 8 * kMiB);
  {
    Life life(disk);
    ASSERT_TRUE(life.set("k", "v"));
    ASSERT_TRUE(life.set("large", bytes_of_seed(100'000, 1), true));
    ASSERT_TRUE(life.journal().write_pending());
    disk.crash_now();
  }
  disk.restart(CrashKind::kKill);
  disk.set_capacity(disk.used_bytes());
  {
    Life life(disk);
    EXPECT_EQ(life.get("k"), "v");
    EXPECT_TRUE(life.get("large") == bytes_of_seed(100'000, 1));
    EXPECT_TRUE(life.del("large"));  // the room of the last life's journal is there for it
    ASSERT_TRUE(life.journal().sync_up_to(life.journal().appended_lsn()));
  }
  // Not one page left, not even for a journal file: reads are served, writes come when there is room.
  disk.set_capacity(0);
  Life life(disk);
  EXPECT_EQ(life.get("k"), "v");
  EXPECT_EQ(life.get("large"), "(none)");
  EXPECT_FALSE(life.set("k", "w"));
  disk.set_capacity(8 * kMiB);
  EXPECT_TRUE(becomes_true([&] { return life.set("k", "w").has_value(); }));
  EXPECT_TRUE(life.journal().sync_up_to(life.journal().appended_lsn()));
}

class FailedCalls : public Fault, public ::testing::WithParamInterface<std::tuple<FileCall, const char*, bool>> {};

// A call fails in the middle of work: it is said, nothing is lost, and work goes on by itself.
TEST_P(FailedCalls, AreMended) {
  const auto [call, path_part, drop_pages] = GetParam();
  FaultyFileSystem disk(1);
  disk.drop_pages_of_failed_syncs(drop_pages);
  Lsn promised = 0;
  {
    Life life(disk);
    for (int i = 0; i < 10; i++) ASSERT_TRUE(life.set("a" + std::to_string(i), bytes_of_seed(3000, static_cast<uint64_t>(i))));
    ASSERT_TRUE(life.journal().sync_up_to(10));
    if (std::string_view(path_part) == "payload") {
      ASSERT_TRUE(life.set("large", bytes_of_seed(300'000, 1), true));
    }
    for (int i = 0; i < 10; i++) ASSERT_TRUE(life.set("b" + std::to_string(i), bytes_of_seed(3000, static_cast<uint64_t>(i))));
    if (call == FileCall::kSync) {
      ASSERT_TRUE(life.journal().write_pending());
    }
    disk.fail(call, 0, EIO, 3, path_part);
    Status hit = call == FileCall::kSync ? life.journal().sync_up_to(life.journal().appended_lsn()) : life.journal().write_pending();
    if (hit && call == FileCall::kSync) {  // the sync of the second came just before the failure was set: there was nothing left to sync
      ASSERT_TRUE(life.set("large", bytes_of_seed(300'000, 1), true));
      ASSERT_TRUE(life.journal().write_pending());
      hit = life.journal().sync_up_to(life.journal().appended_lsn());
    }
    EXPECT_FALSE(hit);
    EXPECT_TRUE(becomes_true([&] { return life.set("after", "yes").has_value(); }));
    promised = life.journal().appended_lsn();
    EXPECT_TRUE(becomes_true([&] { return life.journal().sync_up_to(promised).has_value(); }));
    EXPECT_GE(life.storage->stats().sync_failures + life.storage->stats().write_failures, 1u);
    disk.crash_now();
  }
  disk.restart(CrashKind::kPowerLoss);
  Life life(disk);
  EXPECT_EQ(life.journal().appended_lsn(), promised);
  EXPECT_EQ(life.storage->stats().journal_corrupt_records, 0u);
  EXPECT_EQ(life.get("after"), "yes");
  for (int i = 0; i < 10; i++) EXPECT_TRUE(life.get("b" + std::to_string(i)) == bytes_of_seed(3000, static_cast<uint64_t>(i)));
  if (std::string_view(path_part) == "payload") {
    EXPECT_TRUE(life.get("large") == bytes_of_seed(300'000, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FailedCalls,
                         ::testing::Values(std::tuple(FileCall::kSync, "journal", false), std::tuple(FileCall::kSync, "journal", true),
                                           std::tuple(FileCall::kSync, "payload", false), std::tuple(FileCall::kWrite, "journal", false)));

// A long record is a batch of its own, and there are batches before and behind it: none may be lost, and none overtake another.
TEST_F(Fault, LongRecordsThatCouldNotBeWrittenAreMended) {
  for (const uint64_t failing : {0u, 1u, 2u}) {
    FaultyFileSystem disk(1);
    Lsn promised = 0;
    {
      Life life(disk);
      ASSERT_TRUE(life.set("first", "1"));
      ASSERT_TRUE(life.journal().sync_up_to(1));
      disk.fail(FileCall::kWrite, failing, EIO, 1, "journal");
      EXPECT_TRUE(becomes_true([&] { return life.set("short", "before").has_value(); }));
      EXPECT_TRUE(becomes_true([&] { return life.set("long", bytes_of_seed(1'200'000, failing)).has_value(); }));
      EXPECT_TRUE(becomes_true([&] { return life.set("short", "between").has_value(); }));
      EXPECT_TRUE(becomes_true([&] { return life.set("long2", bytes_of_seed(1'300'000, failing)).has_value(); }));
      EXPECT_TRUE(becomes_true([&] { return life.set("short", "behind").has_value(); }));
      EXPECT_TRUE(becomes_true([&] { return life.journal().write_pending().has_value() && life.set("after", "yes").has_value(); }));
      promised = life.journal().appended_lsn();
      EXPECT_TRUE(becomes_true([&] { return life.journal().sync_up_to(promised).has_value(); }));
      EXPECT_FALSE(life.journal().long_write_ahead());
      disk.crash_now();
    }
    disk.restart(CrashKind::kPowerLoss);
    Life life(disk);
    EXPECT_EQ(life.journal().appended_lsn(), promised);
    EXPECT_EQ(life.storage->stats().journal_corrupt_records, 0u);
    EXPECT_EQ(life.get("after"), "yes");
    EXPECT_EQ(life.get("short"), "behind");
    EXPECT_TRUE(life.get("long") == bytes_of_seed(1'200'000, failing));
    EXPECT_TRUE(life.get("long2") == bytes_of_seed(1'300'000, failing));
  }
}

// What the device refused and the kernel forgot is nowhere. Then no sync may succeed any more, whatever is asked.
TEST_F(Fault, PayloadThatIsNowhereNeverCountsAsSynced) {
  FaultyFileSystem disk(1);
  disk.drop_pages_of_failed_syncs(true);
  {
    Life life(disk);
    ASSERT_TRUE(life.set("a", "1"));
    ASSERT_TRUE(life.journal().sync_up_to(1));
    ASSERT_TRUE(life.set("large", bytes_of_seed(300'000, 1), true));
    disk.fail(FileCall::kSync, 0, EIO, 1, "payload");
    EXPECT_FALSE(life.journal().sync_up_to(2));
    EXPECT_FALSE(life.journal().sync_up_to(2));
    EXPECT_EQ(life.journal().synced_lsn(), 1u);
    EXPECT_FALSE(life.set("b", "2"));
    EXPECT_TRUE(life.get("large").starts_with("error"));
    disk.crash_now();
  }
  disk.restart(CrashKind::kPowerLoss);
  Life life(disk);
  EXPECT_EQ(life.get("a"), "1");
  EXPECT_EQ(life.get("large"), "(none)");
  EXPECT_TRUE(life.set("b", "2"));
}

TEST_F(Fault, ASecondOpenerIsRefused) {
  FaultyFileSystem disk(1);
  Life life(disk);
  const Result<std::unique_ptr<Storage>> second = Storage::open(disk, small_options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
}

TEST_F(Fault, ACheckpointThatFailsLeavesTheOldOne) {
  for (const FileCall call : {FileCall::kWrite, FileCall::kSync, FileCall::kRename, FileCall::kCreate}) {
    FaultyFileSystem disk(1);
    {
      Life life(disk);
      ASSERT_TRUE(life.set("a", "1"));
      ASSERT_TRUE(life.storage->checkpoint());
      ASSERT_TRUE(life.set("a", "2"));
      disk.fail(call, 0, EIO, 1, "checkpoint/");
      EXPECT_FALSE(life.storage->checkpoint());
      EXPECT_FALSE(life.storage->stats().last_checkpoint_ok);
      ASSERT_TRUE(life.set("b", "3"));
      ASSERT_TRUE(life.journal().sync_up_to(3));
      disk.crash_now();
    }
    disk.restart(CrashKind::kPowerLoss);
    Life life(disk);
    EXPECT_EQ(life.get("a"), "2");
    EXPECT_EQ(life.get("b"), "3");
    EXPECT_TRUE(life.storage->checkpoint());
    EXPECT_TRUE(life.storage->stats().last_checkpoint_ok);
  }
}

}  // namespace
}  // namespace pion
