#include "keyspace/slab.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>

namespace pion {

// At the start of its 4 KiB, which are aligned: a block's page is found by masking its address.
struct Slab::Page {
  Page* next;
  Page* previous;
  uint16_t size_class;
  uint16_t used;
  uint16_t free_head;  // offset of the first freed block in the page, 0: none; each freed block holds the next one's
  uint16_t fresh;      // offset behind the last block ever handed out
};

namespace {

template <typename Page>
Page* page_of(void* block) {
  return reinterpret_cast<Page*>(reinterpret_cast<uintptr_t>(block) & ~(PagePool::kPage - 1));
}

}  // namespace

Slab::Block Slab::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  if (size > kLargest) {
    void* block = std::malloc(size);
    if (!block) std::abort();
    return {block, false};
  }
  Class& c = classes_[size / 8];
  if (!c.partial) {
    if (c.from_malloc < kMallocFirst) {
      void* block = std::malloc(size);
      if (!block) std::abort();
      ++c.from_malloc;
      return {block, false};
    }
    link(c.partial, new_page(size / 8));
  }
  Page* page = c.partial;
  char* base = reinterpret_cast<char*>(page);
  char* block;
  if (page->free_head) {
    block = base + page->free_head;
    std::memcpy(&page->free_head, block, sizeof page->free_head);
  } else {
    block = base + page->fresh;
    page->fresh = static_cast<uint16_t>(page->fresh + size);
  }
  ++page->used;
  if (!page->free_head && page->fresh + size > PagePool::kPage) {
    unlink(c.partial, page);
    link(full_, page);
  }
  return {block, true};
}

void Slab::free(void* bytes, size_t size_bytes, bool from_page) {
  const size_t size = rounded(size_bytes);
  if (!from_page) {
    if (size <= kLargest) --classes_[size / 8].from_malloc;
    std::free(bytes);
    return;
  }
  Page* page = page_of<Page>(bytes);
  assert(page->size_class == size / 8);
  Class& c = classes_[size / 8];
  const bool was_full = !page->free_head && page->fresh + size > PagePool::kPage;
  std::memcpy(bytes, &page->free_head, sizeof page->free_head);
  page->free_head = static_cast<uint16_t>(static_cast<char*>(bytes) - reinterpret_cast<char*>(page));
  --page->used;
  if (page->used == 0) {
    unlink(was_full ? full_ : c.partial, page);
    pool_->give(page);
  } else if (was_full) {
    unlink(full_, page);
    link(c.partial, page);
  }
}

void Slab::destroy() {
  for (Class& c : classes_) {
    while (Page* page = c.partial) {
      unlink(c.partial, page);
      pool_->give(page);
    }
  }
  while (Page* page = full_) {
    unlink(full_, page);
    pool_->give(page);
  }
}

Slab::Page* Slab::new_page(size_t size_class) {
  auto* page = static_cast<Page*>(pool_->take());
  page->size_class = static_cast<uint16_t>(size_class);
  page->used = 0;
  page->free_head = 0;
  page->fresh = sizeof(Page);
  return page;
}

void Slab::link(Page*& list, Page* page) {
  page->previous = nullptr;
  page->next = list;
  if (list) list->previous = page;
  list = page;
}

void Slab::unlink(Page*& list, Page* page) {
  (page->previous ? page->previous->next : list) = page->next;
  if (page->next) page->next->previous = page->previous;
}

}  // namespace pion
