// One key with its value, in one block of memory:
//
//   header (8 bytes) | expiry (8, if any) | key size (8, if above 65535) | key | value
//
// The value lies in the block when it is small (integers, strings up to kLargestInline), otherwise the block holds a
// pointer to a HeapBytes or an Object, or where the value's extent lies. Values of other types than string are packed bytes
// (kInlineRaw, kHeap; packed.h) or an Object (value_types.h). An Entry is never constructed: it is a view of memory that a
// Shard allocated. Used under its stripe's lock.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "keyspace/object.h"
#include "storage/extents.h"

namespace pion {

enum class ValueType : uint8_t { kNone = 0, kString = 1, kList = 2, kSet = 3, kSortedSet = 4, kHash = 5, kStream = 6 };

// How a value lies there. OBJECT ENCODING says int, embstr or raw of a string; kInlineRaw is a small string that Redis would
// call raw.
enum class Encoding : uint8_t { kInt = 0, kInline = 1, kInlineRaw = 2, kHeap = 3, kExtent = 4, kObject = 5 };

// A large or growing string: spare room behind it makes APPEND cheap. Owned by the entry that points to it.
struct HeapBytes {
  uint64_t size;
  uint64_t capacity;
  char* data() { return reinterpret_cast<char*>(this + 1); }
  const char* data() const { return reinterpret_cast<const char*>(this + 1); }

  static HeapBytes* make(uint64_t capacity);
  static void destroy(HeapBytes* bytes);
  uint64_t memory_bytes() const { return sizeof(HeapBytes) + capacity; }
};

class Entry {
 public:
  static constexpr size_t kLargestInline = 440;
  static constexpr size_t kExtentBytes = 20;  // ExtentRef and the value's size
  static constexpr size_t kLargestShortKey = 65535;

  static size_t bytes_for(size_t key_size, size_t value_size, bool expiry) {
    return 8 + (expiry ? 8 : 0) + (key_size > kLargestShortKey ? 8 : 0) + key_size + value_size;
  }

  // Writes everything but the value's bytes.
  void format(std::string_view key, ValueType type, Encoding encoding, size_t value_size, bool expiry, bool from_page) {
    type_encoding_ = static_cast<uint8_t>(static_cast<unsigned>(type) << 4 | static_cast<unsigned>(encoding));
    const bool wide = key.size() > kLargestShortKey;
    key_size_ = wide ? 0 : static_cast<uint16_t>(key.size());
    value_ = static_cast<uint16_t>(value_size | (expiry ? kExpiry : 0) | (wide ? kWideKey : 0) | (from_page ? kFromPage : 0));
    if (wide) store_le<uint64_t>(tail() + expiry_bytes(), key.size());
    std::memcpy(tail() + prefix_bytes(), key.data(), key.size());
  }
  // Another value of the same size in the same block.
  void reuse(ValueType type, Encoding encoding, size_t value_size) {
    type_encoding_ = static_cast<uint8_t>(static_cast<unsigned>(type) << 4 | static_cast<unsigned>(encoding));
    value_ = static_cast<uint16_t>((value_ & ~kSizeMask) | value_size);
  }

  ValueType type() const { return static_cast<ValueType>(type_encoding_ >> 4); }
  Encoding encoding() const { return static_cast<Encoding>(type_encoding_ & 15); }
  bool has_expiry() const { return value_ & kExpiry; }
  bool from_page() const { return value_ & kFromPage; }

  // Wall milliseconds. Only with has_expiry().
  int64_t expiry() const { return load_le<int64_t>(tail()); }
  void set_expiry(int64_t at_ms) { store_le(tail(), at_ms); }

  std::string_view key() const {
    const size_t prefix = prefix_bytes();
    return {tail() + prefix, key_size()};
  }

  // The value's part of the block.
  size_t value_size() const { return value_ & kSizeMask; }
  char* value() { return tail() + prefix_bytes() + key_size(); }
  const char* value() const { return tail() + prefix_bytes() + key_size(); }
  size_t block_bytes() const { return 8 + prefix_bytes() + key_size() + value_size(); }

