// Pools: the kinds of rows a model keeps for a token, and the arithmetic of where a row lies. A stored piece of a pool is one
// extent, `[layer][side][token][row]`, packed; (layer, side) pairs are called runs and numbered layer * sides + side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace pion {

enum class PoolRule : uint8_t {
  kAll,       // every token's row: attention
  kWindow,    // the last `window` rows, and the first `keep`: sliding attention
  kTrailing,  // one row, the state after the last token: recurrent
};

// Which tokens' rows a piece holds, in this order: [keep_from, keep_to), then [from, to). Disjoint, either may be empty.
// A trailing state after token n counts as the row of token n - 1.
struct RowSet {
  uint32_t keep_from = 0, keep_to = 0, from = 0, to = 0;

  uint64_t count() const { return uint64_t{keep_to - keep_from} + (to - from); }
  // Row number of a token that is in the set.
  uint64_t index(uint32_t token) const {
    return token < keep_to ? token - keep_from : uint64_t{keep_to - keep_from} + (token - from);
  }
  bool operator==(const RowSet&) const = default;
};

struct PoolSpec {
  std::string name;
  PoolRule rule = PoolRule::kAll;
  uint32_t window = 0, keep = 0;     // of kWindow, in tokens
  uint32_t layers = 0, sides = 0;
  std::vector<uint32_t> row_bytes;   // of each run
  std::vector<uint64_t> before;      // sums of row_bytes; before[i] of runs below i, the last one is a token's bytes

  size_t runs() const { return row_bytes.size(); }
  uint64_t token_bytes() const { return before.back(); }
  // Offset in a piece that holds `rows` rows.
  uint64_t offset(size_t run, uint64_t rows, uint64_t row) const { return before[run] * rows + row * row_bytes[run]; }

  // What a PUT of [from, to) brings, and what a segment of [from, to) keeps when its window rows begin at `rows_from`.
  RowSet held(uint32_t from, uint32_t to, uint32_t rows_from, bool boundary_only) const {
    RowSet set;
    switch (rule) {
      case PoolRule::kAll:
        if (!boundary_only) set.from = from, set.to = to;
        break;
      case PoolRule::kWindow:
        set.from = std::max(rows_from, to > window ? to - window : 0);
        set.from = std::min(set.from, to);
        set.to = to;
        if (rows_from < std::min(keep, set.from)) set.keep_from = rows_from, set.keep_to = std::min(keep, set.from);
        break;
      case PoolRule::kTrailing:
        set.from = to - 1, set.to = to;
        break;
    }
    return set;
  }

  // What a match of `length` > 0 tokens needs.
  RowSet needed(uint32_t length) const { return held(0, length, 0, false); }
};

}  // namespace pion
