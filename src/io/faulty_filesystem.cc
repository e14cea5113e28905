#include "io/faulty_filesystem.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace pion {
namespace {

using Page = std::array<char, kPageBytes>;

std::unexpected<Error> dead() { return fail(ErrorCode::kIo, "the machine has crashed"); }

uint64_t pages_of(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

}  // namespace

// Guarded by the file system's mutex.
struct FaultyFileSystem::Inode {
  explicit Inode(std::shared_ptr<uint64_t> used) : fd(memfd_create("faulty", MFD_CLOEXEC)), used_pages(std::move(used)) {}
  ~Inode() {
    ::close(fd);
    set_counted(false);
  }
  Inode(const Inode&) = delete;
  Inode& operator=(const Inode&) = delete;

  Page read_page(uint64_t page) const {
    Page content{};
    static_cast<void>(!::pread(fd, content.data(), kPageBytes, static_cast<off_t>(page * kPageBytes)));
    return content;
  }
  // Keeps what the disk has of pages that are about to change.
  void keep_old(uint64_t offset, uint64_t length) {
    if (length == 0) return;
    for (uint64_t page = offset / kPageBytes; page <= (offset + length - 1) / kPageBytes; page++) {
      if (old.contains(page)) continue;
      const auto was_lost = lost.find(page);
      if (was_lost != lost.end()) {
        old.emplace(page, was_lost->second);
        lost.erase(was_lost);
      } else {
        old.emplace(page, read_page(page));
      }
    }
  }
  uint64_t missing_pages(uint64_t first, uint64_t count) const {
    uint64_t missing = 0;
    for (uint64_t page = first; page < first + count; page++) missing += page >= allocated.size() || !allocated[page];
    return missing;
  }
  void set_allocated(uint64_t first, uint64_t count, bool value) {
    if (allocated.size() < first + count) allocated.resize(first + count);
    for (uint64_t page = first; page < first + count; page++) {
      if (allocated[page] == value) continue;
      allocated[page] = value;
      if (counted) *used_pages += value ? 1 : -1;
    }
  }
  // A file without a name takes no space, though a power loss can bring it back while that is not synced.
  void set_counted(bool value) {
    if (counted == value) return;
    counted = value;
    const auto pages = static_cast<uint64_t>(std::count(allocated.begin(), allocated.end(), true));
    *used_pages += value ? pages : -pages;
  }
  void resize(uint64_t bytes) {
    size = bytes;
    static_cast<void>(!::ftruncate(fd, static_cast<off_t>(bytes)));
  }

  const int fd;
  const std::shared_ptr<uint64_t> used_pages;
  uint64_t size = 0;
  uint64_t durable_size = 0;
  std::map<uint64_t, Page> old;   // changed since the last sync: what the disk has
  std::map<uint64_t, Page> lost;  // a sync failed: what the disk has, and will have
  std::vector<bool> allocated;
  bool counted = true;
};

class FaultyFile final : public File {
 public:
  FaultyFile(FaultyFileSystem& disk, std::shared_ptr<FaultyFileSystem::Inode> inode, std::string path, bool writable, bool locked)
      : disk_(disk), inode_(std::move(inode)), path_(std::move(path)), writable_(writable), locked_(locked), generation_(disk.generation_) {}

  ~FaultyFile() override {
    if (own_fd_ >= 0) ::close(own_fd_);
    std::lock_guard lock(disk_.mutex_);
    if (locked_ && generation_ == disk_.generation_) disk_.locked_.erase(path_);
    inode_.reset();
  }
  FaultyFile(const FaultyFile&) = delete;
  FaultyFile& operator=(const FaultyFile&) = delete;

