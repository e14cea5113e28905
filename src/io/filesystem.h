// The operating system's files behind one class, so that tests can lose, tear, reorder, fail and fill up.
// Real calls: RealFileSystem. The faulty double: io/faulty_filesystem.h. Paths are absolute or relative to the process.
// All calls may be made from any thread; a File may be read, written and synced from several threads at once.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file_mapping.h"

namespace pion {

class File {
 public:
  virtual ~File() = default;

  // Reads up to `size` bytes; fewer only at the end of the file.
  virtual Result<size_t> pread(void* to, size_t size, uint64_t offset) = 0;
  // Writes all of it, going on after short writes at the position reached. On error `written` (if given) tells how many
  // bytes from `offset` on are there.
  virtual Status pwrite(std::string_view bytes, uint64_t offset, size_t* written = nullptr) = 0;
  virtual Status pwritev(std::span<const iovec> parts, uint64_t offset, size_t* written = nullptr) = 0;
  virtual Status sync_data() = 0;                                  // fdatasync
  virtual Status allocate(uint64_t offset, uint64_t length) = 0;   // reserves blocks beyond the end too; the size stays
  virtual Status punch_hole(uint64_t offset, uint64_t length) = 0;
  virtual Status truncate(uint64_t size) = 0;
  virtual Result<uint64_t> size() = 0;
  // Next offset at or after `offset` that holds data (SEEK_DATA), or the file's size when there is none.
  virtual Result<uint64_t> next_data(uint64_t offset) = 0;
  // The descriptor, for sendfile and for passing to other processes (open a read-only one for that).
  virtual int fd() const = 0;
  // A mapping of at least the first `bytes`, kept while the file is open. nullptr: there is none, read.
  virtual std::shared_ptr<const FileMapping> mapping([[maybe_unused]] uint64_t bytes) { return nullptr; }
};

struct FileSystemSpace {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // to an unprivileged user
};

enum class OpenMode { kRead, kReadWrite, kCreate /* must not exist; mode 0600 */ };

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) = 0;  // never follows a last symbolic link
  virtual Status make_directory(const std::string& path) = 0;  // mode 0700; an existing directory is fine; parents must exist
  // kInvalid unless the path is a directory (no link to one; with /. behind it a link is followed) of this process's user
  // that neither group nor others can write.
  virtual Status check_private(const std::string& path) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;
  virtual Status sync_directory(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;  // names of entries, sorted, without . and ..
  virtual Result<FileSystemSpace> space(const std::string& path) = 0;
  // An exclusive advisory lock on the file, held until the returned File is destroyed; kBusy when another process holds it.
  virtual Result<std::unique_ptr<File>> lock(const std::string& path) = 0;
};

// The process's file system.
FileSystem& real_filesystem();

}  // namespace pion
