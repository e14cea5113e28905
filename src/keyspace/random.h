// Random numbers for sampling: fast, per thread, never for secrets.
#pragma once

#include <cstdint>

namespace pion {

// xorshift64* (S. Vigna, 2016), seeded per thread from the clock and the thread's stack.
uint64_t random64();

}  // namespace pion