  // By encoding.
  int64_t integer() const { return load_le<int64_t>(value()); }
  HeapBytes* heap() const { return load_le<HeapBytes*>(value()); }
  Object* object() const { return load_le<Object*>(value()); }
  ExtentRef extent() const { return load_le<ExtentRef>(value()); }
  uint64_t extent_size() const { return load_le<uint64_t>(value() + sizeof(ExtentRef)); }
  // kInline, kInlineRaw, kHeap.
  std::string_view bytes() const {
    if (encoding() != Encoding::kHeap) return {value(), value_size()};
    return {heap()->data(), heap()->size};
  }

  // 24 bits of recency (LRU: seconds; LFU: 16 bits of minutes and 8 of frequency), see eviction.h.
  uint32_t clock() const { return clock_[0] | clock_[1] << 8 | static_cast<uint32_t>(clock_[2]) << 16; }
  void set_clock(uint32_t clock) {
    clock_[0] = static_cast<uint8_t>(clock);
    clock_[1] = static_cast<uint8_t>(clock >> 8);
    clock_[2] = static_cast<uint8_t>(clock >> 16);
  }

 private:
  static constexpr uint16_t kSizeMask = 1023, kExpiry = 1 << 10, kWideKey = 1 << 11, kFromPage = 1 << 12;
  static_assert(kLargestInline <= kSizeMask);

  char* tail() { return reinterpret_cast<char*>(this) + 8; }
  const char* tail() const { return reinterpret_cast<const char*>(this) + 8; }
  size_t expiry_bytes() const { return value_ & kExpiry ? 8 : 0; }
  size_t prefix_bytes() const { return expiry_bytes() + (value_ & kWideKey ? 8 : 0); }
  size_t key_size() const { return value_ & kWideKey ? load_le<uint64_t>(tail() + expiry_bytes()) : key_size_; }

  uint8_t type_encoding_;
  uint8_t clock_[3];
  uint16_t key_size_;
  uint16_t value_;  // size in the block, and flags
};
static_assert(sizeof(Entry) == 8);

// A value on its way in. Views are borrowed.
struct NewValue {
  enum class Kind : uint8_t {
    kBytes = 0,
    kInteger = 1,
    kExtent = 2,
    kRawBytes = 3,  // OBJECT ENCODING says raw
    kTyped = 4,     // of another type than string: see value_types.h
  };
  Kind kind = Kind::kBytes;
  ValueType type = ValueType::kString;
  std::string_view bytes;       // kTyped: packed, unless there is an object
  std::string_view encoded;     // kTyped: as records and checkpoints hold it
  Object* object = nullptr;     // kTyped: given to the entry
  int64_t integer = 0;
  ExtentRef extent;
  uint64_t extent_size = 0;
  bool moved = false;  // with its expiry from another key: matters to OBJECT ENCODING alone

  // As a client's argument is stored: an integer when it is one in canonical form.
  static NewValue from_argument(std::string_view bytes);
  static NewValue of_bytes(std::string_view bytes) { return {.bytes = bytes}; }
  static NewValue of_raw(std::string_view bytes) { return {.kind = Kind::kRawBytes, .bytes = bytes}; }
  static NewValue of_integer(int64_t value) { return {.kind = Kind::kInteger, .integer = value}; }
  static NewValue of_extent(ExtentRef ref, uint64_t size) { return {.kind = Kind::kExtent, .extent = ref, .extent_size = size}; }
  // What an entry of a string holds, as a value for another entry; views last as long as the entry is untouched.
  static NewValue of_entry(const Entry& entry);

  // Bytes of a record that sets it, about.
  uint64_t record_bytes() const {
    if (kind == Kind::kTyped) return encoded.size() + 12;
    return kind == Kind::kBytes || kind == Kind::kRawBytes ? bytes.size() + 10 : 24;
  }
};

// "0", "-12": the one way to write it, in int64. False otherwise.
bool parse_canonical_integer(std::string_view text, int64_t& value);
// Writes it; returns the number of characters (at most 20).
size_t format_integer(int64_t value, char* to);

// Length of a string value as STRLEN counts it.
uint64_t string_size(const Entry& entry);

// Would Redis 8.2 call a string embstr? It embeds key and value in one 64-byte allocation, less 8 bytes with an expiry.
// kGained: the expiry came to a string that had none; then long keys get away with more, by its allocator's size classes
// (all measured on 8.2.3).
enum class ExpiryRoom { kNone, kKept, kGained };
bool counts_as_embedded(size_t key_size, size_t value_size, ExpiryRoom expiry);

}  // namespace pion
