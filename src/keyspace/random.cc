#include "keyspace/random.h"

#include "base/checksum.h"
#include "base/clock.h"

namespace pion {

uint64_t random64() {
  thread_local uint64_t state = 0;
  if (state == 0) state = mix64(static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC)) ^ reinterpret_cast<uint64_t>(&state)) | 1;
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545f4914f6cdd1dULL;
}

}  // namespace pion
