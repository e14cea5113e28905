#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__x86_64__)
extern "C" uint64_t pion_xxh3_avx2(const void* bytes, size_t size, uint64_t seed);
extern "C" uint64_t pion_xxh3_avx512(const void* bytes, size_t size, uint64_t seed);
#endif

namespace pion {
namespace {

constexpr size_t kShortBytes = 240;  // up to here XXH3 has no wide loop, and a call through a pointer costs more than it saves

using Hash = uint64_t (*)(const void*, size_t, uint64_t);

uint64_t hash_plain(const void* bytes, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(bytes, size, seed); }

// The builtins ask CPUID and XGETBV: the system must save the wide registers too.
Hash choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return pion_xxh3_avx512;
  if (__builtin_cpu_supports("avx2")) return pion_xxh3_avx2;
#endif
  return hash_plain;
}

}  // namespace

uint64_t xxh3(std::string_view bytes, uint64_t seed) {
  if (bytes.size() <= kShortBytes) return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
  static const Hash hash = choose();
  return hash(bytes.data(), bytes.size(), seed);
}

}  // namespace pion
