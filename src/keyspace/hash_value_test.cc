// Hashes against std::map: every kind of delta, small and large, with expiries, through encode and decode.
#include "keyspace/hash_value.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "keyspace/collection_limits.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr uint64_t kSeed = 42;
using Op = HashDelta::Op;
using Model = std::map<std::string, std::pair<std::string, int64_t>>;

class HashValueTest : public ::testing::Test {
 protected:
  Found find() { return shard_.find(hash_, kKey); }

  void apply(std::string_view delta) {
    const Found found = find();
    ASSERT_TRUE(kHashOps.check_delta(found.entry, delta));
    apply_delta(shard_, found, hash_, kKey, ValueType::kHash, delta, 0);
  }

  Model contents() {
    Model contents;
    if (const Found found = find()) {
      HashReader(*found.entry, INT64_MIN).each([&](const HashField& field) {
        EXPECT_TRUE(contents.try_emplace(field.name.string(), field.value.string(), field.expiry_ms).second);
        return true;
      });
      EXPECT_EQ(HashReader(*found.entry, 0).size(), contents.size());
    }
    return contents;
  }

  std::string encoded() {
    std::string bytes;
    kHashOps.encode(*find().entry, bytes);
    return bytes;
  }

  // Into another key and back: nothing is lost on the way.
  void check_round_trip(const Model& model) {
    const std::string bytes = encoded();
    ASSERT_TRUE(kHashOps.check(bytes));
    const std::string label(kHashOps.encoding_name(*find().entry));
    shard_.erase(find(), hash_);
    store_encoded(shard_, {}, hash_, kKey, {.kind = NewValue::Kind::kTyped, .type = ValueType::kHash, .encoded = bytes}, 0, 0);
    ASSERT_EQ(contents(), model);
    ASSERT_EQ(kHashOps.encoding_name(*find().entry), label);
    for (size_t cut = 0; cut < bytes.size() && cut < 200; ++cut) ASSERT_FALSE(kHashOps.check(bytes.substr(0, cut)));
  }

  void check(const Model& model) {
    ASSERT_EQ(contents(), model);
    int64_t next = INT64_MAX;
    for (const auto& [name, entry] : model) {
      HashField field;
      ASSERT_TRUE(HashReader(*find().entry, INT64_MIN).get(name, field)) << name;
      ASSERT_EQ(field.value.string(), entry.first);
      ASSERT_EQ(field.expiry_ms, entry.second);
      if (entry.second != 0) next = std::min(next, entry.second);
    }
    if (!model.empty()) {
      ASSERT_LE(kHashOps.next_due(*find().entry), next);
      ASSERT_LE(shard_.next_element_expiry_ms(), next);
    }
  }

  // One delta with up to `most` fields, to both.
  void random_delta(std::mt19937_64& random, Model& model, unsigned names, size_t longest, unsigned most) {
    const auto op = static_cast<Op>(1 + random() % 5);
    std::string delta;
    HashDelta writer(delta, op);
    for (uint64_t n = 1 + random() % most; n > 0; --n) {
      const std::string name = random() % 2 ? "f" + std::to_string(random() % names) : std::to_string(random() % names);
      const std::string value = random() % 3 ? std::string(random() % (longest + 1), 'v') : std::to_string(static_cast<int64_t>(random()));
      const int64_t expiry = 1'000'000'000'000 + static_cast<int64_t>(random() % 1000);
      const auto place = model.find(name);
      writer.field(name);
      switch (op) {
        case Op::kSet: model[name] = {value, 0}; writer.value(value); break;
        case Op::kSetKeeping: model[name] = {value, place == model.end() ? 0 : place->second.second}; writer.value(value); break;
        case Op::kSetExpiring: model[name] = {value, expiry}; writer.value(value).expiry(expiry); break;
        case Op::kRemove: model.erase(name); break;
        case Op::kExpire: {
          const int64_t at = random() % 3 ? expiry : 0;
          if (place != model.end()) place->second.second = at;
          writer.expiry(at);
          break;
        }
      }
    }
    apply(delta);
  }

  static constexpr std::string_view kKey = "the key";
  const KeyHash hash_ = Shard::hash(kKey, kSeed);
  PagePool pool_;
  Shard shard_{pool_, kSeed};
};

