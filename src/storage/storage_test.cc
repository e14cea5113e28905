// Storage over the real file system: what a start finds again, and what it gives back.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "storage/model_plane.h"
#include "storage/storage.h"

namespace pion {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/pion-storage-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& below = "") const { return below.empty() ? path_ : path_ + "/" + below; }

 private:
  std::string path_;
};

struct Opened {
  std::unique_ptr<Storage> storage;
  std::unique_ptr<ModelPlane> plane;
};

Opened start(StorageOptions options) {
  Opened opened;
  Result<std::unique_ptr<Storage>> storage = Storage::open(real_filesystem(), std::move(options));
  EXPECT_TRUE(storage) << (storage ? "" : storage.error().message);
  if (!storage) return opened;
  opened.storage = std::move(*storage);
  opened.plane = std::make_unique<ModelPlane>(*opened.storage);
  const Status status = opened.storage->recover();
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return opened;
}

std::string value_of(size_t bytes, uint64_t seed) {
  std::string value(bytes, '\0');
  std::mt19937_64 random(seed);
  for (char& byte : value) byte = static_cast<char>(random());
  return value;
}

std::string must_get(ModelPlane& plane, const std::string& key) {
  const Result<std::optional<std::string>> value = plane.get(key);
  if (!value) return "error: " + value.error().message;
  return value->value_or("(none)");
}

