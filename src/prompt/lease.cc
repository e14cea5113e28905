// Matches and leases: what a match grants, how long it holds, and what ends it.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "prompt/store.h"

namespace pion {
namespace {

constexpr double kMsPerTokenUnknown = 0.555;  // SmolLM2-135M on the reference machine: a model nobody timed yet

double share(const Segment& segment, uint32_t tokens, const Model& model, bool& measured) {
  measured = segment.measured();
  if (!measured) return tokens * model.ms_per_token();
  return segment.tokens() == 0 ? 0 : double{segment.prefill_ms} * tokens / segment.tokens();
}

}  // namespace

double Model::ms_per_token() const {
  const uint64_t tokens = measured_tokens.load(std::memory_order_relaxed);
  return tokens == 0 ? kMsPerTokenUnknown : static_cast<double>(measured_us.load(std::memory_order_relaxed)) / 1000.0 / static_cast<double>(tokens);
}

std::shared_ptr<Model> make_model(uint32_t id, std::string name, Manifest manifest, std::string json) {
  auto model = std::make_shared<Model>();
  model->id = id;
  model->name = std::move(name);
  model->manifest = std::move(manifest);
  model->json = std::move(json);
  const auto& pools = model->pools();
  // Tokens must stay as long as the segment does, so they cannot lie with rows that may go before it does.
  model->content_ref = pools.size();
  for (size_t i = pools.size(); i-- > 0;) {
    if (pools[i].rule == PoolRule::kAll) model->content_ref = i;
    model->boundaries = model->boundaries || pools[i].rule != PoolRule::kAll;
  }
  model->ref_count = std::max(pools.size(), model->content_ref + 1);
  return model;
}

// The longest length, at most `limit`, for which every pool has what a match needs.
uint32_t PromptStore::longest_of(const Model& model, const Chain& chain, const std::vector<Source>& sources, uint32_t limit) const {
  uint32_t length = limit;
  for (uint32_t before = UINT32_MAX; length != before && length > 0;) {
    before = length;
    length = chain.outside_media(length);
    for (size_t i = 0; i < model.pools().size(); ++i) length = longest(model.pools()[i], i, sources, length);
  }
  return length;
}

PromptResult<MatchReply> PromptStore::match_now(const MatchRequest& request, PromptClient* client) {
  if (client && request.lease_ms > 0 && !room_for_lease(*client)) {
    return refuse(FaultKind::kInvalid, "this connection holds " + std::to_string(kMaxLeasesPerConnection) + " leases already");
  }
  MatchReply reply;
  std::vector<std::pair<uint32_t, uint64_t>> corrupt;
  {
    std::shared_lock lock(mutex_);
    auto model = find_model(request.model, request.manifest_hash);
    if (!model) return std::unexpected(model.error());
    const Model& m = **model;
    Walk found = walk(m, request.salt, request.chain);
    corrupt = std::move(found.corrupt);
    reply.walked = found.length;
    reply.fork = found.fork;
    std::vector<Source> sources = sources_of(m, found);
    const uint32_t limit = std::min(found.length, request.max);
    uint32_t length = longest_of(m, request.chain, sources, limit);
    if (length < request.chain.outside_media(limit) && add_branches(m, found, sources)) length = longest_of(m, request.chain, sources, limit);
    reply.matched = length;
    reply.lsn = last_lsn_;
    const int64_t now_us = wall_us();
    double bytes = 0;
    for (const PoolSpec& pool : m.pools()) {
      if (length > 0) bytes += static_cast<double>(pool.token_bytes() * pool.needed(length).count());
    }
    reply.restore_ms = bytes / read_bytes_per_second_.load(std::memory_order_relaxed) * 1000.0;
    for (const Step& step : found.steps) {
      Segment& segment = tree_.slots[step.slot];
      if (segment.from >= length) break;
      const uint32_t end = std::min(step.end, length);
      reply.segments.push_back({step.id, segment.from, end});
      bool measured;
      reply.saved_ms += share(segment, end - segment.from, m, measured);
      // Asking alone (no lease) keeps a prompt warm, but only use makes it worth more than what nobody used.
      if (segment.touch(now_us, request.lease_ms > 0)) read_flag_bytes_ += segment.bytes();
    }
    if (client && request.lease_ms > 0 && length > 0) reply.lease = grant(request, *client, *model, found, std::move(sources), reply);
  }
  if (!corrupt.empty()) drop_corrupt(corrupt, "its tokens");
  return reply;
}

// Under mutex_ shared: nothing that is pinned here can go before it is.
uint64_t PromptStore::grant(const MatchRequest& request, PromptClient& client, std::shared_ptr<const Model> model, const Walk& walk,
                            std::vector<Source> sources, MatchReply& reply) {
  auto lease = std::make_shared<Lease>();
  lease->client = client.id;
  lease->expires_ms = monotonic_ms() + request.lease_ms;
  lease->matched = reply.matched;
  lease->model = model;
  lease->lsn = reply.lsn;
  std::vector<char> used(sources.size(), 0);
  for (size_t i = 0; i < model->pools().size(); ++i) {
    const PoolSpec& pool = model->pools()[i];
    const RowSet needed = pool.needed(reply.matched);
    std::vector<Piece> plan = plan_rows(pool, i, sources, needed.keep_from, needed.keep_to);
    const std::vector<Piece> rest = plan_rows(pool, i, sources, needed.from, needed.to);
    plan.insert(plan.end(), rest.begin(), rest.end());
    for (const Piece& piece : plan) used[piece.source] = 1;
    lease->plans.push_back(std::move(plan));
  }
  for (const Step& step : walk.steps) {
    const Segment& segment = tree_.slots[step.slot];
    if (segment.from >= reply.matched) break;
    bool measured;
    const double ms = share(segment, std::min(step.end, reply.matched) - segment.from, *model, measured);
    (measured ? lease->saved_ms_measured : lease->saved_ms_estimated) += ms;
    // The last segment of the match stays, and with it all it continues.
    if (step.end >= reply.matched) {
      for (size_t i = 0; i < sources.size(); ++i) {
        if (sources[i].slot == step.slot) used[i] = 1;
      }
    }
  }
  // Sources nothing is read from are left out; plans are renumbered.
  std::vector<uint32_t> number(sources.size(), 0);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!used[i]) continue;
    number[i] = static_cast<uint32_t>(lease->sources.size());
    tree_.slots[sources[i].slot].pin();
    lease->sources.push_back(std::move(sources[i]));
  }
  for (auto& plan : lease->plans) {
    for (Piece& piece : plan) piece.source = number[piece.source];
  }
  std::lock_guard leases(lease_mutex_);
  lease->id = next_lease_++;
  leases_[lease->id] = lease;
  client.leases.push_back(lease->id);
  return lease->id;
}

