// The real file system, and the faulty double: that it loses, tears and fails as its header says.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "io/faulty_filesystem.h"
#include "io/filesystem.h"

namespace pion {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/pion-files-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string read_all(File& file) {
  std::string bytes(*file.size(), '\0');
  EXPECT_EQ(*file.pread(bytes.data(), bytes.size(), 0), bytes.size());
  return bytes;
}

// What both must do alike.
void check_contract(FileSystem& disk, const std::string& dir) {
  ASSERT_TRUE(disk.make_directory(dir));
  ASSERT_TRUE(disk.make_directory(dir));
  ASSERT_TRUE(disk.check_private(dir));
  EXPECT_EQ(disk.open(dir + "/a", OpenMode::kRead).error().code, ErrorCode::kNotFound);
  Result<std::unique_ptr<File>> file = disk.open(dir + "/a", OpenMode::kCreate);
  ASSERT_TRUE(file);
  EXPECT_EQ(disk.open(dir + "/a", OpenMode::kCreate).error().code, ErrorCode::kExists);

  size_t written = 0;
  ASSERT_TRUE((*file)->pwrite("hello", 3, &written));
  EXPECT_EQ(written, 5u);
  char one[] = "12", two[] = "345";
  const iovec parts[] = {{one, 2}, {nullptr, 0}, {two, 3}};
  ASSERT_TRUE((*file)->pwritev(parts, 8, &written));
  EXPECT_EQ(written, 5u);
  EXPECT_EQ(read_all(**file), std::string("\0\0\0hello12345", 13));
  char byte;
  EXPECT_EQ(*(*file)->pread(&byte, 1, 100), 0u);

  ASSERT_TRUE((*file)->allocate(0, 1 << 20));
  EXPECT_EQ(*(*file)->size(), 13u);  // room, not bytes
  ASSERT_TRUE((*file)->pwrite(std::string(3 * kPageBytes, 'x'), 0));
  ASSERT_TRUE((*file)->sync_data());
  ASSERT_TRUE((*file)->punch_hole(kPageBytes, kPageBytes));
  EXPECT_EQ(read_all(**file), std::string(kPageBytes, 'x') + std::string(kPageBytes, '\0') + std::string(kPageBytes, 'x'));
  EXPECT_EQ(*(*file)->next_data(kPageBytes), 2 * kPageBytes);
  EXPECT_EQ(*(*file)->next_data(3 * kPageBytes), 3 * kPageBytes);
  ASSERT_TRUE((*file)->truncate(10));
  EXPECT_EQ(*(*file)->size(), 10u);

  Result<std::unique_ptr<File>> reader = disk.open(dir + "/a", OpenMode::kRead);
  ASSERT_TRUE(reader);
  EXPECT_FALSE((*reader)->pwrite("no", 0));
  EXPECT_EQ(fcntl((*reader)->fd(), F_GETFL) & O_ACCMODE, O_RDONLY);  // it is passed to other processes

  ASSERT_TRUE(disk.rename(dir + "/a", dir + "/b"));
  ASSERT_TRUE(disk.sync_directory(dir));
  EXPECT_EQ(*disk.list(dir), std::vector<std::string>{"b"});
  EXPECT_EQ(read_all(**reader), std::string(10, 'x'));
  ASSERT_TRUE(disk.remove(dir + "/b"));
  EXPECT_EQ(disk.remove(dir + "/b").error().code, ErrorCode::kNotFound);
  EXPECT_GT(disk.space(dir)->total_bytes, 0u);

  {
    Result<std::unique_ptr<File>> lock = disk.lock(dir + "/lock");
    ASSERT_TRUE(lock);
    EXPECT_EQ(disk.lock(dir + "/lock").error().code, ErrorCode::kBusy);
  }
  EXPECT_TRUE(disk.lock(dir + "/lock"));
}

TEST(FileSystem, TheRealOneKeepsTheContract) {
  TemporaryDirectory dir;
  check_contract(real_filesystem(), dir.path("d"));
}

TEST(FileSystem, TheDoubleKeepsTheContract) {
  FaultyFileSystem disk(1);
  check_contract(disk, "d");
}

TEST(FileSystem, FollowsNoLinkAndRefusesOthersDirectories) {
  TemporaryDirectory dir;
  ASSERT_TRUE(real_filesystem().make_directory(dir.path("d")));
  ASSERT_TRUE(real_filesystem().open(dir.path("target"), OpenMode::kCreate));
  ASSERT_EQ(symlink(dir.path("target").c_str(), dir.path("d/link").c_str()), 0);
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kReadWrite, OpenMode::kCreate}) {
    EXPECT_FALSE(real_filesystem().open(dir.path("d/link"), mode));
  }
  EXPECT_FALSE(real_filesystem().lock(dir.path("d/link")));
  ASSERT_EQ(symlink(dir.path("d").c_str(), dir.path("linked").c_str()), 0);
  EXPECT_FALSE(real_filesystem().check_private(dir.path("linked")));
  EXPECT_TRUE(real_filesystem().check_private(dir.path("linked/.")));
  ASSERT_EQ(chmod(dir.path("d").c_str(), 0720), 0);
  EXPECT_FALSE(real_filesystem().check_private(dir.path("d")));
  ASSERT_EQ(chmod(dir.path("d").c_str(), 0755), 0);
  EXPECT_TRUE(real_filesystem().check_private(dir.path("d")));
}

