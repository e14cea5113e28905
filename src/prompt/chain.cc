#include "prompt/chain.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/limits.h"

namespace pion {
namespace {

constexpr uint32_t kNoItem = UINT32_MAX;

const MediaItem* first_item(const std::vector<MediaItem>& items, uint32_t position) {
  const auto at = std::lower_bound(items.begin(), items.end(), position,
                                   [](const MediaItem& item, uint32_t p) { return item.position < p; });
  return at == items.end() ? nullptr : &*at;
}

// First difference of [from, to) between ids that may not be aligned and a chain's.
uint32_t first_difference(const char* a, const uint32_t* b, uint32_t from, uint32_t to) {
  if (std::memcmp(a, b, size_t{to - from} * 4) == 0) return to;
  for (uint32_t i = from; i < to; ++i, a += 4, ++b) {
    if (load_le<uint32_t>(a) != *b) return i;
  }
  return to;
}

// The walk both comparisons share. `tokens` are the ids of [from, to) of the first side.
uint32_t compare(const char* tokens, const std::vector<MediaItem>& media, uint32_t from, uint32_t to, const Chain& chain) {
  const uint32_t limit = std::min(to, chain.size());
  uint32_t at = from;
  while (at < limit) {
    const MediaItem* mine = first_item(media, at);
    const MediaItem* asked = first_item(chain.media, at);
    const uint32_t mine_at = mine ? mine->position : kNoItem, asked_at = asked ? asked->position : kNoItem;
    const uint32_t stop = std::min({limit, mine_at, asked_at});
    const uint32_t parted = first_difference(tokens + size_t{at - from} * 4, chain.tokens.data() + at, at, stop);
    if (parted < stop || stop == limit) return parted;
    if (mine_at != asked_at || mine->length != asked->length || mine->digest != asked->digest) return stop;
    if (mine->length > limit - stop) return stop;
    at = stop + mine->length;
  }
  return at;
}

// Empty when the items are in order, not empty, do not overlap and lie within [from, to); else what is wrong with which.
std::string media_fault(const std::vector<MediaItem>& media, uint64_t from, uint64_t to) {
  uint64_t free_from = from;
  for (const MediaItem& item : media) {
    const std::string name = "media item at " + std::to_string(item.position);
    if (item.length == 0) return name + " has no length";
    if (item.digest.empty() || item.digest.size() > kMaxDigestBytes) return name + " has no digest of 1 to " + std::to_string(kMaxDigestBytes) + " bytes";
    if (item.position < free_from) return name + " overlaps the one before or is out of order";
    free_from = uint64_t{item.position} + item.length;
    if (free_from > to) return name + " goes beyond the " + std::to_string(to) + " tokens";
  }
  return {};
}

}  // namespace

const MediaItem* Chain::item_at(uint32_t position) const {
  const MediaItem* item = first_item(media, position);
  return item && item->position == position ? item : nullptr;
}

uint32_t Chain::outside_media(uint32_t length) const {
  for (const MediaItem& item : media) {
    if (item.position < length && length - item.position < item.length) return item.position;
  }
  return length;
}

PromptResult<Chain> make_chain(std::string_view bytes, std::vector<MediaItem> media) {
  if (bytes.size() % 4 != 0) return refuse(FaultKind::kInvalid, "tokens must be 32-bit little-endian ids");
  if (bytes.size() / 4 > kMaxTokens) return refuse(FaultKind::kInvalid, "more than " + std::to_string(kMaxTokens) + " tokens");
  Chain chain;
  chain.tokens.resize(bytes.size() / 4);
  if (!bytes.empty()) std::memcpy(chain.tokens.data(), bytes.data(), bytes.size());
  if (const std::string fault = media_fault(media, 0, chain.size()); !fault.empty()) return refuse(FaultKind::kInvalid, fault);
  for (const MediaItem& item : media) std::fill_n(chain.tokens.begin() + item.position, item.length, 0u);
  chain.media = std::move(media);
  return chain;
}

Edge edge_at(const Chain& chain, uint32_t position, uint64_t seed) {
  const MediaItem* item = chain.item_at(position);
  if (!item) return {chain.tokens[position], false};
  return {static_cast<uint32_t>(xxh3(item->digest, seed ^ item->length)), true};
}

uint64_t content_bytes(const Chain& chain, uint32_t from, uint32_t to) {
  uint64_t bytes = kContentHeadBytes + uint64_t{to - from} * 4;
  for (const MediaItem& item : chain.media) {
    if (item.position >= from && item.position < to) bytes += 9 + item.digest.size();
  }
  return bytes;
}

std::string encode_content(uint64_t segment, uint32_t pool, const Chain& chain, uint32_t from, uint32_t to) {
  std::string out;
  out.reserve(content_bytes(chain, from, to));
  ByteWriter writer(out);
  uint32_t items = 0;
  for (const MediaItem& item : chain.media) items += item.position >= from && item.position < to;
  writer.put(segment).put(pool).put(from).put(to - from).put(items);
  out.append(reinterpret_cast<const char*>(chain.tokens.data() + from), size_t{to - from} * 4);
  for (const MediaItem& item : chain.media) {
    if (item.position < from || item.position >= to) continue;
    writer.put(item.position).put(item.length).put(static_cast<uint8_t>(item.digest.size())).raw(item.digest);
  }
  return out;
}

std::optional<Content> Content::decode(std::string_view aux, uint64_t segment, uint32_t pool, uint32_t from, uint32_t tokens) {
  ByteReader reader(aux);
  Content content;
  const auto id = reader.get<uint64_t>();
  const auto whose_pool = reader.get<uint32_t>();
  content.from_ = reader.get<uint32_t>();
  content.count_ = reader.get<uint32_t>();
  const auto items = reader.get<uint32_t>();
  content.tokens_ = reader.raw(uint64_t{content.count_} * 4).data();
  for (uint32_t i = 0; i < items && !reader.failed(); ++i) {
    MediaItem item;
    item.position = reader.get<uint32_t>();
    item.length = reader.get<uint32_t>();
    item.digest = reader.raw(reader.get<uint8_t>());
    content.media_.push_back(std::move(item));
  }
  if (reader.failed() || id != segment || whose_pool != pool || content.count_ != tokens || (tokens > 0 && content.from_ != from)) {
    return std::nullopt;
  }
  const uint64_t end = uint64_t{content.from_} + content.count_;
  if (end > kMaxTokens || !media_fault(content.media_, content.from_, end).empty()) return std::nullopt;
  return content;
}

uint32_t Content::token(uint32_t position) const { return load_le<uint32_t>(tokens_ + size_t{position - from_} * 4); }

uint32_t Content::common_end(const Chain& chain) const { return compare(tokens_, media_, from_, to(), chain); }

bool Content::media_starts_at(uint32_t position) const {
  const MediaItem* item = first_item(media_, position);
  return item && item->position == position;
}

Chain Content::copy(uint32_t end) const {
  Chain chain;
  chain.tokens.resize(end, 0);
  if (end > from_) std::memcpy(chain.tokens.data() + from_, tokens_, size_t{end - from_} * 4);
  for (const MediaItem& item : media_) {
    if (item.position < end) chain.media.push_back(item);
  }
  return chain;
}

uint32_t common_prefix(const Chain& a, const Chain& b) {
  return compare(reinterpret_cast<const char*>(a.tokens.data()), a.media, 0, a.size(), b);
}

}  // namespace pion
