// Segments and where they live in memory: a slot array that grows in blocks, so that nothing is ever copied and a million
// segments cost what they weigh. At most 200 bytes a segment in all is a promise of the design (segment_test.cc).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "storage/extents.h"

namespace pion {

inline constexpr uint32_t kNoSlot = UINT32_MAX;
inline constexpr uint32_t kRootParent = 1u << 31;  // a parent with this bit is a root, by its index

enum SegmentFlag : uint8_t {
  kSegmentMediaEdge = 1,  // `edge` is the hash of a media item, not a token id
  kSegmentBoundary = 2,   // no tokens: window and trailing rows at position `to`, hung on the segment that holds token `to` - 1
  kSegmentReadPacked = 4, // in checkpoints only: Segment::read
};

// What continues a chain (or a root) with the tokens [from, to). Immutable but for the links, counters and flags; those which
// a match changes under the shared lock (last_used_us, hits, pins, read) are only touched there through the members below.
struct Segment {
  uint64_t id = 0;             // unique for ever; 0: the slot is free
  int64_t last_used_us = 0;    // wall clock
  std::unique_ptr<ExtentRef[]> more_refs;  // of pools beyond the first
  ExtentRef first_ref;
  uint32_t parent = kNoSlot;
  uint32_t first_child = kNoSlot;     // of segments that branch off, or continue, here
  uint32_t first_boundary = kNoSlot;  // of boundary segments hung here
  uint32_t next = kNoSlot, previous = kNoSlot;  // siblings; `next` chains free slots too
  uint32_t root = kNoSlot;
  uint32_t from = 0, to = 0;
  uint32_t rows_from = 0;      // first row that window pools may hold
  uint32_t edge = 0;           // see Edge
  uint32_t leaf_position = kNoSlot;  // in the list of leaves
  uint32_t hits = 0;
  uint32_t pins = 0;           // leases and PUTs under way that need it
  float prefill_ms = std::numeric_limits<float>::quiet_NaN();  // measured for [from, to); NaN: not told
  uint8_t flags = 0;
  uint8_t refs = 0;
  uint8_t read = 0;  // 1: a match used it since it was stored or demoted; evicted after what nobody used

  bool boundary() const { return flags & kSegmentBoundary; }
  uint32_t tokens() const { return boundary() ? 0 : to - from; }
  ExtentRef ref(size_t i) const { return i == 0 ? first_ref : more_refs[i - 1]; }
  void set_refs(const std::vector<ExtentRef>& all) {
    refs = static_cast<uint8_t>(all.size());
    first_ref = all.empty() ? ExtentRef{} : all[0];
    more_refs = all.size() > 1 ? std::make_unique<ExtentRef[]>(all.size() - 1) : nullptr;
    for (size_t i = 1; i < all.size(); ++i) more_refs[i - 1] = all[i];
  }
  void clear_ref(size_t i) { (i == 0 ? first_ref : more_refs[i - 1]) = ExtentRef{}; }
  uint64_t bytes() const {
    uint64_t pages = 0;
    for (size_t i = 0; i < refs; ++i) pages += ref(i).pages;
    return pages * kPageBytes;
  }
  bool measured() const { return prefill_ms == prefill_ms; }

  void pin() { std::atomic_ref(pins).fetch_add(1, std::memory_order_relaxed); }
  void unpin() { std::atomic_ref(pins).fetch_sub(1, std::memory_order_release); }
  bool pinned() { return std::atomic_ref(pins).load(std::memory_order_acquire) > 0; }
  // True when this was the first use since it was stored or demoted.
  bool touch(int64_t now_us, bool count) {
    std::atomic_ref(last_used_us).store(now_us, std::memory_order_relaxed);
    if (!count) return false;
    std::atomic_ref(hits).fetch_add(1, std::memory_order_relaxed);
    return std::atomic_ref(read).exchange(1, std::memory_order_relaxed) == 0;
  }
  struct Use {
    int64_t last_used_us;
    uint32_t hits;
    bool read;
  };
  Use use() const {
    Segment& self = const_cast<Segment&>(*this);  // atomic_ref reads through non-const references only
    return {std::atomic_ref(self.last_used_us).load(std::memory_order_relaxed), std::atomic_ref(self.hits).load(std::memory_order_relaxed),
            std::atomic_ref(self.read).load(std::memory_order_relaxed) != 0};
  }
};

// Slots by number. Blocks that no segment ever stood in are not there: a slot's number alone, from a record that may be wrong,
// costs nothing but a pointer.
class SegmentTable {
 public:
  // Of a slot some segment stands or stood in.
  Segment& operator[](uint32_t slot) { return (*blocks_[slot / kBlock])[slot % kBlock]; }
  const Segment& operator[](uint32_t slot) const { return (*blocks_[slot / kBlock])[slot % kBlock]; }
  bool present(uint32_t slot) const { return slot < size() && blocks_[slot / kBlock]; }
  // The slot holds a segment; this segment.
  bool used(uint32_t slot) const { return present(slot) && (*this)[slot].id != 0; }
  bool live(uint32_t slot, uint64_t id) const { return id != 0 && used(slot) && (*this)[slot].id == id; }
  uint32_t size() const { return static_cast<uint32_t>(blocks_.size() * kBlock); }

  uint32_t allocate() {
    if (free_ == kNoSlot) grow();
    const uint32_t slot = free_;
    free_ = (*this)[slot].next;
    (*this)[slot].next = kNoSlot;
    return slot;
  }
  void release(uint32_t slot) {
    (*this)[slot] = Segment{};
    (*this)[slot].next = free_;
    free_ = slot;
  }
  // Recovery puts segments back into the slots their records name; afterwards the free ones are gathered here.
  Segment& place(uint32_t slot) {
    if (slot >= size()) blocks_.resize(slot / kBlock + 1);
    auto& block = blocks_[slot / kBlock];
    if (!block) block = std::make_unique<Block>(kBlock);
    return (*this)[slot];
  }
  // Each used slot, in order: call(slot, segment).
  template <typename Call>
  void for_each(Call call) const {
    for (size_t block = 0; block < blocks_.size(); ++block) {
      for (uint32_t i = 0; blocks_[block] && i < kBlock; ++i) {
        const Segment& segment = (*blocks_[block])[i];
        if (segment.id != 0) call(static_cast<uint32_t>(block) * kBlock + i, segment);
      }
    }
  }
  void rebuild_free_slots() {
    free_ = kNoSlot;
    for (size_t block = blocks_.size(); block-- > 0;) {
      if (blocks_[block]) add_free(block);
    }
  }

 private:
  static constexpr uint32_t kBlock = 1024;
  using Block = std::vector<Segment>;

  void grow() {
    const auto missing = std::find(blocks_.begin(), blocks_.end(), nullptr);
    const auto block = static_cast<size_t>(missing - blocks_.begin());
    if (missing == blocks_.end()) blocks_.emplace_back();
    blocks_[block] = std::make_unique<Block>(kBlock);
    add_free(block);
  }
  void add_free(size_t block) {
    for (uint32_t i = kBlock; i-- > 0;) {
      Segment& segment = (*blocks_[block])[i];
      if (segment.id != 0) continue;
      segment.next = free_;
      free_ = static_cast<uint32_t>(block) * kBlock + i;
    }
  }

  std::vector<std::unique_ptr<Block>> blocks_;
  uint32_t free_ = kNoSlot;
};

}  // namespace pion
