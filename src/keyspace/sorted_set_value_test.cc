// Sorted sets against std::map and std::set: deltas, ranks, walks both ways, small and large, through encode and decode.
#include "keyspace/sorted_set_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr uint64_t kSeed = 42;
using Op = SortedSetDelta::Op;
using Order = std::set<std::pair<double, std::string>>;

class SortedSetValueTest : public ::testing::Test {
 protected:
  Found find() { return shard_.find(hash_, kKey); }

  void apply(std::string_view delta) {
    const Found found = find();
    ASSERT_TRUE(kSortedSetOps.check_delta(found.entry, delta));
    apply_delta(shard_, found, hash_, kKey, ValueType::kSortedSet, delta, 0);
  }

  void random_delta(std::mt19937_64& random, unsigned names, size_t longest, unsigned most, unsigned removals) {
    const Op op = random() % 100 < removals ? Op::kRemove : Op::kSet;
    std::string delta;
    SortedSetDelta writer(delta, op);
    for (uint64_t n = 1 + random() % most; n > 0; --n) {
      const uint64_t number = random() % names;
      std::string member = random() % 2 ? "m" + std::to_string(number) : std::to_string(number);
      member.resize(std::max(member.size(), longest), '.');
      const double score = random() % 3 ? static_cast<double>(random() % 50) : std::ldexp(static_cast<double>(random() % 1000), -5);
      writer.member(member);
      if (op == Op::kSet) {
        writer.score(score);
        model_[member] = score;
      } else {
        model_.erase(member);
      }
    }
    apply(delta);
  }

  void check(std::mt19937_64& random) {
    ASSERT_EQ(static_cast<bool>(find()), !model_.empty());
    if (model_.empty()) return;
    const SortedSetReader reader(*find().entry);
    ASSERT_EQ(reader.size(), model_.size());
    Order order;
    for (const auto& [member, score] : model_) order.emplace(score, member);
    std::vector<std::pair<double, std::string>> ascending(order.begin(), order.end()), walked;
    reader.each([&](const ScoredMember& item) { walked.emplace_back(item.score, item.member.string()); });
    ASSERT_EQ(walked, ascending);
    for (int i = 0; i < 20; ++i) {
      const uint64_t at = random() % ascending.size();
      const auto& [score, member] = ascending[at];
      double found = -1;
      ASSERT_TRUE(reader.score(member, found));
      ASSERT_EQ(found, score);
      ASSERT_EQ(reader.rank(member, score), at);
      const auto below = [&](const ScoredMember& item) { return item.score < score; };
      const auto least = std::lower_bound(ascending.begin(), ascending.end(), std::pair(score, std::string()));
      ASSERT_EQ(reader.count_where(below), static_cast<uint64_t>(least - ascending.begin()));
      for (const bool backwards : {false, true}) {
        uint64_t expected = at, left = 5;
        reader.walk(at, backwards, [&](const ScoredMember& item) {
          EXPECT_EQ(item.member.string(), ascending[expected].second);
          expected += backwards ? -1 : 1;
          return --left > 0;
        });
      }
    }
    double unused = 0;
    ASSERT_FALSE(reader.score("no such member", unused));
    std::set<std::string> scanned;
    uint64_t position = 0;
    do {
      position = reader.scan(position, [&](const ScoredMember& item) { scanned.insert(item.member.string()); });
    } while (position != 0);
    ASSERT_EQ(scanned.size(), model_.size());
  }

  void check_round_trip() {
    if (model_.empty()) return;
    std::string bytes;
    kSortedSetOps.encode(*find().entry, bytes);
    ASSERT_TRUE(kSortedSetOps.check(bytes));
    const std::string label(kSortedSetOps.encoding_name(*find().entry));
    shard_.erase(find(), hash_);
    store_encoded(shard_, {}, hash_, kKey, {.kind = NewValue::Kind::kTyped, .type = ValueType::kSortedSet, .encoded = bytes}, 0, 0);
    ASSERT_EQ(kSortedSetOps.encoding_name(*find().entry), label);
    for (size_t cut = 0; cut < bytes.size() && cut < 200; ++cut) ASSERT_FALSE(kSortedSetOps.check(bytes.substr(0, cut)));
  }

  static constexpr std::string_view kKey = "the key";
  const KeyHash hash_ = Shard::hash(kKey, kSeed);
  PagePool pool_;
  Shard shard_{pool_, kSeed};
  std::map<std::string, double> model_;
};

TEST_F(SortedSetValueTest, HoldsWhatTheModelHolds) {
  struct Case { unsigned names; size_t longest; unsigned most; };
  for (const Case& size : {Case{8, 3, 3}, Case{100, 5, 5}, Case{30, 100, 3}, Case{6000, 8, 400}}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      std::mt19937_64 random(seed);
      if (find()) shard_.erase(find(), hash_);
      model_.clear();
      for (int step = 0; step < 400; ++step) {
        random_delta(random, size.names, size.longest, size.most, step / 100 % 2 ? 75 : 20);
        if (step % 20 == 0) check(random);
        if (step % 100 == 99) check_round_trip(), check(random);
      }
    }
  }
}

TEST_F(SortedSetValueTest, AscendingOnesFillTheirTree) {
  std::string delta;
  SortedSetDelta writer(delta, Op::kSet);
  for (int i = 0; i < 100'000; ++i) writer.member("member" + std::to_string(i)).score(i);
  apply(delta);
  // 16 bytes in the tree, 11 in the table, 24 or 32 in the block.
  EXPECT_LT(value_memory_bytes(*find().entry), 100'000u * 62);
  std::string removal;
  SortedSetDelta remover(removal, Op::kRemove);
  for (int i = 0; i < 100'000; ++i) {
    if (i % 100 != 0) remover.member("member" + std::to_string(i));
  }
  apply(removal);
  const SortedSetReader reader(*find().entry);
  EXPECT_EQ(reader.size(), 1000u);
  EXPECT_EQ(reader.rank("member50000", 50'000), 500u);
  EXPECT_LT(value_memory_bytes(*find().entry), 400'000u);
}

TEST_F(SortedSetValueTest, NegativeZeroIsKeptInASkipListOnly) {
  std::string delta;
  double score = 1;
  SortedSetDelta(delta, Op::kSet).member("a").score(-0.0);
  apply(delta);
  ASSERT_TRUE(SortedSetReader(*find().entry).score("a", score));
  EXPECT_FALSE(std::signbit(score));
  SortedSetDelta(delta, Op::kSet).member(std::string(65, 'x')).score(1);
  apply(delta);
  EXPECT_EQ(kSortedSetOps.encoding_name(*find().entry), "skiplist");
  SortedSetDelta(delta, Op::kSet).member("b").score(-0.0);
  apply(delta);
  ASSERT_TRUE(SortedSetReader(*find().entry).score("b", score));
  EXPECT_TRUE(std::signbit(score));
  SortedSetDelta(delta, Op::kSet).member("b").score(0.0);
  apply(delta);
  ASSERT_TRUE(SortedSetReader(*find().entry).score("b", score));
  EXPECT_TRUE(std::signbit(score));  // equal: nothing has changed
}

TEST_F(SortedSetValueTest, NoBytesAreTakenForADeltaThatAreNone) {
  std::string nan;
  SortedSetDelta(nan, Op::kSet).member("a").score(std::nan(""));
  for (const std::string& bytes : {std::string(), std::string("\x01"), std::string("\x03\x01x"), std::string("\x01\x01x"), nan}) {
    EXPECT_FALSE(kSortedSetOps.check_delta(nullptr, bytes));
  }
}

}  // namespace
}  // namespace pion
