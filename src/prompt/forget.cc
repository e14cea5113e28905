// FORGET and REVOKE: what goes for good, and what must stay beside it.
#include <algorithm>

#include "base/bytes.h"
#include "base/clock.h"
#include "prompt/store.h"

namespace pion {

PromptResult<PromptStore::Forgotten> PromptStore::forget(std::string_view name, const Chain& chain, std::string_view salt) {
  {
    // What cannot be read any more cannot be compared either: it goes first, so that nothing of it stays behind.
    std::shared_lock lock(mutex_);
    auto model = find_model(name, {});
    if (!model) return std::unexpected(model.error());
    const std::vector<std::pair<uint32_t, uint64_t>> corrupt = walk(**model, salt, chain).corrupt;
    lock.unlock();
    if (!corrupt.empty()) drop_corrupt(corrupt, "its tokens");
  }
  std::unique_lock lock(mutex_);
  auto model = find_model(name, {});
  if (!model) return std::unexpected(model.error());
  const uint64_t before = tree_.tokens();
  Forgotten forgotten;
  const Walk found = walk(**model, salt, chain);
  std::vector<uint32_t> victims;
  if (found.length < chain.size() || found.root == SegmentTree::kNoRoot) {
    forgotten.lsn = last_lsn_;
    return forgotten;
  }
  Status done;
  if (chain.size() == 0) {
    for (uint32_t child = tree_.root(found.root).first_child; child != kNoSlot; child = tree_.slots[child].next) tree_.subtree(child, victims);
    done = drop(victims, LeaseEnd::kRevoked);
  } else {
    // The segment that holds the last token goes, and so does all that hangs on it, but for what branches off before that token:
    // for its sake the segment is cut where the last such branch leaves it.
    const uint32_t slot = found.steps.back().slot;
    uint32_t cut = 0;
    const auto sort_out = [&](uint32_t first, bool boundaries) {
      for (uint32_t at = first; at != kNoSlot; at = tree_.slots[at].next) {
        const uint32_t leaves_at = boundaries ? tree_.slots[at].to : tree_.slots[at].from;
        if (leaves_at < chain.size()) {
          cut = std::max(cut, leaves_at);
        } else {
          tree_.subtree(at, victims);
        }
      }
    };
    sort_out(tree_.slots[slot].first_child, false);
    sort_out(tree_.slots[slot].first_boundary, true);
    if (cut > 0 && truncate(**model, slot, cut, victims)) {
      victims.clear();
    } else {
      victims.clear();
      tree_.subtree(slot, victims);  // nothing branches off before, or there is no room for the copy: a cache may lose more
      done = drop(victims, LeaseEnd::kRevoked);
    }
  }
  if (!done) return refuse(done.error());
  forgotten.tokens = before - tree_.tokens();
  forgotten.lsn = last_lsn_;
  return forgotten;
}

// Cuts a segment at `at`, inside it, with one record that also drops the victims. Under mutex_, exclusive: FORGET is rare, and
// what is copied is what another branch still uses.
Status PromptStore::truncate(const Model& model, uint32_t slot, uint32_t at, std::vector<uint32_t> victims) {
  Segment& segment = tree_.slots[slot];
  auto opened = open_content(model, slot);
  if (!opened) return std::unexpected(opened.error());
  const Source old = source_of(model, slot, at);
  // Window rows below the cut that the segment has: from where all of its window pools are whole.
  uint32_t rows_from = segment.rows_from;
  for (const PoolSpec& pool : model.pools()) {
    if (pool.rule == PoolRule::kWindow && segment.to > pool.window) rows_from = std::max(rows_from, segment.to - pool.window);
  }
  ReplaceRecord record;
  record.name = {slot, segment.id};
  record.new_id = next_id_.fetch_add(1);
  record.to = at;
  record.rows_from = rows_from = std::min(rows_from, at);
  record.prefill_ms = segment.prefill_ms * static_cast<float>(at - segment.from) / static_cast<float>(segment.tokens());
  record.refs.resize(model.ref_count);
  const Chain kept = opened->content.copy(at);
  const auto give_back = [&](std::unexpected<Error> error) -> Status {
    for (const ExtentRef& ref : record.refs) {
      if (ref) storage_.extents().free(ref, 0);
    }
    return error;
  };
  for (size_t i = 0; i < record.refs.size(); ++i) {
    const bool content = i == model.content_ref;
    const PoolSpec* pool = i < model.pools().size() ? &model.pools()[i] : nullptr;
    RowSet rows, had;
    if (pool && pool->rule != PoolRule::kTrailing && old.refs[i]) {
      rows = pool->held(segment.from, at, rows_from, false);
      had = old.held(*pool);
      if (rows.keep_from < rows.keep_to && had.keep_from == had.keep_to && rows.keep_from < had.from) rows = RowSet{};
      if (rows.from < had.from && rows.from < rows.to) rows = RowSet{};
    }
    if (!content && rows.count() == 0) continue;
    const uint64_t payload = pool ? pool->token_bytes() * rows.count() : 0;
    std::string aux = encode_content(record.new_id, static_cast<uint32_t>(i), kept, content ? segment.from : 0, content ? at : 0);
    auto writer = storage_.extents().create(Space::kPrompt, payload, aux.size());
    if (!writer) return give_back(std::unexpected(writer.error()));
    (*writer)->set_aux(std::move(aux));
    if (rows.count() > 0) {
      auto extent = storage_.extents().open(old.refs[i]);
      if (!extent) return give_back(std::unexpected(extent.error()));
      std::string buffer;
      for (size_t run = 0; run < pool->runs(); ++run) {
        for (const auto& [from, to] : {std::pair{rows.keep_from, rows.keep_to}, std::pair{rows.from, rows.to}}) {
          if (from == to) continue;
          buffer.resize(uint64_t{to - from} * pool->row_bytes[run]);
          if (auto read = (*extent)->read(pool->offset(run, had.count(), had.index(from)), buffer.size(), buffer.data()); !read) {
            return give_back(std::unexpected(read.error()));
          }
          if (auto written = (*writer)->append(buffer); !written) return give_back(std::unexpected(written.error()));
        }
      }
    }
    auto ref = (*writer)->finish();
    if (!ref) return give_back(std::unexpected(ref.error()));
    record.refs[i] = *ref;
  }
  std::vector<std::pair<uint32_t, uint64_t>> gone{{slot, segment.id}};
  for (uint32_t victim : victims) {
    record.dropped.push_back({victim, tree_.slots[victim].id});
    gone.emplace_back(victim, tree_.slots[victim].id);
  }
  const std::string body = encode(record);
  if (auto admitted = storage_.journal().admit(body.size(), WriteKind::kFrees); !admitted) return give_back(std::unexpected(admitted.error()));
  end_leases_on(gone, LeaseEnd::kRevoked);
  const Lsn lsn = storage_.journal().append(kPromptReplace, {body});
  last_lsn_ = lsn;
  std::vector<ExtentRef> freed = unlink_all(victims);
  for (const ExtentRef& ref : old.refs) {
    if (ref) freed.push_back(ref);
  }
  const uint64_t bytes = segment.bytes();
  const uint32_t tokens = segment.tokens();
  segment.id = record.new_id;
  segment.to = at, segment.rows_from = rows_from, segment.prefill_ms = record.prefill_ms;
  segment.pins = 0;  // who pinned it knew it by its old id
  segment.set_refs(record.refs);
  tree_.recount(slot, bytes, tokens);
  if (model.boundaries) bounded_.emplace_back(slot, segment.id);
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
