// Claims: "I am going to prefill the rest". A table of who prefills what and who waits for it; no threads, no clock of its
// own. Used under the store's claim lock. See PromptStore::match.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "prompt/requests.h"

namespace pion {

struct Claim;

// A match that may wait for other clients' rows, or is answered.
struct Waiter {
  MatchRequest request;
  std::shared_ptr<PromptClient> client;
  std::function<void(PromptResult<MatchReply>)> answer;
  int64_t deadline_ms = 0;         // monotonic; WAIT's end
  uint32_t model = 0;              // id at the last look
  uint32_t goal = 0;               // tokens of the chain that it could use: its length, capped by MAX
  std::shared_ptr<Claim> waits_for;
  uint32_t shared = 0;             // nothing beyond this can come from that claim
  bool waited = false;
};

struct Claim {
  uint32_t model = 0;
  std::string salt;
  Chain chain;
  uint32_t end = 0;                // fulfilled once this much of the chain is stored
  uint64_t client = 0;
  std::shared_ptr<PromptClient> holder;
  int64_t claim_ms = 0, expires_ms = 0;
  uint32_t stored = 0;
  std::list<std::shared_ptr<Waiter>> waiters;  // in the order they came
};

class ClaimTable {
 public:
  // The live claim of another client that shares most with this chain beyond `known` tokens, and how much it shares.
  std::pair<std::shared_ptr<Claim>, uint32_t> find(const Waiter& waiter, uint32_t known, int64_t now_ms) const;
  void add(std::shared_ptr<Claim> claim);
  // Takes the claim away; whoever waited for it is returned, in order, and waits for nothing.
  std::vector<std::shared_ptr<Waiter>> remove(const std::shared_ptr<Claim>& claim);

  const std::list<std::shared_ptr<Claim>>& all() const { return claims_; }
  size_t waiting() const;
  void clear();

 private:
  std::list<std::shared_ptr<Claim>> claims_;
};

}  // namespace pion
