// 4 KiB pages for tables and slabs of all stripes. Addresses are taken from the kernel in chunks of a huge page and never
// unmapped, so a stale pointer into a page may always be prefetched. A chunk becomes a huge page in the background once all of
// it was handed out: random keys then miss the TLB less, and a chunk just begun takes no more memory than it uses. Pages that
// come back beyond a small reserve are given back to the kernel, their addresses kept for reuse. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace pion {

class PagePool {
 public:
  static constexpr size_t kPage = 4096;

  PagePool() = default;
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Contents undefined. Ends the process when the machine has no memory left, as malloc's users do here.
  void* take();
  void give(void* page);

  // Makes one full chunk a huge page, if there is one left to do; a millisecond at most. For a background thread.
  bool collapse_one();

  // Bytes handed out to users.
  uint64_t taken_bytes() const;

 private:
  static constexpr size_t kChunk = 2 * 1024 * 1024;
  static constexpr size_t kWarmPages = 2048;  // kept resident for the next user

  void add_chunk();

  mutable std::mutex mutex_;
  std::vector<void*> warm_, cold_;
  std::vector<void*> chunks_;
  std::vector<void*> full_;  // handed out completely, not huge yet
  char* next_ = nullptr;  // the rest of the newest chunk
  char* end_ = nullptr;
  uint64_t taken_ = 0;
};

}  // namespace pion
