// PUT: plan under the shared lock, reserve, write the extents without a lock, commit under the exclusive one. What changed in
// between (another PUT of the same tokens, a FORGET) sends it back to the plan; a REVOKE refuses it.
#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "prompt/store.h"

namespace pion {
namespace {

constexpr int kAttempts = 16;

}  // namespace

struct PromptStore::PutPlan {
  bool nothing_new = false;
  bool boundary = false;
  uint32_t parent = kNoSlot;  // slot; kNoSlot: the root
  uint64_t parent_id = 0;
  uint64_t replaces = 0;      // id of the boundary segment that stood there and could not serve
  uint32_t from = 0, to = 0, rows_from = 0;
  std::vector<RowSet> rows;   // by pool
  uint64_t bytes = 0;         // reserved for it
};

// One PUT's way through its attempts: what it pinned, reserved and wrote is given back unless it was committed.
class PromptStore::PutRun {
 public:
  PutRun(PromptStore& store, PutRequest& request) : store_(store), request_(request) {}
  ~PutRun() {
    if (registered_) {
      std::lock_guard lock(store_.ticket_mutex_);
      store_.tickets_.remove(&ticket_);
    }
  }

  PromptResult<PutReply> run(PromptClient& client);

 private:
  PromptResult<void> check();
  PromptResult<bool> make_plan();  // false: look again
  void plan_segment(const std::vector<Source>& sources, uint32_t stored);
  void plan_boundary(const Walk& walk, std::vector<Source> sources);
  bool worth_a_boundary(std::vector<Source>& sources) const;
  uint64_t aux_bytes(size_t ref) const;
  PromptResult<void> reserve();
  PromptResult<void> write();
  Result<ExtentRef> write_one(size_t ref, std::string aux);
  PromptResult<bool> commit(PutReply& reply);  // false: look again
  bool changed() const;
  void unpin();
  void give_back_extents();
  size_t pools() const { return model_->pools().size(); }

  PromptStore& store_;
  PutRequest& request_;
  Ticket ticket_;
  bool registered_ = false;
  std::shared_ptr<Model> model_;
  std::vector<BlobSource*> blobs_;
  std::vector<RowSet> brought_;
  PutPlan plan_;
  // Its blob becomes the extent, or is copied as it is. Of any other a stream's room is held beside that of what is made of it.
  bool taken_whole(size_t pool) const { return plan_.rows[pool] == brought_[pool]; }

  bool pinned_ = false;
  uint64_t id_ = 0;
  std::vector<ExtentRef> refs_;
  std::vector<char> taken_;
};

PromptResult<PutReply> PromptStore::put(PutRequest& request, PromptClient& client) {
  PutRun run(*this, request);
  auto reply = run.run(client);
  if (!reply) return reply;
  ++counters_.puts;
  if (reply->segment == 0) ++counters_.puts_nothing_new;
  return reply;
}

PromptResult<PutReply> PromptStore::PutRun::run(PromptClient& client) {
  {
    std::shared_lock lock(store_.mutex_);
    auto model = store_.find_model(request_.model, request_.manifest_hash);
    if (!model) return std::unexpected(model.error());
    model_ = *model;
    ticket_.model = model_->id;
    ticket_.salt = request_.salt;
    std::lock_guard tickets(store_.ticket_mutex_);
    if (request_.begun_at && store_.revoked_since(*request_.begun_at, model_->name, request_.salt)) {
      return refuse(FaultKind::kRevoked, "the model or salt was revoked while this was being sent");
    }
    store_.tickets_.push_back(&ticket_);
    registered_ = true;
  }
  if (auto checked = check(); !checked) return std::unexpected(checked.error());
  PutReply reply;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto planned = make_plan();
    if (!planned) return std::unexpected(planned.error());
    if (!*planned) continue;
    if (plan_.nothing_new) {
      reply.from = reply.to = request_.chain.size();
      reply.lsn = store_.last_lsn_;
      store_.stored(*model_, request_.salt, request_.chain, client.id);
      return reply;
    }
    auto reserved = reserve();
    if (reserved) {
      auto written = write();
      if (!written) reserved = written;
    } else {
      plan_.bytes = 0;
    }
    if (!reserved) {
      std::unique_lock lock(store_.mutex_);
      store_.reserved_bytes_ -= plan_.bytes;
      unpin();
      lock.unlock();
      give_back_extents();
      return std::unexpected(reserved.error());
    }
    auto committed = commit(reply);
    if (!committed || !*committed) give_back_extents();
    if (!committed) return std::unexpected(committed.error());
    if (!*committed) continue;
    store_.stored(*model_, request_.salt, request_.chain, client.id);
    return reply;
  }
  return refuse(FaultKind::kInvalid, "what is stored of this prompt kept changing; try again");
}

