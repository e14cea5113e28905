#include "prompt/records.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/bytes.h"
#include "base/limits.h"

namespace pion {
namespace {

// One walk over a record's fields serves both ways: a Writer puts them, a Reader fills them in.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <typename T>
  Writer& operator()(const T& field) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      out_.bytes(field);
    } else if constexpr (std::is_same_v<T, SegmentName>) {
      out_.put(field.slot).put(field.id);
    } else if constexpr (std::is_same_v<T, std::vector<ExtentRef>>) {
      out_.put(static_cast<uint8_t>(field.size()));
      for (const ExtentRef& ref : field) out_.put(ref);
    } else if constexpr (std::is_same_v<T, std::vector<SegmentName>>) {
      out_.varint(field.size());
      for (const SegmentName& name : field) (*this)(name);
    } else {
      out_.put(field);
    }
    return *this;
  }

 private:
  ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(std::string_view body) : in_(body) {}

  template <typename T>
  Reader& operator()(T& field) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      field = in_.bytes();
    } else if constexpr (std::is_same_v<T, SegmentName>) {
      (*this)(field.slot)(field.id);
    } else if constexpr (std::is_same_v<T, std::vector<ExtentRef>>) {
      field.resize(in_.get<uint8_t>());
      for (ExtentRef& ref : field) ref = in_.get<ExtentRef>();
    } else if constexpr (std::is_same_v<T, std::vector<SegmentName>>) {
      const uint64_t count = in_.varint();
      if (count > in_.rest().size() / 12) {
        (void)in_.raw(UINT64_MAX);  // fewer bytes than names: fails the reader
      } else {
        field.resize(count);
        for (SegmentName& name : field) (*this)(name);
      }
    } else {
      field = in_.get<T>();
    }
    return *this;
  }
  bool empty() const { return in_.empty(); }
  bool failed() const { return in_.failed(); }
  bool complete() const { return in_.complete(); }

 private:
  ByteReader in_;
};

template <typename Walker, typename Record>
void walk_add(Walker& walk, Record& record) {
  walk(record.name)(record.parent)(record.model)(record.salt)(record.from)(record.to)(record.rows_from)(record.edge);
  walk(record.flags)(record.prefill_ms)(record.time_us)(record.refs);
}

template <typename Walker, typename Record>
void walk_replace(Walker& walk, Record& record) {
  walk(record.name)(record.new_id)(record.to)(record.rows_from)(record.prefill_ms)(record.refs)(record.dropped);
}

template <typename Walker, typename Record>
void walk_rows(Walker& walk, Record& record) {
  walk(record.name)(record.pools);
}

template <typename Walker, typename Record>
void walk_root(Walker& walk, Record& record) {
  walk(record.model)(record.salt);
}

template <typename Walker, typename Record>
void walk_model(Walker& walk, Record& record) {
  walk(record.id)(record.name)(record.json);
}

// A body that is one record after the other, to its end.
template <typename Record, typename Walk>
std::optional<std::vector<Record>> decode_all(std::string_view body, Walk walk) {
  Reader reader(body);
  std::vector<Record> records;
  while (!reader.empty()) {
    walk(reader, records.emplace_back());
    if (reader.failed()) return std::nullopt;
  }
  return records;
}

template <typename Record, typename Walk>
std::string encode_one(const Record& record, Walk walk) {
  std::string out;
  Writer writer(out);
  walk(writer, record);
  return out;
}

bool usable(const SegmentName& name) { return name.slot < kMaxSlots && usable_id(name.id); }

}  // namespace

bool usable_range(uint32_t from, uint32_t to, uint32_t rows_from, uint8_t flags) {
  const bool boundary = flags & kSegmentBoundary;
  return to > 0 && to <= kMaxTokens && rows_from <= to && (boundary ? from == to : from < to);
}

bool usable_refs(std::span<const ExtentRef> refs) {
  const bool named = std::any_of(refs.begin(), refs.end(), [](const ExtentRef& ref) { return static_cast<bool>(ref); });
  return named && refs.size() <= kMaxPools + 1 && std::all_of(refs.begin(), refs.end(), [](const ExtentRef& ref) { return !ref || ref.pages > 0; });
}

bool usable_prefill(float ms) { return std::isnan(ms) || (ms >= 0 && ms <= static_cast<float>(kMaxPrefillMs)); }

std::string encode(const AddRecord& record) {
  return encode_one(record, [](auto& walk, auto& r) { walk_add(walk, r); });
}

std::optional<AddRecord> decode_add(std::string_view body) {
  Reader reader(body);
  AddRecord record;
  walk_add(reader, record);
  const bool hangs = record.parent.slot == kNoSlot ? record.model != 0 && record.from == 0 && !(record.flags & kSegmentBoundary)
                                                   : usable(record.parent) && record.parent.slot != record.name.slot;
  const bool good = reader.complete() && usable(record.name) && hangs && record.salt.size() <= kMaxNameBytes &&
                    !(record.flags & ~(kSegmentMediaEdge | kSegmentBoundary)) && usable_refs(record.refs) && usable_prefill(record.prefill_ms) &&
                    usable_range(record.from, record.to, record.rows_from, record.flags);
  if (!good) return std::nullopt;
  return record;
}

std::string encode(const ReplaceRecord& record) {
  return encode_one(record, [](auto& walk, auto& r) { walk_replace(walk, r); });
}

std::optional<ReplaceRecord> decode_replace(std::string_view body) {
  Reader reader(body);
  ReplaceRecord record;
  walk_replace(reader, record);
  const bool good = reader.complete() && usable(record.name) && usable_id(record.new_id) && record.to > 0 && record.to <= kMaxTokens &&
                    record.rows_from <= record.to && usable_refs(record.refs) && usable_prefill(record.prefill_ms);
  if (!good) return std::nullopt;
  return record;
}

std::string encode_names(const std::vector<SegmentName>& names) {
  return encode_one(names, [](auto& walk, auto& all) { walk(all); });
}

std::optional<std::vector<SegmentName>> decode_names(std::string_view body) {
  Reader reader(body);
  std::vector<SegmentName> names;
  reader(names);
  if (!reader.complete()) return std::nullopt;
  return names;
}

std::string encode(const std::vector<RowsRecord>& records) {
  std::string out;
  Writer writer(out);
  for (const RowsRecord& record : records) walk_rows(writer, record);
  return out;
}

std::optional<std::vector<RowsRecord>> decode_rows(std::string_view body) {
  return decode_all<RowsRecord>(body, [](auto& walk, auto& r) { walk_rows(walk, r); });
}

std::string encode(const std::vector<RootName>& roots) {
  std::string out;
  Writer writer(out);
  for (const RootName& root : roots) walk_root(writer, root);
  return out;
}

std::optional<std::vector<RootName>> decode_roots(std::string_view body) {
  return decode_all<RootName>(body, [](auto& walk, auto& r) { walk_root(walk, r); });
}

std::string encode(const ModelRecord& record) {
  return encode_one(record, [](auto& walk, auto& r) { walk_model(walk, r); });
}

std::optional<ModelRecord> decode_model(std::string_view body) {
  Reader reader(body);
  ModelRecord record;
  walk_model(reader, record);
  if (!reader.complete() || record.id == 0 || record.id == UINT32_MAX || record.name.empty() || record.name.size() > kMaxNameBytes) {
    return std::nullopt;
  }
  return record;
}

}  // namespace pion
