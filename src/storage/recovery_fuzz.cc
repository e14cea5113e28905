// Fuzzer: a data directory with a checkpoint, a journal and payload, bytes of which the input overwrites. The start
// succeeds, each key has a value it once had or is gone, and the directory can be used and started again.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "base/log.h"
#include "io/faulty_filesystem.h"
#include "storage/format.h"
#include "storage/model_plane.h"

namespace pion {
namespace {

void require(bool holds) {
  if (!holds) abort();
}

StorageOptions options() {
  return {.dir = "data", .journal_ahead_bytes = 16 * kKiB, .journal_reserve_bytes = 16 * kKiB, .payload_step_bytes = 64 * kKiB, .retry_ms = 1};
}

struct Prepared {
  FaultyFileSystem::Image image;
  std::map<std::string, std::set<std::string>> had;
};

void start(FaultyFileSystem& disk, const std::function<void(Storage&, ModelPlane&)>& use) {
  Result<std::unique_ptr<Storage>> storage = Storage::open(disk, options());
  require(storage.has_value());
  ModelPlane plane(**storage);
  require((*storage)->recover().has_value());
  use(**storage, plane);
  (*storage)->stop();
}

Prepared prepare() {
  set_log_file("/dev/null");
  Prepared prepared;
  FaultyFileSystem disk(1, 16 * kMiB);
  SeedFile seed{.magic = kSeedMagic, .version = kFormatVersion, .reserved = 0, .seed = 0x5eed, .checksum = 0};
  seed.checksum = checksum_of(seed);
  disk.load({{"data/", ""}, {"data/seed", std::string(bytes_of(seed))}});  // the same directory each time
  start(disk, [&](Storage& storage, ModelPlane& plane) {
    for (int i = 0; i < 12; i++) {
      const std::string key = "key" + std::to_string(i % 7);
      const bool large = i % 3 == 0;
      const std::string value(large ? 70'000 : 20 + static_cast<size_t>(i), static_cast<char>('a' + i));
      require(plane.change({{.key = key, .value = value, .large = large}}).has_value());
      prepared.had[key].insert(value);
      if (i == 6) require(storage.checkpoint().has_value());
    }
  });
  prepared.image = disk.image();
  return prepared;
}

}  // namespace
}  // namespace pion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pion;
  static const Prepared prepared = prepare();
  FaultyFileSystem::Image image = prepared.image;
  std::vector<std::string> paths;
  for (const auto& [path, bytes] : image) {
    if (!bytes.empty()) paths.push_back(path);
  }
  // Instructions of six bytes: file, position, new byte, how often.
  for (size_t at = 0; at + 6 <= size; at += 6) {
    std::string& bytes = image[paths[data[at] % paths.size()]];
    if (bytes.empty()) continue;
    const size_t position = (data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]) % bytes.size();
    if (data[at + 5] == 255) {
      bytes.resize(position);
    } else {
      for (size_t i = position; i < bytes.size() && i <= position + data[at + 5] % 32; i++) bytes[i] = static_cast<char>(data[at + 4]);
    }
  }
  FaultyFileSystem disk(2, 16 * kMiB);
  disk.load(image);
  start(disk, [&](Storage& storage, ModelPlane& plane) {
    for (const std::string& key : plane.keys()) {
      require(prepared.had.contains(key));
      const Result<std::optional<std::string>> value = plane.get(key);
      require(value ? value->has_value() && prepared.had.at(key).contains(**value) : value.error().code == ErrorCode::kCorrupt);
    }
    require(plane.change({{.key = "new", .value = "value", .large = true}}).has_value());
    require(storage.journal().sync_up_to(storage.journal().appended_lsn()).has_value());
  });
  disk.restart(CrashKind::kPowerLoss);
  start(disk, [&](Storage&, ModelPlane& plane) {
    const Result<std::optional<std::string>> value = plane.get("new");
    require(value && *value == "value");
  });
  return 0;
}
