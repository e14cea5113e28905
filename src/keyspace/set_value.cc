#include "keyspace/set_value.h"

#include <algorithm>
#include <cassert>
#include <memory>

#include "base/bytes.h"
#include "keyspace/collection_limits.h"
#include "keyspace/random.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr size_t kIntsHeader = 2, kItemsHeader = 3, kWidthAt = 1, kCountAt = 1;

constexpr uint64_t kPackedIntegers = 4096;

bool stays_packed(SetLabel label, uint64_t members, uint64_t bytes) {
  return pion::stays_packed(label != SetLabel::kHashtable, members, bytes);
}

uint64_t most_integers() { return collection_limits().set_integers; }
uint64_t most_members() { return collection_limits().set_entries; }
uint64_t longest_member() { return collection_limits().set_value_bytes; }

SetLabel label_of(std::string_view packed) { return static_cast<SetLabel>(packed[0]); }

int64_t read_integer(const char* at, unsigned width) {
  return width == 2 ? load_le<int16_t>(at) : width == 4 ? load_le<int32_t>(at) : load_le<int64_t>(at);
}

void write_integer(char* at, unsigned width, int64_t value) {
  if (width == 2) return store_le(at, static_cast<int16_t>(value));
  width == 4 ? store_le(at, static_cast<int32_t>(value)) : store_le(at, value);
}

unsigned width_of(int64_t value) {
  return value == static_cast<int16_t>(value) ? 2 : value == static_cast<int32_t>(value) ? 4 : 8;
}

uint64_t packed_count(std::string_view packed) {
  if (label_of(packed) != SetLabel::kIntset) return load_le<uint16_t>(packed.data() + kCountAt);
  return (packed.size() - kIntsHeader) / static_cast<uint8_t>(packed[kWidthAt]);
}

// Where an integer stands among packed ones, or would stand.
struct IntegerPlace {
  size_t at;
  bool found;
};

IntegerPlace find_integer(std::string_view packed, int64_t value) {
  const unsigned width = static_cast<uint8_t>(packed[kWidthAt]);
  size_t low = 0, high = packed_count(packed);
  const char* const first = packed.data() + kIntsHeader;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    read_integer(first + middle * width, width) < value ? low = middle + 1 : high = middle;
  }
  const bool found = low < packed_count(packed) && read_integer(first + low * width, width) == value;
  return {kIntsHeader + low * width, found};
}

// Where an item lies; size 0: it is not there.
struct ItemPlace {
  size_t at = 0, size = 0;
};

ItemPlace find_item(std::string_view packed, std::string_view member) {
  thread_local std::string wanted;  // equal strings are packed equally, so items are compared as they lie
  wanted.clear();
  pack(wanted, member);
  const char* const end = packed.data() + packed.size();
  for (const char* at = packed.data() + kItemsHeader; at < end;) {
    const char* const next = packed_next(at);
    if (static_cast<size_t>(next - at) == wanted.size() && std::memcmp(at, wanted.data(), wanted.size()) == 0) {
      return {static_cast<size_t>(at - packed.data()), wanted.size()};
    }
    at = next;
  }
  return {};
}

void start_packed(std::string& out, SetLabel label) {
  out.assign(1, static_cast<char>(label));
  label == SetLabel::kIntset ? out.append(1, char{2}) : out.append(2, '\0');
}

// Packed bytes under change: a string of its own, or those in the entry.
struct InString {
  std::string& bytes;
  std::string_view packed() const { return bytes; }
  char* writable() { return bytes.data(); }
  void splice(size_t at, size_t removed, std::string_view inserted) { bytes.replace(at, removed, inserted); }
};

template <typename Bytes>
class PackedSet {
 public:
  explicit PackedSet(Bytes& bytes) : bytes_(bytes) {}

  void set_label(SetLabel label) {
    const SetLabel now = label_of(bytes_.packed());
    if (now == label) return;
    if (now == SetLabel::kIntset) {
      to_items(label);
    } else {
      bytes_.writable()[0] = static_cast<char>(label);
    }
  }