PromptResult<void> PromptStore::PutRun::check() {
  const uint32_t to = request_.chain.size(), from = request_.from;
  if (to == 0) return refuse(FaultKind::kInvalid, "no tokens");
  if (from > to) return refuse(FaultKind::kInvalid, "from " + std::to_string(from) + " is beyond the " + std::to_string(to) + " tokens");
  if (request_.chain.outside_media(from) != from) return refuse(FaultKind::kInvalid, "from " + std::to_string(from) + " lies inside a media item");
  if (request_.prefill_ms && !(*request_.prefill_ms >= 0 && *request_.prefill_ms <= kMaxPrefillMs)) {
    return refuse(FaultKind::kInvalid, "PREFILL_MS must be between 0 and " + std::to_string(kMaxPrefillMs));
  }
  blobs_.assign(pools(), nullptr);
  for (auto& [name, blob] : request_.blobs) {
    const auto pool = std::find_if(model_->pools().begin(), model_->pools().end(), [&](const PoolSpec& p) { return p.name == name; });
    if (pool == model_->pools().end()) return refuse(FaultKind::kInvalid, "model " + model_->name + " has no pool " + name);
    BlobSource*& place = blobs_[static_cast<size_t>(pool - model_->pools().begin())];
    if (place) return refuse(FaultKind::kInvalid, "pool " + name + " was given twice");
    place = blob.get();
  }
  for (size_t i = 0; i < pools(); ++i) {
    const PoolSpec& pool = model_->pools()[i];
    if (!blobs_[i]) return refuse(FaultKind::kInvalid, "pool " + pool.name + " is missing");
    brought_.push_back(pool.held(from, to, from, false));
    const uint64_t expected = pool.token_bytes() * brought_[i].count();
    if (blobs_[i]->size() == expected) continue;
    return refuse(FaultKind::kInvalid, "pool " + pool.name + ": expected " + std::to_string(expected) + " bytes (" +
                                           std::to_string(brought_[i].count()) + " rows of " + std::to_string(pool.token_bytes()) +
                                           (pool.rule == PoolRule::kTrailing ? ", the state at boundary " + std::to_string(to) : "") +
                                           "), given " + std::to_string(blobs_[i]->size()));
  }
  return {};
}

PromptResult<bool> PromptStore::PutRun::make_plan() {
  plan_ = PutPlan{};
  std::shared_lock lock(store_.mutex_);
  if (ticket_.cancelled) return refuse(FaultKind::kRevoked, "the model or salt was revoked while this was being stored");
  const Walk walk = store_.walk(*model_, request_.salt, request_.chain);
  if (!walk.corrupt.empty()) {
    lock.unlock();
    store_.drop_corrupt(walk.corrupt, "its tokens");
    return false;
  }
  if (request_.from > walk.length) return refuse(FaultKind::kGap, "stored up to " + std::to_string(walk.length));
  plan_.to = request_.chain.size();
  const std::vector<Source> sources = model_->boundaries ? store_.sources_of(*model_, walk) : std::vector<Source>{};
  if (walk.length < plan_.to) {
    if (!walk.steps.empty()) plan_.parent = walk.steps.back().slot, plan_.parent_id = walk.steps.back().id;
    plan_segment(sources, walk.length);
  } else {
    plan_boundary(walk, sources);
  }
  if (plan_.nothing_new) return true;
  for (size_t i = 0; i < pools(); ++i) plan_.rows.push_back(model_->pools()[i].held(plan_.from, plan_.to, plan_.rows_from, plan_.boundary));
  for (size_t i = 0; i < model_->ref_count; ++i) {
    const uint64_t payload = i < pools() ? model_->pools()[i].token_bytes() * plan_.rows[i].count() : 0;
    if (aux_bytes(i) > 0) plan_.bytes += uint64_t{ExtentStore::pages_for(payload, aux_bytes(i))} * kPageBytes;
  }
  if (plan_.parent != kNoSlot) {
    store_.tree_.slots[plan_.parent].pin();
    pinned_ = true;
  }
  return true;
}

