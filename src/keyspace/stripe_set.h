// Which of the keyspace's stripes: those that one command or transaction locks.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/limits.h"

namespace pion {

class StripeSet {
 public:
  void add(unsigned stripe) { words_[stripe / 64] |= 1ULL << stripe % 64; }
  void add_all() { words_.fill(~0ULL); }
  bool has(unsigned stripe) const { return words_[stripe / 64] >> stripe % 64 & 1; }

  // In ascending order: locked so, two threads never wait for each other.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (unsigned i = 0; i < words_.size(); ++i) {
      for (uint64_t rest = words_[i]; rest != 0; rest &= rest - 1) visit(i * 64 + static_cast<unsigned>(std::countr_zero(rest)));
    }
  }

 private:
  std::array<uint64_t, kStripes / 64> words_{};
};

}  // namespace pion
