// Reads a file through one large window, for scanning: a record's bytes are a view, no allocation a record.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/limits.h"
#include "io/filesystem.h"

namespace pion {

class WindowReader {
 public:
  WindowReader(File& file, uint64_t file_bytes) : file_(file), file_bytes_(file_bytes) {}

  // The file's bytes [offset, offset + size), fewer at its end. Valid until the next call. What the device cannot read
  // comes as zeros, which verify nowhere.
  std::string_view view(uint64_t offset, uint64_t size) {
    if (offset >= begin_ && offset + size <= begin_ + have_) return {buffer_.get() + (offset - begin_), size};
    return fill(offset, size);
  }

  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t unreadable_bytes() const { return unreadable_bytes_; }

 private:
  std::string_view fill(uint64_t offset, uint64_t size) {
    if (offset >= file_bytes_) return {};
    size = std::min(size, file_bytes_ - offset);
    const uint64_t want = std::min(std::max(size, kWindowBytes), file_bytes_ - offset);
    if (want > room_) {
      buffer_ = std::make_unique_for_overwrite<char[]>(want);
      room_ = want;
    }
    begin_ = offset;
    have_ = want;
    const Result<size_t> got = file_.pread(buffer_.get(), want, offset);
    if (!got) {
      read_page_by_page(offset, want);
    } else if (*got < want) {
      std::memset(buffer_.get() + *got, 0, want - *got);  // shorter than it said: somebody cut it
    }
    return {buffer_.get(), size};
  }

  void read_page_by_page(uint64_t offset, uint64_t want) {
    for (uint64_t done = 0; done < want;) {
      const uint64_t step = std::min(kPageBytes - (offset + done) % kPageBytes, want - done);
      const Result<size_t> got = file_.pread(buffer_.get() + done, step, offset + done);
      const size_t good = got ? *got : 0;
      std::memset(buffer_.get() + done + good, 0, step - good);
      if (!got) unreadable_bytes_ += step;
      done += step;
    }
  }

  static constexpr uint64_t kWindowBytes = 1 * kMiB;

  File& file_;
  const uint64_t file_bytes_;
  std::unique_ptr<char[]> buffer_;
  uint64_t room_ = 0;
  uint64_t begin_ = 0;
  uint64_t have_ = 0;
  uint64_t unreadable_bytes_ = 0;
};

}  // namespace pion