void PromptStore::PutRun::plan_segment(const std::vector<Source>& sources, uint32_t stored) {
  plan_.from = plan_.rows_from = stored;
  // Earlier window rows came along: they are kept when the path behind us does not have them, so that the new end is complete.
  for (size_t i = 0; i < pools() && stored > request_.from; ++i) {
    const PoolSpec& pool = model_->pools()[i];
    if (pool.rule != PoolRule::kWindow) continue;
    const auto missing = [&](uint32_t from, uint32_t to) { return from < to && plan_rows(pool, i, sources, from, to).empty(); };
    if (missing(std::min(brought_[i].from, stored), stored) || missing(request_.from, std::min(pool.keep, stored))) {
      plan_.rows_from = request_.from;
    }
  }
}

void PromptStore::PutRun::plan_boundary(const Walk& walk, std::vector<Source> sources) {
  plan_.nothing_new = true;
  if (!worth_a_boundary(sources)) return;
  const auto host = std::find_if(walk.steps.begin(), walk.steps.end(), [&](const Step& step) { return step.end >= plan_.to; });
  plan_.parent = host->slot;
  plan_.parent_id = host->id;
  for (uint32_t at = store_.tree_.slots[host->slot].first_boundary; at != kNoSlot; at = store_.tree_.slots[at].next) {
    Segment& there = store_.tree_.slots[at];
    if (there.to != plan_.to) continue;
    if (there.pinned()) return;
    plan_.replaces = there.id;
  }
  plan_.nothing_new = false;
  plan_.boundary = true;
  plan_.from = plan_.to;
  plan_.rows_from = request_.from;
}

// True when a match cannot end here now, and could with the rows that came.
bool PromptStore::PutRun::worth_a_boundary(std::vector<Source>& sources) const {
  const auto complete = [&] {
    for (size_t i = 0; i < pools(); ++i) {
      if (model_->pools()[i].rule != PoolRule::kAll && longest(model_->pools()[i], i, sources, plan_.to) != plan_.to) return false;
    }
    return true;
  };
  if (!model_->boundaries || complete()) return false;
  Source added{kNoSlot, 0, plan_.to, plan_.to, request_.from, plan_.to, true, std::vector<ExtentRef>(model_->ref_count)};
  for (size_t i = 0; i < pools(); ++i) {
    if (added.held(model_->pools()[i]).count() > 0) added.refs[i] = ExtentRef{1, 0, 1};
  }
  sources.push_back(std::move(added));
  return complete();
}

// 0: this extent is not written.
uint64_t PromptStore::PutRun::aux_bytes(size_t ref) const {
  if (ref == model_->content_ref && !plan_.boundary) return content_bytes(request_.chain, plan_.from, plan_.to);
  return ref < pools() && plan_.rows[ref].count() > 0 ? kContentHeadBytes : 0;
}

PromptResult<void> PromptStore::PutRun::reserve() {
  {
    std::unique_lock lock(store_.mutex_);
    uint64_t held = 0;
    for (size_t i = 0; i < pools(); ++i) held += taken_whole(i) ? blobs_[i]->room_bytes() : 0;
    auto room = store_.make_room(plan_.bytes, held);
    if (!room) return room;
    store_.reserved_bytes_ += plan_.bytes;
    room = store_.make_room(0, held);  // a stream may have taken room in between
    if (!room) {
      store_.reserved_bytes_ -= plan_.bytes;
      return room;
    }
    for (size_t i = 0; i < pools(); ++i) {
      if (taken_whole(i)) blobs_[i]->release_room();
    }
  }
  auto room = store_.await_disk();
  if (!room) {
    std::unique_lock lock(store_.mutex_);
    store_.reserved_bytes_ -= plan_.bytes;
  }
  return room;
}

