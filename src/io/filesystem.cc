#include "io/filesystem.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>

#include "base/limits.h"

namespace pion {
namespace {

class RealFile final : public File {
 public:
  RealFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~RealFile() override { ::close(fd_); }
  RealFile(const RealFile&) = delete;
  RealFile& operator=(const RealFile&) = delete;

  Result<size_t> pread(void* to, size_t size, uint64_t offset) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t got = ::pread(fd_, static_cast<char*>(to) + done, size - done, static_cast<off_t>(offset + done));
      if (got == 0) break;
      if (got < 0) {
        if (errno == EINTR) continue;
        return error("read");
      }
      done += static_cast<size_t>(got);
    }
    return done;
  }

  Status pwrite(std::string_view bytes, uint64_t offset, size_t* written) override {
    size_t done = 0;
    Status status = write_all(bytes, offset, done);
    if (written) *written = done;
    return status;
  }

  Status pwritev(std::span<const iovec> parts, uint64_t offset, size_t* written) override {
    size_t done = 0;
    Status status = write_parts(parts, offset, done);
    if (written) *written = done;
    return status;
  }

  Status sync_data() override {
    // Not repeated on EINTR or any other error: after a failed sync the caller gives the file up.
    if (::fdatasync(fd_) != 0) return error("sync");
    return {};
  }

