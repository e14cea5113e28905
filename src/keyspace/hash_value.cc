#include "keyspace/hash_value.h"

#include <algorithm>
#include <memory>

#include "base/bytes.h"
#include "keyspace/collection_limits.h"
#include "keyspace/random.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

// What OBJECT ENCODING says; it only ever goes up.
enum Label : uint8_t { kListpack = 0, kListpackEx = 1, kHashtable = 2 };
constexpr uint8_t kLabelMask = 3, kWithExpiries = 4;  // the packed header's third byte
constexpr size_t kFlagsAt = 2, kDueAt = 3, kPlainHeader = 3, kExpiryHeader = 11;

bool stays_packed(uint8_t label, uint64_t fields, uint64_t bytes) { return pion::stays_packed(label != kHashtable, fields, bytes); }

struct Header {
  uint16_t fields;
  uint8_t label;
  bool with_expiries;
  int64_t next_due;
  size_t size() const { return with_expiries ? kExpiryHeader : kPlainHeader; }

  static Header read(std::string_view packed) {
    const auto flags = static_cast<uint8_t>(packed[kFlagsAt]);
    Header header{load_le<uint16_t>(packed.data()), static_cast<uint8_t>(flags & kLabelMask), (flags & kWithExpiries) != 0, INT64_MAX};
    if (header.with_expiries) header.next_due = load_le<int64_t>(packed.data() + kDueAt);
    return header;
  }
  void write(char* to) const {
    store_le(to, fields);
    to[kFlagsAt] = static_cast<char>(label | (with_expiries ? kWithExpiries : 0));
    if (with_expiries) store_le(to + kDueAt, next_due);
  }
  void append_to(std::string& out) const {
    const size_t at = out.size();
    out.resize(at + size());
    write(out.data() + at);
  }
};

// Reads one field. Where the next one begins.
const char* read_packed(const char* at, bool with_expiries, HashField& field) {
  PackedItem item = packed_item(at);
  field.name = item.text;
  item = packed_item(item.end());
  field.value = item.text;
  if (with_expiries) {
    item = packed_item(item.end());
    field.expiry_ms = item.text.number;
  }
  return item.end();
}

// Where a field lies in packed bytes; found: value_at > 0.
struct Place {
  size_t name_at = 0, value_at = 0, end = 0;
};

Place find_packed(std::string_view packed, const Header& header, std::string_view name) {
  thread_local std::string wanted;  // equal strings are packed equally, so items are compared as they lie
  wanted.clear();
  pack(wanted, name);
  const char* const end = packed.data() + packed.size();
  for (const char* at = packed.data() + header.size(); at < end;) {
    const char* const value = packed_next(at);
    const char* next = packed_next(value);
    if (header.with_expiries) next = packed_next(next);
    if (static_cast<size_t>(value - at) == wanted.size() && std::memcmp(at, wanted.data(), wanted.size()) == 0) {
      const auto offset = [&](const char* where) { return static_cast<size_t>(where - packed.data()); };
      return {offset(at), offset(value), offset(next)};
    }
    at = next;
  }
  return {};
}

// Packed bytes under change: a string of its own, or those in the entry.
struct InString {
  std::string& bytes;
  std::string_view packed() const { return bytes; }
  char* writable() { return bytes.data(); }
  void splice(size_t at, size_t removed, std::string_view inserted) { bytes.replace(at, removed, inserted); }
};

template <typename Bytes>
class PackedHash {
 public:
  explicit PackedHash(Bytes& bytes) : bytes_(bytes), header_(Header::read(bytes.packed())) {}

  Header& header() { return header_; }

  void set(std::string_view name, std::string_view value, HashDelta::Op op, int64_t expiry_ms) {
    Place place = find_packed(bytes_.packed(), header_, name);
    if (op == HashDelta::Op::kSetKeeping) expiry_ms = place.value_at ? expiry_of(place) : 0;
    if (expiry_ms != 0 && !header_.with_expiries) {
      give_expiries();
      if (place.value_at) place = find_packed(bytes_.packed(), header_, name);
    }
    thread_local std::string item;
    item.clear();
    if (place.value_at == 0) pack(item, name);
    pack(item, value);
    if (header_.with_expiries) pack(item, ShortText::of(expiry_ms));
    if (place.value_at == 0) {
      bytes_.splice(bytes_.packed().size(), 0, item);
      ++header_.fields;
    } else {
      bytes_.splice(place.value_at, place.end - place.value_at, item);
    }
  }

  void remove(std::string_view name) {
    const Place place = find_packed(bytes_.packed(), header_, name);
    if (place.value_at == 0) return;
    bytes_.splice(place.name_at, place.end - place.name_at, {});
    --header_.fields;
  }

