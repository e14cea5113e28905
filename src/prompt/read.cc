// READ and LOCATE: from a lease's plans to byte runs in extents, opened, pinned and verified.
#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "prompt/store.h"

namespace pion {
namespace {

constexpr uint64_t kStretchBytes = 16 * kChunkBytes;
constexpr uint64_t kSharedBytes = 8 * kMiB;  // from here on a second thread is worth its start

// The rows of a pool that are asked for, or why they cannot be given.
struct Wanted {
  uint32_t from = 0, to = 0;
};

PromptResult<Wanted> wanted(const PoolSpec& pool, const Lease& lease, const RangeRequest& request) {
  const RowSet needed = pool.needed(lease.matched);
  const uint32_t first = needed.keep_to > needed.keep_from ? needed.keep_from : needed.from;
  if (pool.rule == PoolRule::kTrailing) {
    if (request.from || request.to) {
      return refuse(FaultKind::kInvalid, "pool " + pool.name + " is trailing: its one state at " + std::to_string(lease.matched) + " takes no FROM or TO");
    }
    return Wanted{needed.from, needed.to};
  }
  const Wanted asked{request.from.value_or(first), request.to.value_or(lease.matched)};
  if (asked.from < first || asked.to > lease.matched || asked.from > asked.to) {
    return refuse(FaultKind::kInvalid, "pool " + pool.name + ": FROM " + std::to_string(asked.from) + " TO " + std::to_string(asked.to) +
                                           " is outside of this lease, which has " + std::to_string(first) + " to " + std::to_string(lease.matched));
  }
  return asked;
}

// Whole chunks of an extent.
struct Stretch {
  Extent* extent;
  uint64_t from, to;
};

// The 64 KiB chunks that the runs touch, each once, in stretches of at most kStretchBytes.
std::vector<Stretch> stretches_of(std::vector<ExtentRun> runs) {
  std::sort(runs.begin(), runs.end(), [](const ExtentRun& a, const ExtentRun& b) {
    return a.extent != b.extent ? a.extent < b.extent : a.offset < b.offset;
  });
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < runs.size();) {
    uint64_t from = runs[i].offset / kChunkBytes * kChunkBytes;
    uint64_t to = from;
    size_t next = i;
    for (; next < runs.size() && runs[next].extent == runs[i].extent && runs[next].offset <= to + (next == i ? kChunkBytes : 0); ++next) {
      const uint64_t end = (runs[next].offset + runs[next].length + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
      to = std::max(to, std::min(end, runs[i].extent->payload_bytes()));
    }
    for (; from < to; from += kStretchBytes) stretches.push_back({runs[i].extent.get(), from, std::min(to, from + kStretchBytes)});
    i = next;
  }
  return stretches;
}

// Many bytes are shared with a second thread: nothing can be sent before all are checked, so the client and its core wait.
Status verify_runs(const std::vector<ExtentRun>& runs, uint64_t& verified) {
  const std::vector<Stretch> stretches = stretches_of(runs);
  uint64_t bytes = 0;
  for (const Stretch& stretch : stretches) bytes += stretch.to - stretch.from;
  std::atomic<size_t> next{0};
  const auto work = [&]() -> Status {
    for (size_t i = next++; i < stretches.size(); i = next++) {
      Status status = stretches[i].extent->verify(stretches[i].from, stretches[i].to - stretches[i].from);
      if (!status) return next = stretches.size(), status;
    }
    return {};
  };
  Status other;
  {
    std::jthread helper;
    if (bytes >= kSharedBytes && std::thread::hardware_concurrency() > 1) helper = std::jthread([&] { other = work(); });
    PION_TRY(work());
  }
  verified += bytes;
  return other;
}

}  // namespace

PromptResult<RangeReply> PromptStore::range(const RangeRequest& request, const PromptClient& client) {
  auto found = find_lease(request.lease, client);
  if (!found) return std::unexpected(found.error());
  Lease& lease = **found;
  const auto& pools = lease.model->pools();
  RangeReply reply;
  reply.lsn = lease.lsn;
  reply.by_pool = !request.pool && pools.size() > 1;
  std::vector<std::pair<size_t, Wanted>> asked;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (request.pool && pools[i].name != *request.pool) continue;
    auto rows = wanted(pools[i], lease, request);
    if (!rows) return std::unexpected(rows.error());
    if (request.layers && (request.layers->first > request.layers->second || request.layers->second > pools[i].layers)) {
      return refuse(FaultKind::kInvalid, "pool " + pools[i].name + " has layers 0 to " + std::to_string(pools[i].layers));
    }
    asked.emplace_back(i, *rows);
  }
  if (asked.empty()) return refuse(FaultKind::kInvalid, "model " + lease.model->name + " has no pool " + *request.pool);

