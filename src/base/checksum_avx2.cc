// Built with -mavx2 (see CMakeLists.txt), called only where the processor has it. Includes no C++ header: an inline
// function of one, compiled here, could be the copy that the linker keeps for everybody.
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX2
#include <xxhash.h>

extern "C" uint64_t pion_xxh3_avx2(const void* bytes, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(bytes, size, seed); }