  Result<size_t> pread(void* to, size_t size, uint64_t offset) override {
    std::lock_guard lock(disk_.mutex_);
    if (gone()) return dead();
    int error_number = 0;
    if (disk_.judge(FileCall::kRead, path_, error_number) == FaultyFileSystem::Verdict::kFail) return fail_errno("cannot read " + path_, error_number);
    if (offset >= inode_->size) return size_t{0};
    size = std::min<uint64_t>(size, inode_->size - offset);
    const ssize_t got = ::pread(inode_->fd, to, size, static_cast<off_t>(offset));
    return static_cast<size_t>(std::max<ssize_t>(got, 0));
  }

  Status pwrite(std::string_view bytes, uint64_t offset, size_t* written) override {
    std::lock_guard lock(disk_.mutex_);
    return write_locked(bytes, offset, written);
  }

  Status pwritev(std::span<const iovec> parts, uint64_t offset, size_t* written) override {
    std::string joined;
    for (const iovec& part : parts) joined.append(static_cast<const char*>(part.iov_base), part.iov_len);
    return pwrite(joined, offset, written);
  }

  Status sync_data() override {
    std::lock_guard lock(disk_.mutex_);
    if (gone()) return dead();
    int error_number = 0;
    switch (disk_.judge(FileCall::kSync, path_, error_number)) {
      case FaultyFileSystem::Verdict::kGo: break;
      case FaultyFileSystem::Verdict::kCrash: return dead();  // what reached the disk is decided at the restart
      case FaultyFileSystem::Verdict::kFail:
        for (auto& [page, content] : inode_->old) {
          if (disk_.drop_failed_pages_) static_cast<void>(!::pwrite(inode_->fd, content.data(), kPageBytes, static_cast<off_t>(page * kPageBytes)));
          inode_->lost.emplace(page, content);
        }
        if (disk_.drop_failed_pages_) static_cast<void>(!::ftruncate(inode_->fd, static_cast<off_t>(inode_->size)));
        inode_->old.clear();
        return fail_errno("cannot sync " + path_, error_number);
    }
    inode_->old.clear();
    inode_->durable_size = inode_->size;
    return {};
  }

  Status allocate(uint64_t offset, uint64_t length) override {
    std::lock_guard lock(disk_.mutex_);
    if (Status status = may_change(FileCall::kAllocate); !status) return status;
    const uint64_t first = offset / kPageBytes, count = pages_of(offset + length) - first;
    if ((*disk_.used_pages_ + inode_->missing_pages(first, count)) * kPageBytes > disk_.capacity_) {
      return fail_errno("cannot allocate " + path_, ENOSPC);
    }
    inode_->set_allocated(first, count, true);
    return {};
  }

  Status punch_hole(uint64_t offset, uint64_t length) override {
    std::lock_guard lock(disk_.mutex_);
    if (Status status = may_change(FileCall::kPunch); !status) return status;
    const uint64_t end = std::min(offset + length, inode_->size);
    if (offset < end) {
      inode_->keep_old(offset, end - offset);
      static_cast<void>(!::fallocate(inode_->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(end - offset)));
    }
    const uint64_t first = pages_of(offset), after = (offset + length) / kPageBytes;
    if (after > first) inode_->set_allocated(first, after - first, false);
    return {};
  }

  Status truncate(uint64_t size) override {
    std::lock_guard lock(disk_.mutex_);
    if (Status status = may_change(FileCall::kTruncate); !status) return status;
    if (size < inode_->size) inode_->keep_old(size, inode_->size - size);
    inode_->resize(size);
    if (inode_->allocated.size() > pages_of(size)) inode_->set_allocated(pages_of(size), inode_->allocated.size() - pages_of(size), false);
    return {};
  }

  Result<uint64_t> size() override {
    std::lock_guard lock(disk_.mutex_);
    if (gone()) return dead();
    return inode_->size;
  }

  Result<uint64_t> next_data(uint64_t offset) override {
    std::lock_guard lock(disk_.mutex_);
    if (gone()) return dead();
    const off_t at = ::lseek(inode_->fd, static_cast<off_t>(offset), SEEK_DATA);
    return at < 0 ? inode_->size : static_cast<uint64_t>(at);
  }

