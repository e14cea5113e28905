#include "keyspace/slab.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace pion {
namespace {

struct Held {
  size_t size;
  bool from_page;
  unsigned char mark;
};

TEST(Slab, BlocksNeverOverlapAndComeBack) {
  PagePool pool;
  std::mt19937_64 random(7);
  {
    Slab slab(pool);
    std::map<char*, Held> held;
    for (int step = 0; step < 60'000; ++step) {
      if (held.empty() || random() % 5 < 3) {
        const size_t size = 1 + random() % (random() % 8 == 0 ? 900 : 120);
        const Slab::Block block = slab.allocate(size);
        auto* bytes = static_cast<char*>(block.bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 8, 0u);
        const auto mark = static_cast<unsigned char>(random());
        std::memset(bytes, mark, size);
        held[bytes] = {size, block.from_page, mark};
      } else {
        auto at = held.lower_bound(reinterpret_cast<char*>(random() % (1ULL << 47)));
        if (at == held.end()) at = held.begin();
        for (size_t i = 0; i < at->second.size; ++i) ASSERT_EQ(static_cast<unsigned char>(at->first[i]), at->second.mark);
        slab.free(at->first, at->second.size, at->second.from_page);
        held.erase(at);
      }
    }
    EXPECT_GT(pool.taken_bytes(), 0u);
    for (const auto& [bytes, what] : held) slab.free(bytes, what.size, what.from_page);
    EXPECT_EQ(pool.taken_bytes(), 0u);
  }
}

TEST(Slab, FewBlocksOfManySizesTakeNoPages) {
  PagePool pool;
  Slab slab(pool);
  std::vector<std::pair<void*, size_t>> held;
  for (size_t size = 8; size <= Slab::kLargest; size += 8) held.emplace_back(slab.allocate(size).bytes, size);
  EXPECT_EQ(pool.taken_bytes(), 0u);
  for (const auto& [bytes, size] : held) slab.free(bytes, size, false);
}

}  // namespace
}  // namespace pion
