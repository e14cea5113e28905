// FORGET and REVOKE: what goes for good, and what must stay beside it.
#include <algorithm>

#include "base/bytes.h"
#include "base/clock.h"
#include "prompt/store.h"

namespace pion {

namespace {

constexpr int kAttempts = 16;

}  // namespace

// A segment that loses its end: planned under the shared lock, copied without one, put in place under the exclusive one.
struct PromptStore::Cut {
  std::shared_ptr<Model> model;
  uint32_t slot = kNoSlot, at = 0;
  Source old;
  float prefill_ms = 0;
  OpenedContent content;   // of the whole segment; keeps its bytes where they are
  std::vector<RowSet> had, kept;  // by extent
  uint64_t bytes = 0;      // reserved for the copy
  ReplaceRecord record;    // its extents are ours until it was written
};

void PromptStore::beyond(uint32_t slot, uint32_t cut, std::vector<uint32_t>& out) const {
  for (uint32_t at = tree_.slots[slot].first_child; at != kNoSlot; at = tree_.slots[at].next) {
    if (tree_.slots[at].from > cut) tree_.subtree(at, out);
  }
  for (uint32_t at = tree_.slots[slot].first_boundary; at != kNoSlot; at = tree_.slots[at].next) {
    if (tree_.slots[at].to > cut) out.push_back(at);
  }
}

// Where the last segment of the forgotten chain is cut: at the last place before the chain's end where something else branches
// off or a state was stored. The segment's start when there is none: nothing of it serves anybody but what begins with the chain.
uint32_t PromptStore::kept_end(const Walk& found, const Chain& chain) const {
  const Segment& segment = tree_.slots[found.steps.back().slot];
  uint32_t end = segment.from;
  for (uint32_t at = segment.first_child; at != kNoSlot; at = tree_.slots[at].next) {
    if (tree_.slots[at].from < chain.size()) end = std::max(end, tree_.slots[at].from);
  }
  for (uint32_t at = segment.first_boundary; at != kNoSlot; at = tree_.slots[at].next) {
    if (tree_.slots[at].to < chain.size()) end = std::max(end, tree_.slots[at].to);
  }
  return end;
}

PromptResult<PromptStore::Forgotten> PromptStore::forget(std::string_view name, const Chain& chain, std::string_view salt) {
  for (int attempt = 0; attempt < kAttempts && chain.size() > 0; ++attempt) {
    Cut cut;
    {
      std::shared_lock lock(mutex_);
      auto model = find_model(name, {});
      if (!model) return std::unexpected(model.error());
      const Walk found = walk(**model, salt, chain);
      if (!found.corrupt.empty()) {
        // What cannot be read any more cannot be compared either: it goes first, so that nothing of it stays behind.
        lock.unlock();
        drop_corrupt(found.corrupt, "its tokens");
        continue;
      }
      if (found.length < chain.size()) return Forgotten{0, last_lsn_};
      const uint32_t end = kept_end(found, chain);
      if (end <= tree_.slots[found.steps.back().slot].from || !plan_cut(*model, found.steps.back().slot, end, cut)) break;
    }
    const bool copied = copy_cut(cut);
    std::unique_lock lock(mutex_);
    reserved_bytes_ -= cut.bytes;
    const bool there = tree_.slots.live(cut.slot, cut.old.id);
    if (there) tree_.slots[cut.slot].unpin();
    bool same = copied && there;
    if (same) {  // a PUT may have branched off meanwhile, the model may be gone
      auto model = find_model(name, {});
      const Walk found = model && *model == cut.model ? walk(**model, salt, chain) : Walk{};
      same = found.length == chain.size() && found.steps.back().slot == cut.slot && kept_end(found, chain) == cut.at;
    }
    const uint64_t before = tree_.tokens();
    Status done;
    if (same) done = put_cut_in_place(cut);
    if (same && done) return Forgotten{before - tree_.tokens(), last_lsn_};
    give_back(cut.record.refs);
    if (!copied || !done) break;  // no room for a copy: a cache may lose more
  }
  return forget_whole(name, chain, salt);
}

// The segment that holds the last token goes from its start, with all that hangs on it.
PromptResult<PromptStore::Forgotten> PromptStore::forget_whole(std::string_view name, const Chain& chain, std::string_view salt) {
  std::unique_lock lock(mutex_);
  auto model = find_model(name, {});
  if (!model) return std::unexpected(model.error());
  const uint64_t before = tree_.tokens();
  const Walk found = walk(**model, salt, chain);
  if (found.length < chain.size() || found.root == SegmentTree::kNoRoot) return Forgotten{0, last_lsn_};
  std::vector<uint32_t> victims;
  if (chain.size() == 0) {
    for (uint32_t child = tree_.root(found.root).first_child; child != kNoSlot; child = tree_.slots[child].next) tree_.subtree(child, victims);
  } else {
    tree_.subtree(found.steps.back().slot, victims);
  }
  if (const Status done = drop(victims, LeaseEnd::kRevoked); !done) return refuse(done.error());
  return Forgotten{before - tree_.tokens(), last_lsn_};
}

// Under mutex_, shared. Pins the segment. False: its tokens cannot be read.
bool PromptStore::plan_cut(std::shared_ptr<Model> model, uint32_t slot, uint32_t at, Cut& cut) {
  Segment& segment = tree_.slots[slot];
  auto opened = open_content(*model, slot);
  if (!opened) return false;
  cut.content = std::move(*opened);
  cut.old = source_of(*model, slot, at);
  cut.slot = slot, cut.at = at;
  // Window rows below the cut that the segment has: from where all of its window pools are whole.
  uint32_t rows_from = segment.rows_from;
  for (const PoolSpec& pool : model->pools()) {
    if (pool.rule == PoolRule::kWindow && segment.to > pool.window) rows_from = std::max(rows_from, segment.to - pool.window);
  }
  cut.record.name = {slot, segment.id};
  cut.record.new_id = next_id_.fetch_add(1);
  cut.record.to = at;
  cut.record.rows_from = std::min(rows_from, at);
  cut.record.prefill_ms = segment.prefill_ms * static_cast<float>(at - segment.from) / static_cast<float>(segment.tokens());
  cut.had.resize(model->ref_count);
  cut.kept.resize(model->ref_count);
  const Chain kept = cut.content.content.copy(at);
  for (size_t i = 0; i < model->ref_count; ++i) {
    const PoolSpec* pool = i < model->pools().size() ? &model->pools()[i] : nullptr;
    if (pool && pool->rule != PoolRule::kTrailing && cut.old.refs[i]) {
      RowSet rows = pool->held(segment.from, at, cut.record.rows_from, false);
      cut.had[i] = cut.old.held(*pool);
      if (rows.keep_from < rows.keep_to && cut.had[i].keep_from == cut.had[i].keep_to && rows.keep_from < cut.had[i].from) rows = RowSet{};
      if (rows.from < cut.had[i].from && rows.from < rows.to) rows = RowSet{};
      cut.kept[i] = rows;
    }
    const bool content = i == model->content_ref;
    if (!content && cut.kept[i].count() == 0) continue;
    const uint64_t payload = pool ? pool->token_bytes() * cut.kept[i].count() : 0;
    const uint64_t aux = content ? content_bytes(kept, segment.from, at) : kContentHeadBytes;
    cut.bytes += uint64_t{ExtentStore::pages_for(payload, aux)} * kPageBytes;
  }
  cut.model = std::move(model);
  segment.pin();
  return true;
}

// Reserves and writes, under no lock. False: no room, or what lies there cannot be read.
bool PromptStore::copy_cut(Cut& cut) {
  {
    std::unique_lock lock(mutex_);
    const bool room = make_room(cut.bytes).has_value();
    if (!room) cut.bytes = 0;
    reserved_bytes_ += cut.bytes;
    if (!room) return false;
  }
  const Model& model = *cut.model;
  const Chain kept = cut.content.content.copy(cut.at);
  cut.record.refs.resize(model.ref_count);
  for (size_t i = 0; i < model.ref_count; ++i) {
    const bool content = i == model.content_ref;
    if (!content && cut.kept[i].count() == 0) continue;
    const PoolSpec* pool = i < model.pools().size() ? &model.pools()[i] : nullptr;
    std::string aux = encode_content(cut.record.new_id, static_cast<uint32_t>(i), kept, content ? cut.old.from : 0, content ? cut.at : 0);
    auto written = copy_rows(pool, cut.old.refs[i], cut.had[i], cut.kept[i], std::move(aux));
    if (!written) return false;
    cut.record.refs[i] = *written;
  }
  cut.content = {};  // pins the old bytes, which are to be punched out soon
  return true;
}

// A new extent of some of another one's rows.
Result<ExtentRef> PromptStore::copy_rows(const PoolSpec* pool, ExtentRef from_ref, const RowSet& had, const RowSet& kept, std::string aux) {
  auto writer = storage_.extents().create(Space::kPrompt, pool ? pool->token_bytes() * kept.count() : 0, aux.size());
  if (!writer) return std::unexpected(writer.error());
  (*writer)->set_aux(std::move(aux));
  if (kept.count() > 0) {
    auto extent = storage_.extents().open(from_ref);
    if (!extent) return std::unexpected(extent.error());
    std::string buffer;
    for (size_t run = 0; run < pool->runs(); ++run) {
      for (const auto& [from, to] : {std::pair{kept.keep_from, kept.keep_to}, std::pair{kept.from, kept.to}}) {
        if (from == to) continue;
        buffer.resize(uint64_t{to - from} * pool->row_bytes[run]);
        PION_TRY((*extent)->read(pool->offset(run, had.count(), had.index(from)), buffer.size(), buffer.data()));
        PION_TRY((*writer)->append(buffer));
      }
    }
  }
  return (*writer)->finish();
}

void PromptStore::give_back(std::vector<ExtentRef>& refs) {
  for (const ExtentRef& ref : refs) {
    if (ref) storage_.extents().free(ref, 0);  // no record names it
  }
  refs.clear();
}

// Under mutex_, exclusive: one record cuts the segment and drops what hung on it beyond.
Status PromptStore::put_cut_in_place(Cut& cut) {
  std::vector<uint32_t> victims;
  beyond(cut.slot, cut.at, victims);
  std::vector<std::pair<uint32_t, uint64_t>> gone{{cut.slot, cut.old.id}};
  for (uint32_t victim : victims) {
    cut.record.dropped.push_back({victim, tree_.slots[victim].id});
    gone.emplace_back(victim, tree_.slots[victim].id);
  }
  const std::string body = encode(cut.record);
  PION_TRY(storage_.journal().admit(body.size(), WriteKind::kFrees));
  end_leases_on(gone, LeaseEnd::kRevoked);
  const Lsn lsn = storage_.journal().append(kPromptReplace, {body});
  last_lsn_ = lsn;
  std::vector<ExtentRef> freed = unlink_all(victims);
  for (const ExtentRef& ref : cut.old.refs) {
    if (ref) freed.push_back(ref);
  }
  Segment& segment = tree_.slots[cut.slot];
  const uint64_t bytes = segment.bytes();
  const uint32_t tokens = segment.tokens();
  segment.id = cut.record.new_id;
  segment.to = cut.at, segment.rows_from = cut.record.rows_from, segment.prefill_ms = cut.record.prefill_ms;
  segment.pins = 0;  // who pinned it knew it by its old id
  segment.set_refs(cut.record.refs);
  tree_.recount(cut.slot, bytes, tokens);
  if (cut.model->boundaries) bounded_.emplace_back(cut.slot, segment.id);
  free_all(freed, lsn);
  return {};
}

void PromptStore::note_revocation(std::optional<std::string> model, std::optional<std::string> salt) {
  constexpr size_t kKept = 1024;
  revoked_.push_back({std::move(model), std::move(salt)});
  if (revoked_.size() > kKept) revoked_.pop_front();
  ++revocations_;
}

bool PromptStore::revoked_since(uint64_t revocations, const std::string& model, const std::string& salt) const {
  const uint64_t now = revocations_;
  if (revocations >= now) return false;
  const uint64_t since = now - revocations;
  if (since > revoked_.size()) return true;  // it took longer than we remember: refused rather than wrongly stored
  return std::any_of(revoked_.end() - static_cast<ptrdiff_t>(since), revoked_.end(), [&](const Revocation& one) {
    return (!one.model || *one.model == model) && (!one.salt || *one.salt == salt);
  });
}

PromptResult<PromptStore::Forgotten> PromptStore::revoke_model(std::string_view name) {
  Forgotten forgotten;
  uint32_t id = 0;
  {
    std::unique_lock lock(mutex_);
    const auto found = models_.find(name);
    forgotten.lsn = last_lsn_;
    if (found == models_.end()) return forgotten;
    id = found->second->id;
    std::string body;
    ByteWriter(body).put(id);
    // The journal keeps a reserve for this; without a record the revocation would not outlive a restart, so it is refused.
    if (auto admitted = storage_.journal().admit(body.size(), WriteKind::kFrees); !admitted) return refuse(admitted.error());
    const uint64_t before = tree_.tokens();
    std::vector<uint32_t> victims;
    std::vector<std::pair<uint32_t, uint64_t>> gone;
    for (uint32_t root = 0; root < tree_.root_count(); ++root) {
      if (tree_.root(root).model != id) continue;
      for (uint32_t child = tree_.root(root).first_child; child != kNoSlot; child = tree_.slots[child].next) tree_.subtree(child, victims);
    }
    for (uint32_t slot : victims) gone.emplace_back(slot, tree_.slots[slot].id);
    end_leases_on(gone, LeaseEnd::kRevoked);
    {
      std::lock_guard tickets(ticket_mutex_);
      for (Ticket* ticket : tickets_) {
        if (ticket->model == id) ticket->cancelled = true;
      }
      note_revocation(std::string(name), std::nullopt);
    }
    forgotten.lsn = storage_.journal().append(kPromptModelDrop, {body});
    last_lsn_ = forgotten.lsn;
    free_all(unlink_all(victims), forgotten.lsn);
    forgotten.tokens = before - tree_.tokens();
    models_by_id_.erase(id);
    models_.erase(found);
  }
  end_claims_of(id, std::nullopt);
  return forgotten;
}

PromptResult<PromptStore::Forgotten> PromptStore::revoke_salt(std::string_view salt, std::optional<std::string_view> name) {
  Forgotten forgotten;
  uint32_t only = 0;
  {
    std::unique_lock lock(mutex_);
    if (name) {
      auto model = find_model(*name, {});
      if (!model) return std::unexpected(model.error());
      only = (*model)->id;
    }
    std::vector<RootName> roots;
    std::vector<uint32_t> victims;
    std::vector<std::pair<uint32_t, uint64_t>> gone;
    for (uint32_t index = 0; index < tree_.root_count(); ++index) {
      const Root& root = tree_.root(index);
      if (root.model == 0 || root.salt != salt || (only != 0 && root.model != only)) continue;
      roots.push_back({root.model, salt});
      for (uint32_t child = root.first_child; child != kNoSlot; child = tree_.slots[child].next) tree_.subtree(child, victims);
    }
    for (uint32_t slot : victims) gone.emplace_back(slot, tree_.slots[slot].id);
    const std::string body = encode(roots);
    if (!roots.empty()) {
      if (auto admitted = storage_.journal().admit(body.size(), WriteKind::kFrees); !admitted) return refuse(admitted.error());
    }
    const uint64_t before = tree_.tokens();
    end_leases_on(gone, LeaseEnd::kRevoked);
    {
      std::lock_guard tickets(ticket_mutex_);
      for (Ticket* ticket : tickets_) {
        if (ticket->salt == salt && (only == 0 || ticket->model == only)) ticket->cancelled = true;
      }
      note_revocation(name ? std::optional<std::string>(*name) : std::nullopt, std::string(salt));
    }
    if (!roots.empty()) last_lsn_ = storage_.journal().append(kPromptDropRoots, {body});
    forgotten.lsn = last_lsn_;
    free_all(unlink_all(victims), forgotten.lsn);
    forgotten.tokens = before - tree_.tokens();
  }
  end_claims_of(only, salt);
  return forgotten;
}

}  // namespace pion