PromptResult<void> PromptStore::PutRun::write() {
  id_ = store_.next_id_.fetch_add(1);
  refs_.assign(model_->ref_count, ExtentRef{});
  taken_.assign(model_->ref_count, 0);
  for (size_t i = 0; i < refs_.size(); ++i) {
    if (aux_bytes(i) == 0) continue;
    const bool content = i == model_->content_ref && !plan_.boundary;
    auto ref = write_one(i, encode_content(id_, static_cast<uint32_t>(i), request_.chain, content ? plan_.from : 0, content ? plan_.to : 0));
    if (!ref) return refuse(ref.error());
    refs_[i] = *ref;
  }
  return {};
}

Result<ExtentRef> PromptStore::PutRun::write_one(size_t ref, std::string aux) {
  const bool has_rows = ref < pools();
  if (has_rows && taken_whole(ref)) {
    auto taken = blobs_[ref]->take(aux);
    if (!taken || *taken) {
      taken_[ref] = 1;
      return taken;
    }
  }
  const uint64_t payload = has_rows ? model_->pools()[ref].token_bytes() * plan_.rows[ref].count() : 0;
  auto writer = store_.storage_.extents().create(Space::kPrompt, payload, aux.size());
  if (!writer) return std::unexpected(writer.error());
  (*writer)->set_aux(std::move(aux));
  if (has_rows && taken_whole(ref)) {
    PION_TRY(blobs_[ref]->copy(0, payload, **writer));
  } else if (has_rows) {
    const PoolSpec& pool = model_->pools()[ref];
    const RowSet& rows = plan_.rows[ref];
    for (size_t run = 0; run < pool.runs(); ++run) {
      for (const auto& [from, to] : {std::pair{rows.keep_from, rows.keep_to}, std::pair{rows.from, rows.to}}) {
        if (from == to) continue;
        const uint64_t offset = pool.offset(run, brought_[ref].count(), brought_[ref].index(from));
        PION_TRY(blobs_[ref]->copy(offset, uint64_t{to - from} * pool.row_bytes[run], **writer));
      }
    }
  }
  return (*writer)->finish();
}

void PromptStore::PutRun::unpin() {
  if (!pinned_) return;
  if (store_.tree_.slots.live(plan_.parent, plan_.parent_id)) store_.tree_.slots[plan_.parent].unpin();
  pinned_ = false;
}

void PromptStore::PutRun::give_back_extents() {
  for (size_t i = 0; i < refs_.size(); ++i) {
    if (refs_[i] && !taken_[i]) store_.storage_.extents().free(refs_[i], 0);  // no record names it
  }
  refs_.clear();
}

// Whether the place the plan was made for is still there, and still free.
bool PromptStore::PutRun::changed() const {
  SegmentTree& tree = store_.tree_;
  if (plan_.parent != kNoSlot && !tree.slots.live(plan_.parent, plan_.parent_id)) return true;
  if (plan_.boundary) {
    uint64_t there = 0;
    for (uint32_t at = tree.slots[plan_.parent].first_boundary; at != kNoSlot; at = tree.slots[at].next) {
      if (tree.slots[at].to != plan_.to) continue;
      if (tree.slots[at].pinned()) return true;
      there = tree.slots[at].id;
    }
    return there != plan_.replaces;
  }
  uint32_t parent = plan_.parent;
  if (parent == kNoSlot) {
    const uint32_t root = tree.find_root(model_->id, request_.salt);
    if (root == SegmentTree::kNoRoot) return false;
    parent = kRootParent | root;
  }
  OpenedContent opened;
  uint32_t end = 0;
  return store_.find_next(*model_, parent, plan_.from, request_.chain, nullptr, &opened, &end) != kNoSlot;
}

