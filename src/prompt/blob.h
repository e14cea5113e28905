// The rows a PUT brings, wherever they are: in memory, streamed to disk already, or behind a descriptor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "storage/extents.h"

namespace pion {

// A share of the budget for rows that are on their way to disk before their PUT is looked at. Given back when it is destroyed.
class StreamRoom {
 public:
  StreamRoom(std::atomic<uint64_t>& streaming, uint64_t bytes) : streaming_(streaming), bytes_(bytes) { streaming_ += bytes_; }
  ~StreamRoom() { streaming_ -= bytes_; }
  StreamRoom(const StreamRoom&) = delete;
  StreamRoom& operator=(const StreamRoom&) = delete;
  uint64_t bytes() const { return bytes_; }

 private:
  std::atomic<uint64_t>& streaming_;
  const uint64_t bytes_;
};

// Owned by one PUT; used by one thread. Whatever was not taken over is given back when it is destroyed.
class BlobSource {
 public:
  virtual ~BlobSource() = default;
  virtual uint64_t size() const = 0;
  // Appends [offset, offset + length) to an extent under way.
  virtual Status copy(uint64_t offset, uint64_t length, ExtentWriter& to) = 0;
  // The whole blob as an extent with these aux bytes, when it lies on disk already and has room for them. Empty: copy instead.
  // At most once; afterwards copy() still works, and without commit() the extent is freed in the end.
  virtual Result<ExtentRef> take(const std::string& aux) { return (void)aux, ExtentRef{}; }
  // What of the budget it holds already, and the end of that: from then on it counts as its PUT reserved it.
  virtual uint64_t room_bytes() const { return 0; }
  virtual void release_room() {}
  // The taken extent belongs to a segment now.
  virtual void commit() {}
};

std::unique_ptr<BlobSource> memory_blob(std::string_view bytes);  // borrowed until the PUT returns

// `aux_room` is what the stream reserved.
std::unique_ptr<BlobSource> streamed_blob(ExtentStore& extents, std::unique_ptr<ExtentWriter> writer, uint64_t bytes, uint64_t aux_room,
                                          std::shared_ptr<StreamRoom> room = nullptr);

// `length` bytes at `offset` of a descriptor the caller keeps open. Memory files sealed against writing and shrinking are
// mapped; of anything else each piece is copied to a buffer of ours before it is checksummed and written, so that what its
// owner changes meanwhile cannot tear a checksum. Refused: what is no regular file or memory file, or is too short.
Result<std::unique_ptr<BlobSource>> descriptor_blob(int fd, uint64_t offset, uint64_t length);

}  // namespace pion
