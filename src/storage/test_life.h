// For tests: a storage with a model plane over the faulty file system, in small sizes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "io/faulty_filesystem.h"
#include "storage/model_plane.h"

namespace pion {

inline std::string bytes_of_seed(size_t size, uint64_t seed) {
  std::string value(size, '\0');
  std::mt19937_64 random(seed);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = random();
    std::memcpy(value.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return value;
}

inline StorageOptions small_options(SyncMode mode = SyncMode::kEverySecond) {
  return {.dir = "data",
          .sync = mode,
          .journal_file_bytes = 256 * kKiB,
          .journal_ahead_bytes = 64 * kKiB,
          .journal_reserve_bytes = 16 * kKiB,
          .payload_step_bytes = 256 * kKiB,
          .payload_file_bytes = 2 * kMiB,
          .retry_ms = 2};
}

// From a start to a stop (or a crash of the disk under it).
struct Life {
  explicit Life(FileSystem& disk, StorageOptions options = small_options()) {
    Result<std::unique_ptr<Storage>> opened = Storage::open(disk, std::move(options));
    if (!opened) {
      ADD_FAILURE() << "does not open: " << opened.error().message;
      return;
    }
    storage = std::move(*opened);
    plane = std::make_unique<ModelPlane>(*storage);
    const Status recovered = storage->recover();
    if (!recovered) ADD_FAILURE() << "does not start: " << recovered.error().message;
  }
  ~Life() {
    if (storage) storage->stop();
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  Result<Lsn> set(const std::string& key, const std::string& value, bool large = false) {
    return plane->change({{.key = key, .value = value, .large = large}});
  }
  Result<Lsn> del(const std::string& key) { return plane->change({{.key = key, .value = std::nullopt}}); }
  // "(none)" for a key that is not there, "error: ..." for one that does not verify.
  std::string get(const std::string& key) {
    const Result<std::optional<std::string>> value = plane->get(key);
    if (!value) return "error: " + value.error().message;
    return value->value_or("(none)");
  }
  Journal& journal() { return storage->journal(); }

  std::unique_ptr<Storage> storage;
  std::unique_ptr<ModelPlane> plane;  // goes first
};

}  // namespace pion
