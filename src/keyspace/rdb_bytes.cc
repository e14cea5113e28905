#include "keyspace/rdb_bytes.h"

#include "base/limits.h"
#include "keyspace/entry.h"
#include "keyspace/rdb_lzf.h"

namespace pion {
namespace {

constexpr uint8_t kLength32 = 0x80, kLength64 = 0x81;
constexpr uint8_t kInt8 = 0xc0, kInt16 = 0xc1, kInt32 = 0xc2, kCompressed = 0xc3;
constexpr size_t kShortestCompressed = 21;
constexpr size_t kLongestNumber = 11;  // "-2147483648"

}  // namespace

uint64_t RdbReader::length_behind(uint8_t head) {
  if (head < 0x40) return head;
  if (head < 0x80) return static_cast<uint64_t>(head & 0x3f) << 8 | get<uint8_t>();
  if (head == kLength32) return __builtin_bswap32(get<uint32_t>());
  if (head == kLength64) return __builtin_bswap64(get<uint64_t>());
  return fail(), 0;
}

uint64_t RdbReader::length() { return length_behind(get<uint8_t>()); }

std::string_view RdbReader::compressed(std::string& room) {
  const uint64_t bytes = length(), size = length();
  const std::string_view from = raw(bytes);
  room.clear();
  const bool possible = !failed() && size > 0 && size <= kMaxBulkBytes && size <= from.size() * kLzfMostExpansion;
  if (!possible || !lzf_decompress(from, size, room)) return fail(), std::string_view();
  return room;
}

std::string_view RdbReader::string(std::string& room) {
  const auto head = get<uint8_t>();
  if (head < kInt8) return raw(length_behind(head));
  if (head == kCompressed) return compressed(room);
  int64_t number = 0;
  switch (head) {
    case kInt8: number = get<int8_t>(); break;
    case kInt16: number = get<int16_t>(); break;
    case kInt32: number = get<int32_t>(); break;
    default: fail();
  }
  if (failed()) return {};
  char text[20];
  room.assign(text, format_integer(number, text));
  return room;
}

RdbWriter& RdbWriter::length(uint64_t value) {
  if (value < 0x40) return put(static_cast<uint8_t>(value));
  if (value < 0x4000) return put(static_cast<uint8_t>(0x40 | value >> 8)).put(static_cast<uint8_t>(value));
  if (value <= UINT32_MAX) return put(kLength32).put(__builtin_bswap32(static_cast<uint32_t>(value)));
  return put(kLength64).put(__builtin_bswap64(value));
}

RdbWriter& RdbWriter::string(std::string_view text) {
  int64_t number = 0;
  if (text.size() <= kLongestNumber && parse_canonical_integer(text, number)) {
    if (number == static_cast<int8_t>(number)) return put(kInt8).put(static_cast<int8_t>(number));
    if (number == static_cast<int16_t>(number)) return put(kInt16).put(static_cast<int16_t>(number));
    if (number == static_cast<int32_t>(number)) return put(kInt32).put(static_cast<int32_t>(number));
  }
  if (text.size() >= kShortestCompressed) {
    // The compressed length stands in front, and how long that is is known afterwards.
    thread_local std::string packed;
    packed.clear();
    if (lzf_compress(text, text.size() - 4, packed)) {
      put(kCompressed).length(packed.size()).length(text.size());
      out_.append(packed);
      if (packed.capacity() > kMiB) std::string().swap(packed);
      return *this;
    }
  }
  length(text.size());
  out_.append(text);
  return *this;
}

}  // namespace pion
