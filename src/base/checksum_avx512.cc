// Built with -mavx512f (see CMakeLists.txt), called only where the processor has it. No C++ header: see checksum_avx2.cc.
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX512
#include <xxhash.h>

extern "C" uint64_t pion_xxh3_avx512(const void* bytes, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(bytes, size, seed); }
