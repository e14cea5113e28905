#include "keyspace/effects.h"

#include "base/limits.h"

namespace pion {
namespace {

constexpr uint8_t kHasExpiry = 0x10;

void write_value(ByteWriter& out, const NewValue& value) {
  switch (value.kind) {
    case NewValue::Kind::kBytes:
    case NewValue::Kind::kRawBytes: out.bytes(value.bytes); break;
    case NewValue::Kind::kInteger: out.put(value.integer); break;
    case NewValue::Kind::kExtent:
      out.put(value.extent.file).put(value.extent.page).put(value.extent.pages).varint(value.extent_size);
      break;
  }
}

bool read_value(ByteReader& in, uint8_t kind, NewValue& value) {
  if (kind > static_cast<uint8_t>(NewValue::Kind::kRawBytes)) return false;
  value.kind = static_cast<NewValue::Kind>(kind);
  switch (value.kind) {
    case NewValue::Kind::kBytes:
    case NewValue::Kind::kRawBytes: value.bytes = in.bytes(); break;
    case NewValue::Kind::kInteger: value.integer = in.get<int64_t>(); break;
    case NewValue::Kind::kExtent:
      value.extent.file = in.get<uint32_t>();
      value.extent.page = in.get<uint32_t>();
      value.extent.pages = in.get<uint32_t>();
      value.extent_size = in.varint();
      break;
  }
  return true;
}

bool read_database(ByteReader& in, int& database) {
  const uint64_t number = in.varint();
  database = static_cast<int>(number);
  return number < kDatabases;
}

}  // namespace

void write_effect(std::string& out, const Effect& effect) {
  ByteWriter writer(out);
  writer.put(static_cast<uint8_t>(effect.kind));
  if (effect.kind == EffectKind::kFlushAll) return;
  writer.varint(static_cast<uint64_t>(effect.database));
  switch (effect.kind) {
    case EffectKind::kSet: {
      writer.bytes(effect.key);
      const auto kind = static_cast<uint8_t>(effect.value.kind);
      writer.put(static_cast<uint8_t>(kind | (effect.expiry_ms != 0 ? kHasExpiry : 0)));
      if (effect.expiry_ms != 0) writer.put(effect.expiry_ms);
      write_value(writer, effect.value);
      break;
    }
    case EffectKind::kDelete: writer.bytes(effect.key); break;
    case EffectKind::kExpire: writer.bytes(effect.key).put(effect.expiry_ms); break;
    case EffectKind::kAppend:
    case EffectKind::kSetRange: writer.bytes(effect.key).varint(effect.offset).bytes(effect.value.bytes); break;
    case EffectKind::kSwapDatabases: writer.varint(static_cast<uint64_t>(effect.other_database)); break;
    case EffectKind::kFlushDatabase:
    case EffectKind::kFlushAll: break;
  }
}

bool read_effect(ByteReader& in, Effect& effect) {
  effect = {};
  effect.kind = static_cast<EffectKind>(in.get<uint8_t>());
  if (effect.kind == EffectKind::kFlushAll) return !in.failed();
  if (!read_database(in, effect.database)) return false;
  switch (effect.kind) {
    case EffectKind::kSet: {
      effect.key = in.bytes();
      const auto flags = in.get<uint8_t>();
      if (flags & kHasExpiry) effect.expiry_ms = in.get<int64_t>();
      if (!read_value(in, static_cast<uint8_t>(flags & ~kHasExpiry), effect.value)) return false;
      break;
    }
    case EffectKind::kDelete: effect.key = in.bytes(); break;
    case EffectKind::kExpire:
      effect.key = in.bytes();
      effect.expiry_ms = in.get<int64_t>();
      break;
    case EffectKind::kAppend:
    case EffectKind::kSetRange:
      effect.key = in.bytes();
      effect.offset = in.varint();
      effect.value = NewValue::of_raw(in.bytes());
      if (effect.offset > kMaxBulkBytes || effect.offset + effect.value.bytes.size() > kMaxBulkBytes) return false;
      break;
    case EffectKind::kSwapDatabases:
      if (!read_database(in, effect.other_database)) return false;
      break;
    case EffectKind::kFlushDatabase: break;
    default: return false;
  }
  return !in.failed();
}

}  // namespace pion
