// The order of a large sorted set: a B+ tree over {score, member} that knows how many elements lie below each branch, so an
// element's rank and the element of a rank take a walk from the root to a leaf. Members are compared byte by byte when scores
// are equal. Elements belong to somebody else: the tree keeps pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace pion {

struct ScoreItem {
  double score = 0;
  const void* element = nullptr;
};

class ScoreTree {
 public:
  using MemberOf = std::string_view (*)(const void* element);
  explicit ScoreTree(MemberOf member_of) : member_of_(member_of) {}
  ~ScoreTree();
  ScoreTree(const ScoreTree&) = delete;
  ScoreTree& operator=(const ScoreTree&) = delete;

  uint64_t size() const { return size_; }
  uint64_t memory_bytes() const { return bytes_; }

  void insert(ScoreItem item);
  // It is there; score and member must still be what they were when it was inserted.
  void remove(ScoreItem item);

  // How many elements `before` says true of. It says true of all elements up to some place and false of the rest.
  template <typename Before>
  uint64_t count_where(Before&& before) const {
    const Node* node = root_;
    uint64_t rank = 0;
    if (!node) return 0;
    while (!node->leaf) {
      const auto& inner = *static_cast<const Inner*>(node);
      unsigned i = partition(inner.count, [&](unsigned at) { return before(inner.children[at].first); });
      if (i > 0) --i;
      for (unsigned left = 0; left < i; ++left) rank += inner.children[left].size;
      node = inner.children[i].node;
    }
    const auto& leaf = *static_cast<const Leaf*>(node);
    return rank + partition(leaf.count, [&](unsigned at) { return before(leaf.items[at]); });
  }

  // Elements in order from rank `first` on, or backwards; until the visit answers false. first < size().
  template <typename Visit>
  void walk(uint64_t first, bool backwards, Visit&& visit) const {
    unsigned at = 0;
    const Leaf* leaf = leaf_of(first, at);
    while (leaf) {
      if (!visit(leaf->items[at])) return;
      if (backwards) {
        if (at-- > 0) continue;
        leaf = leaf->previous;
        at = leaf ? leaf->count - 1u : 0;
      } else {
        if (++at < leaf->count) continue;
        leaf = leaf->next;
        at = 0;
        if (leaf && leaf->next) __builtin_prefetch(leaf->next);
      }
    }
  }

 private:
  static constexpr unsigned kLeafItems = 62, kChildren = 32;

  struct Node {
    bool leaf;
    uint16_t count = 0;
    explicit Node(bool is_leaf) : leaf(is_leaf) {}
  };
  struct Leaf : Node {
    Leaf() : Node(true) {}
    Leaf* next = nullptr;
    Leaf* previous = nullptr;
    ScoreItem items[kLeafItems];
  };
  struct Child {
    Node* node = nullptr;
    uint64_t size = 0;  // elements below
    ScoreItem first;    // the least of them
  };
  struct Inner : Node {
    Inner() : Node(false) {}
    Child children[kChildren];
  };

  // The number of positions, from 0, of which `before` says true.
  template <typename Before>
  static unsigned partition(unsigned count, Before&& before) {
    unsigned low = 0;
    while (count > 0) {
      const unsigned half = count / 2;
      if (before(low + half)) {
        low += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return low;
  }

  bool less(const ScoreItem& a, const ScoreItem& b) const {
    if (a.score != b.score) return a.score < b.score;
    return member_of_(a.element) < member_of_(b.element);
  }
  const Leaf* leaf_of(uint64_t rank, unsigned& at) const;
  Node* insert_below(Node* node, const ScoreItem& item);
  Node* insert_into_leaf(Leaf& leaf, const ScoreItem& item);
  void remove_below(Node* node, const ScoreItem& item);
  void close_gap(Inner& inner, unsigned at);
  void refresh(Child& child) const;
  void drop(Node* node);
  template <typename N>
  N* make();
  template <typename N>
  void free(N* node);

  MemberOf member_of_;
  Node* root_ = nullptr;
  uint64_t size_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace pion
