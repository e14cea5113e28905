#include "prompt/match.h"

#include <algorithm>

namespace pion {
namespace {

struct Interval {
  uint32_t from, to, source;
};

// Rows of this pool that the sources hold and the prompt shares, by first row.
std::vector<Interval> intervals_of(const PoolSpec& pool, size_t pool_index, std::span<const Source> sources) {
  std::vector<Interval> out;
  for (uint32_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    if (!source.refs[pool_index]) continue;
    const RowSet held = source.held(pool);
    const auto add = [&](uint32_t from, uint32_t to) {
      to = std::min(to, source.end);
      if (from < to) out.push_back({from, to, i});
    };
    add(held.keep_from, held.keep_to);
    add(held.from, held.to);
  }
  std::stable_sort(out.begin(), out.end(), [](const Interval& a, const Interval& b) { return a.from < b.from; });
  return out;
}

uint32_t longest_window(const PoolSpec& pool, size_t pool_index, std::span<const Source> sources, uint32_t limit) {
  std::vector<Interval> merged;
  for (const Interval& next : intervals_of(pool, pool_index, sources)) {
    if (!merged.empty() && next.from <= merged.back().to) {
      merged.back().to = std::max(merged.back().to, next.to);
    } else {
      merged.push_back(next);
    }
  }
  // Rows 0..keep must be there: without all of them no match is longer than what there is from 0 on.
  const uint32_t head = !merged.empty() && merged[0].from == 0 ? merged[0].to : 0;
  if (head < pool.keep) limit = std::min(limit, head);
  for (size_t i = merged.size(); i-- > 0;) {
    // Within one run of rows the longest length is also the one whose window begins latest.
    const uint32_t length = std::min(limit, merged[i].to);
    if (length <= merged[i].from) continue;
    const uint32_t first = length > pool.window ? length - pool.window : 0;
    if (first >= merged[i].from) return length;
  }
  return 0;
}

}  // namespace

uint32_t longest(const PoolSpec& pool, size_t pool_index, std::span<const Source> sources, uint32_t limit) {
  uint32_t best = 0;
  switch (pool.rule) {
    case PoolRule::kAll: {
      // Segments without their rows do not exist, but a length counts only when the rows are there.
      for (const Source& source : sources) {
        if (source.boundary) continue;
        if (source.from > best || !source.refs[pool_index]) break;
        best = std::max(best, source.end);
      }
      return std::min(best, limit);
    }
    case PoolRule::kWindow:
      return longest_window(pool, pool_index, sources, limit);
    case PoolRule::kTrailing:
      for (const Source& source : sources) {
        if (source.refs[pool_index] && source.to <= source.end && source.to <= limit) best = std::max(best, source.to);
      }
      return best;
  }
  return 0;
}

std::vector<Piece> plan_rows(const PoolSpec& pool, size_t pool_index, std::span<const Source> sources, uint32_t from, uint32_t to) {
  std::vector<Piece> plan;
  if (pool.rule == PoolRule::kTrailing) {
    // A state lies at its boundary: the row of the last token, and of a source that ends there.
    for (uint32_t i = 0; i < sources.size(); ++i) {
      if (sources[i].refs[pool_index] && sources[i].to == to && sources[i].end >= to) return {{i, to - 1, to}};
    }
    return plan;
  }
  // Rows that were brought more than once may differ in bits. The first ones stay: of those that have a row, the source with the
  // lowest id was stored first.
  const auto id = [&](const Interval& one) { return sources[one.source].id; };
  const std::vector<Interval> intervals = intervals_of(pool, pool_index, sources);
  std::vector<Interval> open;  // that have begun and not ended at `at`
  size_t next = 0;
  for (uint32_t at = from; at < to;) {
    for (; next < intervals.size() && intervals[next].from <= at; ++next) open.push_back(intervals[next]);
    std::erase_if(open, [&](const Interval& one) { return one.to <= at; });
    const auto first = std::min_element(open.begin(), open.end(), [&](const Interval& a, const Interval& b) { return id(a) < id(b); });
    if (first == open.end()) return {};
    uint32_t end = std::min(to, first->to);
    for (size_t i = next; i < intervals.size() && intervals[i].from < end; ++i) {
      if (id(intervals[i]) < id(*first)) end = intervals[i].from;
    }
    if (plan.empty() || plan.back().source != first->source) plan.push_back({first->source, at, at});
    plan.back().to = end;
    at = end;
  }
  return plan;
}

}  // namespace pion
