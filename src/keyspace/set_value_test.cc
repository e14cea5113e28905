// Sets against std::set: deltas of every size, all three packings, through encode and decode; and walks that see one moment.
#include "keyspace/set_value.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "keyspace/collection_limits.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr uint64_t kSeed = 42;
using Op = SetDelta::Op;
using Model = std::set<std::string>;

class SetValueTest : public ::testing::Test {
 protected:
  Found find() { return shard_.find(hash_, kKey); }

  void apply(std::string_view delta) {
    const Found found = find();
    ASSERT_TRUE(kSetOps.check_delta(found.entry, delta));
    apply_delta(shard_, found, hash_, kKey, ValueType::kSet, delta, 0);
  }

  void add(std::initializer_list<std::string> members) {
    std::string delta;
    SetDelta writer(delta, Op::kAdd);
    for (const std::string& member : members) writer.member(member);
    apply(delta);
  }

  Model contents() {
    Model contents;
    if (const Found found = find()) {
      SetReader(*found.entry).each([&](const ShortText& member) {
        EXPECT_TRUE(contents.insert(member.string()).second);
        return true;
      });
      EXPECT_EQ(SetReader(*found.entry).size(), contents.size());
    }
    return contents;
  }

  std::string label() { return std::string(kSetOps.encoding_name(*find().entry)); }

  void check_round_trip(const Model& model) {
    std::string bytes;
    kSetOps.encode(*find().entry, bytes);
    ASSERT_TRUE(kSetOps.check(bytes));
    const std::string before = label();
    shard_.erase(find(), hash_);
    store_encoded(shard_, {}, hash_, kKey, {.kind = NewValue::Kind::kTyped, .type = ValueType::kSet, .encoded = bytes}, 0, 0);
    ASSERT_EQ(contents(), model);
    ASSERT_EQ(label(), before);
    for (size_t cut = 0; cut < bytes.size() && cut < 200; ++cut) ASSERT_FALSE(kSetOps.check(bytes.substr(0, cut)));
  }

  static constexpr std::string_view kKey = "the key";
  const KeyHash hash_ = Shard::hash(kKey, kSeed);
  PagePool pool_;
  Shard shard_{pool_, kSeed};
};

TEST_F(SetValueTest, HoldsWhatTheModelHolds) {
  struct Case { unsigned names; int integers_of_ten; size_t longest; unsigned most; };
  for (const Case& c : {Case{8, 10, 1, 3}, Case{700, 10, 1, 30}, Case{60, 9, 20, 4}, Case{200, 5, 40, 20}, Case{12, 0, 3000, 3},
                        Case{5000, 3, 30, 400}, Case{6000, 10, 1, 300}}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      std::mt19937_64 random(seed);
      Model model;
      if (find()) shard_.erase(find(), hash_);
      for (int step = 0; step < 250; ++step) {
        const Op op = random() % 5 < 3 ? Op::kAdd : Op::kRemove;
        std::string delta;
        SetDelta writer(delta, op);
        for (uint64_t n = 1 + random() % c.most; n > 0; --n) {
          const uint64_t name = random() % c.names;
          std::string member = "m" + std::to_string(name) + std::string(name * 7919 % c.longest, 'x');
          if (static_cast<int>(random() % 10) < c.integers_of_ten) {
            // Of every width, both signs.
            const int64_t scale[] = {1, 300, 70'000, 5'000'000'000};
            member = std::to_string((static_cast<int64_t>(name) - c.names / 2) * scale[name % 4]);
          }
          op == Op::kAdd ? void(model.insert(member)) : void(model.erase(member));
          writer.member(member);
        }
        apply(delta);
        if (step % 10 == 0) {
          ASSERT_EQ(contents(), model);
          for (const std::string& member : model) ASSERT_TRUE(SetReader(*find().entry).contains(member)) << member;
          if (!model.empty()) {
            ASSERT_FALSE(SetReader(*find().entry).contains("nobody"));
            ASSERT_FALSE(SetReader(*find().entry).contains("123456789012"));
            ASSERT_TRUE(model.contains(SetReader(*find().entry).random().string()));
          }
        }
        if (step % 50 == 49 && !model.empty()) check_round_trip(model);
      }
    }
  }
}

TEST_F(SetValueTest, IntegersComeInOrder) {
  add({"5", "-70000", "9000000000", "1"});
  std::string order;
  SetReader(*find().entry).each([&](const ShortText& member) { return order += member.string() + " ", true; });
  EXPECT_EQ(order, "-70000 1 5 9000000000 ");
  EXPECT_EQ(label(), "intset");
  add({"x"});
  order.clear();
  SetReader(*find().entry).each([&](const ShortText& member) { return order += member.string() + " ", true; });
  EXPECT_EQ(order, "-70000 1 5 9000000000 x ");
  EXPECT_EQ(label(), "listpack");
}