  void expire(std::string_view name, int64_t expiry_ms) {
    Place place = find_packed(bytes_.packed(), header_, name);
    if (place.value_at == 0 || (expiry_ms == 0 && !header_.with_expiries)) return;
    if (!header_.with_expiries) {
      give_expiries();
      place = find_packed(bytes_.packed(), header_, name);
    }
    const std::string_view packed = bytes_.packed();
    const size_t at = static_cast<size_t>(packed_next(packed.data() + place.value_at) - packed.data());
    thread_local std::string item;
    item.clear();
    pack(item, ShortText::of(expiry_ms));
    bytes_.splice(at, place.end - at, item);
  }

  // Last: the header goes back.
  void finish() {
    if (header_.with_expiries) {
      header_.next_due = INT64_MAX;
      const std::string_view packed = bytes_.packed();
      for (const char* at = packed.data() + header_.size(); at < packed.data() + packed.size();) {
        HashField field;
        at = read_packed(at, true, field);
        if (field.expiry_ms != 0) header_.next_due = std::min(header_.next_due, field.expiry_ms);
      }
    }
    header_.write(bytes_.writable());
  }

 private:
  int64_t expiry_of(const Place& place) const {
    if (!header_.with_expiries) return 0;
    const char* value = bytes_.packed().data() + place.value_at;
    return packed_item(packed_next(value)).text.number;
  }

  // From pairs to triples.
  void give_expiries() {
    std::string triples;
    const std::string_view packed = bytes_.packed();
    const char* at = packed.data() + header_.size();
    header_.with_expiries = true;
    header_.label = std::max<uint8_t>(header_.label, kListpackEx);
    header_.append_to(triples);
    while (at < packed.data() + packed.size()) {
      const char* const next = packed_next(packed_next(at));
      triples.append(at, next);
      pack(triples, ShortText::of(0));
      at = next;
    }
    bytes_.splice(0, packed.size(), triples);
  }

  Bytes& bytes_;
  Header header_;
};

struct Change {
  std::string_view name, value;
  int64_t expiry_ms = 0;
};

bool has_value(HashDelta::Op op) { return op <= HashDelta::Op::kSetExpiring; }
bool has_expiry(HashDelta::Op op) { return op == HashDelta::Op::kSetExpiring || op == HashDelta::Op::kExpire; }

Change read_change(ByteReader& in, HashDelta::Op op) {
  Change change;
  change.name = in.bytes();
  if (has_value(op)) change.value = in.bytes();
  if (has_expiry(op)) change.expiry_ms = in.get<int64_t>();
  return change;
}

struct DeltaSize {
  uint64_t fields = 0, longest = 0, bytes = 0;
};

DeltaSize measure(ByteReader in, HashDelta::Op op) {
  DeltaSize size;
  while (!in.empty()) {
    const Change change = read_change(in, op);
    ++size.fields;
    size.longest = std::max({size.longest, change.name.size(), change.value.size()});
    size.bytes += change.name.size() + change.value.size();
  }
  return size;
}

uint8_t label_after(uint8_t label, HashDelta::Op op, const DeltaSize& size) {
  if (!has_value(op)) return label;
  if (size.longest > collection_limits().hash_value_bytes || size.fields > collection_limits().hash_entries) return kHashtable;
  return label;
}

const HashTable* table_of(const Entry& entry) {
  return entry.encoding() == Encoding::kObject ? static_cast<const HashTable*>(entry.object()) : nullptr;
}

std::unique_ptr<HashTable> to_table(std::string_view packed, PagePool& pool) {
  auto table = std::make_unique<HashTable>(pool);
  const Header header = Header::read(packed);
  table->label = header.label;
  for (const char* at = packed.data() + header.size(); at < packed.data() + packed.size();) {
    HashField field;
    at = read_packed(at, header.with_expiries, field);
    char name[20], value[20];
    table->set(field.name.view(name), field.value.view(value), field.expiry_ms);
  }
  return table;
}

void apply_to_table(HashTable& table, ByteReader in, HashDelta::Op op) {
  while (!in.empty()) {
    Change change = read_change(in, op);
    HashField old;
    switch (op) {
      case HashDelta::Op::kSetKeeping:
        if (table.get(change.name, old)) change.expiry_ms = old.expiry_ms;
        table.set(change.name, change.value, change.expiry_ms);
        break;
      case HashDelta::Op::kSet:
      case HashDelta::Op::kSetExpiring: table.set(change.name, change.value, change.expiry_ms); break;
      case HashDelta::Op::kRemove: table.remove(change.name); break;
      case HashDelta::Op::kExpire:
        if (table.get(change.name, old)) table.set(change.name, old.value.bytes, change.expiry_ms);
        break;
    }
    if (has_expiry(op)) table.label = std::max<uint8_t>(table.label, kListpackEx);
  }
  if (table.size() > collection_limits().hash_entries) table.label = kHashtable;
}