  Status allocate(uint64_t offset, uint64_t length) override {
    int result;
    do {
      result = ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(length));
    } while (result != 0 && errno == EINTR);
    if (result == 0) return {};
    if (errno != EOPNOTSUPP) return error("allocate");
    return fill_with_zeros(offset + length);
  }

  Status punch_hole(uint64_t offset, uint64_t length) override {
    // ext4 leaves what is reserved beyond the end of the file where it is. So the range is brought inside first, by a byte of
    // its own: a truncate that makes the file longer could race with a write behind it and cut that off.
    const Result<uint64_t> end = size();
    if (!end) return std::unexpected(end.error());
    if (*end < offset + length) static_cast<void>(::pwrite(fd_, "", 1, static_cast<off_t>(offset + length - 1)));
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (::fallocate(fd_, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0) return error("punch a hole");
    return {};
  }

  Status truncate(uint64_t size) override {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return error("truncate");
    return {};
  }

  Result<uint64_t> size() override {
    struct stat facts;
    if (::fstat(fd_, &facts) != 0) return error("stat");
    return static_cast<uint64_t>(facts.st_size);
  }

  Result<uint64_t> next_data(uint64_t offset) override {
    const off_t at = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
    if (at >= 0) return static_cast<uint64_t>(at);
    if (errno == ENXIO) return size();
    return error("seek");
  }

  int fd() const override { return fd_; }

  std::shared_ptr<const FileMapping> mapping(uint64_t bytes) override {
    std::lock_guard lock(mapping_mutex_);
    // Room for what will be appended, so that it is not mapped anew for each extent.
    if (!mapping_ || mapping_->bytes() < bytes) mapping_ = FileMapping::make(fd_, std::max(bytes, kPayloadFileBytes));
    return mapping_;
  }

 private:
  std::unexpected<Error> error(const char* what) const { return fail_errno(std::string("cannot ") + what + " " + path_, errno); }

  Status write_all(std::string_view bytes, uint64_t offset, size_t& done) {
    while (done < bytes.size()) {
      const ssize_t put = ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      if (put < 0) {
        if (errno == EINTR) continue;
        return error("write");
      }
      if (put == 0) return fail(ErrorCode::kIo, "cannot write " + path_ + ": nothing was written");
      done += static_cast<size_t>(put);
    }
    return {};
  }

  Status write_parts(std::span<const iovec> parts, uint64_t offset, size_t& done) {
    std::vector<iovec> left(parts.begin(), parts.end());
    size_t first = 0;
    while (first < left.size()) {
      const int count = static_cast<int>(std::min<size_t>(left.size() - first, IOV_MAX));
      ssize_t put = ::pwritev(fd_, left.data() + first, count, static_cast<off_t>(offset + done));
      if (put < 0) {
        if (errno == EINTR) continue;
        return error("write");
      }
      done += static_cast<size_t>(put);
      bool moved = put > 0;
      while (first < left.size() && static_cast<size_t>(put) >= left[first].iov_len) {
        put -= static_cast<ssize_t>(left[first++].iov_len);
        moved = true;
      }
      if (!moved) return fail(ErrorCode::kIo, "cannot write " + path_ + ": nothing was written");
      if (first < left.size()) {
        left[first].iov_base = static_cast<char*>(left[first].iov_base) + put;
        left[first].iov_len -= static_cast<size_t>(put);
      }
    }
    return {};
  }

  // Where the file system cannot reserve blocks, only written zeros are a reservation.
  Status fill_with_zeros(uint64_t end) {
    Result<uint64_t> from = size();
    if (!from) return std::unexpected(from.error());
    static constexpr std::array<char, 64 * 1024> kZeros{};
    for (uint64_t at = *from; at < end;) {
      const size_t step = std::min<uint64_t>(kZeros.size(), end - at);
      size_t done = 0;
      PION_TRY(write_all({kZeros.data(), step}, at, done));
      at += step;
    }
    return {};
  }

  const int fd_;
  const std::string path_;
  std::mutex mapping_mutex_;
  std::shared_ptr<const FileMapping> mapping_;
};

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    int flags = O_CLOEXEC | O_NOFOLLOW;
    switch (mode) {
      case OpenMode::kRead: flags |= O_RDONLY; break;
      case OpenMode::kReadWrite: flags |= O_RDWR; break;
      case OpenMode::kCreate: flags |= O_RDWR | O_CREAT | O_EXCL; break;
    }
    return open_file(path, flags);
  }

  Status make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0700) == 0) return {};
    if (errno != EEXIST) return fail_errno("cannot make the directory " + path, errno);
    struct stat facts;
    if (::stat(path.c_str(), &facts) != 0) return fail_errno("cannot look at " + path, errno);
    if (!S_ISDIR(facts.st_mode)) return fail(ErrorCode::kExists, path + " is there and is not a directory");
    return {};
  }

  Status check_private(const std::string& path) override {
    struct stat facts;
    if (::lstat(path.c_str(), &facts) != 0) return fail_errno("cannot look at " + path, errno);
    if (!S_ISDIR(facts.st_mode)) return fail(ErrorCode::kInvalid, path + " is not a directory (a link is not followed)");
    if (facts.st_uid != ::geteuid()) {
      return fail(ErrorCode::kInvalid, path + " belongs to user " + std::to_string(facts.st_uid) + ", not to " +
                                           std::to_string(::geteuid()) + " whose server this is");
    }
    if (facts.st_mode & (S_IWGRP | S_IWOTH)) {
      return fail(ErrorCode::kInvalid, path + " can be written by its group or by others; chmod go-w it first");
    }
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return fail_errno("cannot rename " + from + " to " + to, errno);
    return {};
  }

  Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0) return {};
    if (errno == ENOENT) return fail(ErrorCode::kNotFound, path + " is not there");
    return fail_errno("cannot remove " + path, errno);
  }

  Status sync_directory(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno("cannot open the directory " + path, errno);
    const int result = ::fsync(fd);
    const int error = errno;
    ::close(fd);
    if (result != 0) return fail_errno("cannot sync the directory " + path, error);
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    DIR* dir = ::opendir(path.c_str());
    if (!dir) return fail_errno("cannot list " + path, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    const int error = errno;
    ::closedir(dir);
    if (error != 0) return fail_errno("cannot list " + path, error);
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<FileSystemSpace> space(const std::string& path) override {
    struct statvfs facts;
    if (::statvfs(path.c_str(), &facts) != 0) return fail_errno("cannot ask for the space of " + path, errno);
    return FileSystemSpace{.total_bytes = static_cast<uint64_t>(facts.f_blocks) * facts.f_frsize,
                           .free_bytes = static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize};
  }

  Result<std::unique_ptr<File>> lock(const std::string& path) override {
    Result<std::unique_ptr<File>> file = open_file(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW);
    if (!file) return file;
    if (::flock((*file)->fd(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return fail(ErrorCode::kBusy, path + " is locked: another server runs in this directory");
      return fail_errno("cannot lock " + path, errno);
    }
    return file;
  }

 private:
  static Result<std::unique_ptr<File>> open_file(const std::string& path, int flags) {
    int fd;
    do {
      fd = ::open(path.c_str(), flags, 0600);
    } while (fd < 0 && errno == EINTR);
    if (fd >= 0) return std::make_unique<RealFile>(fd, path);
    if (errno == ENOENT) return fail(ErrorCode::kNotFound, path + " is not there");
    if (errno == EEXIST) return fail(ErrorCode::kExists, path + " is there already");
    if (errno == ELOOP) return fail(ErrorCode::kInvalid, path + " is a symbolic link; the server follows none");
    return fail_errno("cannot open " + path, errno);
  }
};

}  // namespace

FileSystem& real_filesystem() {
  static RealFileSystem files;
  return files;
}

}  // namespace pion
