// Fuzzer: any bytes as a value in Redis' serialization. What is taken must be a value that replays, holds together, and comes
// back the same through our own writing.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "keyspace/page_pool.h"
#include "keyspace/rdb_lzf.h"
#include "keyspace/rdb_value.h"
#include "keyspace/shard.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr uint64_t kSeed = 1;

void require(bool holds) {
  if (!holds) abort();
}

// What a key holds that was given the value.
std::string stored(ValueType type, std::string_view encoded, uint64_t& length) {
  static constexpr std::string_view kKey = "key";
  static PagePool pool;
  Shard shard(pool, kSeed);
  const KeyHash hash = Shard::hash(kKey, kSeed);
  const ValueOps& ops = *value_ops(type);
  store_encoded(shard, {}, hash, kKey, {.kind = NewValue::Kind::kTyped, .type = type, .encoded = encoded}, 0, 0);
  const Entry& entry = *shard.find(hash, kKey).entry;
  length = ops.length(entry);
  require(length > 0);
  std::string again;
  ops.encode(entry, again);
  require(ops.check(again));
  return again;
}

void check_value(const RdbValue& value) {
  std::string written;
  if (value.type == ValueType::kString) {
    rdb_write_string(value.bytes, written);
  } else {
    require(value_ops(value.type)->check(value.bytes));
    uint64_t length = 0;
    rdb_write_value(value.type, stored(value.type, value.bytes, length), written);
  }
  std::string payload = written;
  rdb_seal(payload);
  require(rdb_open(payload) == written);
  const std::optional<RdbValue> read = rdb_read(written);
  require(read && read->type == value.type);
  if (value.type == ValueType::kString) return require(read->bytes == value.bytes);
  uint64_t before = 0, after = 0;
  const std::string first = stored(value.type, value.bytes, before), second = stored(value.type, read->bytes, after);
  // The order of elements in a table, and what a stream's nodes remember of removed entries, may differ.
  require(before == after && (value.type == ValueType::kStream || first.size() == second.size()));
}

}  // namespace
}  // namespace pion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pion;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const std::optional<RdbValue> value = rdb_read(bytes)) check_value(*value);
  std::string compressed, back;
  if (lzf_compress(bytes, size + size / 16 + 64, compressed)) {
    require(lzf_decompress(compressed, size, back) && back == bytes);
  }
  return 0;
}
