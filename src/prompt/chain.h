// Token chains: what a prompt is made of, and the form in which a segment's part of one lies in an extent's aux bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/fault.h"

namespace pion {

// An image, an audio clip ...: `length` positions from `position` on whose token ids mean nothing; the whole digest decides.
struct MediaItem {
  uint32_t position = 0, length = 0;
  std::string digest;
  bool operator==(const MediaItem&) const = default;
};

struct Chain {
  std::vector<uint32_t> tokens;   // 0 inside media items
  std::vector<MediaItem> media;   // in order, not overlapping, inside the chain

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
  // The item that begins at `position`, or null.
  const MediaItem* item_at(uint32_t position) const;
  // `length`, or the start of the item that `length` lies inside of.
  uint32_t outside_media(uint32_t length) const;
};

// From the wire's bytes: little-endian u32 ids. kInvalid says which limit or item is wrong.
PromptResult<Chain> make_chain(std::string_view token_bytes, std::vector<MediaItem> media);

// A number that both sides of an edge of the tree agree on: the token at a position, or a seeded hash of the media item there.
struct Edge {
  uint32_t value = 0;
  bool media = false;
};
Edge edge_at(const Chain& chain, uint32_t position, uint64_t seed);

// What the aux bytes of a segment's extents hold: whose extent it is and, in one extent of a segment with tokens, its part of
// the chain. Format: docs/prompt-memory.md, "Formats".
inline constexpr uint64_t kContentHeadBytes = 24;
uint64_t content_bytes(const Chain& chain, uint32_t from, uint32_t to);
std::string encode_content(uint64_t segment, uint32_t pool, const Chain& chain, uint32_t from, uint32_t to);

// A view of such aux bytes, which must outlive it.
class Content {
 public:
  // Empty when the bytes are not the content of this segment and pool with this many tokens.
  static std::optional<Content> decode(std::string_view aux, uint64_t segment, uint32_t pool, uint32_t from, uint32_t tokens);

  uint32_t from() const { return from_; }
  uint32_t to() const { return from_ + count_; }
  uint32_t token(uint32_t position) const;
  // First position at or after from(), at most to() and the chain's size, where the chain parts from what is stored.
  uint32_t common_end(const Chain& chain) const;
  bool media_starts_at(uint32_t position) const;
  // Copies [from(), to) as a chain's tail (positions stay absolute; earlier tokens are zeros).
  Chain copy(uint32_t to) const;

 private:
  uint32_t from_ = 0, count_ = 0;
  const char* tokens_ = nullptr;
  std::vector<MediaItem> media_;
};

// Tokens that two chains begin with in common; never ends inside a media item.
uint32_t common_prefix(const Chain& a, const Chain& b);

}  // namespace pion
