// A file system in memory that does to its user what disks and kernels do: loses and reorders what was not synced, tears
// writes, fails calls, fills up, flips bits, and stops in the middle of any operation. For tests of every room.
//
// Content lies in memory files (memfd), so fd(), sendfile and mmap work. Nothing is real: no path touches the disk.
//
//   FaultyFileSystem disk(seed, 64 * kMiB);
//   disk.crash_after(17);                    // the 17th changing call is cut short, everything after it fails
//   ... run until disk.crashed(), destroy the user ...
//   disk.restart(CrashKind::kPowerLoss);     // now the directory is what a start after that crash finds
//
// Model of a power loss: of each file's pages changed since its last successful sync each keeps its old content, has the new
// one, or is torn between them; the size likewise; of each directory's changes since its last sync a prefix stays.
// Model of a failed sync: the pages count as clean, so a later sync does not write them; a power loss takes them.
// A kill keeps everything that was written; only the call under way is cut, a write at a page's boundary.
// All calls from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "io/filesystem.h"

namespace pion {

enum class CrashKind { kKill, kPowerLoss };

enum class FileCall { kWrite, kSync, kAllocate, kRename, kCreate, kRemove, kSyncDirectory, kPunch, kTruncate, kRead };

class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(uint64_t seed, uint64_t capacity_bytes = 256 * kMiB);
  ~FaultyFileSystem() override;

  // ---- faults ----
  // The call of this kind after `skip` others fails with `error_number` (EIO, ENOSPC ...), and `times` - 1 more after it. A
  // failing write may have written a part (whole pages). `path_part`: only calls on paths that contain it count.
  void fail(FileCall call, uint64_t skip, int error_number, uint64_t times = 1, std::string path_part = "");
  void heal();  // forgets all faults asked for
  // After a failed sync, reading gives the old content at once (the cache dropped the pages) instead of the new one.
  void drop_pages_of_failed_syncs(bool drop);
  void crash_after(uint64_t changing_calls);
  void crash_now();
  bool crashed() const;
  void restart(CrashKind kind);
  void set_capacity(uint64_t bytes);

  // ---- looking and spoiling ----
  uint64_t changing_calls() const;
  uint64_t used_bytes() const;
  std::vector<std::string> paths() const;                        // of files
  std::string content(const std::string& path) const;            // empty when it is not there
  void set_content(const std::string& path, std::string_view bytes);  // durable at once; made if missing
  using Image = std::map<std::string, std::string>;              // path to content; directories have a path ending in /
  Image image() const;
  void load(const Image& image);                                 // replaces everything, durable at once
  void flip_bit(const std::string& path, uint64_t bit);

  // ---- FileSystem ----
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
  Status make_directory(const std::string& path) override;
  Status check_private(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<FileSystemSpace> space(const std::string& path) override;
  Result<std::unique_ptr<File>> lock(const std::string& path) override;

 private:
  friend class FaultyFile;
  struct Inode;
  using Entries = std::map<std::string, std::shared_ptr<Inode>>;  // path to file; a directory has a null inode

  struct Fault {
    FileCall call;
    uint64_t skip;
    uint64_t times;
    int error_number;
    std::string path_part;
  };
  struct Change {  // of a directory, not synced
    std::string path;
    std::shared_ptr<Inode> inode;
    bool present;
    std::string former_path;  // of a rename: goes in the same moment
  };
  enum class Verdict { kGo, kFail, kCrash /* cut short: do a part, then fail */ };

  Verdict judge(FileCall call, const std::string& path, int& error_number);
  void note_change(const std::string& path, const std::shared_ptr<Inode>& inode, bool present);
  void make_durable(const Change& change);
  void lose_unsynced();
  void lose_pages(Inode& inode);
  bool chance(uint64_t one_in) { return random_() % one_in == 0; }
  static std::string parent_of(const std::string& path);

  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  uint64_t capacity_;
  std::shared_ptr<uint64_t> used_pages_ = std::make_shared<uint64_t>(0);
  Entries entries_;                                   // as a running process sees them
  Entries durable_;                                   // as the disk has them
  std::map<std::string, std::vector<Change>> changes_;  // by directory, in order
  std::set<std::string> locked_;
  std::vector<Fault> faults_;
  bool drop_failed_pages_ = false;
  bool crashed_ = false;
  uint64_t generation_ = 0;   // files opened before a restart are dead
  uint64_t calls_ = 0;
  uint64_t crash_at_ = ~0ULL;
};

}  // namespace pion
