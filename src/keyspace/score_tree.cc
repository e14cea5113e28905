#include "keyspace/score_tree.h"

#include <algorithm>

namespace pion {

template <typename N>
N* ScoreTree::make() {
  bytes_ += sizeof(N);
  return new N;
}

template <typename N>
void ScoreTree::free(N* node) {
  bytes_ -= sizeof(N);
  delete node;
}

ScoreTree::~ScoreTree() {
  if (root_) drop(root_);
}

void ScoreTree::drop(Node* node) {
  if (node->leaf) return free(static_cast<Leaf*>(node));
  auto* inner = static_cast<Inner*>(node);
  for (unsigned i = 0; i < inner->count; ++i) drop(inner->children[i].node);
  free(inner);
}

// What a parent knows of a child.
void ScoreTree::refresh(Child& child) const {
  if (child.node->leaf) {
    const auto& leaf = *static_cast<const Leaf*>(child.node);
    child.size = leaf.count;
    child.first = leaf.items[0];
  } else {
    const auto& inner = *static_cast<const Inner*>(child.node);
    child.size = 0;
    for (unsigned i = 0; i < inner.count; ++i) child.size += inner.children[i].size;
    child.first = inner.children[0].first;
  }
}

void ScoreTree::insert(ScoreItem item) {
  if (!root_) root_ = make<Leaf>();
  Node* sibling = insert_below(root_, item);
  ++size_;
  if (!sibling) return;
  Inner* top = make<Inner>();
  top->children[0].node = root_;
  top->children[1].node = sibling;
  top->count = 2;
  refresh(top->children[0]);
  refresh(top->children[1]);
  root_ = top;
}

// The new right half when the node was split, else null.
ScoreTree::Node* ScoreTree::insert_below(Node* node, const ScoreItem& item) {
  if (node->leaf) return insert_into_leaf(*static_cast<Leaf*>(node), item);
  auto& inner = *static_cast<Inner*>(node);
  unsigned i = partition(inner.count, [&](unsigned at) { return !less(item, inner.children[at].first); });
  if (i > 0) --i;
  Child& child = inner.children[i];
  Node* fresh = insert_below(child.node, item);
  if (!fresh) {
    ++child.size;
    if (less(item, child.first)) child.first = item;
    return nullptr;
  }
  refresh(child);
  Inner* target = &inner;
  Inner* sibling = nullptr;
  unsigned at = i + 1;
  if (inner.count == kChildren) {
    sibling = make<Inner>();
    const unsigned keep = at == kChildren ? kChildren - 1 : kChildren / 2;
    std::copy(inner.children + keep, inner.children + kChildren, sibling->children);
    sibling->count = static_cast<uint16_t>(kChildren - keep);
    inner.count = static_cast<uint16_t>(keep);
    if (at > keep) target = sibling, at -= keep;
  }
  std::copy_backward(target->children + at, target->children + target->count, target->children + target->count + 1);
  ++target->count;
  target->children[at].node = fresh;
  refresh(target->children[at]);
  return sibling;
}

ScoreTree::Node* ScoreTree::insert_into_leaf(Leaf& leaf, const ScoreItem& item) {
  unsigned at = partition(leaf.count, [&](unsigned i) { return less(leaf.items[i], item); });
  Leaf* target = &leaf;
  Leaf* sibling = nullptr;
  if (leaf.count == kLeafItems) {
    sibling = make<Leaf>();
    // Elements that come in ascending order fill their leaves.
    const unsigned keep = at == kLeafItems && !leaf.next ? kLeafItems : kLeafItems / 2;
    std::copy(leaf.items + keep, leaf.items + kLeafItems, sibling->items);
    sibling->count = static_cast<uint16_t>(kLeafItems - keep);
    leaf.count = static_cast<uint16_t>(keep);
    sibling->next = leaf.next;
    sibling->previous = &leaf;
    if (leaf.next) leaf.next->previous = sibling;
    leaf.next = sibling;
    if (at >= keep) target = sibling, at -= keep;
  }
  std::copy_backward(target->items + at, target->items + target->count, target->items + target->count + 1);
  target->items[at] = item;
  ++target->count;
  return sibling;
}

void ScoreTree::remove(ScoreItem item) {
  remove_below(root_, item);
  --size_;
  while (!root_->leaf && root_->count == 1) {
    auto* top = static_cast<Inner*>(root_);
    root_ = top->children[0].node;
    free(top);
  }
  if (root_->count == 0) {
    free(static_cast<Leaf*>(root_));
    root_ = nullptr;
  }
}

void ScoreTree::remove_below(Node* node, const ScoreItem& item) {
  if (node->leaf) {
    auto& leaf = *static_cast<Leaf*>(node);
    const unsigned at = partition(leaf.count, [&](unsigned i) { return less(leaf.items[i], item); });
    std::copy(leaf.items + at + 1, leaf.items + leaf.count, leaf.items + at);
    --leaf.count;
    return;
  }
  auto& inner = *static_cast<Inner*>(node);
  unsigned i = partition(inner.count, [&](unsigned at) { return !less(item, inner.children[at].first); });
  if (i > 0) --i;
  Child& child = inner.children[i];
  remove_below(child.node, item);
  if (child.node->count > 0) refresh(child);
  const unsigned full = child.node->leaf ? kLeafItems : kChildren;
  if (child.node->count < full / 4) close_gap(inner, i);
}

// A child has become small: it joins a neighbour if both fit well into one node; an empty one always goes.
void ScoreTree::close_gap(Inner& inner, unsigned at) {
  const auto joins = [&](unsigned left) {
    Node* a = inner.children[left].node;
    Node* b = inner.children[left + 1].node;
    const unsigned full = a->leaf ? kLeafItems : kChildren;
    if (a->count > 0 && b->count > 0 && a->count + b->count > full * 3u / 4) return false;
    if (a->leaf) {
      auto& to = *static_cast<Leaf*>(a);
      auto* from = static_cast<Leaf*>(b);
      std::copy(from->items, from->items + from->count, to.items + to.count);
      to.count = static_cast<uint16_t>(to.count + from->count);
      to.next = from->next;
      if (to.next) to.next->previous = &to;
      free(from);
    } else {
      auto& to = *static_cast<Inner*>(a);
      auto* from = static_cast<Inner*>(b);
      std::copy(from->children, from->children + from->count, to.children + to.count);
      to.count = static_cast<uint16_t>(to.count + from->count);
      free(from);
    }
    std::copy(inner.children + left + 2, inner.children + inner.count, inner.children + left + 1);
    --inner.count;
    refresh(inner.children[left]);
    return true;
  };
  if (at + 1u < inner.count && joins(at)) return;
  if (at > 0) joins(at - 1);
}

const ScoreTree::Leaf* ScoreTree::leaf_of(uint64_t rank, unsigned& at) const {
  const Node* node = root_;
  if (!node) return nullptr;
  while (!node->leaf) {
    const auto& inner = *static_cast<const Inner*>(node);
    unsigned i = 0;
    while (rank >= inner.children[i].size) rank -= inner.children[i++].size;
    node = inner.children[i].node;
  }
  at = static_cast<unsigned>(rank);
  return static_cast<const Leaf*>(node);
}

}  // namespace pion
