#include "prompt/tree.h"

#include <algorithm>
#include <cassert>

namespace pion {
namespace {

std::string root_key(uint32_t model, std::string_view salt) {
  std::string key(reinterpret_cast<const char*>(&model), sizeof model);
  key.append(salt);
  return key;
}

}  // namespace

uint32_t SegmentTree::find_root(uint32_t model, std::string_view salt) const {
  const auto found = root_index_.find(root_key(model, salt));
  return found == root_index_.end() ? kNoRoot : found->second;
}

uint32_t SegmentTree::make_root(uint32_t model, std::string_view salt) {
  const auto [place, fresh] = root_index_.try_emplace(root_key(model, salt), 0);
  if (!fresh) return place->second;
  uint32_t index;
  if (free_roots_.empty()) {
    index = root_count();
    roots_.emplace_back();
  } else {
    index = free_roots_.back();
    free_roots_.pop_back();
  }
  roots_[index].model = model;
  roots_[index].salt = salt;
  return place->second = index;
}

uint32_t& SegmentTree::list_head(const Segment& segment) {
  if (segment.parent & kRootParent) return roots_[segment.parent & ~kRootParent].first_child;
  Segment& parent = slots[segment.parent];
  return segment.boundary() ? parent.first_boundary : parent.first_child;
}

void SegmentTree::link(uint32_t slot) {
  Segment& segment = slots[slot];
  uint32_t& head = list_head(segment);
  segment.previous = kNoSlot;
  segment.next = head;
  if (head != kNoSlot) slots[head].previous = slot;
  head = slot;
  if (!segment.boundary()) index_insert(slot);
  Root& root = roots_[segment.root];
  root.segments += 1, segments_ += 1;
  root.tokens += segment.tokens(), tokens_ += segment.tokens();
  root.bytes += segment.bytes(), bytes_ += segment.bytes();
  update_leaf(slot);
  if (!(segment.parent & kRootParent)) update_leaf(segment.parent);
}

void SegmentTree::unlink(uint32_t slot) {
  Segment& segment = slots[slot];
  assert(segment.first_child == kNoSlot && segment.first_boundary == kNoSlot);
  if (!segment.boundary()) index_erase(slot);
  leaf_remove(slot);
  if (segment.previous != kNoSlot) {
    slots[segment.previous].next = segment.next;
  } else {
    list_head(segment) = segment.next;
  }
  if (segment.next != kNoSlot) slots[segment.next].previous = segment.previous;
  const uint32_t parent = segment.parent, root_slot = segment.root;
  Root& root = roots_[root_slot];
  root.segments -= 1, segments_ -= 1;
  root.tokens -= segment.tokens(), tokens_ -= segment.tokens();
  root.bytes -= segment.bytes(), bytes_ -= segment.bytes();
  slots.release(slot);
  if (!(parent & kRootParent)) update_leaf(parent);
  if (root.segments == 0) {
    root_index_.erase(root_key(root.model, root.salt));
    root = Root{};
    free_roots_.push_back(root_slot);
  }
}

void SegmentTree::recount(uint32_t slot, uint64_t bytes_before, uint32_t tokens_before) {
  Segment& segment = slots[slot];
  Root& root = roots_[segment.root];
  root.bytes += segment.bytes() - bytes_before, bytes_ += segment.bytes() - bytes_before;
  root.tokens += segment.tokens() - tokens_before, tokens_ += uint64_t{segment.tokens()} - tokens_before;
}

void SegmentTree::subtree(uint32_t slot, std::vector<uint32_t>& out) const {
  // Breadth first, then turned round: no recursion over chains of any length.
  const size_t begin = out.size();
  out.push_back(slot);
  for (size_t at = begin; at < out.size(); ++at) {
    const Segment& segment = slots[out[at]];
    for (uint32_t child = segment.first_child; child != kNoSlot; child = slots[child].next) out.push_back(child);
    for (uint32_t child = segment.first_boundary; child != kNoSlot; child = slots[child].next) out.push_back(child);
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(begin), out.end());
}

void SegmentTree::index_insert(uint32_t slot) {
  if ((index_used_ + 1) * 4 > index_.size() * 3) rehash(std::max<size_t>(64, (index_live_ + 1) * 2));
  const Segment& segment = slots[slot];
  size_t at = hash(segment.parent, segment.from, edge_of(segment)) & mask();
  while (index_[at] != kNoSlot && index_[at] != kErased) at = (at + 1) & mask();
  if (index_[at] == kNoSlot) ++index_used_;
  index_[at] = slot;
  ++index_live_;
}

void SegmentTree::index_erase(uint32_t slot) {
  const Segment& segment = slots[slot];
  size_t at = hash(segment.parent, segment.from, edge_of(segment)) & mask();
  while (index_[at] != slot) {
    assert(index_[at] != kNoSlot);
    at = (at + 1) & mask();
  }
  --index_live_;
  if (index_[(at + 1) & mask()] == kNoSlot) {
    index_[at] = kNoSlot;  // nothing was probed past it
    --index_used_;
  } else {
    index_[at] = kErased;
  }
}

void SegmentTree::rehash(size_t entries) {
  size_t size = 64;
  while (size * 3 < entries * 4) size *= 2;
  std::vector<uint32_t> old(size, kNoSlot);
  old.swap(index_);
  index_used_ = index_live_ = 0;
  for (uint32_t slot : old) {
    if (slot == kNoSlot || slot == kErased) continue;
    const Segment& segment = slots[slot];
    size_t at = hash(segment.parent, segment.from, edge_of(segment)) & mask();
    while (index_[at] != kNoSlot) at = (at + 1) & mask();
    index_[at] = slot;
    ++index_used_, ++index_live_;
  }
}

void SegmentTree::leaf_remove(uint32_t slot) {
  const uint32_t position = slots[slot].leaf_position;
  if (position == kNoSlot) return;
  for (std::vector<uint32_t>& list : leaves_) {
    if (position >= list.size() || list[position] != slot) continue;
    list[position] = list.back();
    slots[list[position]].leaf_position = position;
    list.pop_back();
    break;
  }
  slots[slot].leaf_position = kNoSlot;
}

void SegmentTree::update_leaf(uint32_t slot) {
  Segment& segment = slots[slot];
  const bool leaf = segment.first_child == kNoSlot && segment.first_boundary == kNoSlot;
  if (leaf == (segment.leaf_position != kNoSlot)) return;
  if (!leaf) return leaf_remove(slot);
  std::vector<uint32_t>& list = leaves_[segment.read != 0];
  segment.leaf_position = static_cast<uint32_t>(list.size());
  list.push_back(slot);
}

void SegmentTree::move_leaf(uint32_t slot) {
  leaf_remove(slot);
  update_leaf(slot);
}

}  // namespace pion
