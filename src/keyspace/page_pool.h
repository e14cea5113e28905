// 4 KiB pages for tables and slabs of all stripes. Addresses are taken from the kernel in large aligned chunks (huge pages
// where it grants them) and never unmapped, so a stale pointer into a page may always be prefetched. Pages that come back
// beyond a small reserve are given back to the kernel, their addresses kept for reuse. Any thread.
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

  // Bytes handed out to users.
  uint64_t taken_bytes() const;

 private:
  static constexpr size_t kChunk = 2 * 1024 * 1024;
  static constexpr size_t kWarmPages = 2048;  // kept resident for the next user

  void add_chunk();

  mutable std::mutex mutex_;
  std::vector<void*> warm_, cold_;
  std::vector<void*> chunks_;
  char* next_ = nullptr;  // the rest of the newest chunk
  char* end_ = nullptr;
  uint64_t taken_ = 0;
};

}  // namespace pion
