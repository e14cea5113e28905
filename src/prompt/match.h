// From the walk of a prompt through the tree to what can be served of it: the longest length for which every pool has the
// rows its rule asks for, and which segment each row comes from. Pure arithmetic; the store walks and pins.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "prompt/pools.h"
#include "prompt/segment.h"

namespace pion {

// A segment on the walk, or a boundary segment hung on one. Of its rows only those of tokens below `end` belong to the prompt.
struct Source {
  uint32_t slot = kNoSlot;
  uint64_t id = 0;
  uint32_t from = 0, to = 0, rows_from = 0, end = 0;
  bool boundary = false;
  std::vector<ExtentRef> refs;  // by pool; empty where it has none

  RowSet held(const PoolSpec& pool) const { return pool.held(from, to, rows_from, boundary); }
};

// Rows [from, to) of a pool, from the extent of one source.
struct Piece {
  uint32_t source = 0;   // index into the sources
  uint32_t from = 0, to = 0;
};

// The largest length, at most `limit`, for which a pool has what a match needs. 0 always does.
uint32_t longest(const PoolSpec& pool, size_t pool_index, std::span<const Source> sources, uint32_t limit);

// Where rows [from, to) come from, in order; empty when one is missing (or the range is).
std::vector<Piece> plan_rows(const PoolSpec& pool, size_t pool_index, std::span<const Source> sources, uint32_t from, uint32_t to);

}  // namespace pion
