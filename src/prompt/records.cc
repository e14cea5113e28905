#include "prompt/records.h"

#include "base/bytes.h"

namespace pion {
namespace {

void put_name(ByteWriter& writer, const SegmentName& name) { writer.put(name.slot).put(name.id); }

SegmentName get_name(ByteReader& reader) {
  SegmentName name;
  name.slot = reader.get<uint32_t>();
  name.id = reader.get<uint64_t>();
  return name;
}

void put_refs(ByteWriter& writer, const std::vector<ExtentRef>& refs) {
  writer.put(static_cast<uint8_t>(refs.size()));
  for (const ExtentRef& ref : refs) writer.put(ref);
}

std::vector<ExtentRef> get_refs(ByteReader& reader) {
  std::vector<ExtentRef> refs(reader.get<uint8_t>());
  for (ExtentRef& ref : refs) ref = reader.get<ExtentRef>();
  return refs;
}

void put_names(ByteWriter& writer, const std::vector<SegmentName>& names) {
  writer.varint(names.size());
  for (const SegmentName& name : names) put_name(writer, name);
}

std::vector<SegmentName> get_names(ByteReader& reader) {
  std::vector<SegmentName> names;
  const uint64_t count = reader.varint();
  if (count > reader.rest().size() / 12) {
    (void)reader.raw(UINT64_MAX);  // fewer bytes than names: fails the reader
    return names;
  }
  names.reserve(count);
  for (uint64_t i = 0; i < count; ++i) names.push_back(get_name(reader));
  return names;
}

bool usable(const SegmentName& name) { return name.slot < kMaxSlots && name.id != 0; }

}  // namespace

std::string encode(const AddRecord& record) {
  std::string out;
  ByteWriter writer(out);
  put_name(writer, record.name);
  put_name(writer, record.parent);
  writer.put(record.model).bytes(record.salt);
  writer.put(record.from).put(record.to).put(record.rows_from).put(record.edge);
  writer.put(record.flags).put(record.prefill_ms).put(record.time_us);
  put_refs(writer, record.refs);
  return out;
}

std::optional<AddRecord> decode_add(std::string_view body) {
  ByteReader reader(body);
  AddRecord record;
  record.name = get_name(reader);
  record.parent = get_name(reader);
  record.model = reader.get<uint32_t>();
  record.salt = reader.bytes();
  record.from = reader.get<uint32_t>();
  record.to = reader.get<uint32_t>();
  record.rows_from = reader.get<uint32_t>();
  record.edge = reader.get<uint32_t>();
  record.flags = reader.get<uint8_t>();
  record.prefill_ms = reader.get<float>();
  record.time_us = reader.get<int64_t>();
  record.refs = get_refs(reader);
  if (!reader.complete() || !usable(record.name) || record.to == 0 || record.from > record.to || record.refs.empty()) {
    return std::nullopt;
  }
  return record;
}

std::string encode(const ReplaceRecord& record) {
  std::string out;
  ByteWriter writer(out);
  put_name(writer, record.name);
  writer.put(record.new_id).put(record.to).put(record.rows_from).put(record.prefill_ms);
  put_refs(writer, record.refs);
  put_names(writer, record.dropped);
  return out;
}

std::optional<ReplaceRecord> decode_replace(std::string_view body) {
  ByteReader reader(body);
  ReplaceRecord record;
  record.name = get_name(reader);
  record.new_id = reader.get<uint64_t>();
  record.to = reader.get<uint32_t>();
  record.rows_from = reader.get<uint32_t>();
  record.prefill_ms = reader.get<float>();
  record.refs = get_refs(reader);
  record.dropped = get_names(reader);
  if (!reader.complete() || !usable(record.name) || record.new_id == 0) return std::nullopt;
  return record;
}

std::string encode_names(const std::vector<SegmentName>& names) {
  std::string out;
  ByteWriter writer(out);
  put_names(writer, names);
  return out;
}

std::optional<std::vector<SegmentName>> decode_names(std::string_view body) {
  ByteReader reader(body);
  std::vector<SegmentName> names = get_names(reader);
  if (!reader.complete()) return std::nullopt;
  return names;
}

std::string encode(const std::vector<RowsRecord>& records) {
  std::string out;
  ByteWriter writer(out);
  for (const RowsRecord& record : records) {
    put_name(writer, record.name);
    writer.put(record.pools);
  }
  return out;
}

std::optional<std::vector<RowsRecord>> decode_rows(std::string_view body) {
  ByteReader reader(body);
  std::vector<RowsRecord> records;
  while (!reader.empty()) {
    RowsRecord record;
    record.name = get_name(reader);
    record.pools = reader.get<uint64_t>();
    if (reader.failed()) return std::nullopt;
    records.push_back(record);
  }
  return records;
}

std::string encode(const std::vector<RootName>& roots) {
  std::string out;
  ByteWriter writer(out);
  for (const RootName& root : roots) writer.put(root.model).bytes(root.salt);
  return out;
}

std::optional<std::vector<RootName>> decode_roots(std::string_view body) {
  ByteReader reader(body);
  std::vector<RootName> roots;
  while (!reader.empty()) {
    RootName root;
    root.model = reader.get<uint32_t>();
    root.salt = reader.bytes();
    if (reader.failed()) return std::nullopt;
    roots.push_back(root);
  }
  return roots;
}

std::string encode(const ModelRecord& record) {
  std::string out;
  ByteWriter writer(out);
  writer.put(record.id).bytes(record.name).bytes(record.json);
  return out;
}

std::optional<ModelRecord> decode_model(std::string_view body) {
  ByteReader reader(body);
  ModelRecord record;
  record.id = reader.get<uint32_t>();
  record.name = reader.bytes();
  record.json = reader.bytes();
  if (!reader.complete() || record.id == 0) return std::nullopt;
  return record;
}

}  // namespace pion
