// A model's manifest: who made the rows, and how they lie. Every field but the top `notes` is identity. Two manifests are the
// same model exactly when their canonical texts are equal: object keys sorted, no blanks, 1 and 1.0 the same number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "prompt/pools.h"

namespace pion {

struct Manifest {
  std::string canonical;  // without `notes`
  std::string hash;       // SHA-256 of `canonical`, hexadecimal
  std::string notes;      // as JSON text; empty when there are none. No identity.
  std::vector<PoolSpec> pools;
};

// Any bytes may come in: kInvalid says what is wrong and where. Not accepted, because two readers could understand them
// differently: a key given twice, an integer beyond 64 bits, text that is not UTF-8, nesting beyond 32.
Result<Manifest> parse_manifest(std::string_view json);

// The first few fields in which two canonical texts differ, with their paths:
//   pools[0].dtype is "f16" there, "f32" here
std::string describe_difference(const std::string& there, const std::string& here);

}  // namespace pion
