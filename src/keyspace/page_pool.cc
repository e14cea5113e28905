#include "keyspace/page_pool.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/log.h"

namespace pion {
namespace {

constexpr int kCollapse = 25;  // MADV_COLLAPSE, which the headers of Debian 12 lack

}  // namespace

PagePool::~PagePool() {
  for (void* chunk : chunks_) munmap(chunk, kChunk);
}

void* PagePool::take() {
  std::lock_guard lock(mutex_);
  taken_ += kPage;
  for (std::vector<void*>* list : {&warm_, &cold_}) {
    if (list->empty()) continue;
    void* page = list->back();
    list->pop_back();
    return page;
  }
  if (next_ == end_) {
    if (!chunks_.empty()) full_.push_back(chunks_.back());
    add_chunk();
  }
  void* page = next_;
  next_ += kPage;
  return page;
}

void PagePool::give(void* page) {
  std::lock_guard lock(mutex_);
  taken_ -= kPage;
  if (warm_.size() < kWarmPages) {
    warm_.push_back(page);
    return;
  }
  madvise(page, kPage, MADV_DONTNEED);
  cold_.push_back(page);
}

bool PagePool::collapse_one() {
  void* chunk;
  {
    std::lock_guard lock(mutex_);
    if (full_.empty()) return false;
    chunk = full_.back();
    full_.pop_back();
  }
  // Kernels before 6.1 do not know the call; there the kernel's own thread may do it, some time after the advice.
  if (madvise(chunk, kChunk, kCollapse) != 0) madvise(chunk, kChunk, MADV_HUGEPAGE);
  return true;
}

uint64_t PagePool::taken_bytes() const {
  std::lock_guard lock(mutex_);
  return taken_;
}

void PagePool::add_chunk() {
  // Twice the size, then trimmed: the kernel aligns to pages only, and huge pages need 2 MiB.
  void* raw = mmap(nullptr, 2 * kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    log_warning("out of memory: the kernel refused 2 MiB for keys");
    std::abort();
  }
  const auto address = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t start = (address + kChunk - 1) / kChunk * kChunk;
  if (start > address) munmap(raw, start - address);
  const uintptr_t rest = address + 2 * kChunk - (start + kChunk);
  if (rest > 0) munmap(reinterpret_cast<void*>(start + kChunk), rest);
  next_ = reinterpret_cast<char*>(start);
  end_ = next_ + kChunk;
  chunks_.push_back(next_);
}

}  // namespace pion