TEST(Storage, FindsEverythingAgain) {
  TemporaryDirectory dir;
  const std::string large = value_of(300'001, 1);
  {
    Opened opened = start({.dir = dir.path("data")});
    ASSERT_TRUE(opened.plane->change({{.key = "a", .value = "1"}, {.key = "b", .value = large, .large = true}}));
    ASSERT_TRUE(opened.plane->change({{.key = "gone", .value = "x"}}));
    ASSERT_TRUE(opened.plane->change({{.key = "gone", .value = std::nullopt}}));
    ASSERT_TRUE(opened.storage->journal().write_pending());
    EXPECT_EQ(opened.storage->journal().written_lsn(), 3u);
    ASSERT_TRUE(opened.storage->journal().sync_up_to(3));
    EXPECT_EQ(opened.storage->journal().synced_lsn(), 3u);
  }
  for (int round = 0; round < 3; round++) {
    Opened opened = start({.dir = dir.path("data")});
    EXPECT_EQ(must_get(*opened.plane, "a"), "1");
    EXPECT_EQ(must_get(*opened.plane, "b"), large);
    EXPECT_EQ(must_get(*opened.plane, "gone"), "(none)");
    EXPECT_EQ(opened.storage->stats().journal_corrupt_records, 0u);
    EXPECT_EQ(opened.storage->stats().journal_torn_bytes, 0u);
    if (round == 0) {
      ASSERT_TRUE(opened.storage->checkpoint());
    }
  }
}

// Long records are batches of their own; what is appended before and behind them keeps its place.
TEST(Storage, LongRecordsKeepTheirPlaceAmongOthers) {
  TemporaryDirectory dir;
  std::map<std::string, std::string> expected;
  {
    Opened opened = start({.dir = dir.path("data")});
    Journal& journal = opened.storage->journal();
    std::atomic<bool> done{false};
    std::thread writer([&] {
      while (!done) EXPECT_TRUE(journal.write_pending());
    });
    std::mt19937_64 random(7);
    for (int i = 0; i < 60; i++) {
      const std::string key = "key" + std::to_string(random() % 20);
      const std::string value = value_of(i % 10 == 3 ? 1'500'000 : i % 10 == 4 ? kMiB : 100, static_cast<uint64_t>(i));
      ASSERT_TRUE(opened.plane->change({{.key = key, .value = value}}));
      expected[key] = value;
    }
    done = true;
    writer.join();
    ASSERT_TRUE(opened.plane->change({{.key = "long", .value = value_of(3'000'000, 1)}}));
    ASSERT_TRUE(opened.plane->change({{.key = "short", .value = "x"}}));
    ASSERT_TRUE(journal.write_pending());
    EXPECT_FALSE(journal.long_write_ahead());
    EXPECT_EQ(journal.written_lsn(), journal.appended_lsn());
  }
  Opened opened = start({.dir = dir.path("data")});
  for (const auto& [key, value] : expected) EXPECT_EQ(must_get(*opened.plane, key), value);
  EXPECT_EQ(must_get(*opened.plane, "long"), value_of(3'000'000, 1));
  EXPECT_EQ(must_get(*opened.plane, "short"), "x");
  EXPECT_EQ(opened.storage->stats().journal_corrupt_records, 0u);
  EXPECT_EQ(opened.storage->stats().journal_torn_bytes, 0u);
}

TEST(Storage, FilesAndDirectoriesArePrivate) {
  TemporaryDirectory dir;
  const mode_t before = umask(022);
  {
    Opened opened = start({.dir = dir.path("deep/er/data")});
    ASSERT_TRUE(opened.plane->change({{.key = "b", .value = std::string(100'000, 'x'), .large = true}}));
    ASSERT_TRUE(opened.storage->checkpoint());
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path("deep/er"))) {
      struct stat facts;
      ASSERT_EQ(stat(entry.path().c_str(), &facts), 0);
      EXPECT_EQ(facts.st_mode & 0777, entry.is_directory() ? 0700u : 0600u) << entry.path();
    }
  }
  umask(before);
  ASSERT_EQ(chmod(dir.path("deep/er/data").c_str(), 0770), 0);
  EXPECT_FALSE(Storage::open(real_filesystem(), {.dir = dir.path("deep/er/data")}));
}

TEST(Storage, ASecondOpenerIsRefused) {
  TemporaryDirectory dir;
  Opened opened = start({.dir = dir.path()});
  const Result<std::unique_ptr<Storage>> second = Storage::open(real_filesystem(), {.dir = dir.path()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
}

TEST(Storage, FreedSpaceGoesBack) {
  TemporaryDirectory dir;
  Opened opened = start({.dir = dir.path()});
  for (int i = 0; i < 20; i++) {
    ASSERT_TRUE(opened.plane->change({{.key = "k", .value = value_of(1'000'000, static_cast<uint64_t>(i)), .large = true}}));
  }
  ASSERT_TRUE(opened.plane->change({{.key = "kept", .value = value_of(1'000'000, 99), .large = true}}));
  ASSERT_TRUE(opened.plane->change({{.key = "k", .value = std::nullopt}}));
  const std::string file = dir.path("payload/1/1.dat");
  struct stat facts;
  for (int wait = 0; wait < 500; wait++) {  // needs two syncs
    ASSERT_EQ(stat(file.c_str(), &facts), 0);
    if (facts.st_blocks * 512 < 20'000'000) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(facts.st_blocks * 512, 20'000'000);  // 1 MB kept and the room ahead
  EXPECT_EQ(must_get(*opened.plane, "kept"), value_of(1'000'000, 99));
  EXPECT_EQ(opened.storage->extents().allocated_bytes(Space::kValues), 246u * 4096);
}

// Not even what was freed before anybody looked at it.
TEST(Storage, WhatIsHeldStaysWhereItIs) {
  TemporaryDirectory dir;
  Opened opened = start({.dir = dir.path()});
  ExtentStore& extents = opened.storage->extents();
  for (const char* key : {"held", "freed", "after"}) {
    ASSERT_TRUE(opened.plane->change({{.key = key, .value = value_of(1'000'000, 5), .large = true}}));
  }
  const ExtentRef held = *opened.plane->ref("held"), freed = *opened.plane->ref("freed");
  std::shared_ptr<const void> hold = extents.hold(held);
  ASSERT_TRUE(opened.plane->change({{.key = "held", .value = std::nullopt}}));
  ASSERT_TRUE(opened.plane->change({{.key = "freed", .value = std::nullopt}}));
  // The other one is given back: had this one not been held, it would be too.
  ASSERT_TRUE(extents.await_given_back(Space::kValues, uint64_t{held.pages} * 4096, 10'000));
  EXPECT_FALSE(extents.open(freed));
  const auto extent = extents.open(held);
  ASSERT_TRUE(extent) << extent.error().message;
  std::string bytes((*extent)->payload_bytes(), '\0');
  ASSERT_TRUE((*extent)->read(0, bytes.size(), bytes.data()));
  EXPECT_EQ(bytes, value_of(1'000'000, 5));
  hold.reset();
}

}  // namespace
}  // namespace pion
