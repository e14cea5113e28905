// Redis' serialization: bytes that Redis 8.2.3 wrote, values of every encoding there and back, and bytes that are none.
#include "keyspace/rdb_value.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/bytes.h"
#include "keyspace/rdb_elements.h"
#include "keyspace/rdb_lzf.h"
#include "keyspace/shard.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", static_cast<uint8_t>(byte));
    hex += text;
  }
  return hex;
}

std::string written(const RdbValue& value) {
  std::string out;
  if (value.type == ValueType::kString) {
    rdb_write_string(value.bytes, out);
  } else {
    rdb_write_value(value.type, value.bytes, out);
  }
  return out;
}

// Type and body as Redis 8.2.3 dumped them.
struct Dumped {
  const char* name;
  ValueType type;
  const char* hex;
};

constexpr Dumped kDumped[] = {
    {"int8", ValueType::kString, "00c080"},
    {"int16", ValueType::kString, "00c12c01"},
    {"int32", ValueType::kString, "00c2c063ffff"},
    {"text", ValueType::kString, "000b2d32313437343833363439"},
    {"empty", ValueType::kString, "0000"},
    {"list", ValueType::kList, "120102181800000005008161020101dffb02c12c02846162636405ff"},
    {"nodes", ValueType::kList, "1202020c0c00000002008161020101ff020d0d0000000200dffb02c12c02ff"},
    {"intset", ValueType::kSet, "0b0e0200000003000000010002002c01"},
    {"set listpack", ValueType::kSet, "140e0e000000030001010201816102ff"},
    {"hash listpack", ValueType::kHash, "101111000000040001010201816102816202ff"},
    {"hash listpackex", ValueType::kHash, "1900409452a30300002d2d0000000900816102816202f400409452a30300000901010201f420e19b52a3030000098163028164020001ff"},
    {"sorted set listpack", ValueType::kSortedSet, "111d1d0000000600816302842d696e6605816102010181620283322e3504ff"},
    {"stream without entries", ValueType::kStream, "15000000000000000000010167000081ffffffffffffffff0000"},
};

TEST(RdbValue, BytesOfRedisComeBackAsTheyWere) {
  for (const Dumped& dumped : kDumped) {
    const std::string bytes = from_hex(dumped.hex);
    const std::optional<RdbValue> value = rdb_read(bytes);
    ASSERT_TRUE(value) << dumped.name;
    EXPECT_EQ(value->type, dumped.type) << dumped.name;
    EXPECT_EQ(to_hex(written(*value)), dumped.hex) << dumped.name;
  }
}

TEST(RdbValue, EveryPrefixIsRefused) {
  for (const Dumped& dumped : kDumped) {
    const std::string bytes = from_hex(dumped.hex);
    for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(rdb_read(bytes.substr(0, size))) << dumped.name << ' ' << size;
  }
}

TEST(RdbValue, APayloadNeedsItsChecksumAndAVersionWeKnow) {
  std::string payload;
  rdb_write_string("hello", payload);
  const std::string body = payload;
  rdb_seal(payload);
  EXPECT_EQ(rdb_open(payload), body);
  for (size_t i = 0; i < payload.size(); ++i) {
    std::string damaged = payload;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(rdb_open(damaged)) << i;
    EXPECT_FALSE(rdb_open(payload.substr(0, i))) << i;
  }
}

// A value as its type encodes it, of `count` elements, each of `size` bytes or so.
std::string encoded_of(ValueType type, uint8_t label, uint64_t count, size_t size) {
  std::string bytes;
  ByteWriter out(bytes);
  out.put(label);
  if (type == ValueType::kList) out.varint(1);
  out.varint(type == ValueType::kList ? 2 * count : count);
  for (uint64_t i = 0; i < count; ++i) {
    out.bytes(std::to_string(i * 7919) + std::string(label == 0 && type == ValueType::kSet ? 0 : size, 'x'));
    if (type == ValueType::kHash) out.bytes(std::string(size, 'v') + std::to_string(i));
    if (type == ValueType::kSortedSet) out.put(static_cast<double>(i) / 3);
  }
  return bytes;
}

// The encoding of what a key holds that was given the value: elements may change places.
std::string stored(ValueType type, std::string_view encoded) {
  static PagePool pool;
  Shard shard(pool, 1);
  const KeyHash hash = Shard::hash("key", 1);
  store_encoded(shard, {}, hash, "key", {.kind = NewValue::Kind::kTyped, .type = type, .encoded = encoded}, 0, 0);
  std::string again;
  value_ops(type)->encode(*shard.find(hash, "key").entry, again);
  return again;
}

