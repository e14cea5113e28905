#include "keyspace/list_value.h"

#include <algorithm>
#include <memory>

#include "base/bytes.h"
#include "base/limits.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

using Op = ListDelta::Op;

constexpr size_t kHeader = 6;
constexpr uint64_t kPackedElements = UINT16_MAX;

enum Label : uint8_t { kListpack = 0, kQuicklist = 1 };

struct Header {
  uint16_t count = 0;
  uint32_t listpack_bytes = kListpackFrame;

  static Header read(std::string_view packed) { return {load_le<uint16_t>(packed.data()), load_le<uint32_t>(packed.data() + 2)}; }
  void write(char* to) const {
    store_le(to, count);
    store_le(to + 2, listpack_bytes);
  }
};

const ChunkedList* chunks_of(const Entry& entry) {
  return entry.encoding() == Encoding::kObject ? static_cast<const ChunkedList*>(entry.object()) : nullptr;
}

// ---- packed lists ----

// Where an element of packed bytes begins.
size_t packed_offset(std::string_view packed, uint32_t count, uint64_t index) {
  const char* at;
  if (index <= count / 2) {
    at = packed.data() + kHeader;
    for (; index > 0; --index) at = packed_next(at);
  } else {
    at = packed.data() + packed.size();
    for (index = count - index; index > 0; --index) at = packed_before(at);
  }
  return static_cast<size_t>(at - packed.data());
}

uint32_t listpack_bytes_of(std::string_view items) {
  uint32_t bytes = 0;
  for (const char* at = items.data(); at < items.data() + items.size();) {
    const PackedItem item = packed_item(at);
    bytes += listpack_item_bytes(item.text);
    at = item.end();
  }
  return bytes;
}

// A packed list under change.
class PackedList {
 public:
  explicit PackedList(ValueEditor& value) : value_(value), header_(Header::read(value.packed())) {}

  // `items`: `count` packed elements, `listpack_bytes` as Redis counts them.
  void insert(uint64_t index, std::string_view items, uint32_t count, uint32_t listpack_bytes) {
    value_.splice(packed_offset(value_.packed(), header_.count, index), 0, items);
    header_.count = static_cast<uint16_t>(header_.count + count);
    header_.listpack_bytes += listpack_bytes;
  }
  void insert(uint64_t index, std::string_view element) {
    const ShortText text(element);
    thread_local std::string item;
    item.clear();
    pack(item, text);
    insert(index, item, 1, listpack_item_bytes(text));
  }
  void remove(uint64_t index, uint64_t count) {
    const std::string_view packed = value_.packed();
    const size_t from = packed_offset(packed, header_.count, index);
    const size_t to = index + count == header_.count ? packed.size() : packed_offset(packed, header_.count, index + count);
    header_.listpack_bytes -= listpack_bytes_of(packed.substr(from, to - from));
    header_.count = static_cast<uint16_t>(header_.count - count);
    value_.splice(from, to - from, {});
  }
  // All but those whose indexes `next` answers, in ascending order.
  template <typename Next>
  void remove_each(Next&& next) {
    const std::string_view packed = value_.packed();
    const char* at = packed.data() + kHeader;
    std::string kept;
    uint64_t removed = next();
    for (uint64_t index = 0, elements = header_.count; index < elements; ++index) {
      const PackedItem item = packed_item(at);
      if (index == removed) {
        header_.listpack_bytes -= listpack_item_bytes(item.text);
        --header_.count;
        removed = next();
      } else {
        kept.append(item.at, item.size);
      }
      at = item.end();
    }
    value_.splice(kHeader, packed.size() - kHeader, kept);
  }
  void rotate(bool from_front, bool to_front) {
    if (from_front == to_front) return;
    const uint64_t last = header_.count - 1u;
    const std::string_view packed = value_.packed();
    const std::string element = packed_item(packed.data() + packed_offset(packed, header_.count, from_front ? 0 : last)).text.string();
    remove(from_front ? 0 : last, 1);
    insert(from_front ? last : 0, element);
  }
  void finish() { header_.write(value_.writable()); }

 private:
  ValueEditor& value_;
  Header header_;
};

