#include "keyspace/entry.h"

#include <charconv>
#include <cstdlib>

namespace pion {

HeapBytes* HeapBytes::make(uint64_t capacity) {
  auto* bytes = static_cast<HeapBytes*>(std::malloc(sizeof(HeapBytes) + capacity));
  if (!bytes) std::abort();
  bytes->size = 0;
  bytes->capacity = capacity;
  return bytes;
}

void HeapBytes::destroy(HeapBytes* bytes) { std::free(bytes); }

NewValue NewValue::from_argument(std::string_view bytes) {
  int64_t value;
  if (bytes.size() <= 20 && parse_canonical_integer(bytes, value)) return of_integer(value);
  return of_bytes(bytes);
}

NewValue NewValue::of_entry(const Entry& entry) {
  switch (entry.encoding()) {
    case Encoding::kInt: return of_integer(entry.integer());
    case Encoding::kExtent: return of_extent(entry.extent(), entry.extent_size());
    case Encoding::kInline: return of_bytes(entry.bytes());
    case Encoding::kInlineRaw:
    case Encoding::kHeap:
    case Encoding::kObject: break;
  }
  return of_raw(entry.bytes());
}

bool parse_canonical_integer(std::string_view text, int64_t& value) {
  if (text.empty() || text.size() > 20) return false;
  const bool negative = text[0] == '-';
  const size_t first = negative ? 1 : 0;
  if (first == text.size()) return false;
  if (text[first] == '0') {
    value = 0;
    return text.size() == 1;
  }
  if (text[first] < '1' || text[first] > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

size_t format_integer(int64_t value, char* to) { return static_cast<size_t>(std::to_chars(to, to + 20, value).ptr - to); }

uint64_t string_size(const Entry& entry) {
  switch (entry.encoding()) {
    case Encoding::kInt: {
      char text[20];
      return format_integer(entry.integer(), text);
    }
    case Encoding::kExtent: return entry.extent_size();
    default: return entry.bytes().size();
  }
}

bool counts_as_embedded(size_t key_size, size_t value_size, ExpiryRoom expiry) {
  const size_t both = key_size + value_size;
  if (expiry == ExpiryRoom::kNone) return both <= 41;
  return both <= 33 || (expiry == ExpiryRoom::kGained && key_size >= 32 && (both == 40 || both == 41));
}

}  // namespace pion
