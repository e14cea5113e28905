#include "keyspace/rdb_elements.h"

#include <algorithm>

#include "keyspace/listpack_size.h"

namespace pion {
namespace {

constexpr uint8_t kEnd = 0xff;
constexpr size_t kListpackFrameBytes = 7, kZiplistFrameBytes = 11;

int64_t integer_of(std::string_view little_endian) {
  if (little_endian.empty()) return 0;  // there were too few bytes, which the reader remembers
  uint64_t value = 0;
  for (size_t i = 0; i < little_endian.size(); ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(little_endian[i])) << 8 * i;
  const size_t spare = 64 - 8 * little_endian.size();
  return static_cast<int64_t>(value << spare) >> spare;  // the sign goes all the way up
}

void write_back(std::string& out, uint64_t size) {
  for (unsigned i = listpack_back_bytes(size); i-- > 0;) {
    const bool first = i + 1 == listpack_back_bytes(size);
    out.push_back(static_cast<char>((size >> 7 * i & 0x7f) | (first ? 0 : 0x80)));
  }
}

// One element's head and data.
bool read_listpack_body(ByteReader& in, ShortText& text) {
  const auto head = in.get<uint8_t>();
  if (head < 0x80) {
    text = ShortText::of(head);
  } else if (head < 0xc0) {
    text = ShortText::raw(in.raw(head & 0x3f));
  } else if (head < 0xe0) {
    const int64_t value = (head & 0x1f) << 8 | in.get<uint8_t>();
    text = ShortText::of(value < 4096 ? value : value - 8192);
  } else if (head < 0xf0) {
    text = ShortText::raw(in.raw(static_cast<uint64_t>(head & 0xf) << 8 | in.get<uint8_t>()));
  } else if (head == 0xf0) {
    text = ShortText::raw(in.raw(in.get<uint32_t>()));
  } else if (head <= 0xf4) {
    static constexpr uint8_t kBytes[] = {2, 3, 4, 8};
    text = ShortText::of(integer_of(in.raw(kBytes[head - 0xf1])));
  } else {
    return false;
  }
  return !in.failed();
}

bool read_ziplist_body(ByteReader& in, ShortText& text) {
  const auto head = in.get<uint8_t>();
  if (head < 0x40) {
    text = ShortText::raw(in.raw(head));
  } else if (head < 0x80) {
    text = ShortText::raw(in.raw(static_cast<uint64_t>(head & 0x3f) << 8 | in.get<uint8_t>()));
  } else if (head > 0xf0 && head < 0xfe) {
    text = ShortText::of(head - 0xf1);
  } else {
    switch (head) {
      case 0x80: text = ShortText::raw(in.raw(__builtin_bswap32(in.get<uint32_t>()))); break;
      case 0xc0: text = ShortText::of(in.get<int16_t>()); break;
      case 0xd0: text = ShortText::of(in.get<int32_t>()); break;
      case 0xe0: text = ShortText::of(in.get<int64_t>()); break;
      case 0xf0: text = ShortText::of(integer_of(in.raw(3))); break;
      case 0xfe: text = ShortText::of(in.get<int8_t>()); break;
      default: return false;
    }
  }
  return !in.failed();
}

}  // namespace

bool RdbStrings::next(ShortText& text) {
  if (left_ == 0 || in_.failed()) return false;
  text = ShortText::raw(in_.string(rooms_[room_ ^= 1]));
  --left_;
  return !in_.failed();
}

ListpackSource::ListpackSource(std::string_view listpack) : in_(listpack) {
  const auto bytes = in_.get<uint32_t>();
  counted_ = in_.get<uint16_t>();
  if (bytes != listpack.size() || bytes < kListpackFrameBytes) fail();
}

bool ListpackSource::fail() { return in_ = failed_reader(), false; }

bool ListpackSource::next(ShortText& text) {
  if (ended_ || in_.failed()) return false;
  const std::string_view before = in_.rest();
  if (before.empty()) return fail();
  if (static_cast<uint8_t>(before[0]) == kEnd) {
    in_.get<uint8_t>();
    ended_ = in_.empty() && (counted_ == kUncounted || counted_ == seen_);
    return ended_ ? false : fail();
  }
  if (!read_listpack_body(in_, text)) return fail();
  const uint64_t size = before.size() - in_.rest().size();
  const std::string_view back = in_.raw(listpack_back_bytes(size));
  uint64_t said = 0;
  for (size_t i = 0; i < back.size(); ++i) {
    const auto byte = static_cast<uint8_t>(back[i]);
    if ((byte >= 0x80) != (i > 0)) return fail();  // all but the first say that there is more in front of them
    said = said << 7 | (byte & 0x7f);
  }
  if (said != size) return fail();
  ++seen_;
  return !in_.failed();
}

bool ListpackSource::next_number(int64_t& number) {
  ShortText text;
  if (!next(text)) return fail();
  if (!text.integer) text = ShortText(text.bytes);
  number = text.number;
  return text.integer || fail();
}

ZiplistSource::ZiplistSource(std::string_view ziplist) : bytes_(ziplist.size()), in_(ziplist) {
  const auto bytes = in_.get<uint32_t>();
  last_at_ = in_.get<uint32_t>();
  counted_ = in_.get<uint16_t>();
  if (bytes != ziplist.size() || bytes < kZiplistFrameBytes) fail();
}

bool ZiplistSource::fail() { return in_ = failed_reader(), false; }

// At the end mark: do the header's place of the last element and its count hold?
bool ZiplistSource::end() {
  const uint64_t last_at = seen_ == 0 ? bytes_ - 1 : element_at_;
  ended_ = in_.empty() && last_at == last_at_ && (counted_ == kUncounted || counted_ == seen_);
  return ended_;
}

bool ZiplistSource::next(ShortText& text) {
  if (ended_ || in_.failed()) return false;
  const uint64_t at = bytes_ - in_.rest().size();
  const auto first = in_.get<uint8_t>();
  if (in_.failed()) return false;
  if (first == kEnd) return end() ? false : fail();
  const uint64_t before = first == 0xfe ? in_.get<uint32_t>() : first;
  if (before != element_bytes_ || !read_ziplist_body(in_, text)) return fail();
  element_at_ = at;
  element_bytes_ = bytes_ - in_.rest().size() - at;
  ++seen_;
  return true;
}

ZipmapSource::ZipmapSource(std::string_view zipmap) : in_(zipmap), counted_(2 * uint64_t{in_.get<uint8_t>()}) {}

bool ZipmapSource::fail() { return in_ = failed_reader(), false; }

bool ZipmapSource::next(ShortText& text) {
  if (ended_ || in_.failed()) return false;
  const bool is_value = seen_ % 2 == 1;
  uint64_t size = in_.get<uint8_t>();
  if (!in_.failed() && size == kEnd) {
    ended_ = !is_value && in_.empty() && (counted_ >= 2 * 254 || counted_ == seen_);
    return ended_ ? false : fail();
  }
  if (size == 254) size = in_.get<uint32_t>();
  const uint64_t spare = is_value ? in_.get<uint8_t>() : 0;
  text = ShortText::raw(in_.raw(size));
  in_.raw(spare);
  ++seen_;
  return !in_.failed();
}

IntsetSource::IntsetSource(std::string_view intset) : in_(intset) {
  width_ = in_.get<uint32_t>();
  const uint64_t count = in_.get<uint32_t>();
  const bool sound = (width_ == 2 || width_ == 4 || width_ == 8) && in_.rest().size() == width_ * count;
  if (!sound) in_ = failed_reader();
}

bool IntsetSource::next(ShortText& text) {
  if (in_.failed() || in_.empty()) return false;
  const int64_t value = integer_of(in_.raw(width_));
  if (!first_ && value <= before_) return in_ = failed_reader(), false;
  first_ = false;
  before_ = value;
  text = ShortText::of(value);
  return true;
}

void ListpackWriter::clear() {
  if (bytes_.capacity() > 1 << 20) std::string().swap(bytes_);
  bytes_.resize(kHeaderBytes);
  elements_ = 0;
}

ListpackWriter& ListpackWriter::text(const ShortText& text) {
  const size_t begin = bytes_.size();
  ByteWriter out(bytes_);
  if (text.integer) {
    const int64_t value = text.number;
    const auto low = static_cast<uint64_t>(value);
    const auto fits = [&](unsigned bits) { return value >= -(1LL << (bits - 1)) && value < 1LL << (bits - 1); };
    if (value >= 0 && value < 128) {
      out.put(static_cast<uint8_t>(value));
    } else if (fits(13)) {
      out.put(static_cast<uint8_t>(0xc0 | (low >> 8 & 0x1f))).put(static_cast<uint8_t>(low));
    } else {
      const unsigned size = fits(16) ? 2 : fits(24) ? 3 : fits(32) ? 4 : 8;
      out.put(static_cast<uint8_t>(size == 8 ? 0xf4 : 0xf1 + (size - 2))).raw({reinterpret_cast<const char*>(&low), size});
    }
  } else {
    const size_t size = text.bytes.size();
    if (size < 64) {
      out.put(static_cast<uint8_t>(0x80 | size));
    } else if (size < 4096) {
      out.put(static_cast<uint8_t>(0xe0 | size >> 8)).put(static_cast<uint8_t>(size));
    } else {
      out.put(uint8_t{0xf0}).put(static_cast<uint32_t>(size));
    }
    out.raw(text.bytes);
  }
  write_back(bytes_, bytes_.size() - begin);
  ++elements_;
  return *this;
}

std::string_view ListpackWriter::finish() {
  bytes_.push_back(static_cast<char>(kEnd));
  store_le(bytes_.data(), static_cast<uint32_t>(bytes_.size()));
  store_le(bytes_.data() + 4, static_cast<uint16_t>(std::min<uint64_t>(elements_, UINT16_MAX)));
  return bytes_;
}

}  // namespace pion