// Its pins go, unless the segments went first. Callers hold mutex_ (either way) and lease_mutex_.
void PromptStore::end_lease(const std::shared_ptr<Lease>& lease, LeaseEnd why) {
  LeaseEnd holds = LeaseEnd::kHolds;
  if (!lease->end.compare_exchange_strong(holds, why)) return;
  for (const Source& source : lease->sources) {
    if (tree_.slots.live(source.slot, source.id)) tree_.slots[source.slot].unpin();
  }
}

PromptFault PromptStore::ended(const Lease& lease) const {
  switch (lease.end.load()) {
    case LeaseEnd::kRevoked:
      return {FaultKind::kRevoked, "what this lease stood for was revoked or forgotten"};
    case LeaseEnd::kCorrupt:
      return {FaultKind::kCorrupt, "rows of this lease did not hold their checksum and were dropped; ask again"};
    default:
      return {FaultKind::kNoLease, "lease " + std::to_string(lease.id) + " has run out"};
  }
}

PromptResult<std::shared_ptr<Lease>> PromptStore::find_lease(uint64_t id, const PromptClient& client) {
  std::shared_ptr<Lease> lease;
  {
    std::lock_guard lock(lease_mutex_);
    const auto found = leases_.find(id);
    if (found != leases_.end() && found->second->client == client.id) lease = found->second;
  }
  if (!lease) return refuse(FaultKind::kNoLease, "no lease " + std::to_string(id) + " of this connection");
  if (lease->end == LeaseEnd::kHolds && monotonic_ms() >= lease->expires_ms) {
    std::shared_lock lock(mutex_);
    std::lock_guard leases(lease_mutex_);
    end_lease(lease, LeaseEnd::kReleased);
  }
  if (lease->end != LeaseEnd::kHolds) return std::unexpected(ended(*lease));
  return lease;
}

bool PromptStore::release(uint64_t id, PromptClient& client) {
  std::shared_lock lock(mutex_);
  std::lock_guard leases(lease_mutex_);
  const auto found = leases_.find(id);
  if (found == leases_.end() || found->second->client != client.id) return false;
  const std::shared_ptr<Lease> lease = found->second;
  const bool held = lease->end == LeaseEnd::kHolds && monotonic_ms() < lease->expires_ms;
  end_lease(lease, LeaseEnd::kReleased);
  leases_.erase(found);
  std::erase(client.leases, id);
  return held;
}

// Under mutex_, either way.
void PromptStore::sweep_leases(int64_t now_ms) {
  // An ended lease is kept for a while, so that its owner hears why it ended.
  constexpr int64_t kRememberedMs = 60'000;
  std::lock_guard leases(lease_mutex_);
  for (auto at = leases_.begin(); at != leases_.end();) {
    const std::shared_ptr<Lease>& lease = at->second;
    if (now_ms >= lease->expires_ms) end_lease(lease, LeaseEnd::kReleased);
    at = now_ms >= lease->expires_ms + kRememberedMs ? leases_.erase(at) : std::next(at);
  }
}

// Leases that ended are forgotten before a client is told that it holds too many.
bool PromptStore::room_for_lease(PromptClient& client) {
  std::shared_lock lock(mutex_);
  std::lock_guard leases(lease_mutex_);
  if (client.leases.size() < kMaxLeasesPerConnection) return true;
  const int64_t now_ms = monotonic_ms();
  std::erase_if(client.leases, [&](uint64_t id) {
    const auto found = leases_.find(id);
    if (found == leases_.end()) return true;
    if (now_ms < found->second->expires_ms && found->second->end == LeaseEnd::kHolds) return false;
    end_lease(found->second, LeaseEnd::kReleased);
    leases_.erase(found);
    return true;
  });
  return client.leases.size() < kMaxLeasesPerConnection;
}

void PromptStore::end_leases_on(const std::vector<std::pair<uint32_t, uint64_t>>& gone, LeaseEnd why) {
  // Rare (FORGET, REVOKE, corruption): looking through all leases is cheaper than a list of leases in every segment.
  std::lock_guard leases(lease_mutex_);
  if (leases_.empty()) return;
  std::vector<std::pair<uint32_t, uint64_t>> sorted = gone;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [id, lease] : leases_) {
    const bool hit = std::any_of(lease->sources.begin(), lease->sources.end(), [&](const Source& source) {
      return std::binary_search(sorted.begin(), sorted.end(), std::pair{source.slot, source.id});
    });
    if (hit) end_lease(lease, why);
  }
}

void PromptStore::count_match(const MatchReply& reply) { ++(reply.matched > 0 ? counters_.hits : counters_.misses); }

}  // namespace pion