  // A descriptor of its own, read-only where the file is.
  int fd() const override {
    std::lock_guard lock(disk_.mutex_);
    if (own_fd_ < 0) own_fd_ = ::open(("/proc/self/fd/" + std::to_string(inode_->fd)).c_str(), (writable_ ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    return own_fd_;
  }

 private:
  bool gone() const { return disk_.crashed_ || generation_ != disk_.generation_; }

  Status may_change(FileCall call) {
    if (gone()) return dead();
    if (!writable_) return fail_errno("cannot change " + path_, EBADF);
    int error_number = 0;
    switch (disk_.judge(call, path_, error_number)) {
      case FaultyFileSystem::Verdict::kGo: return {};
      case FaultyFileSystem::Verdict::kFail: return fail_errno("cannot change " + path_, error_number);
      case FaultyFileSystem::Verdict::kCrash: return disk_.chance(2) ? Status() : dead();
    }
    return {};
  }

  Status write_locked(std::string_view bytes, uint64_t offset, size_t* written) {
    if (written) *written = 0;
    if (gone()) return dead();
    if (!writable_) return fail_errno("cannot write " + path_, EBADF);
    int error_number = 0;
    const FaultyFileSystem::Verdict verdict = disk_.judge(FileCall::kWrite, path_, error_number);
    uint64_t fits = bytes.size();
    if (verdict != FaultyFileSystem::Verdict::kGo && !bytes.empty()) fits = disk_.random_() % (bytes.size() + 1);
    bool full = false;
    if (!bytes.empty()) {
      const uint64_t first = offset / kPageBytes;
      for (uint64_t page = first; page < pages_of(offset + bytes.size()); page++) {
        if (inode_->missing_pages(page, 1) == 0) continue;
        if ((*disk_.used_pages_ + 1) * kPageBytes > disk_.capacity_) {
          fits = std::min(fits, page * kPageBytes > offset ? page * kPageBytes - offset : 0);
          full = true;
          break;
        }
        inode_->set_allocated(page, 1, true);
      }
    }
    // A cut or short write ends where a page ends.
    if (fits < bytes.size()) {
      const uint64_t end = (offset + fits) / kPageBytes * kPageBytes;
      fits = end > offset ? end - offset : 0;
    }
    if (fits > 0) {
      inode_->keep_old(offset, fits);
      static_cast<void>(!::pwrite(inode_->fd, bytes.data(), fits, static_cast<off_t>(offset)));
      inode_->size = std::max(inode_->size, offset + fits);
    }
    if (written) *written = fits;
    if (verdict == FaultyFileSystem::Verdict::kCrash) return dead();
    if (verdict == FaultyFileSystem::Verdict::kFail) return fail_errno("cannot write " + path_, error_number);
    if (full) return fail_errno("cannot write " + path_, ENOSPC);
    return {};
  }

  FaultyFileSystem& disk_;
  std::shared_ptr<FaultyFileSystem::Inode> inode_;
  const std::string path_;
  const bool writable_;
  const bool locked_;
  const uint64_t generation_;
  mutable int own_fd_ = -1;
};

FaultyFileSystem::FaultyFileSystem(uint64_t seed, uint64_t capacity_bytes) : random_(seed), capacity_(capacity_bytes) {}
FaultyFileSystem::~FaultyFileSystem() = default;

std::string FaultyFileSystem::parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// ---- faults -------------------------------------------------------------------------------------------------------

FaultyFileSystem::Verdict FaultyFileSystem::judge(FileCall call, const std::string& path, int& error_number) {
  if (call != FileCall::kRead && ++calls_ >= crash_at_) {
    crashed_ = true;
    return Verdict::kCrash;
  }
  for (Fault& fault : faults_) {
    if (fault.call != call || path.find(fault.path_part) == std::string::npos) continue;
    if (fault.skip > 0) {
      fault.skip--;
      continue;
    }
    if (fault.times == 0) continue;
    fault.times--;
    error_number = fault.error_number;
    return Verdict::kFail;
  }
  return Verdict::kGo;
}

void FaultyFileSystem::fail(FileCall call, uint64_t skip, int error_number, uint64_t times, std::string path_part) {
  std::lock_guard lock(mutex_);
  faults_.push_back({call, skip, times, error_number, std::move(path_part)});
}

void FaultyFileSystem::heal() {
  std::lock_guard lock(mutex_);
  faults_.clear();
}

void FaultyFileSystem::drop_pages_of_failed_syncs(bool drop) {
  std::lock_guard lock(mutex_);
  drop_failed_pages_ = drop;
}

void FaultyFileSystem::crash_after(uint64_t changing_calls) {
  std::lock_guard lock(mutex_);
  crash_at_ = calls_ + changing_calls;
}

void FaultyFileSystem::crash_now() {
  std::lock_guard lock(mutex_);
  crashed_ = true;
}

bool FaultyFileSystem::crashed() const {
  std::lock_guard lock(mutex_);
  return crashed_;
}

void FaultyFileSystem::set_capacity(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

void FaultyFileSystem::restart(CrashKind kind) {
  std::lock_guard lock(mutex_);
  generation_++;
  crashed_ = false;
  crash_at_ = ~0ULL;
  faults_.clear();
  locked_.clear();
  if (kind == CrashKind::kPowerLoss) lose_unsynced();
}

void FaultyFileSystem::make_durable(const Change& change) {
  if (change.present) {
    durable_[change.path] = change.inode;
  } else {
    durable_.erase(change.path);
  }
  if (!change.former_path.empty()) durable_.erase(change.former_path);
}

void FaultyFileSystem::lose_unsynced() {
  for (auto& [dir, changes] : changes_) {
    const uint64_t stay = random_() % (changes.size() + 1);
    for (uint64_t at = 0; at < stay; at++) make_durable(changes[at]);
  }
  changes_.clear();
  // What lies in a directory that is gone is gone.
  std::erase_if(durable_, [&](const auto& entry) {
    for (std::string dir = parent_of(entry.first); dir != "." && dir != "/"; dir = parent_of(dir)) {
      if (!durable_.contains(dir)) return true;
    }
    return false;
  });
  entries_ = durable_;
  for (const auto& [path, inode] : entries_) {
    if (!inode) continue;
    lose_pages(*inode);
    inode->set_counted(true);
  }
}

void FaultyFileSystem::lose_pages(Inode& inode) {
  const uint64_t mood = random_() % 4;  // 0: all lost, 1: all there, else each page for itself
  for (auto& [page, content] : inode.old) {
    uint64_t new_bytes = 0;  // of the page, from its beginning
    if (mood == 1) {
      new_bytes = kPageBytes;
    } else if (mood > 1) {
      switch (random_() % 4) {
        case 0: break;
        case 1: new_bytes = random_() % kPageBytes; break;
        default: new_bytes = kPageBytes;
      }
    }
    const Page now = inode.read_page(page);
    std::copy_n(now.begin(), new_bytes, content.begin());
    static_cast<void>(!::pwrite(inode.fd, content.data(), kPageBytes, static_cast<off_t>(page * kPageBytes)));
  }
  for (auto& [page, content] : inode.lost) {
    static_cast<void>(!::pwrite(inode.fd, content.data(), kPageBytes, static_cast<off_t>(page * kPageBytes)));
  }
  uint64_t size = inode.size;
  if (inode.durable_size != inode.size && mood != 1) {
    const uint64_t low = std::min(inode.size, inode.durable_size), high = std::max(inode.size, inode.durable_size);
    size = mood == 0 ? inode.durable_size : low + random_() % (high - low + 1);
  }
  inode.resize(size);
  inode.durable_size = size;
  inode.old.clear();
  inode.lost.clear();
  if (inode.allocated.size() > pages_of(size)) inode.set_allocated(pages_of(size), inode.allocated.size() - pages_of(size), false);
}

// ---- looking and spoiling -----------------------------------------------------------------------------------------

uint64_t FaultyFileSystem::changing_calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

uint64_t FaultyFileSystem::used_bytes() const {
  std::lock_guard lock(mutex_);
  return *used_pages_ * kPageBytes;
}

std::vector<std::string> FaultyFileSystem::paths() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, inode] : entries_) {
    if (inode) paths.push_back(path);
  }
  return paths;
}

std::string FaultyFileSystem::content(const std::string& path) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  if (found == entries_.end() || !found->second) return {};
  std::string bytes(found->second->size, '\0');
  static_cast<void>(!::pread(found->second->fd, bytes.data(), bytes.size(), 0));
  return bytes;
}

