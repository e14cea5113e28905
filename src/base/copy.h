// Copying bytes whose source may be empty.
#pragma once

#include <cstring>
#include <string_view>

namespace pion {

// An empty view may have no address, which memcpy must not be given.
inline void copy_bytes(char* to, std::string_view from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace pion