TEST(FaultyFileSystem, APowerLossTakesWhatWasNotSyncedAndKeepsWhatWas) {
  int kept_old = 0, kept_new = 0, torn = 0, name_lost = 0;
  for (uint64_t seed = 0; seed < 60; seed++) {
    FaultyFileSystem disk(seed);
    auto file = std::move(*disk.open("a", OpenMode::kCreate));
    ASSERT_TRUE(file->pwrite(std::string(8 * kPageBytes, 'o'), 0));
    ASSERT_TRUE(file->sync_data());
    ASSERT_TRUE(disk.sync_directory("."));
    ASSERT_TRUE(file->pwrite(std::string(4 * kPageBytes, 'n'), 0));
    ASSERT_TRUE(disk.open("b", OpenMode::kCreate));
    disk.restart(CrashKind::kPowerLoss);
    EXPECT_FALSE(file->pwrite("x", 0)) << "a file of the last life";
    const std::string bytes = disk.content("a");
    ASSERT_EQ(bytes.size(), 8 * kPageBytes);
    EXPECT_EQ(bytes.substr(4 * kPageBytes), std::string(4 * kPageBytes, 'o'));
    for (size_t page = 0; page < 4; page++) {
      const std::string one = bytes.substr(page * kPageBytes, kPageBytes);
      const size_t is_new = one.find_first_not_of('n');
      if (is_new == std::string::npos) kept_new++;
      if (is_new == 0) kept_old++;
      if (is_new != 0 && is_new != std::string::npos) torn++;
    }
    name_lost += disk.paths().size() == 1;
  }
  EXPECT_GT(kept_old, 10);
  EXPECT_GT(kept_new, 10);
  EXPECT_GT(torn, 3);
  EXPECT_GT(name_lost, 10);
  EXPECT_LT(name_lost, 50);
}

TEST(FaultyFileSystem, AKillKeepsAllButTheCallUnderWay) {
  FaultyFileSystem disk(1);
  auto file = std::move(*disk.open("a", OpenMode::kCreate));
  ASSERT_TRUE(file->pwrite(std::string(2 * kPageBytes, 'a'), 0));
  disk.crash_after(1);
  EXPECT_FALSE(file->pwrite(std::string(8 * kPageBytes, 'b'), 2 * kPageBytes));
  EXPECT_TRUE(disk.crashed());
  EXPECT_FALSE(disk.list("."));
  disk.restart(CrashKind::kKill);
  const std::string bytes = disk.content("a");
  EXPECT_EQ(bytes.size() % kPageBytes, 0u);
  EXPECT_LT(bytes.size(), 10 * kPageBytes);
  EXPECT_EQ(bytes.substr(0, 2 * kPageBytes), std::string(2 * kPageBytes, 'a'));
  EXPECT_EQ(bytes.substr(2 * kPageBytes), std::string(bytes.size() - 2 * kPageBytes, 'b'));
}

TEST(FaultyFileSystem, AfterAFailedSyncThePagesAreLostWhateverIsSyncedLater) {
  FaultyFileSystem disk(1);
  auto file = std::move(*disk.open("a", OpenMode::kCreate));
  ASSERT_TRUE(disk.sync_directory("."));
  ASSERT_TRUE(file->pwrite(std::string(kPageBytes, 'a'), 0));
  disk.fail(FileCall::kSync, 0, EIO);
  EXPECT_FALSE(file->sync_data());
  EXPECT_EQ(disk.content("a"), std::string(kPageBytes, 'a'));  // the cache still shows it
  ASSERT_TRUE(file->pwrite(std::string(kPageBytes, 'b'), kPageBytes));
  EXPECT_TRUE(file->sync_data());
  disk.restart(CrashKind::kPowerLoss);
  EXPECT_EQ(disk.content("a"), std::string(kPageBytes, '\0') + std::string(kPageBytes, 'b'));
}

TEST(FaultyFileSystem, FillsUpAndGetsRoomAgain) {
  FaultyFileSystem disk(1, 4 * kPageBytes);
  auto file = std::move(*disk.open("a", OpenMode::kCreate));
  size_t written = 0;
  const Status full = file->pwrite(std::string(6 * kPageBytes, 'x'), 0, &written);
  EXPECT_EQ(full.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(written, 4 * kPageBytes);
  EXPECT_EQ(file->allocate(0, 5 * kPageBytes).error().code, ErrorCode::kNoSpace);
  ASSERT_TRUE(file->punch_hole(0, 2 * kPageBytes));
  EXPECT_EQ(disk.used_bytes(), 2 * kPageBytes);
  EXPECT_TRUE(file->pwrite(std::string(2 * kPageBytes, 'y'), 4 * kPageBytes));
  ASSERT_TRUE(disk.remove("a"));
  EXPECT_EQ(disk.used_bytes(), 0u);
}

}  // namespace
}  // namespace pion