void FaultyFileSystem::set_content(const std::string& path, std::string_view bytes) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Inode>& inode = entries_[path];
  if (!inode) {
    inode = std::make_shared<Inode>(used_pages_);
    durable_[path] = inode;
  }
  inode->resize(0);
  static_cast<void>(!::pwrite(inode->fd, bytes.data(), bytes.size(), 0));
  inode->size = inode->durable_size = bytes.size();
  inode->old.clear();
  inode->lost.clear();
  inode->set_allocated(0, pages_of(bytes.size()), true);
}

FaultyFileSystem::Image FaultyFileSystem::image() const {
  Image image;
  std::lock_guard lock(mutex_);
  for (const auto& [path, inode] : entries_) {
    std::string& bytes = image[inode ? path : path + "/"];
    if (!inode) continue;
    bytes.resize(inode->size);
    static_cast<void>(!::pread(inode->fd, bytes.data(), bytes.size(), 0));
  }
  return image;
}

void FaultyFileSystem::load(const Image& image) {
  {
    std::lock_guard lock(mutex_);
    entries_.clear();
    changes_.clear();
    for (const auto& [path, bytes] : image) {
      if (path.ends_with('/')) entries_[path.substr(0, path.size() - 1)] = nullptr;
    }
    durable_ = entries_;
  }
  for (const auto& [path, bytes] : image) {
    if (!path.ends_with('/')) set_content(path, bytes);
  }
}

