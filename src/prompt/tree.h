// The tree of segments: roots (one a model and salt), children and boundaries of each segment, the index by which a walk
// finds the child that begins with a token, and the lists that eviction draws from. Knows no files and no locks: the store's
// lock guards it (shared for const calls, exclusive for the others).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/checksum.h"
#include "prompt/chain.h"
#include "prompt/segment.h"

namespace pion {

struct Root {
  uint32_t model = 0;  // id; 0: the root is free
  std::string salt;
  uint32_t first_child = kNoSlot;
  uint64_t segments = 0, tokens = 0, bytes = 0;
};

class SegmentTree {
 public:
  explicit SegmentTree(uint64_t seed) : seed_(seed) {}

  SegmentTable slots;
  uint64_t seed() const { return seed_; }

  static constexpr uint32_t kNoRoot = UINT32_MAX;
  uint32_t find_root(uint32_t model, std::string_view salt) const;
  uint32_t make_root(uint32_t model, std::string_view salt);  // or the one there is
  Root& root(uint32_t index) { return roots_[index]; }
  const Root& root(uint32_t index) const { return roots_[index]; }
  uint32_t root_count() const { return static_cast<uint32_t>(roots_.size()); }

  // Room for what recovery is about to link.
  void reserve(size_t segments) {
    if (segments > index_live_) rehash(segments + segments / 4);
  }

  // The child of `parent` (slot or root) that leaves it at `offset` with this edge and that `accept(slot)` takes; kNoSlot if
  // there is none. Several can share a media edge's hash; a token edge is decided by the edge itself.
  template <typename Accept>
  uint32_t find_child(uint32_t parent, uint32_t offset, Edge edge, Accept accept) const {
    if (index_.empty()) return kNoSlot;
    for (size_t at = hash(parent, offset, edge) & mask(); index_[at] != kNoSlot; at = (at + 1) & mask()) {
      if (index_[at] == kErased) continue;
      const Segment& segment = slots[index_[at]];
      const bool same = segment.parent == parent && segment.from == offset && segment.edge == edge.value &&
                        static_cast<bool>(segment.flags & kSegmentMediaEdge) == edge.media;
      if (same && accept(index_[at])) return index_[at];
    }
    return kNoSlot;
  }

  uint32_t first_child(uint32_t parent) const {
    return parent & kRootParent ? roots_[parent & ~kRootParent].first_child : slots[parent].first_child;
  }

  // Joins a filled slot to its parent, its root's sums and the lists; unlink() is the opposite and frees the slot (its children
  // and boundaries must be gone). A root that holds nothing any more is freed with its last segment.
  void link(uint32_t slot);
  void unlink(uint32_t slot);
  // After the segment's extents or tokens changed in place.
  void recount(uint32_t slot, uint64_t bytes_before, uint32_t tokens_before);

  // The segment and everything on it, deepest first.
  void subtree(uint32_t slot, std::vector<uint32_t>& out) const;

  uint64_t segments() const { return segments_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t bytes() const { return bytes_; }  // the one thing that may be asked without the lock

  // Segments with neither children nor boundaries. Two lists, for eviction to tell used from unused ones; which list a leaf
  // stands in may lag behind Segment::read.
  std::vector<uint32_t>& leaves(bool read) { return leaves_[read]; }
  void move_leaf(uint32_t slot);  // into the list of its flag

 private:
  static constexpr uint32_t kErased = kNoSlot - 1;

  size_t mask() const { return index_.size() - 1; }
  uint64_t hash(uint32_t parent, uint32_t offset, Edge edge) const {
    return mix64(seed_ ^ mix64(uint64_t{parent} << 32 | offset) ^ mix64(seed_ + (uint64_t{edge.value} << 1 | edge.media)));
  }
  Edge edge_of(const Segment& segment) const { return {segment.edge, (segment.flags & kSegmentMediaEdge) != 0}; }
  void index_insert(uint32_t slot);
  void index_erase(uint32_t slot);
  void rehash(size_t entries);
  uint32_t& list_head(const Segment& segment);
  void update_leaf(uint32_t slot);
  void leaf_remove(uint32_t slot);

  uint64_t seed_;
  std::vector<Root> roots_;
  std::vector<uint32_t> free_roots_;
  std::unordered_map<std::string, uint32_t> root_index_;
  std::vector<uint32_t> index_;  // open addressing, slots
  size_t index_used_ = 0;        // entries, erased ones included
  size_t index_live_ = 0;
  std::vector<uint32_t> leaves_[2];
  uint64_t segments_ = 0, tokens_ = 0;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace pion
