// The table against std::map: contents, counts, memory, growth and shrinking, the walk of SCAN, the index of expiry.
#include "keyspace/shard.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace pion {
namespace {

constexpr uint64_t kSeed = 42;

struct Model {
  std::string value;
  int64_t expiry_ms = 0;
};

class ShardModelTest : public ::testing::Test {
 protected:
  static KeyHash hash(std::string_view key) { return Shard::hash(key, kSeed); }

  std::string bytes_of(const Entry& entry) {
    if (entry.encoding() != Encoding::kInt) return std::string(entry.bytes());
    return std::to_string(entry.integer());
  }

  void set(const std::string& key, const std::string& value, int64_t expiry_ms) {
    shard_.store(shard_.find(hash(key), key), hash(key), key, NewValue::from_argument(value), expiry_ms, 0);
    model_[key] = {value, expiry_ms};
  }
  void erase(const std::string& key) {
    const Found found = shard_.find(hash(key), key);
    ASSERT_EQ(static_cast<bool>(found), model_.contains(key));
    if (found) shard_.erase(found, hash(key));
    model_.erase(key);
  }
  void expire(const std::string& key, int64_t expiry_ms) {
    const Found found = shard_.find(hash(key), key);
    ASSERT_EQ(static_cast<bool>(found), model_.contains(key));
    if (!found) return;
    shard_.set_expiry(found, hash(key), expiry_ms);
    model_[key].expiry_ms = expiry_ms;
  }
  void append(const std::string& key, const std::string& tail) {
    const Found found = shard_.find(hash(key), key);
    if (!found) return;
    std::string& value = model_[key].value;
    const Shard::Writable writable = shard_.make_writable(found, hash(key), value.size() + tail.size());
    std::memcpy(writable.bytes + value.size(), tail.data(), tail.size());
    value += tail;
  }
  void check() {
    ASSERT_EQ(shard_.count(), model_.size());
    uint64_t with_expiry = 0;
    for (const auto& [key, expected] : model_) {
      const Found found = shard_.find(hash(key), key);
      ASSERT_TRUE(found) << key;
      ASSERT_EQ(bytes_of(*found.entry), expected.value);
      ASSERT_EQ(found.entry->has_expiry() ? found.entry->expiry() : 0, expected.expiry_ms);
      with_expiry += expected.expiry_ms != 0;
    }
    ASSERT_EQ(shard_.volatile_count(), with_expiry);
    std::multiset<std::string> seen;
    shard_.each([&](Entry& entry) { seen.insert(std::string(entry.key())); });
    ASSERT_EQ(seen.size(), model_.size());
  }

  PagePool pool_;
  Shard shard_{pool_, kSeed};
  std::map<std::string, Model> model_;
};

TEST_F(ShardModelTest, EqualsAMapUnderRandomChanges) {
  std::mt19937_64 random(1);
  const auto key = [&] { return "key:" + std::to_string(random() % 4000) + std::string(random() % 3 * 7, 'x'); };
  for (int step = 0; step < 120'000; ++step) {
    // Waves of growth and shrinking, so that buckets split and merge many times.
    const bool growing = step / 15'000 % 2 == 0;
    const uint64_t dice = random() % 100;
    if (dice < (growing ? 60u : 15u)) {
      const size_t size = random() % 20 == 0 ? random() % 2000 : random() % 60;
      std::string value(size, static_cast<char>('a' + random() % 26));
      if (random() % 4 == 0) value = std::to_string(static_cast<int64_t>(random()));
      set(key(), value, random() % 3 == 0 ? static_cast<int64_t>(1 + random() % 1000) : 0);
    } else if (dice < 80) {
      erase(key());
    } else if (dice < 90) {
      expire(key(), random() % 2 ? static_cast<int64_t>(1 + random() % 1000) : 0);
    } else {
      append(key(), std::string(random() % 300, 'z'));
    }
    if (step % 10'000 == 0) check();
  }
  check();
  while (!model_.empty()) erase(model_.begin()->first);
  EXPECT_EQ(shard_.count(), 0u);
  shard_.clear([](ExtentRef) {});
  EXPECT_EQ(shard_.memory_bytes(), 0u);
  EXPECT_EQ(pool_.taken_bytes(), 0u);
}

TEST_F(ShardModelTest, MemoryFollowsTheKeys) {
  for (int i = 0; i < 50'000; ++i) set("key:" + std::to_string(i), "v", 0);
  const uint64_t full = shard_.memory_bytes();
  for (int i = 0; i < 49'900; ++i) erase("key:" + std::to_string(i));
  EXPECT_LT(shard_.memory_bytes() * 50, full);
  check();
}

TEST_F(ShardModelTest, AWalkSeesWhatStaysHoweverTheTableChanges) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 40; ++round) {
    std::set<std::string> staying;
    for (size_t i = 0, n = 1 + random() % 600; i < n; ++i) {
      staying.insert("stays:" + std::to_string(i));
      set("stays:" + std::to_string(i), "1", 0);
    }
    std::set<std::string> seen;
    uint64_t position = 0;
    uint64_t steps = 0;
    const bool grows = round % 2 == 0;
    if (!grows) {
      for (int i = 0; i < 3000; ++i) set("passing:" + std::to_string(i), "1", 0);
    }
    do {
      position = shard_.scan(position, [&](Entry& entry) { seen.insert(std::string(entry.key())); });
      ++steps;
      for (int i = 0; i < 5; ++i) {
        const std::string passing = "passing:" + std::to_string(random() % 3000);
        grows ? set(passing, "1", 0) : erase(passing);
      }
    } while (position != 0);
    EXPECT_LT(steps, 3000u);
    for (const std::string& key : staying) EXPECT_TRUE(seen.contains(key)) << key << " in round " << round;
    while (!model_.empty()) erase(model_.begin()->first);
  }
}

TEST_F(ShardModelTest, DueKeysComeInOrderAndStaleItemsDoNot) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "key:" + std::to_string(random() % 500);
    const uint64_t dice = random() % 4;
    if (dice == 0) {
      erase(key);
    } else if (dice == 1) {
      expire(key, 0);
    } else {
      set(key, "v", static_cast<int64_t>(1 + random() % 100'000));
    }
  }
  int64_t last = 0;
  while (shard_.next_expiry_ms() != INT64_MAX) {
    KeyHash due_hash;
    const Found found = shard_.take_due(due_hash);
    if (!found) continue;
    const std::string key(found.entry->key());
    ASSERT_GE(found.entry->expiry(), last);
    last = found.entry->expiry();
    ASSERT_EQ(model_[key].expiry_ms, last);
    shard_.erase(found, due_hash);
    model_.erase(key);
  }
  EXPECT_EQ(shard_.volatile_count(), 0u);
  for (const auto& [key, expected] : model_) EXPECT_EQ(expected.expiry_ms, 0);
}

TEST_F(ShardModelTest, WideKeysAndLargeValues) {
  const std::string wide(70'000, 'k');
  set(wide, std::string(100'000, 'v'), 5);
  expire(wide, 0);
  append(wide, "tail");
  set("", "", 0);
  check();
}

TEST_F(ShardModelTest, RandomReachesEveryKey) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 50; ++i) set("key:" + std::to_string(i), "v", 0);
  std::set<std::string> seen;
  for (int i = 0; i < 20'000; ++i) seen.insert(std::string(shard_.random(random())->key()));
  EXPECT_EQ(seen.size(), 50u);
}

}  // namespace
}  // namespace pion
