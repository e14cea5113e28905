#include "prompt/blob.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/limits.h"
#include "base/page_buffer.h"

namespace pion {
namespace {

constexpr uint64_t kPieceBytes = 16 * kChunkBytes;  // what an extent writes at once

class MemoryBlob : public BlobSource {
 public:
  explicit MemoryBlob(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Status copy(uint64_t offset, uint64_t length, ExtentWriter& to) override { return to.append(bytes_.substr(offset, length)); }

 private:
  std::string_view bytes_;
};

class StreamedBlob : public BlobSource {
 public:
  StreamedBlob(ExtentStore& extents, std::unique_ptr<ExtentWriter> writer, uint64_t bytes, uint64_t aux_room, std::shared_ptr<StreamRoom> room)
      : extents_(extents),
        writer_(std::move(writer)),
        room_(std::move(room)),
        bytes_(bytes),
        aux_room_(aux_room) {}
  ~StreamedBlob() override {
    if (ref_ && !committed_) extents_.free(ref_, 0);  // no record ever named it
  }
  uint64_t size() const override { return bytes_; }

  Result<ExtentRef> take(const std::string& aux) override {
    if (!writer_ || aux.size() > aux_room_) return ExtentRef{};
    writer_->set_aux(aux);
    PION_TRY(finish());
    return ref_;
  }
  void commit() override { committed_ = true; }
  uint64_t room_bytes() const override { return room_ ? room_->bytes() : 0; }
  void release_room() override { room_.reset(); }

  Status copy(uint64_t offset, uint64_t length, ExtentWriter& to) override {
    if (!extent_) {
      if (writer_) PION_TRY(finish());
      auto opened = extents_.open(ref_);
      if (!opened) return std::unexpected(opened.error());
      extent_ = std::move(*opened);
    }
    const PageBuffer piece(std::min(length, kPieceBytes));
    for (uint64_t done = 0; done < length;) {
      const uint64_t size = std::min(kPieceBytes, length - done);
      PION_TRY(extent_->read(offset + done, size, piece.get()));
      PION_TRY(to.append({piece.get(), size}));
      done += size;
    }
    return {};
  }

 private:
  Status finish() {
    auto finished = writer_->finish();
    writer_.reset();
    if (!finished) return std::unexpected(finished.error());
    ref_ = *finished;
    return {};
  }

  ExtentStore& extents_;
  std::unique_ptr<ExtentWriter> writer_;
  std::shared_ptr<Extent> extent_;
  std::shared_ptr<StreamRoom> room_;
  ExtentRef ref_;
  uint64_t bytes_, aux_room_;
  bool committed_ = false;
};

// Mapped window by window and only when it is copied, which its PUT does after it found the length right and room for it: the
// pages of a sparse file are made by looking at them.
class MappedBlob : public BlobSource {
 public:
  MappedBlob(int fd, uint64_t offset, uint64_t length) : fd_(fd), offset_(offset), length_(length) {}
  uint64_t size() const override { return length_; }
  Status copy(uint64_t offset, uint64_t length, ExtentWriter& to) override {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    for (uint64_t done = 0; done < length;) {
      const uint64_t at = offset_ + offset + done, skip = at % page, size = std::min(kWindowBytes, length - done);
      void* const base = mmap(nullptr, size + skip, PROT_READ, MAP_SHARED | MAP_POPULATE, fd_, static_cast<off_t>(at - skip));
      if (base == MAP_FAILED) return fail(ErrorCode::kInvalid, std::string("the passed descriptor cannot be mapped: ") + std::strerror(errno));
      Status status;
      for (uint64_t piece = 0; status && piece < size; piece += kPieceBytes) {
        status = to.append({static_cast<const char*>(base) + skip + piece, std::min(kPieceBytes, size - piece)});
      }
      munmap(base, size + skip);
      PION_TRY(status);
      done += size;
    }
    return {};
  }

 private:
  static constexpr uint64_t kWindowBytes = 64 * kMiB;

  int fd_;
  uint64_t offset_, length_;
};

class CopiedBlob : public BlobSource {
 public:
  CopiedBlob(int fd, uint64_t offset, uint64_t length) : fd_(fd), offset_(offset), length_(length) {}
  uint64_t size() const override { return length_; }
  Status copy(uint64_t offset, uint64_t length, ExtentWriter& to) override {
    const PageBuffer piece(std::min(length, kPieceBytes));
    for (uint64_t done = 0; done < length;) {
      const uint64_t want = std::min(kPieceBytes, length - done);
      const ssize_t got = pread(fd_, piece.get(), want, static_cast<off_t>(offset_ + offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail(ErrorCode::kInvalid, std::string("the passed descriptor cannot be read: ") + std::strerror(errno));
      if (got == 0) return fail(ErrorCode::kInvalid, "the passed descriptor became shorter while it was read");
      PION_TRY(to.append({piece.get(), static_cast<size_t>(got)}));
      done += static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  int fd_;
  uint64_t offset_, length_;
};

}  // namespace

std::unique_ptr<BlobSource> memory_blob(std::string_view bytes) { return std::make_unique<MemoryBlob>(bytes); }

std::unique_ptr<BlobSource> streamed_blob(ExtentStore& extents, std::unique_ptr<ExtentWriter> writer, uint64_t bytes, uint64_t aux_room,
                                          std::shared_ptr<StreamRoom> room) {
  return std::make_unique<StreamedBlob>(extents, std::move(writer), bytes, aux_room, std::move(room));
}

Result<std::unique_ptr<BlobSource>> descriptor_blob(int fd, uint64_t offset, uint64_t length) {
  struct stat about;
  if (fstat(fd, &about) != 0) return fail(ErrorCode::kInvalid, "the passed descriptor is not open");
  if (!S_ISREG(about.st_mode)) return fail(ErrorCode::kInvalid, "the passed descriptor is neither a memory file nor a regular file");
  const uint64_t size = static_cast<uint64_t>(about.st_size);
  if (offset > size || length > size - offset) {
    return fail(ErrorCode::kInvalid, "the passed descriptor holds " + std::to_string(size) + " bytes, asked for " +
                                         std::to_string(length) + " at " + std::to_string(offset));
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  const bool frozen = seals >= 0 && (seals & F_SEAL_WRITE) && (seals & F_SEAL_SHRINK);
  if (frozen && length > 0) return std::make_unique<MappedBlob>(fd, offset, length);
  return std::make_unique<CopiedBlob>(fd, offset, length);
}

}  // namespace pion
