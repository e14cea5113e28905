// Runs of elements as Redis' serialization holds them, one interface for all: plain strings, listpacks, and the forms of older
// versions (ziplists, zipmaps) and of sets of integers. Any bytes may come; every length, offset and count is checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "keyspace/packed.h"
#include "keyspace/rdb_bytes.h"

namespace pion {

class ElementSource {
 public:
  virtual ~ElementSource() = default;
  // The next element; its view lasts until the call after the next one at least. False: there is none, or it is malformed.
  virtual bool next(ShortText& text) = 0;
  // After next() answered false: was everything read, and as it should be?
  virtual bool sound() const = 0;
};

// `count` strings, one after the other.
class RdbStrings final : public ElementSource {
 public:
  RdbStrings(RdbReader& in, uint64_t count) : in_(in), left_(count) {}
  bool next(ShortText& text) override;
  bool sound() const override { return left_ == 0 && !in_.failed(); }

 private:
  RdbReader& in_;
  uint64_t left_;
  std::string rooms_[2];
  unsigned room_ = 0;
};

// Redis' listpack:
//
//   u32 bytes in all | u16 elements, 65535: not known | element... | 0xff
//   element: head, data | its size in 7 bits a byte, high bits first, so that it is read from the end
//   head     0nnnnnnn a number | 10nnnnnn a string | 110nnnnn n a number of 13 bits | 1110nnnn n a string | 0xf0, u32 a string
//            0xf1 i16 | 0xf2 i24 | 0xf3 i32 | 0xf4 i64
class ListpackSource final : public ElementSource {
 public:
  explicit ListpackSource(std::string_view listpack);
  bool next(ShortText& text) override;
  bool sound() const override { return ended_ && !in_.failed(); }
  // As the next element, which must be a number. False: it is none, and the source is no longer sound.
  bool next_number(int64_t& number);

 private:
  static constexpr uint64_t kUncounted = 65535;

  bool fail();

  ByteReader in_;
  uint64_t counted_ = kUncounted, seen_ = 0;
  bool ended_ = false;
};

// Redis' ziplist, before 7.0:
//
//   u32 bytes in all | u32 where the last element begins | u16 elements, 65535: not known | element... | 0xff
//   element: the size of the one before it, u8 or 0xfe and u32 | head, data
//   head     00nnnnnn a string | 01nnnnnn n a string | 0x80, u32 big-endian a string
//            0xc0 i16 | 0xd0 i32 | 0xe0 i64 | 0xf0 i24 | 0xfe i8 | 0xf1..0xfd the numbers 0..12
class ZiplistSource final : public ElementSource {
 public:
  explicit ZiplistSource(std::string_view ziplist);
  bool next(ShortText& text) override;
  bool sound() const override { return ended_ && !in_.failed(); }

 private:
  static constexpr uint64_t kUncounted = 65535;

  bool fail();
  bool end();

  const size_t bytes_;
  ByteReader in_;
  uint64_t counted_ = kUncounted, seen_ = 0;
  uint64_t last_at_ = 0;      // as the header says
  uint64_t element_at_ = 0;   // where the latest one begins, and its size
  uint64_t element_bytes_ = 0;
  bool ended_ = false;
};

// Redis' zipmap, before 2.6: u8 pairs, 254 and above: not known | {size, name, size, u8 spare bytes, value, spare bytes}... | 0xff.
// A size is a u8, or 254 and u32. Names and values in turn.
class ZipmapSource final : public ElementSource {
 public:
  explicit ZipmapSource(std::string_view zipmap);
  bool next(ShortText& text) override;
  bool sound() const override { return ended_ && !in_.failed(); }

 private:
  bool fail();

  ByteReader in_;
  uint64_t counted_, seen_ = 0;  // elements: two a pair
  bool ended_ = false;
};

// Redis' set of integers: u32 bytes of each (2, 4, 8) | u32 how many | the integers, ascending.
class IntsetSource final : public ElementSource {
 public:
  explicit IntsetSource(std::string_view intset);
  bool next(ShortText& text) override;
  bool sound() const override { return !in_.failed() && in_.empty(); }

 private:
  ByteReader in_;
  uint32_t width_ = 0;
  int64_t before_ = 0;
  bool first_ = true;
};

// Writes a listpack.
class ListpackWriter {
 public:
  ListpackWriter() { bytes_.resize(kHeaderBytes); }
  ListpackWriter& text(const ShortText& text);
  ListpackWriter& text(std::string_view bytes) { return text(ShortText(bytes)); }
  ListpackWriter& number(int64_t number) { return text(ShortText::of(number)); }
  // The listpack; next is clear().
  std::string_view finish();
  void clear();

 private:
  static constexpr size_t kHeaderBytes = 6;

  std::string bytes_;
  uint64_t elements_ = 0;
};

}  // namespace pion
