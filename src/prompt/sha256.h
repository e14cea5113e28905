// SHA-256 (FIPS 180-4): the digest by which clients name a manifest. Identity must not be forged by a collision, so a fast
// checksum is not enough here.
#pragma once

#include <string>
#include <string_view>

namespace pion {

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace pion