TEST(RdbValue, ValuesOfEveryLabelAndSizeComeBack) {
  struct Case {
    ValueType type;
    uint8_t label;
    uint64_t count;
    size_t size;
  };
  for (const Case& c : {Case{ValueType::kList, 0, 5, 10}, Case{ValueType::kList, 0, 100, 70}, Case{ValueType::kList, 1, 300, 20},
                        Case{ValueType::kSet, 0, 5, 0}, Case{ValueType::kSet, 0, 512, 0}, Case{ValueType::kSet, 1, 128, 10},
                        Case{ValueType::kSet, 2, 3, 70}, Case{ValueType::kSet, 2, 5000, 10}, Case{ValueType::kHash, 0, 512, 60},
                        Case{ValueType::kHash, 2, 3, 70}, Case{ValueType::kHash, 2, 5000, 5}, Case{ValueType::kSortedSet, 0, 128, 20},
                        Case{ValueType::kSortedSet, 1, 3, 70}, Case{ValueType::kSortedSet, 1, 3000, 3}}) {
    const std::string encoded = encoded_of(c.type, c.label, c.count, c.size);
    ASSERT_TRUE(value_ops(c.type)->check(encoded));
    const std::optional<RdbValue> read = rdb_read(written({.type = c.type, .bytes = encoded}));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->type, c.type);
    EXPECT_EQ(read->bytes[0], static_cast<char>(c.label));
    const std::string before = stored(c.type, encoded), after = stored(c.type, read->bytes);
    // A table's elements may come in another order.
    EXPECT_EQ(std::multiset<char>(before.begin() + 1, before.end()), std::multiset<char>(after.begin() + 1, after.end()));
    if (c.label == 0) {
      EXPECT_EQ(before, after);
    }
  }
}

TEST(RdbValue, ElementsThatAreThereAlreadyAreRefused) {
  // Among so many that the table of what is there has grown.
  std::string hash;
  RdbWriter out(hash);
  out.put(uint8_t{4}).length(2001);
  for (int i = 0; i < 2000; ++i) out.string("field " + std::to_string(i)).string("v");
  std::string twice = hash, once = hash;
  RdbWriter(twice).string("field 1234").string("v");
  RdbWriter(once).string("field 2000").string("v");
  EXPECT_FALSE(rdb_read(twice));
  EXPECT_TRUE(rdb_read(once));
}

TEST(RdbElements, ListpacksHoldEveryNumberAndLength) {
  std::vector<std::string> texts = {"", "0", "-0", "007", "9223372036854775808", std::string(1, '\0')};
  for (unsigned bits = 0; bits < 64; ++bits) {
    for (int64_t near = -2; near <= 2; ++near) {
      const auto number = static_cast<int64_t>((1ULL << bits) + static_cast<uint64_t>(near));
      texts.push_back(std::to_string(number));
      texts.push_back(std::to_string(-(number + 1)));
    }
  }
  for (const size_t size : {1u, 62u, 63u, 64u, 65u, 125u, 126u, 127u, 128u, 4095u, 4096u, 16376u, 16377u, 16378u, 16384u, 70000u, 2097145u, 2097150u, 2097160u}) {
    texts.emplace_back(size, 'x');
  }
  ListpackWriter writer;
  for (const std::string& text : texts) writer.text(text);
  const std::string listpack(writer.finish());
  ListpackSource source(listpack);
  ShortText text;
  for (const std::string& expected : texts) {
    ASSERT_TRUE(source.next(text)) << expected.size();
    ASSERT_EQ(text.string(), expected);
  }
  EXPECT_FALSE(source.next(text));
  EXPECT_TRUE(source.sound());
  // Cut anywhere, it is not sound.
  for (size_t size = 0; size < 2000; ++size) {
    ListpackSource cut(std::string_view(listpack).substr(0, size));
    while (cut.next(text)) {}
    ASSERT_FALSE(cut.sound());
  }
}

TEST(RdbLzf, EverythingComesBack) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    // Few symbols and repetitions from afar, so that all kinds of references come up.
    std::string bytes;
    const size_t size = random() % (round % 100 == 0 ? 40'000 : 600);
    while (bytes.size() < size) {
      if (bytes.size() > 10 && random() % 3 == 0) {
        const size_t from = random() % bytes.size(), count = random() % 400;
        for (size_t i = 0; i < count; ++i) bytes.push_back(bytes[from + i]);
      } else {
        bytes.push_back(static_cast<char>(random() % (round % 7 == 0 ? 256 : 3)));
      }
    }
    std::string packed = "before", back = "before";
    if (!lzf_compress(bytes, bytes.size() + bytes.size() / 16 + 40, packed)) FAIL() << "more than literals would take";
    ASSERT_TRUE(lzf_decompress(std::string_view(packed).substr(6), bytes.size(), back));
    ASSERT_EQ(back, "before" + bytes);
    ASSERT_LE(bytes.size(), (packed.size() - 6) * kLzfMostExpansion);
    // Any other size is refused, as are bytes that are missing.
    ASSERT_FALSE(lzf_decompress(std::string_view(packed).substr(6), bytes.size() + 1, back));
    if (!bytes.empty()) {
      ASSERT_FALSE(lzf_decompress(std::string_view(packed).substr(6), bytes.size() - 1, back));
      ASSERT_FALSE(lzf_decompress(std::string_view(packed).substr(6, packed.size() - 7), bytes.size(), back));
    }
    // Not even one byte more than allowed.
    std::string limited = "before";
    if (lzf_compress(bytes, packed.size() - 6, limited)) FAIL() << "as many bytes as must not be reached";
    ASSERT_EQ(limited, "before");
  }
}

}  // namespace
}  // namespace pion