TEST_F(SetValueTest, EncodingsFollowTheLimits) {
  add({"1", "01"});
  EXPECT_EQ(label(), "listpack") << "01 is no integer";
  add({std::string(64, 'a')});
  EXPECT_EQ(label(), "listpack");
  add({std::string(65, 'a')});
  EXPECT_EQ(label(), "hashtable");
  shard_.erase(find(), hash_);
  for (int i = 0; i < 512; ++i) add({std::to_string(i)});
  EXPECT_EQ(label(), "intset");
  add({"511"});
  EXPECT_EQ(label(), "intset");
  add({"512"});
  EXPECT_EQ(label(), "hashtable");
  EXPECT_EQ(contents().size(), 513u);
  shard_.erase(find(), hash_);
  add({"a"});
  for (int i = 1; i < 128; ++i) add({"m" + std::to_string(i)});
  EXPECT_EQ(label(), "listpack");
  add({"b"});
  EXPECT_EQ(label(), "hashtable");
  shard_.erase(find(), hash_);
  add({"1"});
  std::string delta;
  SetDelta many(delta, Op::kAdd);
  for (int i = 0; i < 513; ++i) many.member("1");
  EXPECT_TRUE(set_label_grows(*find().entry, 513));
  apply(delta);
  EXPECT_EQ(label(), "hashtable") << "as many arguments decide, also when they are all the same";
  EXPECT_EQ(contents().size(), 1u);
}

TEST_F(SetValueTest, MemoryComesBack) {
  const uint64_t empty = shard_.memory_bytes();
  std::string delta;
  SetDelta writer(delta, Op::kAdd);
  for (int i = 0; i < 20'000; ++i) writer.member("member:" + std::to_string(i));
  apply(delta);
  EXPECT_GT(shard_.memory_bytes(), empty + 20'000 * 16);
  delta[0] = static_cast<char>(Op::kRemove);
  apply(delta);
  EXPECT_FALSE(find());
  EXPECT_LT(shard_.memory_bytes(), empty + 10'000);
}

TEST_F(SetValueTest, BytesThatAreNoSetAreRefused) {
  EXPECT_FALSE(kSetOps.check(""));
  EXPECT_FALSE(kSetOps.check(std::string("\x03\x01\x01" "a", 4))) << "no such label";
  EXPECT_FALSE(kSetOps.check(std::string("\x01\x00", 2))) << "no members";
  EXPECT_FALSE(kSetOps.check(std::string("\x00\x01\x01" "a", 4))) << "an intset of something else";
  EXPECT_TRUE(kSetOps.check(std::string("\x01\x01\x01" "a", 4)));
  EXPECT_FALSE(kSetOps.check_delta(nullptr, std::string("\x01", 1)));
  EXPECT_FALSE(kSetOps.check_delta(nullptr, std::string("\x03\x01" "a", 3)));
  EXPECT_FALSE(kSetOps.check_delta(nullptr, std::string("\x01\x02" "a", 3)));
}

// A walk in steps, with additions and removals between them that make the table grow and shrink, gives exactly what was there
// when it began; another log tells what was a member then.
TEST(SetTable, AWalkSeesTheMomentItBegan) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    PagePool pool;
    SetTable table(pool);
    Model now;
    const uint64_t names = seed % 2 ? 3000 : 200;
    const auto change = [&](uint64_t adds_of_ten) {
      const std::string member = "m" + std::to_string(random() % names);
      if (random() % 10 < adds_of_ten) {
        ASSERT_EQ(table.add(member), now.insert(member).second);
      } else {
        ASSERT_EQ(table.remove(member), now.erase(member) == 1);
      }
    };
    for (uint64_t i = 0; i < names; ++i) change(8);
    const Model then = now;
    std::shared_ptr<SetLog> walk = table.start_log(), membership = table.start_log();
    Model walked;
    const uint64_t tendency = random() % 11;
    for (bool more = true; more;) {
      more = table.walk(*walk, [&](std::string_view member) { ASSERT_TRUE(walked.emplace(member).second) << member; });
      for (uint64_t i = random() % 60; i > 0; --i) change(tendency);
      const std::string asked = "m" + std::to_string(random() % names);
      ASSERT_EQ(membership->was_member(asked, table.contains(asked)), then.contains(asked));
    }
    ASSERT_EQ(walked, then) << "seed " << seed;
    ASSERT_TRUE(table.logs_to(*walk));
    const SetLog* const address = walk.get();
    walk.reset();
    membership.reset();
    change(10), change(0), change(5);
    table.add("one more");
    ASSERT_FALSE(table.logs_to(*address)) << "the table forgets a log that nobody holds";
  }
}

}  // namespace
}  // namespace pion
