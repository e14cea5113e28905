// Any bytes as a manifest: it is refused, or its canonical text is a fixed point that says the same model.
#include <cstdlib>

#include "prompt/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto manifest = pion::parse_manifest({reinterpret_cast<const char*>(data), size});
  if (!manifest) return 0;
  const auto again = pion::parse_manifest(manifest->canonical);
  if (!again || again->canonical != manifest->canonical || again->hash != manifest->hash) std::abort();
  if (again->pools.size() != manifest->pools.size()) std::abort();
  for (const pion::PoolSpec& pool : manifest->pools) {
    if (pool.runs() != size_t{pool.layers} * pool.sides || pool.before.size() != pool.runs() + 1) std::abort();
  }
  if (!pion::describe_difference(manifest->canonical, again->canonical).empty()) std::abort();
  return 0;
}