void push_packed(PackedList& list, uint64_t size, ByteReader in, bool front) {
  const std::string_view first = in.bytes();
  if (in.empty()) return list.insert(front ? 0 : size, first);
  std::vector<std::string_view> elements = {first};
  while (!in.empty()) elements.push_back(in.bytes());
  if (front) std::reverse(elements.begin(), elements.end());
  std::string items;
  uint32_t listpack_bytes = 0;
  for (std::string_view element : elements) {
    const ShortText text(element);
    pack(items, text);
    listpack_bytes += listpack_item_bytes(text);
  }
  list.insert(front ? 0 : size, items, static_cast<uint32_t>(elements.size()), listpack_bytes);
}

// The indexes of kRemoveEach, one at a call.
class EachIndex {
 public:
  explicit EachIndex(ByteReader in) : in_(in) {}
  uint64_t operator()() {
    if (in_.empty()) return UINT64_MAX;
    return index_ += in_.varint();
  }

 private:
  ByteReader in_;
  uint64_t index_ = 0;
};

void apply_packed(ValueEditor& value, Op op, ByteReader in) {
  PackedList list(value);
  const uint64_t size = Header::read(value.packed()).count;
  switch (op) {
    case Op::kPushFront:
    case Op::kPushBack: push_packed(list, size, in, op == Op::kPushFront); break;
    case Op::kRemove: {
      const uint64_t index = in.varint();
      list.remove(index, in.varint());
      break;
    }
    case Op::kInsert: {
      const uint64_t index = in.varint();
      const bool after = in.get<uint8_t>() != 0;
      list.insert(index + after, in.bytes());
      break;
    }
    case Op::kReplace: {
      const uint64_t index = in.varint();
      list.remove(index, 1);
      list.insert(index, in.bytes());
      break;
    }
    case Op::kRemoveEach: list.remove_each(EachIndex(in)); break;
    case Op::kRotate: {
      const auto ends = in.get<uint8_t>();
      list.rotate(ends & 1, ends & 2);
      break;
    }
    case Op::kUnpack: break;
  }
  list.finish();
}

// ---- large lists ----

void apply_chunks(ChunkedList& list, Op op, ByteReader in) {
  switch (op) {
    case Op::kPushFront:
    case Op::kPushBack:
      while (!in.empty()) list.push(op == Op::kPushFront, in.bytes());
      break;
    case Op::kRemove: {
      const uint64_t index = in.varint();
      list.remove(index, in.varint());
      break;
    }
    case Op::kInsert: {
      const uint64_t index = in.varint();
      const bool after = in.get<uint8_t>() != 0;
      list.insert(index, after, in.bytes());
      break;
    }
    case Op::kReplace: {
      const uint64_t index = in.varint();
      list.replace(index, in.bytes());
      break;
    }
    case Op::kRemoveEach: list.remove_each(EachIndex(in)); break;
    case Op::kRotate: {
      const auto ends = in.get<uint8_t>();
      list.rotate(ends & 1, ends & 2);
      break;
    }
    case Op::kUnpack: break;
  }
}

std::unique_ptr<ChunkedList> to_chunks(std::string_view packed) {
  auto list = std::make_unique<ChunkedList>();
  const Header header = Header::read(packed);
  if (header.count > 0) list->append_chunk(packed.substr(kHeader), header.count, header.listpack_bytes, false);
  return list;
}

// What is added, as Redis adds it up before it decides: the bytes of the elements.
bool outgrows(const Header& header, Op op, ByteReader in) {
  if (op == Op::kUnpack) return true;
  uint64_t bytes = 0, count = 0;
  if (op == Op::kPushFront || op == Op::kPushBack) {
    for (; !in.empty(); ++count) bytes += in.bytes().size();
  } else if (op == Op::kInsert || op == Op::kReplace) {
    in.varint();
    if (op == Op::kInsert) in.get<uint8_t>();
    bytes = in.bytes().size();
    count = 1;
  } else {
    return false;
  }
  return header.count + count > kPackedElements || ListLimit::now().exceeded(header.listpack_bytes + bytes, header.count + count);
}

bool may_shrink(Op op) { return op == Op::kRemove || op == Op::kRemoveEach || op == Op::kReplace || op == Op::kRotate; }