void FaultyFileSystem::flip_bit(const std::string& path, uint64_t bit) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  if (found == entries_.end() || !found->second || bit / 8 >= found->second->size) return;
  char byte = 0;
  static_cast<void>(!::pread(found->second->fd, &byte, 1, static_cast<off_t>(bit / 8)));
  byte = static_cast<char>(byte ^ (1 << (bit % 8)));
  static_cast<void>(!::pwrite(found->second->fd, &byte, 1, static_cast<off_t>(bit / 8)));
}

// ---- names --------------------------------------------------------------------------------------------------------

void FaultyFileSystem::note_change(const std::string& path, const std::shared_ptr<Inode>& inode, bool present) {
  if (const auto found = entries_.find(path); found != entries_.end()) {
    if (found->second && found->second != inode) found->second->set_counted(false);
    entries_.erase(found);
  }
  if (present) entries_[path] = inode;
  changes_[parent_of(path)].push_back({path, inode, present, {}});
}

Result<std::unique_ptr<File>> FaultyFileSystem::open(const std::string& path, OpenMode mode) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  const auto found = entries_.find(path);
  if (mode != OpenMode::kCreate) {
    if (found == entries_.end()) return pion::fail(ErrorCode::kNotFound, path + " is not there");
    if (!found->second) return fail_errno("cannot open " + path, EISDIR);
    return std::make_unique<FaultyFile>(*this, found->second, path, mode == OpenMode::kReadWrite, false);
  }
  if (found != entries_.end()) return pion::fail(ErrorCode::kExists, path + " is there already");
  const std::string dir = parent_of(path);
  if (dir != "." && dir != "/" && !entries_.contains(dir)) return pion::fail(ErrorCode::kNotFound, dir + " is not there");
  int error_number = 0;
  const Verdict verdict = judge(FileCall::kCreate, path, error_number);
  if (verdict == Verdict::kFail) return fail_errno("cannot create " + path, error_number);
  if (verdict == Verdict::kCrash && chance(2)) return dead();
  const auto inode = std::make_shared<Inode>(used_pages_);
  note_change(path, inode, true);
  return std::make_unique<FaultyFile>(*this, inode, path, true, false);
}

