// Any bytes as the body of a prompt memory record or as an extent's aux bytes: refused, or read back as written.
#include <cstdlib>
#include <cstring>
#include <string>

#include "prompt/chain.h"
#include "prompt/records.h"

namespace {

template <typename Decoded, typename Encode>
void check(std::string_view body, const Decoded& decoded, Encode encode) {
  // A varint may be written longer than it needs to be, so the bytes can differ once; not twice.
  if (!decoded) return;
  const std::string once = encode(*decoded);
  if (once.size() > body.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pion;
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0: check(body, decode_add(body), [](const auto& r) { return encode(r); }); break;
    case 1: check(body, decode_replace(body), [](const auto& r) { return encode(r); }); break;
    case 2: check(body, decode_names(body), [](const auto& r) { return encode_names(r); }); break;
    case 3: check(body, decode_rows(body), [](const auto& r) { return encode(r); }); break;
    case 4: check(body, decode_roots(body), [](const auto& r) { return encode(r); }); break;
    case 5: check(body, decode_model(body), [](const auto& r) { return encode(r); }); break;
    default: {
      if (body.size() < kContentHeadBytes) break;
      uint64_t id;
      uint32_t pool, from, tokens;
      std::memcpy(&id, body.data(), 8);
      std::memcpy(&pool, body.data() + 8, 4);
      std::memcpy(&from, body.data() + 12, 4);
      std::memcpy(&tokens, body.data() + 16, 4);
      const auto content = Content::decode(body, id, pool, from, tokens);
      if (!content || content->to() > (1u << 20)) break;
      const Chain chain = content->copy(content->to());
      if (chain.size() != content->to()) std::abort();
      (void)content->common_end(chain);
      break;
    }
  }
  return 0;
}