// One chunk that is not half full becomes packed bytes again.
void pack_small(ValueEditor& value, const ChunkedList& list) {
  if (list.chunks() != 1) return;
  const ChunkedList::Chunk& chunk = list.chunk(0);
  const ListLimit limit = ListLimit::now();
  const uint64_t most = limit.count == UINT64_MAX ? UINT64_MAX : limit.count / 2;
  const uint64_t most_bytes = limit.count == UINT64_MAX ? limit.bytes / 2 : UINT64_MAX;
  if (chunk.plain || chunk.listpack_bytes > most_bytes || chunk.count > most || chunk.count > kPackedElements) return;
  std::string packed(kHeader, '\0');
  Header{static_cast<uint16_t>(chunk.count), chunk.listpack_bytes}.write(packed.data());
  packed.append(chunk.items());
  value.store(packed);
}

void apply(ValueEditor& value, std::string_view delta) {
  const auto op = static_cast<Op>(delta[0]);
  const ByteReader in(delta.substr(1));
  auto* list = static_cast<ChunkedList*>(value.object());
  if (!list) {
    const Header header = value.entry() ? Header::read(value.packed()) : Header{};
    if (!outgrows(header, op, in)) {
      if (!value.entry()) {
        char empty[kHeader];
        header.write(empty);
        value.store(std::string_view(empty, kHeader));
      }
      return apply_packed(value, op, in);
    }
    auto made = value.entry() ? to_chunks(value.packed()) : std::make_unique<ChunkedList>();
    list = made.get();
    value.store(std::move(made));
  }
  apply_chunks(*list, op, in);
  if (may_shrink(op)) pack_small(value, *list);
}

uint64_t length(const Entry& entry) {
  if (const ChunkedList* list = chunks_of(entry)) return list->size();
  return Header::read(entry.bytes()).count;
}

std::string_view encoding_name(const Entry& entry) { return chunks_of(entry) ? "quicklist" : "listpack"; }

void encode_items(ByteWriter& out, std::string_view items) {
  for (const char* at = items.data(); at < items.data() + items.size();) {
    const PackedItem item = packed_item(at);
    char room[20];
    out.bytes(item.text.view(room));
    at = item.end();
  }
}

void encode_chunks(ByteWriter& writer, Label label, const ChunkedList& list) {
  writer.put(static_cast<uint8_t>(label)).varint(list.chunks());
  for (size_t i = 0; i < list.chunks(); ++i) {
    const ChunkedList::Chunk& chunk = list.chunk(i);
    writer.varint(2 * uint64_t{chunk.count} + chunk.plain);
    encode_items(writer, chunk.items());
  }
}

// u8 label | varint chunks | per chunk: varint twice the elements, plus one when plain; bytes element ...
void encode(const Entry& entry, std::string& out) {
  ByteWriter writer(out);
  const ChunkedList* list = chunks_of(entry);
  if (!list) {
    writer.put(static_cast<uint8_t>(kListpack)).varint(1).varint(2 * length(entry));
    return encode_items(writer, entry.bytes().substr(kHeader));
  }
  encode_chunks(writer, kQuicklist, *list);
}

bool check(std::string_view encoded) {
  ByteReader in(encoded);
  const auto label = in.get<uint8_t>();
  const uint64_t chunks = in.varint();
  if (label > kQuicklist || chunks == 0 || (label == kListpack && chunks != 1)) return false;
  for (uint64_t i = 0; i < chunks && !in.failed(); ++i) {
    const uint64_t head = in.varint(), count = head / 2;
    const bool plain = head & 1;
    if (count == 0 || count > INT32_MAX || (plain && (count != 1 || label == kListpack))) return false;
    if (label == kListpack && count > kPackedElements) return false;
    for (uint64_t n = 0; n < count && !in.failed(); ++n) in.bytes();
  }
  return in.complete();
}

DecodedValue decode(std::string_view encoded, PagePool&) {
  ByteReader in(encoded);
  const bool packed = in.get<uint8_t>() == kListpack;
  const uint64_t chunks = in.varint();
  DecodedValue decoded;
  auto list = packed ? nullptr : std::make_unique<ChunkedList>();
  std::string items;
  for (uint64_t i = 0; i < chunks; ++i) {
    const uint64_t head = in.varint(), count = head / 2;
    const bool plain = head & 1;
    items.clear();
    uint32_t listpack_bytes = kListpackFrame;
    for (uint64_t n = 0; n < count; ++n) {
      const std::string_view element = in.bytes();
      const ShortText text = plain ? ShortText::raw(element) : ShortText(element);
      pack(items, text);
      listpack_bytes = plain ? static_cast<uint32_t>(element.size()) : listpack_bytes + listpack_item_bytes(text);
    }
    if (packed) {
      decoded.packed.resize(kHeader);
      Header{static_cast<uint16_t>(count), listpack_bytes}.write(decoded.packed.data());
      decoded.packed.append(items);
    } else {
      list->append_chunk(items, static_cast<uint32_t>(count), listpack_bytes, plain);
    }
  }
  decoded.object = std::move(list);
  return decoded;
}

