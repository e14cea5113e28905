// The walk of a prompt through the tree: exact, because children are keyed by their first token and every other token is
// compared with the ids that lie in the segment's extent.
#include <algorithm>

#include "prompt/store.h"

namespace pion {

Result<PromptStore::OpenedContent> PromptStore::open_content(const Model& model, uint32_t slot) const {
  const Segment& segment = tree_.slots[slot];
  auto extent = storage_.extents().open(segment.ref(model.content_ref));
  if (!extent) return std::unexpected(extent.error());
  auto content = Content::decode((*extent)->aux(), segment.id, static_cast<uint32_t>(model.content_ref), segment.from, segment.to - segment.from);
  if (!content) return fail(ErrorCode::kCorrupt, "an extent holds another segment's tokens");
  return OpenedContent{std::move(*extent), std::move(*content)};
}

// The child that goes on with the chain at `offset`. What cannot be read any more is noted in `walk` and passed over.
uint32_t PromptStore::find_next(const Model& model, uint32_t parent, uint32_t offset, const Chain& chain, Walk* walk,
                                OpenedContent* opened, uint32_t* end) const {
  return tree_.find_child(parent, offset, edge_at(chain, offset, tree_.seed()), [&](uint32_t slot) {
    auto content = open_content(model, slot);
    if (!content) {
      if (walk && content.error().code == ErrorCode::kCorrupt) walk->corrupt.emplace_back(slot, tree_.slots[slot].id);
      return false;
    }
    *end = content->content.common_end(chain);
    *opened = std::move(*content);
    return *end > offset;
  });
}

PromptStore::Walk PromptStore::walk(const Model& model, std::string_view salt, const Chain& chain) const {
  Walk walk;
  walk.root = tree_.find_root(model.id, salt);
  if (walk.root == SegmentTree::kNoRoot) return walk;
  uint32_t at = kRootParent | walk.root;
  OpenedContent opened;
  while (walk.length < chain.size()) {
    uint32_t end = 0;
    const uint32_t slot = find_next(model, at, walk.length, chain, &walk, &opened, &end);
    if (slot == kNoSlot) break;
    walk.steps.push_back({slot, tree_.slots[slot].id, end});
    walk.length = end;
    at = slot;
  }
  // What is stored where the walk ended, for a client that wants to know where its prompt forked.
  if (!walk.steps.empty() && walk.length < tree_.slots[at].to) {
    const bool media = opened.content.media_starts_at(walk.length);
    walk.fork = {walk.length, media ? -1 : int64_t{opened.content.token(walk.length)}};
    return walk;
  }
  constexpr int kLookedAt = 256;  // children that branch off earlier stand in the same list
  uint32_t child = tree_.first_child(at);
  for (int looked = 0; child != kNoSlot && looked < kLookedAt; ++looked, child = tree_.slots[child].next) {
    const Segment& segment = tree_.slots[child];
    if (segment.from != walk.length) continue;
    walk.fork = {walk.length, segment.flags & kSegmentMediaEdge ? -1 : int64_t{segment.edge}};
    break;
  }
  return walk;
}

Source PromptStore::source_of(const Model& model, uint32_t slot, uint32_t end) const {
  const Segment& segment = tree_.slots[slot];
  Source source{slot, segment.id, segment.from, segment.to, segment.rows_from, end, segment.boundary(), {}};
  source.refs.resize(model.ref_count);
  for (size_t i = 0; i < source.refs.size(); ++i) source.refs[i] = segment.ref(i);
  return source;
}

std::vector<Source> PromptStore::sources_of(const Model& model, const Walk& walk) const {
  std::vector<Source> sources;
  sources.reserve(walk.steps.size());
  for (const Step& step : walk.steps) {
    sources.push_back(source_of(model, step.slot, step.end));
    if (!model.boundaries) continue;
    for (uint32_t at = tree_.slots[step.slot].first_boundary; at != kNoSlot; at = tree_.slots[at].next) {
      if (tree_.slots[at].to <= step.end) sources.push_back(source_of(model, at, step.end));
    }
  }
  return sources;
}

// What branched off may have brought window rows of tokens before the branch: these are the prompt's too. True when there were any.
bool PromptStore::add_branches(const Model& model, const Walk& walk, std::vector<Source>& sources) const {
  const bool windows = std::any_of(model.pools().begin(), model.pools().end(), [](const PoolSpec& p) { return p.rule == PoolRule::kWindow; });
  if (!windows) return false;
  constexpr size_t kLookedAt = 256;
  size_t looked = 0;
  const size_t before = sources.size();
  std::vector<std::pair<uint32_t, uint32_t>> todo;  // slot, and how many tokens it has in common with the prompt
  for (size_t i = walk.steps.size(); i-- > 0 && looked < kLookedAt;) {
    const Step& step = walk.steps[i];
    const uint32_t next = i + 1 < walk.steps.size() ? walk.steps[i + 1].slot : kNoSlot;
    const Segment& segment = tree_.slots[step.slot];
    for (uint32_t at = segment.first_child; at != kNoSlot && todo.size() < kLookedAt; at = tree_.slots[at].next) {
      if (at != next) todo.emplace_back(at, std::min(step.end, tree_.slots[at].from));
    }
    for (uint32_t at = segment.first_boundary; at != kNoSlot && todo.size() < kLookedAt; at = tree_.slots[at].next) {
      if (tree_.slots[at].to > step.end) todo.emplace_back(at, step.end);
    }
    for (; !todo.empty() && looked < kLookedAt; ++looked) {
      const auto [slot, common] = todo.back();
      todo.pop_back();
      const Segment& branch = tree_.slots[slot];
      if (branch.rows_from < common) sources.push_back(source_of(model, slot, common));
      for (const uint32_t first : {branch.first_child, branch.first_boundary}) {
        for (uint32_t at = first; at != kNoSlot && todo.size() < kLookedAt; at = tree_.slots[at].next) todo.emplace_back(at, common);
      }
    }
  }
  return sources.size() > before;
}

PromptResult<std::shared_ptr<Model>> PromptStore::find_model(std::string_view name, std::string_view manifest_hash) const {
  const auto found = models_.find(name);
  if (found == models_.end()) return refuse(FaultKind::kNoModel, "no model " + std::string(name) + " was declared");
  if (!manifest_hash.empty() && manifest_hash != found->second->manifest.hash) {
    return refuse(FaultKind::kMismatch, "model " + std::string(name) + ": manifest is " + found->second->manifest.hash + " there, " +
                                            std::string(manifest_hash) + " here");
  }
  return found->second;
}

}  // namespace pion