  // False: with it the set is not packed any more; nothing was done.
  bool add(std::string_view member) {
    const std::string_view packed = bytes_.packed();
    const uint64_t count = packed_count(packed), bytes = packed.size() + packed_bytes(member);
    SetLabel label = label_of(packed);
    if (label == SetLabel::kIntset) {
      const ShortText text(member);
      if (text.integer) {
        const IntegerPlace place = find_integer(packed, text.number);
        if (place.found) return true;
        if (count + 1 <= most_integers()) return count < kPackedIntegers && (insert_integer(text.number, place.at), true);
        label = SetLabel::kHashtable;
      } else {
        label = count < most_members() && member.size() <= longest_member() ? SetLabel::kListpack : SetLabel::kHashtable;
      }
      // As items they take up to twice the bytes.
      if (!stays_packed(label, count + 1, packed.size() * 2 + bytes)) return false;
      to_items(label);
    } else {
      if (find_item(packed, member).size > 0) return true;
      if (count + 1 > most_members() || member.size() > longest_member()) label = SetLabel::kHashtable;
      if (!stays_packed(label, count + 1, bytes)) return false;
    }
    thread_local std::string item;
    item.clear();
    pack(item, member);
    bytes_.splice(bytes_.packed().size(), 0, item);
    char* const header = bytes_.writable();
    header[0] = static_cast<char>(label);
    store_le(header + kCountAt, static_cast<uint16_t>(count + 1));
    return true;
  }

  void remove(std::string_view member) {
    const std::string_view packed = bytes_.packed();
    if (label_of(packed) == SetLabel::kIntset) {
      const ShortText text(member);
      if (!text.integer) return;
      if (const IntegerPlace place = find_integer(packed, text.number); place.found) {
        bytes_.splice(place.at, static_cast<uint8_t>(packed[kWidthAt]), {});
      }
      return;
    }
    const uint64_t count = packed_count(packed);
    const ItemPlace place = find_item(packed, member);
    if (place.size == 0) return;
    bytes_.splice(place.at, place.size, {});
    store_le(bytes_.writable() + kCountAt, static_cast<uint16_t>(count - 1));
  }

 private:
  void insert_integer(int64_t value, size_t at) {
    const std::string_view packed = bytes_.packed();
    const unsigned width = static_cast<uint8_t>(packed[kWidthAt]), wanted = width_of(value);
    char bytes[8];
    if (wanted <= width) {
      write_integer(bytes, width, value);
      bytes_.splice(at, 0, {bytes, width});
      return;
    }
    // Wider: all anew. It is lower or higher than all that are there.
    std::string wider(1, static_cast<char>(SetLabel::kIntset));
    wider.push_back(static_cast<char>(wanted));
    const auto append = [&](int64_t number) {
      write_integer(bytes, wanted, number);
      wider.append(bytes, wanted);
    };
    if (value < 0) append(value);
    for (size_t i = kIntsHeader; i < packed.size(); i += width) append(read_integer(packed.data() + i, width));
    if (value >= 0) append(value);
    bytes_.splice(0, packed.size(), wider);
  }

  void to_items(SetLabel label) {
    const std::string_view packed = bytes_.packed();
    const unsigned width = static_cast<uint8_t>(packed[kWidthAt]);
    std::string items;
    start_packed(items, label);
    store_le(items.data() + kCountAt, static_cast<uint16_t>(packed_count(packed)));
    for (size_t i = kIntsHeader; i < packed.size(); i += width) pack(items, ShortText::of(read_integer(packed.data() + i, width)));
    bytes_.splice(0, packed.size(), items);
  }

  Bytes& bytes_;
};

SetTable* table_of(const Entry& entry) {
  return entry.encoding() == Encoding::kObject ? static_cast<SetTable*>(entry.object()) : nullptr;
}

std::unique_ptr<SetTable> to_table(std::string_view packed, PagePool& pool) {
  auto table = std::make_unique<SetTable>(pool);
  table->label = static_cast<uint8_t>(label_of(packed));
  SetReader(packed).each([&](const ShortText& member) {
    char room[20];
    return table->add(member.view(room)), true;
  });
  return table;
}

// The label with `members` more at once, before any of them is looked at.
SetLabel label_for_many(SetLabel label, uint64_t members) {
  const bool many = (label == SetLabel::kIntset && members > most_integers()) || (label == SetLabel::kListpack && members > most_members());
  return many ? SetLabel::kHashtable : label;
}