TEST_F(HashValueTest, HoldsWhatTheModelHolds) {
  struct Case { unsigned names; size_t longest; unsigned most; };
  for (const Case& size : {Case{8, 20, 3}, Case{300, 40, 20}, Case{20, 300, 3}, Case{6, 6000, 2}, Case{2000, 30, 300}}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      std::mt19937_64 random(seed);
      Model model;
      if (find()) shard_.erase(find(), hash_);
      for (int step = 0; step < 300; ++step) {
        random_delta(random, model, size.names, size.longest, size.most);
        if (step % 10 == 0) check(model);
        if (step % 50 == 49 && !model.empty()) check_round_trip(model);
      }
    }
  }
  while (find()) shard_.erase(find(), hash_);
}

TEST_F(HashValueTest, MemoryComesBack) {
  const uint64_t empty = shard_.memory_bytes();
  std::mt19937_64 random(3);
  Model model;
  for (int step = 0; step < 200; ++step) random_delta(random, model, 3000, 200, 100);
  ASSERT_GT(shard_.memory_bytes(), empty + 10'000);
  std::string delta;
  for (const auto& [name, entry] : model) {
    HashDelta(delta, Op::kRemove).field(name);
    apply(delta);
  }
  EXPECT_FALSE(find());
  EXPECT_LT(shard_.memory_bytes(), empty + 100'000);  // the table of keys and the index of expiry may stay
}

TEST_F(HashValueTest, EncodingsFollowTheLimits) {
  std::string delta;
  const auto label = [&] { return std::string(kHashOps.encoding_name(*find().entry)); };
  HashDelta(delta, Op::kSet).field("a").value(std::string(64, 'x'));
  apply(delta);
  EXPECT_EQ(label(), "listpack");
  HashDelta(delta, Op::kExpire).field("a").expiry(1);
  apply(delta);
  EXPECT_EQ(label(), "listpackex");
  HashDelta(delta, Op::kExpire).field("a").expiry(0);
  apply(delta);
  EXPECT_EQ(label(), "listpackex");
  HashDelta(delta, Op::kSet).field("a").value(std::string(65, 'x'));
  apply(delta);
  EXPECT_EQ(label(), "hashtable");
  HashDelta(delta, Op::kSet).field("a").value("x");
  apply(delta);
  EXPECT_EQ(label(), "hashtable");
  shard_.erase(find(), hash_);
  for (int i = 0; i <= 512; ++i) {
    EXPECT_TRUE(i == 0 || label() == "listpack");
    HashDelta(delta, Op::kSet).field(std::to_string(i)).value("x");
    apply(delta);
  }
  EXPECT_EQ(label(), "hashtable");
}

TEST_F(HashValueTest, DueFieldsAreRemoved) {
  for (int fields : {10, 2000}) {
    std::string delta;
    for (int i = 0; i < fields; ++i) {
      HashDelta(delta, Op::kSetExpiring).field(std::to_string(i)).value("x").expiry(i % 2 ? 100 : 200);
      apply(delta);
    }
    HashField field;
    EXPECT_FALSE(HashReader(*find().entry, 101).get("1", field));
    EXPECT_TRUE(HashReader(*find().entry, 100).get("1", field));
    EXPECT_TRUE(HashReader(*find().entry, 101).get("2", field));
    while (kHashOps.remove_due(*find().entry, 150, 64, delta)) apply(delta);
    EXPECT_EQ(contents().size(), static_cast<size_t>(fields / 2));
    while (find() && kHashOps.remove_due(*find().entry, 250, 64, delta)) apply(delta);
    EXPECT_FALSE(find());
  }
}

TEST_F(HashValueTest, NoBytesAreTakenForADeltaThatAreNone) {
  for (const std::string& bytes : {std::string(), std::string("\x01"), std::string("\x06\x01x"), std::string("\x01\x05x"), std::string("\x05\x01x\x01")}) {
    EXPECT_FALSE(kHashOps.check_delta(nullptr, bytes));
  }
  EXPECT_FALSE(kHashOps.check(std::string("\x00\x00", 2)));
  EXPECT_FALSE(kHashOps.check(std::string("\x03\x01\x01\x61\x00", 5)));
}

}  // namespace
}  // namespace pion
