// Lists: a row of nodes, each a listpack (or a ziplist) or one large element; one ziplist; and plain strings.
#include "keyspace/list_chunks.h"
#include "keyspace/rdb_types.h"

namespace pion {
namespace {

constexpr uint8_t kListpack = 0, kQuicklist = 1;  // the first byte of an encoded list
constexpr uint64_t kPlainNode = 1, kPackedNode = 2;
constexpr uint64_t kMostElements = INT32_MAX;     // of one chunk
constexpr uint64_t kMostPacked = UINT16_MAX;      // of a list that is called listpack

// A list on its way into our encoding, chunk by chunk.
class EncodedList {
 public:
  // All of a source as one chunk; none at all when there is nothing in it.
  bool add(ElementSource& source) {
    std::string chunk;
    ByteWriter elements(chunk);
    uint64_t count = 0, listpack_bytes = kListpackFrame;
    for (ShortText text; source.next(text); ++count) {
      char room[20];
      elements.bytes(text.view(room));
      listpack_bytes += listpack_item_bytes(text);
      if (bytes_.size() + chunk.size() > kMaxRecordBytes) return false;
    }
    if (!source.sound() || count > kMostElements) return false;
    if (count > 0) append(2 * count, chunk, count, listpack_bytes);
    return true;
  }
  bool add_plain(std::string_view element) {
    if (element.empty()) return false;
    std::string chunk;
    ByteWriter(chunk).bytes(element);
    append(2 + 1, chunk, 1, element.size());
    return bytes_.size() <= kMaxRecordBytes;
  }
  void add(const ChunkedList::Chunk& chunk) {
    std::string bytes;
    for (const char* at = chunk.first(); at < chunk.last();) {
      const PackedItem item = packed_item(at);
      char room[20];
      ByteWriter(bytes).bytes(item.text.view(room));
      at = item.end();
    }
    append(2 * uint64_t{chunk.count} + chunk.plain, bytes, chunk.count, chunk.listpack_bytes);
  }

  // One chunk within the limits becomes a listpack, if it may.
  bool finish(bool may_be_listpack, std::string& encoded) {
    if (chunks_ == 0) return false;
    const bool listpack = may_be_listpack && chunks_ == 1 && !plain_ && last_count_ <= kMostPacked &&
                          !ListLimit::now().exceeded(last_bytes_, last_count_);
    std::string head;
    ByteWriter(head).put(listpack ? kListpack : kQuicklist).varint(chunks_);
    encoded = std::move(bytes_.insert(0, head));
    return true;
  }

 private:
  void append(uint64_t head, std::string_view chunk, uint64_t count, uint64_t listpack_bytes) {
    ByteWriter(bytes_).varint(head).raw(chunk);
    ++chunks_;
    plain_ = head & 1;
    last_count_ = count;
    last_bytes_ = listpack_bytes;
  }

  std::string bytes_;
  uint64_t chunks_ = 0, last_count_ = 0, last_bytes_ = 0;
  bool plain_ = false;
};

bool read_nodes(RdbType type, RdbReader& in, EncodedList& list) {
  std::string room;
  for (uint64_t left = in.length(); left > 0; --left) {
    const uint64_t container = type == RdbType::kListNodes ? in.length() : kPackedNode;
    const std::string_view node = in.string(room);
    if (in.failed() || (container != kPlainNode && container != kPackedNode)) return false;
    bool sound;
    if (container == kPlainNode) {
      sound = list.add_plain(node);
    } else if (type == RdbType::kListNodes) {
      ListpackSource elements(node);
      sound = list.add(elements);
    } else {
      ZiplistSource elements(node);
      sound = list.add(elements);
    }
    if (!sound) return false;
  }
  return !in.failed();
}

// Pushed one by one: chunks are cut where they would have been.
bool read_strings(RdbReader& in, EncodedList& encoded) {
  RdbStrings elements(in, in.length());
  ChunkedList list;
  uint64_t bytes = 0;
  for (ShortText text; elements.next(text);) {
    bytes += text.bytes.size() + 1;
    if (bytes > kMaxRecordBytes) return false;
    list.push(false, text.bytes);
  }
  if (!elements.sound()) return false;
  for (size_t i = 0; i < list.chunks(); ++i) encoded.add(list.chunk(i));
  return true;
}

}  // namespace

bool rdb_read_list(RdbType type, RdbReader& in, std::string& encoded) {
  EncodedList list;
  switch (type) {
    case RdbType::kList: return read_strings(in, list) && list.finish(true, encoded);
    case RdbType::kListZiplist: {
      std::string room;
      ZiplistSource elements(in.string(room));
      return list.add(elements) && list.finish(false, encoded);  // Redis leaves it a quicklist
    }
    default: return read_nodes(type, in, list) && list.finish(true, encoded);
  }
}

void rdb_write_list(std::string_view encoded, std::string& out) {
  ByteReader in(encoded);
  in.get<uint8_t>();
  const uint64_t chunks = in.varint();
  RdbWriter writer(out);
  writer.put(RdbType::kListNodes).length(chunks);
  ListpackWriter listpack;
  for (uint64_t i = 0; i < chunks; ++i) {
    const uint64_t head = in.varint();
    if (head & 1) {
      // Bytes, whatever they look like: Redis' plain nodes are never numbers.
      writer.length(kPlainNode).string(in.bytes());
      continue;
    }
    for (uint64_t left = head / 2; left > 0; --left) listpack.text(in.bytes());
    writer.length(kPackedNode).string(listpack.finish());
    listpack.clear();
  }
}

}  // namespace pion