Status FaultyFileSystem::make_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  const auto found = entries_.find(path);
  if (found != entries_.end()) return found->second ? pion::fail(ErrorCode::kExists, path + " is a file") : Status();
  const std::string dir = parent_of(path);
  if (dir != "." && dir != "/" && !entries_.contains(dir)) return pion::fail(ErrorCode::kNotFound, dir + " is not there");
  int error_number = 0;
  const Verdict verdict = judge(FileCall::kCreate, path, error_number);
  if (verdict == Verdict::kFail) return fail_errno("cannot make " + path, error_number);
  if (verdict == Verdict::kCrash && chance(2)) return dead();
  note_change(path, nullptr, true);
  return {};
}

Status FaultyFileSystem::check_private(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  const auto found = entries_.find(path.ends_with("/.") ? path.substr(0, path.size() - 2) : path);
  if (found == entries_.end() || found->second) return pion::fail(ErrorCode::kInvalid, path + " is not a directory");
  return {};
}

Status FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  const auto found = entries_.find(from);
  if (found == entries_.end()) return pion::fail(ErrorCode::kNotFound, from + " is not there");
  int error_number = 0;
  const Verdict verdict = judge(FileCall::kRename, from, error_number);
  if (verdict == Verdict::kFail) return fail_errno("cannot rename " + from, error_number);
  if (verdict == Verdict::kCrash && chance(2)) return dead();
  const std::shared_ptr<Inode> inode = found->second;
  entries_.erase(from);
  note_change(to, inode, true);
  changes_[parent_of(to)].back().former_path = from;
  return {};
}

Status FaultyFileSystem::remove(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  if (!entries_.contains(path)) return pion::fail(ErrorCode::kNotFound, path + " is not there");
  int error_number = 0;
  const Verdict verdict = judge(FileCall::kRemove, path, error_number);
  if (verdict == Verdict::kFail) return fail_errno("cannot remove " + path, error_number);
  if (verdict == Verdict::kCrash && chance(2)) return dead();
  note_change(path, nullptr, false);
  return {};
}

Status FaultyFileSystem::sync_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  int error_number = 0;
  const Verdict verdict = judge(FileCall::kSyncDirectory, path, error_number);
  if (verdict == Verdict::kFail) return fail_errno("cannot sync " + path, error_number);
  if (verdict == Verdict::kCrash) return dead();
  for (const Change& change : changes_[path]) make_durable(change);
  changes_.erase(path);
  return {};
}

Result<std::vector<std::string>> FaultyFileSystem::list(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  const auto found = entries_.find(path);
  if (path != "." && path != "/" && (found == entries_.end() || found->second)) return pion::fail(ErrorCode::kNotFound, path + " is not there");
  std::vector<std::string> names;
  for (const auto& [entry, inode] : entries_) {
    if (parent_of(entry) == path) names.push_back(entry.substr(entry.find_last_of('/') + 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<FileSystemSpace> FaultyFileSystem::space(const std::string&) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  const uint64_t used = *used_pages_ * kPageBytes;
  return FileSystemSpace{.total_bytes = capacity_, .free_bytes = capacity_ > used ? capacity_ - used : 0};
}

Result<std::unique_ptr<File>> FaultyFileSystem::lock(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return dead();
  if (locked_.contains(path)) return pion::fail(ErrorCode::kBusy, path + " is locked: another server runs in this directory");
  auto found = entries_.find(path);
  if (found == entries_.end()) {
    note_change(path, std::make_shared<Inode>(used_pages_), true);
    found = entries_.find(path);
  }
  locked_.insert(path);
  return std::make_unique<FaultyFile>(*this, found->second, path, true, true);
}

}  // namespace pion
