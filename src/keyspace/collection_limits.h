// Up to where collections stay packed: the options hash-max-listpack-entries and so on. One set per process; CONFIG SET changes
// it at any time, values that are there keep what they are until they are changed.
#pragma once

#include <atomic>
#include <cstdint>

namespace pion {

struct CollectionLimits {
  std::atomic<uint64_t> hash_entries{512}, hash_value_bytes{64};
  std::atomic<int64_t> list_listpack_size{-2};  // positive: elements; -1 to -5: 4 to 64 KiB
  std::atomic<uint64_t> sorted_set_entries{128}, sorted_set_value_bytes{64};
  std::atomic<uint64_t> stream_node_bytes{4096}, stream_node_entries{100};
  std::atomic<uint64_t> set_integers{512}, set_entries{128}, set_value_bytes{64};
};

// How far a value is packed here. It depends on what the value is called only in so far as long elements are walked slowly and
// many short ones take least memory when they are packed; and what Redis calls a listpack is expected to keep the order of its elements.
inline bool stays_packed(bool called_listpack, uint64_t elements, uint64_t bytes) {
  if (!called_listpack) return elements <= 64 && bytes <= 8 * 1024;
  return elements <= 4096 && bytes <= (elements <= 64 ? 256 : 64) * 1024;
}

inline CollectionLimits& collection_limits() {
  static CollectionLimits limits;
  return limits;
}

}  // namespace pion
