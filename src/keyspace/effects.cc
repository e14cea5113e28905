#include "keyspace/effects.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/limits.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr uint8_t kHasExpiry = 0x10;

bool read_value(ByteReader& in, uint8_t kind, NewValue& value) {
  if (kind > static_cast<uint8_t>(NewValue::Kind::kTyped)) return false;
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
    case NewValue::Kind::kTyped:
      value.type = static_cast<ValueType>(in.get<uint8_t>());
      value.encoded = in.bytes();
      break;
  }
  return true;
}

bool read_database(ByteReader& in, int& database) {
  const uint64_t number = in.varint();
  database = static_cast<int>(number);
  return number < kDatabases;
}

// More than any effect's fields besides its runs of bytes.
constexpr size_t kFieldBytes = 96;

// Writes into room that is there: a SET's effect is two memcpy and a few stores.
class Fields {
 public:
  explicit Fields(char* to) : at_(to) {}

  template <typename T>
  Fields& put(T value) {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
    return *this;
  }
  Fields& varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) *at_++ = static_cast<char>(value | 0x80);
    *at_++ = static_cast<char>(value);
    return *this;
  }
  Fields& bytes(std::string_view value) {
    varint(value.size());
    copy_bytes(at_, value);
    at_ += value.size();
    return *this;
  }
  char* end() const { return at_; }

 private:
  char* at_;
};

void write_value(Fields& out, const NewValue& value) {
  switch (value.kind) {
    case NewValue::Kind::kBytes:
    case NewValue::Kind::kRawBytes: out.bytes(value.bytes); break;
    case NewValue::Kind::kInteger: out.put(value.integer); break;
    case NewValue::Kind::kExtent:
      out.put(value.extent.file).put(value.extent.page).put(value.extent.pages).varint(value.extent_size);
      break;
    case NewValue::Kind::kTyped: out.put(static_cast<uint8_t>(value.type)).bytes(value.encoded); break;
  }
}

void write_fields(Fields& fields, const Effect& effect) {
  fields.put(static_cast<uint8_t>(effect.kind));
  if (effect.kind != EffectKind::kFlushAll) fields.varint(static_cast<uint64_t>(effect.database));
  switch (effect.kind) {
    case EffectKind::kSet: {
      fields.bytes(effect.key);
      const auto kind = static_cast<uint8_t>(effect.value.kind);
      fields.put(static_cast<uint8_t>(kind | (effect.expiry_ms != 0 ? kHasExpiry : 0)));
      if (effect.expiry_ms != 0) fields.put(effect.expiry_ms);
      write_value(fields, effect.value);
      break;
    }
    case EffectKind::kDelete: fields.bytes(effect.key); break;
    case EffectKind::kExpire: fields.bytes(effect.key).put(effect.expiry_ms); break;
    case EffectKind::kAppend:
    case EffectKind::kSetRange: fields.bytes(effect.key).varint(effect.offset).bytes(effect.value.bytes); break;
    case EffectKind::kDelta:
      fields.bytes(effect.key).put(static_cast<uint8_t>(effect.value.type)).bytes(effect.value.encoded);
      break;
    case EffectKind::kSwapDatabases: fields.varint(static_cast<uint64_t>(effect.other_database)); break;
    case EffectKind::kFlushDatabase:
    case EffectKind::kFlushAll: break;
  }
}

}  // namespace

void write_effect(std::string& out, const Effect& effect) {
  const size_t before = out.size();
  const size_t most = before + kFieldBytes + effect.key.size() + effect.value.bytes.size() + effect.value.encoded.size();
  if (out.capacity() < most) out.reserve(std::max(most, 2 * out.capacity()));
  out.resize_and_overwrite(most, [&](char* bytes, size_t) {
    Fields fields(bytes + before);
    write_fields(fields, effect);
    return static_cast<size_t>(fields.end() - bytes);
  });
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
    case EffectKind::kDelta:
      effect.key = in.bytes();
      effect.value.kind = NewValue::Kind::kTyped;
      effect.value.type = static_cast<ValueType>(in.get<uint8_t>());
      effect.value.encoded = in.bytes();
      break;
    case EffectKind::kSwapDatabases:
      if (!read_database(in, effect.other_database)) return false;
      break;
    case EffectKind::kFlushDatabase: break;
    default: return false;
  }
  return !in.failed();
}

bool check_typed(const Effect& effect) {
  if (effect.value.kind != NewValue::Kind::kTyped) return true;
  const ValueOps* ops = value_ops(effect.value.type);
  if (!ops) return false;
  return effect.kind == EffectKind::kDelta || ops->check(effect.value.encoded);
}

}  // namespace pion
