// Directories written by released versions (tests/formats/<version>/) must be read for ever, and today's bytes must not
// change without a new version. PION_WRITE_FORMATS=1 writes the folder of the current version when it is not there.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "storage/format.h"
#include "storage/test_life.h"

namespace pion {
namespace {

namespace fs = std::filesystem;

const fs::path kFormats = fs::path(__FILE__).parent_path().parent_path().parent_path() / "tests" / "formats";

std::string large_value(int number) { return bytes_of_seed(70'000 + static_cast<size_t>(number), static_cast<uint64_t>(number)); }

// What every version's folder holds, written by its own code.
void fill(Life& life) {
  ASSERT_TRUE(life.set("gone", "x"));
  for (int i = 0; i < 5; i++) ASSERT_TRUE(life.set("checkpointed" + std::to_string(i), "value " + std::to_string(i)));
  ASSERT_TRUE(life.set("large0", large_value(0), true));
  ASSERT_TRUE(life.storage->checkpoint());
  ASSERT_TRUE(life.del("gone"));
  for (int i = 0; i < 5; i++) ASSERT_TRUE(life.set("journaled" + std::to_string(i), std::string("\0\xff", 2) + std::to_string(i)));
  ASSERT_TRUE(life.set("large1", large_value(1), true));
}

void check(Life& life) {
  EXPECT_EQ(life.storage->stats().journal_corrupt_records, 0u);
  EXPECT_EQ(life.storage->stats().journal_torn_bytes, 0u);
  EXPECT_EQ(life.plane->keys().size(), 12u);
  EXPECT_EQ(life.get("gone"), "(none)");
  for (int i = 0; i < 5; i++) EXPECT_EQ(life.get("checkpointed" + std::to_string(i)), "value " + std::to_string(i));
  for (int i = 0; i < 5; i++) EXPECT_EQ(life.get("journaled" + std::to_string(i)), std::string("\0\xff", 2) + std::to_string(i));
  EXPECT_TRUE(life.get("large0") == large_value(0));
  EXPECT_TRUE(life.get("large1") == large_value(1));
}

FaultyFileSystem::Image read_folder(const fs::path& folder) {
  FaultyFileSystem::Image image;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = "data/" + fs::relative(entry.path(), folder).string();
    if (entry.is_directory()) {
      image[path + "/"];
      continue;
    }
    std::ifstream in(entry.path(), std::ios::binary);
    image[path] = std::string(std::istreambuf_iterator<char>(in), {});
  }
  image["data/"];
  for (const char* empty : {"quarantine", "payload/0"}) image[std::string("data/") + empty + "/"];  // git keeps no empty folders
  return image;
}

// Zeros at the end are room laid ahead; without them the folder stays small.
void write_folder(const FaultyFileSystem::Image& image, const fs::path& folder) {
  for (const auto& [path, bytes] : image) {
    if (path.ends_with('/') || path == "data/lock") continue;
    const fs::path to = folder / path.substr(5);
    fs::create_directories(to.parent_path());
    std::ofstream(to, std::ios::binary) << bytes.substr(0, (bytes.find_last_not_of('\0') / kPageBytes + 1) * kPageBytes);
  }
}

TEST(Formats, EveryReleasedVersionIsRead) {
  set_log_file("/dev/null");
  const fs::path current = kFormats / std::to_string(kFormatVersion);
  if (getenv("PION_WRITE_FORMATS") && !fs::exists(current)) {
    FaultyFileSystem disk(1);
    {
      Life life(disk);
      fill(life);
    }
    write_folder(disk.image(), current);
  }
  int versions = 0;
  for (const auto& entry : fs::directory_iterator(kFormats)) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE("version " + entry.path().filename().string());
    FaultyFileSystem disk(1);
    disk.load(read_folder(entry.path()));
    for (int start = 0; start < 2; start++) {
      Life life(disk);
      check(life);
      ASSERT_TRUE(life.storage->checkpoint());
    }
    versions++;
  }
  EXPECT_TRUE(fs::exists(current)) << "no folder of the version that is written today";
  EXPECT_GE(versions, 1);
  set_log_file("");
}

// The bytes of each struct, spelled out: a change here is a new version.
TEST(Formats, TodaysBytesAreWhatTheDocumentSays) {
  EXPECT_EQ(lsn_name(7, ".log"), "00000000000000000007.log");
  Lsn lsn = 0;
  EXPECT_TRUE(parse_lsn_name("18446744073709551615.log", ".log", lsn));
  EXPECT_EQ(lsn, ~0ULL);
  EXPECT_FALSE(parse_lsn_name("18446744073709551616.log", ".log", lsn));
  EXPECT_FALSE(parse_lsn_name("0000000000000000007.log", ".log", lsn));
  EXPECT_FALSE(parse_lsn_name("0000000000000000000x.log", ".log", lsn));

  RecordHeader header{.total_bytes = 27, .type = 16, .flags = 0, .header_check = 0, .lsn = 5, .hash = 0};
  seal_record(header, 0x5eed, "abc");
  const uint64_t shape = 27ULL << 16 | 16 << 8;
  const uint64_t place = mix64(mix64(0x5eed ^ mix64(shape)) + 5);
  EXPECT_EQ(header.header_check, place >> 48);
  EXPECT_EQ(header.hash, mix64(xxh3("abc") ^ place));
  EXPECT_EQ(extent_header_bytes(0, 0), 56u);
  EXPECT_EQ(extent_header_bytes(kChunkBytes + 1, 100), 48u + 16 + 100 + 8);
  EXPECT_EQ(ExtentStore::pages_for(0, 0), 1u);
  EXPECT_EQ(ExtentStore::pages_for(4096, 4096), 3u);
}

}  // namespace
}  // namespace pion