  std::vector<ExtentRun> all;
  const auto lost = [&](const Source& source, const Error& error) -> PromptResult<RangeReply> {
    if (lease.end != LeaseEnd::kHolds) return std::unexpected(ended(lease));
    if (error.code != ErrorCode::kCorrupt) return refuse(error);
    drop_corrupt({{source.slot, source.id}}, error.message);
    return refuse(FaultKind::kCorrupt, error.message + "; dropped, ask again");
  };
  for (const auto& [index, rows] : asked) {
    const PoolSpec& pool = pools[index];
    PoolRange range{pool.name, {}};
    const size_t first_run = request.layers ? size_t{request.layers->first} * pool.sides : 0;
    const size_t end_run = request.layers ? size_t{request.layers->second} * pool.sides : pool.runs();
    range.runs.resize(end_run - first_run);
    for (const Piece& piece : lease.plans[index]) {
      const uint32_t from = std::max(piece.from, rows.from), to = std::min(piece.to, rows.to);
      if (from >= to) continue;
      const Source& source = lease.sources[piece.source];
      auto extent = storage_.extents().open(source.refs[index]);
      if (!extent) return lost(source, extent.error());
      const RowSet held = source.held(pool);
      const bool ours = Content::decode((*extent)->aux(), source.id, static_cast<uint32_t>(index), source.from,
                                        index == lease.model->content_ref && !source.boundary ? source.to - source.from : 0)
                            .has_value();
      if (!ours || (*extent)->payload_bytes() != pool.token_bytes() * held.count()) {
        return lost(source, Error{ErrorCode::kCorrupt, "an extent holds other rows than its segment says"});
      }
      for (size_t run = first_run; run < end_run; ++run) {
        const uint64_t offset = pool.offset(run, held.count(), held.index(from));
        ExtentRun bytes{*extent, offset, uint64_t{to - from} * pool.row_bytes[run]};
        reply.bytes += bytes.length;
        range.runs[run - first_run].push_back(bytes);
        all.push_back(std::move(bytes));
      }
    }
    reply.pools.push_back(std::move(range));
  }
  // The extents are pinned now. If the lease still holds, none of them was freed (and perhaps given to another segment) before.
  if (lease.end != LeaseEnd::kHolds) return std::unexpected(ended(lease));
  if (request.verify && !all.empty()) {
    const int64_t begin_us = monotonic_us();
    uint64_t verified = 0;
    if (auto status = verify_runs(all, verified); !status) {
      // Which segment it was: the one whose extent fails again.
      for (const Source& source : lease.sources) {
        for (const ExtentRun& run : all) {
          const bool of_source = std::find(source.refs.begin(), source.refs.end(), run.extent->ref()) != source.refs.end();
          if (of_source && !run.extent->verify(run.offset, run.length)) return lost(source, status.error());
        }
      }
      return refuse(status.error());
    }
    const double seconds = static_cast<double>(std::max<int64_t>(1, monotonic_us() - begin_us)) / 1e6;
    if (verified >= 1 * kMiB) {
      const double old = read_bytes_per_second_.load(std::memory_order_relaxed);
      read_bytes_per_second_.store(old + 0.2 * (static_cast<double>(verified) / seconds - old), std::memory_order_relaxed);
    }
  }
  {
    std::shared_lock lock(mutex_);
    const int64_t now_us = wall_us();
    for (const Source& source : lease.sources) {
      if (tree_.slots.live(source.slot, source.id)) tree_.slots[source.slot].touch(now_us, false);
    }
  }
  counters_.bytes_served += reply.bytes;
  if (!lease.served.exchange(true)) {
    counters_.tokens_served += lease.matched;
    counters_.avoided_measured_us += static_cast<uint64_t>(lease.saved_ms_measured * 1000);
    counters_.avoided_estimated_us += static_cast<uint64_t>(lease.saved_ms_estimated * 1000);
  }
  return reply;
}

}  // namespace pion
