// What prompt memory is asked and what it answers, free of any wire.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/blob.h"
#include "prompt/chain.h"
#include "prompt/fault.h"
#include "prompt/manifest.h"
#include "prompt/match.h"
#include "storage/journal.h"

namespace pion {

// A declared model. Immutable but for what was measured of it.
struct Model {
  uint32_t id = 0;               // never used again, also after the name is
  std::string name;
  Manifest manifest;
  std::string json;              // as declared first
  size_t content_ref = 0;        // which extent of a segment holds its tokens: the first `all` pool's, or one of its own
  size_t ref_count = 0;          // extents a segment can have
  bool boundaries = false;       // some pool is no `all` pool
  std::atomic<uint64_t> measured_us{0}, measured_tokens{0};  // of PREFILL_MS, for tokens nobody timed

  const std::vector<PoolSpec>& pools() const { return manifest.pools; }
  double ms_per_token() const;
};
std::shared_ptr<Model> make_model(uint32_t id, std::string name, Manifest manifest, std::string json);

// One connection, as the owner of leases and claims.
struct PromptClient {
  explicit PromptClient(uint64_t id) : id(id) {}
  const uint64_t id;
  std::vector<uint64_t> leases;  // under the store's lease lock
  size_t claims = 0;             // under the store's claim lock
};

enum class LeaseEnd : uint8_t { kHolds, kReleased, kRevoked, kCorrupt };

// A promise that what a match found can be read. Immutable but for its end; holds pins on the segments it needs.
struct Lease {
  uint64_t id = 0, client = 0;
  std::atomic<int64_t> expires_ms{0};  // monotonic
  uint32_t matched = 0;
  std::shared_ptr<const Model> model;
  std::vector<Source> sources;
  std::vector<std::vector<Piece>> plans;  // by pool: the rows a match of this length needs, keep rows first
  double saved_ms_measured = 0, saved_ms_estimated = 0;
  Lsn lsn = 0;
  std::atomic<LeaseEnd> end{LeaseEnd::kHolds};
  std::atomic<bool> served{false};
};

struct MatchRequest {
  std::string model, salt, manifest_hash;
  Chain chain;
  uint32_t max = UINT32_MAX;
  int64_t lease_ms = 10'000;
  int64_t claim_ms = 0, wait_ms = 0;
};

struct MatchedSegment {
  uint64_t id = 0;
  uint32_t from = 0, to = 0;
};

struct MatchReply {
  uint32_t matched = 0;
  uint64_t lease = 0;                 // 0: none
  std::vector<MatchedSegment> segments;
  double saved_ms = 0, restore_ms = 0;
  bool claimed = false;
  std::optional<std::pair<uint32_t, int64_t>> fork;  // where the walk ended, and the token id stored there; -1 is a media item
  uint32_t walked = 0;                // tokens that agree, whatever the pools have
  Lsn lsn = 0;
};

struct PutRequest {
  std::string model, salt, manifest_hash;
  Chain chain;
  uint32_t from = 0;
  std::vector<std::pair<std::string, std::unique_ptr<BlobSource>>> blobs;  // by pool name
  std::optional<double> prefill_ms;
  // PromptStore::revocations() when its first byte came: what was revoked since then holds for it too.
  std::optional<uint64_t> begun_at;
};

struct PutReply {
  uint32_t from = 0, to = 0;
  uint64_t segment = 0;  // 0: nothing was new
  Lsn lsn = 0;
};

// What READ and LOCATE ask of a lease. Empty pool: all of them.
struct RangeRequest {
  uint64_t lease = 0;
  std::optional<std::string> pool;
  std::optional<uint32_t> from, to;
  std::optional<std::pair<uint32_t, uint32_t>> layers;
  bool verify = true;
};

// A run of bytes inside an opened extent's payload.
struct ExtentRun {
  std::shared_ptr<Extent> extent;
  uint64_t offset = 0, length = 0;
};

// One pool's part of a range: for each (layer, side) the byte runs that make up its rows.
struct PoolRange {
  std::string pool;
  std::vector<std::vector<ExtentRun>> runs;
};

struct RangeReply {
  bool by_pool = false;  // several pools were asked for: the reply is a map
  std::vector<PoolRange> pools;
  uint64_t bytes = 0;
  Lsn lsn = 0;
};

struct ListedChain {
  uint64_t id = 0;
  std::string salt;
  uint32_t tokens = 0;      // of the whole chain
  uint64_t bytes = 0;       // of its last segment
  uint64_t chain_bytes = 0; // with everything it continues
  uint32_t hits = 0;
  double age_s = 0;
};

struct ModelInfo {
  std::string json, hash;
  uint64_t tokens = 0, bytes = 0, segments = 0;
};

struct PromptStats {
  uint64_t hits = 0, misses = 0, tokens_served = 0, bytes_served = 0;
  double seconds_avoided_measured = 0, seconds_avoided_estimated = 0;
  uint64_t puts = 0, puts_nothing_new = 0, bytes_stored = 0;
  uint64_t corrupt_segments = 0, evicted_segments = 0, evicted_boundaries = 0;
  uint64_t claims_given = 0, claims_waited = 0, claims_taken_over = 0;
  // States, not counters.
  uint64_t models = 0, segments = 0, tokens = 0, bytes = 0, budget_bytes = 0, leases = 0, claims = 0, waiting = 0;
  double read_bytes_per_second = 0;
};

}  // namespace pion