bool check_each(ByteReader in, uint64_t size) {
  uint64_t index = in.varint();
  while (index < size && !in.empty()) {
    const uint64_t step = in.varint();
    if (step == 0 || step > size) return false;
    index += step;
  }
  return index < size && in.complete();
}

bool check_delta(const Entry* entry, std::string_view delta) {
  if (delta.empty() || delta[0] < static_cast<char>(Op::kPushFront) || delta[0] > static_cast<char>(Op::kUnpack)) return false;
  const auto op = static_cast<Op>(delta[0]);
  const uint64_t size = entry ? length(*entry) : 0;
  ByteReader in(delta.substr(1));
  switch (op) {
    case Op::kPushFront:
    case Op::kPushBack:
      if (in.empty()) return false;
      while (!in.empty() && !in.failed()) in.bytes();
      return in.complete();
    case Op::kRemove: {
      const uint64_t index = in.varint(), count = in.varint();
      return in.complete() && count > 0 && index < size && count <= size - index;
    }
    case Op::kInsert: {
      const uint64_t index = in.varint();
      const auto after = in.get<uint8_t>();
      in.bytes();
      return in.complete() && index < size && after <= 1;
    }
    case Op::kReplace: {
      const uint64_t index = in.varint();
      in.bytes();
      return in.complete() && index < size;
    }
    case Op::kRemoveEach: return check_each(in, size);
    case Op::kRotate: return in.get<uint8_t>() <= 3 && in.complete() && size > 0;
    case Op::kUnpack: return in.empty() && size > 0;
  }
  return false;
}

}  // namespace

ListReader::ListReader(const Entry& entry) : chunks_(chunks_of(entry)) {
  if (chunks_) {
    runs_ = chunks_->chunks();
    size_ = chunks_->size();
    return;
  }
  const std::string_view packed = entry.bytes();
  const Header header = Header::read(packed);
  size_ = header.count;
  listpack_bytes_ = header.listpack_bytes;
  packed_ = {packed.data() + kHeader, packed.data() + packed.size(), size_};
}

ListReader::Place ListReader::find(uint64_t index) const {
  size_t number = 0;
  if (index <= size_ / 2) {
    for (; index >= run(number).count; ++number) index -= run(number).count;
  } else {
    uint64_t behind = size_ - index;
    for (number = runs_ - 1; behind > run(number).count; --number) behind -= run(number).count;
    index = run(number).count - behind;
  }
  const Run here = run(number);
  const char* at;
  if (index <= here.count / 2) {
    at = here.begin;
    for (; index > 0; --index) at = packed_next(at);
  } else {
    at = here.end;
    for (index = here.count - index; index > 0; --index) at = packed_before(at);
  }
  return {number, at};
}

ShortText ListReader::at(uint64_t index) const { return packed_item(find(index).at).text; }

bool ListReader::outgrown_by(uint64_t bytes) const {
  return !chunks_ && (size_ + 1 > kPackedElements || ListLimit::now().exceeded(listpack_bytes_ + bytes, size_ + 1));
}

ListDelta& ListDelta::element(std::string_view bytes) { return ByteWriter(out_).bytes(bytes), *this; }
ListDelta& ListDelta::number(uint64_t value) { return ByteWriter(out_).varint(value), *this; }
ListDelta& ListDelta::flag(bool value) { return ByteWriter(out_).put(static_cast<uint8_t>(value)), *this; }

std::string ListBuilder::encoded() const {
  // What fits into one chunk is a listpack, as in Redis.
  const bool fits = list_.chunks() == 1 && !list_.chunk(0).plain && list_.chunk(0).count <= kPackedElements;
  std::string out;
  ByteWriter writer(out);
  encode_chunks(writer, fits ? kListpack : kQuicklist, list_);
  return out;
}

const ValueOps kListOps = {
    .name = "list",
    .length = length,
    .encoding_name = encoding_name,
    .encode = encode,
    .check = check,
    .decode = decode,
    .check_delta = check_delta,
    .apply = apply,
};

}  // namespace pion
