#include "base/checksum.h"

// The dispatching build of xxHash would need its own library; inlining with per-function targets gives AVX2 and
// AVX-512 loops in one portable binary, see the dispatch below.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pion {

uint64_t xxh3(std::string_view bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

}  // namespace pion
