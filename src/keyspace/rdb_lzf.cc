#include "keyspace/rdb_lzf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace pion {
namespace {

constexpr size_t kLongestLiteral = 32;
constexpr size_t kLongestMatch = 264;
constexpr size_t kFarthest = 8192;
constexpr unsigned kLeastHashBits = 8, kMostHashBits = 14;

uint32_t three_bytes(const char* at) {
  return static_cast<uint32_t>(static_cast<uint8_t>(at[0])) << 16 | static_cast<uint32_t>(static_cast<uint8_t>(at[1])) << 8 |
         static_cast<uint8_t>(at[2]);
}

void write_literals(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::string_view run = bytes.substr(0, kLongestLiteral);
    out.push_back(static_cast<char>(run.size() - 1));
    out.append(run);
    bytes.remove_prefix(run.size());
  }
}

// `distance` from 1, `size` from 3.
void write_match(size_t distance, size_t size, std::string& out) {
  const size_t offset = distance - 1, length = size - 2;
  const auto high = static_cast<unsigned>(offset >> 8);
  if (length < 7) {
    out.push_back(static_cast<char>(length << 5 | high));
  } else {
    out.push_back(static_cast<char>(7u << 5 | high));
    out.push_back(static_cast<char>(length - 7));
  }
  out.push_back(static_cast<char>(offset));
}

}  // namespace

bool lzf_decompress(std::string_view compressed, uint64_t size, std::string& out) {
  const size_t begin = out.size();
  out.resize(begin + size);
  char* const start = out.data() + begin;
  char* to = start;
  char* const end = start + size;
  const char* from = compressed.data();
  const char* const last = from + compressed.size();
  while (from < last) {
    const auto head = static_cast<uint8_t>(*from++);
    if (head < kLongestLiteral) {
      const size_t run = head + 1u;
      if (run > static_cast<size_t>(last - from) || run > static_cast<size_t>(end - to)) return false;
      std::memcpy(to, from, run);
      from += run;
      to += run;
      continue;
    }
    size_t length = head >> 5;
    if (length == 7) {
      if (from == last) return false;
      length += static_cast<uint8_t>(*from++);
    }
    length += 2;
    if (from == last) return false;
    const size_t distance = (static_cast<size_t>(head & 0x1f) << 8 | static_cast<uint8_t>(*from++)) + 1;
    if (distance > static_cast<size_t>(to - start) || length > static_cast<size_t>(end - to)) return false;
    // Byte by byte: the run may repeat itself.
    for (const char* source = to - distance; length > 0; --length) *to++ = *source++;
  }
  return to == end;
}

bool lzf_compress(std::string_view bytes, size_t most, std::string& out) {
  const size_t begin = out.size();
  // Where each hash of three bytes was seen last; one more than the place, 0: nowhere. No larger than it is of use.
  const unsigned hash_bits = std::clamp(static_cast<unsigned>(std::bit_width(bytes.size())), kLeastHashBits, kMostHashBits);
  thread_local std::vector<uint32_t> places;
  places.assign(size_t{1} << hash_bits, 0);
  size_t literal = 0, at = 0;
  const auto too_long = [&] { return out.size() - begin + (at - literal) + (at - literal + 31) / 32 >= most; };
  while (at + 3 <= bytes.size()) {
    uint32_t& place = places[three_bytes(bytes.data() + at) * 2654435761u >> (32 - hash_bits)];
    const size_t seen = place;
    place = static_cast<uint32_t>(at + 1);
    const size_t distance = at + 1 - seen;
    if (seen == 0 || distance > kFarthest || std::memcmp(bytes.data() + seen - 1, bytes.data() + at, 3) != 0) {
      ++at;
      if ((at & 0xfff) == 0 && too_long()) break;
      continue;
    }
    const size_t longest = std::min(kLongestMatch, bytes.size() - at);
    size_t length = 3;
    while (length < longest && bytes[seen - 1 + length] == bytes[at + length]) ++length;
    write_literals(bytes.substr(literal, at - literal), out);
    write_match(distance, length, out);
    at += length;
    literal = at;
  }
  at = bytes.size();
  if (!too_long()) {
    write_literals(bytes.substr(literal), out);
    if (out.size() - begin < most) return true;
  }
  out.resize(begin);
  return false;
}

}  // namespace pion