SetLabel first_label(std::string_view member, uint64_t members) {
  if (ShortText(member).integer && members <= most_integers()) return SetLabel::kIntset;
  return members <= most_members() ? SetLabel::kListpack : SetLabel::kHashtable;
}

void add_to_table(SetTable& table, std::string_view member) {
  if (!table.add(member)) return;
  const auto label = static_cast<SetLabel>(table.label);
  SetLabel next = label;
  if (label == SetLabel::kIntset) {
    if (!ShortText(member).integer) {
      next = table.size() <= most_members() && member.size() <= longest_member() ? SetLabel::kListpack : SetLabel::kHashtable;
    } else if (table.size() > most_integers()) {
      next = SetLabel::kHashtable;
    }
  } else if (table.size() > most_members() || member.size() > longest_member()) {
    next = SetLabel::kHashtable;
  }
  table.label = static_cast<uint8_t>(next);
}

void add_all(ValueEditor& value, ByteReader in) {
  uint64_t count = 0;
  for (ByteReader counting = in; !counting.empty(); counting.bytes()) ++count;
  auto* table = static_cast<SetTable*>(value.object());
  if (!table) {
    const SetLabel before = value.entry() ? label_of(value.packed()) : first_label(ByteReader(in).bytes(), count);
    const SetLabel label = label_for_many(before, count);
    if (value.entry() && count == 1) {
      const std::string_view member = in.bytes();
      PackedSet<ValueEditor> set(value);
      set.set_label(label);
      if (set.add(member)) return;
      in = ByteReader({});
      auto made = to_table(value.packed(), value.pool());
      add_to_table(*made, member);
      value.store(std::move(made));
      return;
    }
    std::string scratch;
    if (value.entry()) {
      scratch = value.packed();
    } else {
      start_packed(scratch, label);
    }
    InString bytes{scratch};
    PackedSet<InString> set(bytes);
    set.set_label(label);
    std::string_view member;
    while (!in.empty()) {
      member = in.bytes();
      if (!set.add(member)) break;
      member = {};
      if (in.empty()) return value.store(scratch);
    }
    auto made = to_table(scratch, value.pool());
    add_to_table(*made, member);
    while (!in.empty()) add_to_table(*made, in.bytes());
    value.store(std::move(made));
    return;
  }
  table->label = static_cast<uint8_t>(label_for_many(static_cast<SetLabel>(table->label), count));
  while (!in.empty()) add_to_table(*table, in.bytes());
}

void apply(ValueEditor& value, std::string_view delta) {
  ByteReader in(delta.substr(1));
  if (static_cast<SetDelta::Op>(delta[0]) == SetDelta::Op::kAdd) return add_all(value, in);
  if (!value.entry()) return;
  if (auto* table = static_cast<SetTable*>(value.object())) {
    while (!in.empty()) table->remove(in.bytes());
    return;
  }
  PackedSet<ValueEditor> set(value);
  while (!in.empty()) set.remove(in.bytes());
}

uint64_t length(const Entry& entry) { return SetReader(entry).size(); }

SetLabel label_of(const Entry& entry) {
  const SetTable* table = table_of(entry);
  return table ? static_cast<SetLabel>(table->label) : label_of(entry.bytes());
}

std::string_view encoding_name(const Entry& entry) {
  switch (label_of(entry)) {
    case SetLabel::kIntset: return "intset";
    case SetLabel::kListpack: return "listpack";
    case SetLabel::kHashtable: break;
  }
  return "hashtable";
}

void encode(const Entry& entry, std::string& out) {
  const SetReader reader(entry);
  SetBuilder builder(out, label_of(entry), reader.size());
  reader.each([&](const ShortText& member) { return builder.member(member), true; });
}

// u8 label | varint members | {bytes member} ...
bool check(std::string_view encoded) {
  ByteReader in(encoded);
  const auto label = in.get<uint8_t>();
  uint64_t members = in.varint();
  if (label > static_cast<uint8_t>(SetLabel::kHashtable) || members == 0) return false;
  for (; members > 0 && !in.failed(); --members) {
    const std::string_view member = in.bytes();
    if (label == static_cast<uint8_t>(SetLabel::kIntset) && !ShortText(member).integer) return false;
  }
  return in.complete();
}

