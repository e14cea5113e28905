// LZF, the compression of strings in Redis' files: runs of literal bytes and references to what came up to 8 KiB before.
//
//   000nnnnn            n + 1 literal bytes follow
//   lllooooo oooooooo   copy l + 2 bytes (l: 1..6) from o + 1 bytes before the end
//   111ooooo n oooooooo  copy n + 9 bytes from there
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pion {

// Three bytes make at most this many: what claims to be more is none.
inline constexpr uint64_t kLzfMostExpansion = 88;

// Appends exactly `size` bytes. False: the bytes are no LZF of that many. The caller has limited `size`.
bool lzf_decompress(std::string_view compressed, uint64_t size, std::string& out);

// Appends the compressed bytes if they are fewer than `most`; otherwise false and `out` as it was.
bool lzf_compress(std::string_view bytes, size_t most, std::string& out);

}  // namespace pion