PromptResult<bool> PromptStore::PutRun::commit(PutReply& reply) {
  std::unique_lock lock(store_.mutex_);
  // What was reserved is given back when it counts as stored, or is not to be.
  struct Reserved {
    std::atomic<uint64_t>& all;
    const uint64_t bytes;
    ~Reserved() { all -= bytes; }
  } reserved{store_.reserved_bytes_, plan_.bytes};
  if (ticket_.cancelled) {
    unpin();
    return refuse(FaultKind::kRevoked, "the model or salt was revoked while this was being stored");
  }
  if (changed()) {
    unpin();
    return false;
  }
  uint64_t bytes = 0;
  for (const ExtentRef& ref : refs_) bytes += uint64_t{ref.pages} * kPageBytes;
  auto room = store_.make_room(bytes > plan_.bytes ? bytes - plan_.bytes : 0);  // a streamed blob's header may be larger
  unpin();
  if (!room) return std::unexpected(room.error());
  SegmentTree& tree = store_.tree_;
  AddRecord record;
  record.parent = {plan_.parent, plan_.parent_id};
  record.model = model_->id;
  if (plan_.parent == kNoSlot) record.salt = request_.salt;
  record.from = plan_.from, record.to = plan_.to, record.rows_from = plan_.rows_from;
  if (plan_.boundary) {
    record.flags = kSegmentBoundary;
  } else {
    const Edge edge = edge_at(request_.chain, plan_.from, tree.seed());
    record.edge = edge.value;
    record.flags = edge.media ? kSegmentMediaEdge : 0;
  }
  record.prefill_ms = std::numeric_limits<float>::quiet_NaN();
  if (request_.prefill_ms && request_.from < plan_.to) {
    const double part = plan_.boundary ? 1.0 : static_cast<double>(plan_.to - plan_.from) / (plan_.to - request_.from);
    record.prefill_ms = static_cast<float>(*request_.prefill_ms * part);
  }
  record.time_us = wall_us();
  record.refs = refs_;
  if (auto admitted = store_.storage_.journal().admit(encode(record).size() + 64, WriteKind::kGrows); !admitted) {
    return refuse(admitted.error());
  }
  if (plan_.replaces != 0) {
    for (uint32_t at = tree.slots[plan_.parent].first_boundary; at != kNoSlot; at = tree.slots[at].next) {
      if (tree.slots[at].id != plan_.replaces) continue;
      (void)store_.drop({at}, LeaseEnd::kRevoked);
      break;
    }
  }
  const uint32_t slot = tree.slots.allocate();
  record.name = {slot, id_};
  const Lsn lsn = store_.storage_.journal().append(kPromptAdd, {encode(record)});
  store_.last_lsn_ = lsn;
  Segment& segment = tree.slots[slot];
  segment.id = id_;
  segment.root = plan_.parent == kNoSlot ? tree.make_root(model_->id, request_.salt) : tree.slots[plan_.parent].root;
  segment.parent = plan_.parent == kNoSlot ? kRootParent | segment.root : plan_.parent;
  segment.from = record.from, segment.to = record.to, segment.rows_from = record.rows_from, segment.edge = record.edge;
  segment.flags = record.flags, segment.prefill_ms = record.prefill_ms, segment.last_used_us = record.time_us;
  segment.set_refs(refs_);
  tree.link(slot);
  if (model_->boundaries) store_.bounded_.emplace_back(slot, id_);
  if (segment.measured() && segment.tokens() > 0) {
    model_->measured_us += static_cast<uint64_t>(segment.prefill_ms * 1000.0);
    model_->measured_tokens += segment.tokens();
  }
  for (size_t i = 0; i < pools(); ++i) {
    if (taken_[i]) blobs_[i]->commit();
  }
  ++store_.commits_;
  store_.counters_.bytes_stored += bytes;
  reply = {plan_.from, plan_.to, id_, lsn};
  return true;
}

}  // namespace pion
