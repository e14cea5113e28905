// One command as it came: its arguments. An argument is bytes in memory, or a payload that was streamed to disk while it
// arrived (64 KiB and more, where the command table says the position may).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace pion {

// What a streamed argument became; the owner (storage's side) defines it. See command/payload.h.
class StreamedPayload {
 public:
  virtual ~StreamedPayload() = default;
};

struct Argument {
  std::string_view bytes;                      // valid until the handler returns; empty when streamed
  std::shared_ptr<StreamedPayload> streamed;   // null for bytes in memory
  uint64_t size = 0;                           // of the payload, either way
};

using Arguments = std::vector<Argument>;

}  // namespace pion
