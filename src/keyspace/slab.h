// Memory for the entries of one shard: size classes of 8 bytes up to 512, in pages of the shared pool. The first few of a
// class come from malloc, so that a shard with a handful of keys of all sizes does not hold a page for each.
// Used under its stripe's lock. Never frees what is still out: destroy() gives back whole pages whatever lies in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "keyspace/page_pool.h"

namespace pion {

class Slab {
 public:
  static constexpr size_t kLargest = 512;

  struct Block {
    void* bytes;
    bool from_page;  // the owner remembers it and says it to free()
  };

  explicit Slab(PagePool& pool) : pool_(&pool) {}
  ~Slab() { destroy(); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  Block allocate(size_t bytes);
  void free(void* bytes, size_t size, bool from_page);

  // Gives back all pages at once. Blocks that came from malloc stay out: their owner frees them first.
  void destroy();

  void swap(Slab& other) {
    std::swap(classes_, other.classes_);
    std::swap(full_, other.full_);
  }

  // What allocate(size) really takes.
  static size_t rounded(size_t size) { return (size + 7) / 8 * 8; }

 private:
  struct Page;
  struct Class {
    Page* partial = nullptr;     // pages with a free block
    uint32_t from_malloc = 0;    // blocks out
  };
  static constexpr uint32_t kMallocFirst = 8;

  Page* new_page(size_t size_class);
  static void link(Page*& list, Page* page);
  static void unlink(Page*& list, Page* page);

  PagePool* pool_;
  std::array<Class, kLargest / 8 + 1> classes_{};
  Page* full_ = nullptr;
};

}  // namespace pion
