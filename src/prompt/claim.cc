// Claims and the matches that wait for them, and the thread that ends what has run out.
#include "prompt/claim.h"

#include <algorithm>

#include "base/clock.h"
#include "base/limits.h"
#include "prompt/store.h"

namespace pion {

std::pair<std::shared_ptr<Claim>, uint32_t> ClaimTable::find(const Waiter& waiter, uint32_t known, int64_t now_ms) const {
  std::pair<std::shared_ptr<Claim>, uint32_t> best{nullptr, known};
  for (const auto& claim : claims_) {
    if (claim->client == waiter.client->id || claim->model != waiter.model || claim->salt != waiter.request.salt) continue;
    if (claim->expires_ms <= now_ms) continue;
    const uint32_t shared = std::min({common_prefix(claim->chain, waiter.request.chain), claim->end, waiter.goal});
    if (shared > best.second) best = {claim, shared};
  }
  return best;
}

void ClaimTable::add(std::shared_ptr<Claim> claim) {
  ++claim->holder->claims;
  claims_.push_back(std::move(claim));
}

std::vector<std::shared_ptr<Waiter>> ClaimTable::remove(const std::shared_ptr<Claim>& claim) {
  std::vector<std::shared_ptr<Waiter>> waiters(claim->waiters.begin(), claim->waiters.end());
  for (const auto& waiter : waiters) waiter->waits_for = nullptr;
  claim->waiters.clear();
  const size_t before = claims_.size();
  claims_.remove(claim);
  if (claims_.size() < before) --claim->holder->claims;
  return waiters;
}

size_t ClaimTable::waiting() const {
  size_t sum = 0;
  for (const auto& claim : claims_) sum += claim->waiters.size();
  return sum;
}

void ClaimTable::clear() { claims_.clear(); }

std::optional<PromptResult<MatchReply>> PromptStore::match(MatchRequest request, std::shared_ptr<PromptClient> client, MatchAnswer later) {
  if (request.claim_ms <= 0) {
    auto reply = match_now(request, client.get());
    if (reply && request.lease_ms > 0) count_match(*reply);
    return reply;
  }
  auto waiter = std::make_shared<Waiter>();
  waiter->deadline_ms = monotonic_ms() + request.wait_ms;
  waiter->goal = request.chain.outside_media(std::min(request.chain.size(), request.max));
  waiter->request = std::move(request);
  waiter->client = std::move(client);
  waiter->answer = std::move(later);
  std::optional<PromptResult<MatchReply>> answer;
  settle(waiter, waiter->request.wait_ms > 0, &answer);
  return answer;
}

// Matches, then decides: answer, with or without a claim, or wait for somebody else's. With `answer` the reply goes there,
// otherwise to the waiter's own callback. False: it waits.
bool PromptStore::settle(const std::shared_ptr<Waiter>& waiter, bool may_wait, std::optional<PromptResult<MatchReply>>* answer) {
  const auto give = [&](PromptResult<MatchReply> reply) {
    if (reply && waiter->request.lease_ms > 0) count_match(*reply);
    if (answer) {
      *answer = std::move(reply);
    } else {
      waiter->answer(std::move(reply));
    }
    return true;
  };
  while (true) {
    // Rows that were stored after the look and before the lock must not be prefilled again: then look again.
    const uint64_t seen = commits_;
    auto reply = match_now(waiter->request, waiter->client.get());
    if (!reply) return give(std::move(reply));
    {
      std::shared_lock lock(mutex_);
      const auto model = models_.find(waiter->request.model);
      waiter->model = model == models_.end() ? 0 : model->second->id;
    }
    enum { kAgain, kWaits, kAnswered } then = kAgain;
    {
      std::lock_guard lock(claim_mutex_);
      if (commits_ == seen) then = decide(waiter, may_wait, *reply) ? kAnswered : kWaits;
    }
    if (then == kAnswered) return give(std::move(reply));
    if (reply->lease != 0) release(reply->lease, *waiter->client);
    if (then == kWaits) return false;
  }
}

// Under claim_mutex_, with a match that is up to date: false if the waiter was put behind somebody's claim, true if it is to be
// answered (and `reply` says whether it has a claim now).
bool PromptStore::decide(const std::shared_ptr<Waiter>& waiter, bool may_wait, MatchReply& reply) {
  if (reply.matched >= waiter->goal || waiter->model == 0 || stopping_) return true;
  const int64_t now_ms = monotonic_ms();
  const auto [found, shared] = claims_.find(*waiter, reply.walked, now_ms);
  if (found) {
    if (!may_wait || now_ms >= waiter->deadline_ms) return true;
    waiter->waits_for = found;
    waiter->shared = shared;
    found->waiters.push_back(waiter);
    if (!waiter->waited) ++counters_.claims_waited;
    waiter->waited = true;
    timer_wake_.notify_one();
    return false;
  }
  if (waiter->client->claims >= kMaxClaimsPerConnection) return true;
  // One claim a client and prompt: asking again goes on with the one it has.
  std::shared_ptr<Claim> claim;
  for (const auto& own : claims_.all()) {
    const bool same = own->client == waiter->client->id && own->model == waiter->model && own->salt == waiter->request.salt &&
                      own->chain.tokens == waiter->request.chain.tokens && own->chain.media == waiter->request.chain.media;
    if (same) claim = own;
  }
  if (!claim) {
    claim = std::make_shared<Claim>();
    claim->model = waiter->model;
    claim->salt = waiter->request.salt;
    claim->chain = waiter->request.chain;
    claim->client = waiter->client->id;
    claim->holder = waiter->client;
    claims_.add(claim);
    ++counters_.claims_given;
    if (waiter->waited) ++counters_.claims_taken_over;
  }
  claim->end = waiter->goal;
  claim->stored = reply.walked;
  claim->claim_ms = waiter->request.claim_ms;
  claim->expires_ms = now_ms + claim->claim_ms;
  reply.claimed = true;
  timer_wake_.notify_one();
  return true;
}

void PromptStore::resettle(std::vector<std::shared_ptr<Waiter>> waiters) {
  for (const auto& waiter : waiters) settle(waiter, true, nullptr);
}

// Somebody stored this chain: claims on it are that much further. Whoever has nothing more to hope for is answered.
void PromptStore::stored(const Model& model, std::string_view salt, const Chain& chain, uint64_t client) {
  std::vector<std::shared_ptr<Waiter>> ready;
  {
    std::lock_guard lock(claim_mutex_);
    std::vector<std::shared_ptr<Claim>> fulfilled;
    for (const auto& claim : claims_.all()) {
      if (claim->model != model.id || claim->salt != salt) continue;
      const uint32_t shared = common_prefix(claim->chain, chain);
      claim->stored = std::max(claim->stored, shared);
      if (claim->client == client && shared > 0) claim->expires_ms = monotonic_ms() + claim->claim_ms;
      if (claim->stored >= claim->end) {
        fulfilled.push_back(claim);
        continue;
      }
      for (auto at = claim->waiters.begin(); at != claim->waiters.end();) {
        if (claim->stored < (*at)->shared) {
          ++at;
          continue;
        }
        (*at)->waits_for = nullptr;
        ready.push_back(*at);
        at = claim->waiters.erase(at);
      }
    }
    for (const auto& claim : fulfilled) {
      auto waiters = claims_.remove(claim);
      ready.insert(ready.end(), waiters.begin(), waiters.end());
    }
  }
  resettle(std::move(ready));
}

// Model 0: of any model. Without a salt: of any.
void PromptStore::end_claims_of(uint32_t model, std::optional<std::string_view> salt) {
  std::vector<std::shared_ptr<Waiter>> ready;
  {
    std::lock_guard lock(claim_mutex_);
    std::vector<std::shared_ptr<Claim>> ended;
    for (const auto& claim : claims_.all()) {
      if ((model == 0 || claim->model == model) && (!salt || claim->salt == *salt)) ended.push_back(claim);
    }
    for (const auto& claim : ended) {
      auto waiters = claims_.remove(claim);
      ready.insert(ready.end(), waiters.begin(), waiters.end());
    }
  }
  resettle(std::move(ready));
}

void PromptStore::disconnect(const std::shared_ptr<PromptClient>& client) {
  // On a reactor's thread: nothing is matched here; claims are only marked as run out, the timer thread passes them on.
  {
    std::lock_guard lock(claim_mutex_);
    for (const auto& claim : claims_.all()) {
      if (claim->client == client->id) claim->expires_ms = 0;
      std::erase_if(claim->waiters, [&](const auto& waiter) { return waiter->client == client; });
    }
  }
  {
    std::lock_guard leases(lease_mutex_);
    for (uint64_t id : client->leases) {
      const auto found = leases_.find(id);
      if (found != leases_.end()) found->second->expires_ms = 0;  // the timer thread takes its pins away
    }
    client->leases.clear();
  }
  timer_wake_.notify_one();
}

void PromptStore::timer_loop() {
  constexpr int64_t kLeaseSweepMs = 1000;
  int64_t next_sweep_ms = monotonic_ms() + kLeaseSweepMs;
  std::unique_lock lock(claim_mutex_);
  while (!stopping_) {
    const int64_t now_ms = monotonic_ms();
    int64_t next_ms = next_sweep_ms;
    std::vector<std::shared_ptr<Claim>> lapsed;
    std::vector<std::shared_ptr<Waiter>> late, ready;
    for (const auto& claim : claims_.all()) {
      if (claim->expires_ms <= now_ms) {
        lapsed.push_back(claim);
        continue;
      }
      next_ms = std::min(next_ms, claim->expires_ms);
      for (auto at = claim->waiters.begin(); at != claim->waiters.end();) {
        if ((*at)->deadline_ms > now_ms) {
          next_ms = std::min(next_ms, (*at)->deadline_ms);
          ++at;
          continue;
        }
        (*at)->waits_for = nullptr;
        late.push_back(*at);
        at = claim->waiters.erase(at);
      }
    }
    for (const auto& claim : lapsed) {
      auto waiters = claims_.remove(claim);
      ready.insert(ready.end(), waiters.begin(), waiters.end());
    }
    if (lapsed.empty() && late.empty() && now_ms < next_sweep_ms) {
      timer_wake_.wait_for(lock, std::chrono::milliseconds(std::max<int64_t>(1, next_ms - now_ms)));
      continue;
    }
    lock.unlock();
    resettle(std::move(ready));  // the first takes the claim over, the others go on waiting for it
    for (const auto& waiter : late) settle(waiter, false, nullptr);
    keep_stream_room();
    if (now_ms >= next_sweep_ms || !lapsed.empty()) {
      std::shared_lock tree(mutex_);
      sweep_leases(now_ms);
      next_sweep_ms = now_ms + kLeaseSweepMs;
    }
    lock.lock();
  }
}

}  // namespace pion