template <typename Bytes>
Header apply_to_packed(Bytes& bytes, ByteReader in, HashDelta::Op op, uint8_t label) {
  PackedHash<Bytes> hash(bytes);
  hash.header().label = has_expiry(op) ? std::max<uint8_t>(label, kListpackEx) : label;
  while (!in.empty()) {
    const Change change = read_change(in, op);
    switch (op) {
      case HashDelta::Op::kSet:
      case HashDelta::Op::kSetKeeping:
      case HashDelta::Op::kSetExpiring: hash.set(change.name, change.value, op, change.expiry_ms); break;
      case HashDelta::Op::kRemove: hash.remove(change.name); break;
      case HashDelta::Op::kExpire: hash.expire(change.name, change.expiry_ms); break;
    }
  }
  if (hash.header().fields > collection_limits().hash_entries) hash.header().label = kHashtable;
  hash.finish();
  return hash.header();
}

void apply(ValueEditor& value, std::string_view delta) {
  const auto op = static_cast<HashDelta::Op>(delta[0]);
  const ByteReader in(delta.substr(1));
  const DeltaSize size = measure(in, op);
  if (!value.entry() && !has_value(op)) return;
  auto* table = static_cast<HashTable*>(value.object());
  if (!table) {
    const Header before = value.entry() ? Header::read(value.packed()) : Header{0, kListpack, false, INT64_MAX};
    const uint8_t label = label_after(before.label, op, size);
    // What cannot stay packed goes to the table at once.
    const uint64_t fields = std::max<uint64_t>(before.fields, has_value(op) ? size.fields : 0);
    if (stays_packed(label, fields, has_value(op) ? size.bytes : 0)) {
      thread_local std::string scratch;
      if (value.entry() && size.fields == 1) {
        const Header after = apply_to_packed(value, in, op, label);
        if (stays_packed(after.label, after.fields, value.packed().size())) return;
        value.store(to_table(value.packed(), value.pool()));
        return;
      }
      scratch.clear();
      value.entry() ? void(scratch.assign(value.packed())) : before.append_to(scratch);
      InString bytes{scratch};
      const Header after = apply_to_packed(bytes, in, op, label);
      if (stays_packed(after.label, after.fields, scratch.size())) {
        value.store(scratch);
      } else {
        value.store(to_table(scratch, value.pool()));
      }
      return;
    }
    auto made = value.entry() ? to_table(value.packed(), value.pool()) : std::make_unique<HashTable>(value.pool());
    table = made.get();
    value.store(std::move(made));
  }
  table->label = label_after(table->label, op, size);
  apply_to_table(*table, in, op);
}

uint64_t length(const Entry& entry) {
  if (const HashTable* table = table_of(entry)) return table->size();
  return load_le<uint16_t>(entry.bytes().data());
}

std::string_view encoding_name(const Entry& entry) {
  const HashTable* table = table_of(entry);
  switch (table ? table->label : Header::read(entry.bytes()).label) {
    case kListpack: return "listpack";
    case kListpackEx: return "listpackex";
    default: return "hashtable";
  }
}

int64_t next_due(const Entry& entry) {
  const HashTable* table = table_of(entry);
  return table ? table->next_due() : Header::read(entry.bytes()).next_due;
}

// u8 label and flags | varint fields | {bytes name, bytes value, [i64 expiry]} ...
void encode(const Entry& entry, std::string& out) {
  const HashTable* table = table_of(entry);
  const bool expiries = table ? table->next_due() != INT64_MAX : Header::read(entry.bytes()).with_expiries;
  const uint8_t label = table ? table->label : Header::read(entry.bytes()).label;
  ByteWriter writer(out);
  writer.put(static_cast<uint8_t>(label | (expiries ? kWithExpiries : 0))).varint(length(entry));
  HashReader(entry, INT64_MIN).each([&](const HashField& field) {
    char name[20], value[20];
    writer.bytes(field.name.view(name)).bytes(field.value.view(value));
    if (expiries) writer.put(field.expiry_ms);
    return true;
  });
}

bool check(std::string_view encoded) {
  ByteReader in(encoded);
  const auto flags = in.get<uint8_t>();
  uint64_t fields = in.varint();
  if ((flags & kLabelMask) > kHashtable || flags > (kLabelMask | kWithExpiries) || fields == 0) return false;
  for (; fields > 0 && !in.failed(); --fields) {
    in.bytes();
    in.bytes();
    if (flags & kWithExpiries) in.get<int64_t>();
  }
  return in.complete();
}