std::string pack_integers(std::vector<int64_t>& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  const unsigned width = std::max(width_of(numbers.front()), width_of(numbers.back()));
  std::string packed(kIntsHeader + numbers.size() * width, '\0');
  packed[0] = static_cast<char>(SetLabel::kIntset);
  packed[kWidthAt] = static_cast<char>(width);
  for (size_t i = 0; i < numbers.size(); ++i) write_integer(packed.data() + kIntsHeader + i * width, width, numbers[i]);
  return packed;
}

DecodedValue decode(std::string_view encoded, PagePool& pool) {
  ByteReader in(encoded);
  const auto label = static_cast<SetLabel>(in.get<uint8_t>());
  const uint64_t members = in.varint();
  DecodedValue decoded;
  if (label == SetLabel::kIntset && members <= kPackedIntegers) {
    std::vector<int64_t> numbers;
    while (!in.empty()) numbers.push_back(ShortText(in.bytes()).number);
    decoded.packed = pack_integers(numbers);
  } else if (label != SetLabel::kIntset && stays_packed(label, members, encoded.size() + members)) {
    start_packed(decoded.packed, label);
    store_le(decoded.packed.data() + kCountAt, static_cast<uint16_t>(members));
    while (!in.empty()) pack(decoded.packed, in.bytes());
  } else {
    auto table = std::make_unique<SetTable>(pool);
    table->label = static_cast<uint8_t>(label);
    while (!in.empty()) table->add(in.bytes());
    decoded.object = std::move(table);
  }
  return decoded;
}

bool check_delta(const Entry*, std::string_view delta) {
  if (delta.empty() || (delta[0] != static_cast<char>(SetDelta::Op::kAdd) && delta[0] != static_cast<char>(SetDelta::Op::kRemove))) return false;
  ByteReader in(delta.substr(1));
  if (in.empty()) return false;
  while (!in.empty() && !in.failed()) in.bytes();
  return in.complete();
}

}  // namespace

SetReader::SetReader(const Entry& entry) : table_(table_of(entry)) {
  if (table_) return;
  packed_ = entry.bytes();
  read_header();
}

SetReader::SetReader(std::string_view packed) : packed_(packed) { read_header(); }

void SetReader::read_header() {
  const bool integers = label_of(packed_) == SetLabel::kIntset;
  width_ = integers ? static_cast<uint8_t>(packed_[kWidthAt]) : 0;
  packed_size_ = packed_count(packed_);
  begin_ = packed_.data() + (integers ? kIntsHeader : kItemsHeader);
  end_ = packed_.data() + packed_.size();
}

ShortText SetReader::next_packed(const char*& at) const {
  if (width_ == 0) {
    const PackedItem item = packed_item(at);
    at = item.end();
    return item.text;
  }
  const int64_t number = read_integer(at, width_);
  at += width_;
  return ShortText::of(number);
}

bool SetReader::contains(std::string_view member) const {
  if (table_) return table_->contains(member);
  if (width_ == 0) return find_item(packed_, member).size > 0;
  const ShortText text(member);
  return text.integer && find_integer(packed_, text.number).found;
}

ShortText SetReader::random() const {
  if (table_) return ShortText::raw(table_->random());
  uint64_t pick = random64() % packed_size_;
  const char* at = begin_;
  if (width_ != 0) at += pick * width_, pick = 0;
  for (; pick > 0; --pick) at = packed_next(at);
  return next_packed(at);
}

SetDelta& SetDelta::member(std::string_view member) {
  ByteWriter(out_).bytes(member);
  return *this;
}

bool set_label_grows(const Entry& entry, uint64_t members) { return label_for_many(label_of(entry), members) != label_of(entry); }

SetBuilder::SetBuilder(std::string& encoded, SetLabel label, uint64_t members) : out_(encoded) {
  ByteWriter(out_).put(static_cast<uint8_t>(label)).varint(members);
}

void SetBuilder::member(const ShortText& member) {
  char room[20];
  ByteWriter(out_).bytes(member.view(room));
}

const ValueOps kSetOps = {
    .name = "set",
    .length = length,
    .encoding_name = encoding_name,
    .encode = encode,
    .check = check,
    .decode = decode,
    .check_delta = check_delta,
    .apply = apply,
};

}  // namespace pion
