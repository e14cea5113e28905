#include "keyspace/packed.h"

#include "base/bytes.h"
#include "keyspace/entry.h"

namespace pion {
namespace {

constexpr uint8_t kString6 = 0x80, kString13 = 0xc0, kString32 = 0xe0, kInteger = 0xe0, kInteger12 = 0xf0;
constexpr int64_t kFirst12 = 128, kEnd12 = kFirst12 + 4096;

// Bytes of head and data.
uint32_t body_size(const char* at) {
  const auto head = static_cast<uint8_t>(*at);
  if (head < kString6) return 1;
  if (head < kString13) return 1 + (head & 0x3fu);
  if (head < kString32) return 2 + ((head & 0x1fu) << 8 | static_cast<uint8_t>(at[1]));
  if (head == kString32) return 5 + load_le<uint32_t>(at + 1);
  return head < kInteger12 ? 1 + (head & 0xfu) : 2;
}

uint32_t back_size(uint32_t body) { return body < 1u << 7 ? 1 : body < 1u << 14 ? 2 : body < 1u << 21 ? 3 : body < 1u << 28 ? 4 : 5; }

int64_t read_integer(const char* from, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(from[i])) << 8 * i;
  const unsigned spare = 64 - 8 * bytes;
  return static_cast<int64_t>(value << spare) >> spare;  // the sign goes all the way up
}

unsigned integer_bytes(int64_t value) {
  for (unsigned bytes : {1u, 2u, 3u, 4u, 6u}) {
    const int64_t limit = 1LL << (8 * bytes - 1);
    if (value >= -limit && value < limit) return bytes;
  }
  return 8;
}

}  // namespace

ShortText::ShortText(std::string_view text) : bytes(text) { integer = parse_canonical_integer(text, number); }

std::string_view ShortText::view(char (&room)[20]) const {
  if (!integer) return bytes;
  return {room, format_integer(number, room)};
}

std::string ShortText::string() const {
  char room[20];
  return std::string(view(room));
}

PackedItem packed_item(const char* at) {
  const auto head = static_cast<uint8_t>(*at);
  const uint32_t body = body_size(at);
  PackedItem item;
  item.at = at;
  item.size = body + back_size(body);
  if (head < kString6) {
    item.text = ShortText::of(head);
  } else if (head <= kString32) {
    const uint32_t skip = head < kString13 ? 1 : head < kString32 ? 2 : 5;
    item.text = ShortText::raw({at + skip, body - skip});
  } else if (head < kInteger12) {
    item.text = ShortText::of(read_integer(at + 1, head & 0xfu));
  } else {
    item.text = ShortText::of(kFirst12 + ((head & 0xf) << 8 | static_cast<uint8_t>(at[1])));
  }
  return item;
}

const char* packed_next(const char* at) {
  const uint32_t body = body_size(at);
  return at + body + back_size(body);
}

const char* packed_before(const char* end) {
  uint32_t body = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(*--end);
    body |= static_cast<uint32_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return end - body;
  }
}

void pack(std::string& out, const ShortText& text) {
  const size_t start = out.size();
  if (text.integer) {
    if (text.number >= 0 && text.number < 128) {
      out.push_back(static_cast<char>(text.number));
    } else if (text.number >= kFirst12 && text.number < kEnd12) {
      const auto low = static_cast<unsigned>(text.number - kFirst12);
      out.push_back(static_cast<char>(kInteger12 | low >> 8));
      out.push_back(static_cast<char>(low));
    } else {
      const unsigned bytes = integer_bytes(text.number);
      out.push_back(static_cast<char>(kInteger | bytes));
      out.append(reinterpret_cast<const char*>(&text.number), bytes);
    }
  } else {
    const size_t size = text.bytes.size();
    if (size < 64) {
      out.push_back(static_cast<char>(kString6 | size));
    } else if (size < 8192) {
      out.push_back(static_cast<char>(kString13 | size >> 8));
      out.push_back(static_cast<char>(size));
    } else {
      out.push_back(static_cast<char>(kString32));
      ByteWriter(out).put(static_cast<uint32_t>(size));
    }
    out.append(text.bytes);
  }
  const auto body = static_cast<uint32_t>(out.size() - start);
  for (uint32_t i = back_size(body); i-- > 0;) {
    const bool first = i + 1 == back_size(body);
    out.push_back(static_cast<char>((body >> 7 * i & 0x7f) | (first ? 0 : 0x80)));
  }
}

}  // namespace pion