DecodedValue decode(std::string_view encoded, PagePool& pool) {
  ByteReader in(encoded);
  const auto flags = in.get<uint8_t>();
  const auto label = static_cast<uint8_t>(flags & kLabelMask);
  const uint64_t fields = in.varint();
  DecodedValue decoded;
  const bool packed = stays_packed(label, fields, encoded.size());
  auto table = packed ? nullptr : std::make_unique<HashTable>(pool);
  Header header{static_cast<uint16_t>(fields), label, (flags & kWithExpiries) != 0, INT64_MAX};
  if (packed) header.append_to(decoded.packed);
  for (uint64_t i = 0; i < fields; ++i) {
    const std::string_view name = in.bytes(), value = in.bytes();
    const int64_t expiry_ms = header.with_expiries ? in.get<int64_t>() : 0;
    if (table) {
      table->set(name, value, expiry_ms);
      continue;
    }
    pack(decoded.packed, name);
    pack(decoded.packed, value);
    if (header.with_expiries) pack(decoded.packed, ShortText::of(expiry_ms));
    if (expiry_ms != 0) header.next_due = std::min(header.next_due, expiry_ms);
  }
  if (packed) {
    header.write(decoded.packed.data());
  } else {
    table->label = label;
    decoded.object = std::move(table);
  }
  return decoded;
}

bool check_delta(const Entry*, std::string_view delta) {
  if (delta.empty() || delta[0] < static_cast<char>(HashDelta::Op::kSet) || delta[0] > static_cast<char>(HashDelta::Op::kExpire)) return false;
  ByteReader in(delta.substr(1));
  if (in.empty()) return false;
  while (!in.empty() && !in.failed()) read_change(in, static_cast<HashDelta::Op>(delta[0]));
  return in.complete();
}

bool remove_due(const Entry& entry, int64_t now_ms, uint64_t limit, std::string& delta) {
  HashDelta removal(delta, HashDelta::Op::kRemove);
  if (entry.encoding() == Encoding::kObject) {
    static_cast<HashTable*>(entry.object())->take_due(now_ms, limit, [&](std::string_view name) { removal.field(name); });
  } else if (next_due(entry) < now_ms) {
    HashReader(entry, INT64_MIN).each([&](const HashField& field) {
      char name[20];
      if (field.expiry_ms != 0 && field.expiry_ms < now_ms) removal.field(field.name.view(name));
      return true;
    });
  }
  return !removal.empty();
}

}  // namespace

HashReader::HashReader(const Entry& entry, int64_t now_ms) : table_(table_of(entry)), now_ms_(now_ms) {
  if (table_) return;
  const std::string_view packed = entry.bytes();
  const Header header = Header::read(packed);
  begin_ = packed.data() + header.size();
  end_ = packed.data() + packed.size();
  packed_size_ = header.fields;
  with_expiries_ = header.with_expiries;
}

uint64_t HashReader::size() const { return table_ ? table_->size() : packed_size_; }

const char* HashReader::read(const char* at, HashField& field) const { return read_packed(at, with_expiries_, field); }

bool HashReader::get(std::string_view name, HashField& field) const {
  if (table_) return table_->get(name, field) && !expired(field);
  const size_t header = with_expiries_ ? kExpiryHeader : kPlainHeader;
  const std::string_view packed(begin_ - header, static_cast<size_t>(end_ - begin_) + header);
  const Place place = find_packed(packed, Header::read(packed), name);
  if (place.value_at == 0) return false;
  read(packed.data() + place.name_at, field);
  return !expired(field);
}

HashField HashReader::random() const {
  HashField chosen;
  if (table_) {
    do {
      chosen = table_->random();
    } while (expired(chosen));
    return chosen;
  }
  uint64_t alive = 0;
  each([&](const HashField&) { return ++alive, true; });
  uint64_t pick = random64() % alive;
  each([&](const HashField& field) {
    chosen = field;
    return pick-- > 0;
  });
  return chosen;
}

HashDelta& HashDelta::field(std::string_view name) { return ByteWriter(out_).bytes(name), *this; }
HashDelta& HashDelta::value(std::string_view value) { return ByteWriter(out_).bytes(value), *this; }
HashDelta& HashDelta::expiry(int64_t at_ms) { return ByteWriter(out_).put(at_ms), *this; }

const ValueOps kHashOps = {
    .name = "hash",
    .length = length,
    .encoding_name = encoding_name,
    .encode = encode,
    .check = check,
    .decode = decode,
    .check_delta = check_delta,
    .apply = apply,
    .next_due = next_due,
    .remove_due = remove_due,
};

}  // namespace pion
