// Up to where collections stay packed: the options hash-max-listpack-entries and so on. One set per process; CONFIG SET changes
// it at any time, values that are there keep what they are until they are changed.
#pragma once

#include <atomic>
#include <cstdint>

namespace pion {

struct CollectionLimits {
  std::atomic<uint64_t> hash_entries{512}, hash_value_bytes{64};
  std::atomic<int64_t> list_listpack_size{-2};  // positive: elements; -1 to -5: 4 to 64 KiB
};

inline CollectionLimits& collection_limits() {
  static CollectionLimits limits;
  return limits;
}

}  // namespace pion
