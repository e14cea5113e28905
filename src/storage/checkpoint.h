// Checkpoint files: written under a temporary name, made durable, renamed. Format: docs/formats.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/filesystem.h"
#include "storage/format.h"
#include "storage/storage.h"

namespace pion {

// Writes one checkpoint. One thread. What was not finished is removed by the destructor.
class CheckpointWriter final : public CheckpointSink {
 public:
  CheckpointWriter(FileSystem& files, std::string dir, Lsn lsn, uint64_t seed, uint32_t next_payload_file);
  ~CheckpointWriter() override;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  Status begin();
  void set_plane(std::string_view name) { plane_ = name; }
  Status section(uint32_t number, Lsn lsn, std::string_view body) override;
  // Over all sections so far; lowest is at most the checkpoint's own lsn.
  Lsn lowest_lsn() const { return lowest_; }
  Lsn highest_lsn() const { return highest_; }
  // End marker, sync, rename, directory sync: now it counts. `needed_above`: journal records above it are still needed.
  Status finish(Lsn needed_above);
  uint64_t bytes() const { return at_; }

 private:
  Status put(std::string_view bytes);
  Status flush();

  FileSystem& files_;
  const std::string dir_;
  const std::string path_;
  const std::string temporary_;
  const Lsn lsn_;
  const uint64_t seed_;
  const uint32_t next_payload_file_;
  std::unique_ptr<File> file_;
  std::string buffer_;
  uint64_t at_ = 0;  // bytes given to put()
  std::string plane_;
  uint64_t sections_ = 0;
  uint64_t chain_ = 0;
  Lsn lowest_;
  Lsn highest_ = 0;
  bool finished_ = false;
};

struct CheckpointSection {
  std::string plane;
  uint32_t number = 0;
  Lsn lsn = 0;
  uint64_t offset = 0;  // of its body
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

// What a checkpoint file holds. Bodies are verified when they are read.
struct CheckpointIndex {
  std::string name;
  std::unique_ptr<File> file;
  bool whole = false;  // header, every section header and end marker are there and fit each other
  Lsn lsn = 0;
  Lsn lowest_lsn = 0;
  Lsn highest_lsn = 0;
  uint32_t next_payload_file = 0;
  uint64_t bytes = 0;
  std::vector<CheckpointSection> sections;
};

// The header's seed, or 0.
uint64_t checkpoint_seed(File& file);

// Reads headers and end marker. Damage makes it not whole; the sections found are those that can be used.
CheckpointIndex index_checkpoint(std::unique_ptr<File> file, std::string name, Lsn name_lsn, uint64_t seed);

// Reads a section's body into `buffer` (grown as needed) and verifies it.
Result<std::string_view> read_section(File& file, const CheckpointSection& section, std::string& buffer);

}  // namespace pion
