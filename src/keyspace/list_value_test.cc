// Lists against std::deque: every kind of delta, small and large, at several limits, through encode and decode.
#include "keyspace/list_value.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "keyspace/collection_limits.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr uint64_t kSeed = 42;
using Op = ListDelta::Op;
using Model = std::deque<std::string>;

class ListValueTest : public ::testing::Test {
 protected:
  void TearDown() override { collection_limits().list_listpack_size = -2; }

  Found find() { return shard_.find(hash_, kKey); }

  void apply(std::string_view delta) {
    const Found found = find();
    ASSERT_TRUE(kListOps.check_delta(found.entry, delta));
    apply_delta(shard_, found, hash_, kKey, ValueType::kList, delta, 0);
  }

  void push(bool front, const std::string& element) {
    std::string delta;
    ListDelta(delta, front ? Op::kPushFront : Op::kPushBack).element(element);
    apply(delta);
  }

  std::string_view encoding() { return kListOps.encoding_name(*find().entry); }

  // Forward, backward, and by index.
  void check(const Model& model, std::mt19937_64& random) {
    const Found found = find();
    ASSERT_EQ(static_cast<bool>(found), !model.empty());
    if (!found) return;
    const ListReader reader(*found.entry);
    ASSERT_EQ(reader.size(), model.size());
    Model forward, backward;
    reader.forward(0, [&](const ShortText& text) { return forward.push_back(text.string()), true; });
    reader.backward(model.size() - 1, [&](const ShortText& text) { return backward.push_front(text.string()), true; });
    ASSERT_EQ(forward, model);
    ASSERT_EQ(backward, model);
    for (int i = 0; i < 5; ++i) {
      const uint64_t index = random() % model.size();
      ASSERT_EQ(reader.at(index).string(), model[index]);
      uint64_t left = 3, at = index;
      bool equal = true;
      reader.forward(index, [&](const ShortText& text) {
        equal &= text.string() == model[at++];
        return --left > 0;
      });
      at = index, left = 3;
      reader.backward(index, [&](const ShortText& text) {
        equal &= text.string() == model[at--];
        return --left > 0;
      });
      ASSERT_TRUE(equal) << index;
    }
  }

  // Into another key and back: nothing is lost on the way, not even where chunks end.
  void check_round_trip(const Model& model, std::mt19937_64& random) {
    if (model.empty()) return;
    std::string bytes, again;
    kListOps.encode(*find().entry, bytes);
    ASSERT_TRUE(kListOps.check(bytes));
    const std::string label(encoding());
    shard_.erase(find(), hash_);
    store_encoded(shard_, {}, hash_, kKey, {.kind = NewValue::Kind::kTyped, .type = ValueType::kList, .encoded = bytes}, 0, 0);
    check(model, random);
    ASSERT_EQ(encoding(), label);
    kListOps.encode(*find().entry, again);
    ASSERT_EQ(again, bytes);
    for (size_t cut = 0; cut < bytes.size() && cut < 200; ++cut) ASSERT_FALSE(kListOps.check(bytes.substr(0, cut)));
  }

  std::string element(std::mt19937_64& random, size_t longest) {
    if (random() % 2) return std::to_string(static_cast<int64_t>(random()) >> random() % 64);
    if (random() % 40 == 0) return std::string(longest * 8 + random() % 100, 'L');
    return std::string(random() % longest, static_cast<char>('a' + random() % 26));
  }

  void random_push(std::mt19937_64& random, Model& model, size_t longest, unsigned most) {
    const bool front = random() % 2;
    std::string delta;
    ListDelta writer(delta, front ? Op::kPushFront : Op::kPushBack);
    for (uint64_t n = 1 + random() % most; n > 0; --n) {
      const std::string text = element(random, longest);
      writer.element(text);
      front ? model.push_front(text) : model.push_back(text);
    }
    apply(delta);
  }

  void random_removal(std::mt19937_64& random, Model& model) {
    std::string delta;
    if (random() % 3 == 0) {
      ListDelta writer(delta, Op::kRemoveEach);
      Model left;
      uint64_t last = 0;
      for (uint64_t i = 0; i < model.size(); ++i) {
        if (random() % 7 == 0) {
          writer.number(writer.empty() ? i : i - last);
          last = i;
        } else {
          left.push_back(model[i]);
        }
      }
      if (writer.empty()) return;
      model = left;
    } else {
      const uint64_t most = random() % 2 ? 3 : model.size();
      const uint64_t count = 1 + random() % std::min<uint64_t>(most, model.size());
      const uint64_t where = random() % 3, index = where == 0 ? 0 : where == 1 ? model.size() - count : random() % (model.size() - count + 1);
      ListDelta(delta, Op::kRemove).number(index).number(count);
      model.erase(model.begin() + static_cast<ptrdiff_t>(index), model.begin() + static_cast<ptrdiff_t>(index + count));
    }
    apply(delta);
  }

  void random_edit(std::mt19937_64& random, Model& model, size_t longest) {
    std::string delta;
    const uint64_t index = random() % model.size();
    const auto at = model.begin() + static_cast<ptrdiff_t>(index);
    const std::string text = element(random, longest);
    switch (random() % 4) {
      case 0: {
        const bool after = random() % 2;
        ListDelta(delta, Op::kInsert).number(index).flag(after).element(text);
        model.insert(at + after, text);
        break;
      }
      case 1:
      case 2:
        ListDelta(delta, Op::kReplace).number(index).element(text);
        *at = text;
        break;
      default: {
        const bool from_front = random() % 2;
        const bool to_front = random() % 2;
        ListDelta(delta, Op::kRotate).number(uint64_t{from_front} | uint64_t{to_front} << 1);
        if (from_front == to_front) break;
        from_front ? std::rotate(model.begin(), model.begin() + 1, model.end()) : std::rotate(model.begin(), model.end() - 1, model.end());
      }
    }
    apply(delta);
  }

  static constexpr std::string_view kKey = "key";
  PagePool pool_;
  Shard shard_{pool_, kSeed};
  const KeyHash hash_ = Shard::hash(kKey, kSeed);
};

TEST_F(ListValueTest, EqualsADequeWhateverHappens) {
  for (const int64_t limit : {-2, -1, 3, 128}) {
    collection_limits().list_listpack_size = limit;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      std::mt19937_64 random(seed * 100 + static_cast<uint64_t>(limit + 10));
      Model model;
      const size_t longest = 1 + random() % 1500;
      const unsigned most = 1 + random() % 60;
      for (int round = 0; round < 250 && !HasFatalFailure(); ++round) {
        const uint64_t choice = random() % 10;
        if (model.empty() || choice < 4) {
          random_push(random, model, longest, most);
        } else if (choice < 7) {
          random_edit(random, model, longest);
        } else {
          random_removal(random, model);
        }
        check(model, random);
        if (round % 50 == 0) check_round_trip(model, random);
      }
      if (const Found found = find()) shard_.erase(found, hash_);
      ASSERT_EQ(shard_.count(), 0u);
    }
  }
}

TEST_F(ListValueTest, ChangesEncodingWhereRedisDoes) {
  for (int i = 0; i < 8; ++i) push(false, std::string(1000, 'x'));
  EXPECT_EQ(encoding(), "listpack");  // 8,039 bytes as a listpack
  push(false, std::string(1000, 'x'));
  EXPECT_EQ(encoding(), "quicklist");
  std::string delta;
  ListDelta(delta, Op::kRemove).number(8).number(1);
  apply(delta);
  EXPECT_EQ(encoding(), "quicklist");  // one chunk, more than half full
  ListDelta(delta, Op::kRemove).number(4).number(4);
  apply(delta);
  EXPECT_EQ(encoding(), "listpack");
}

TEST_F(ListValueTest, MemoryFollowsTheElements) {
  for (int i = 0; i < 200'000; ++i) push(i % 2, "element:" + std::to_string(i));
  const uint64_t full = shard_.memory_bytes();
  EXPECT_LT(full, 200'000u * 17);  // 13.9 bytes of text, 2 of frame each
  std::string delta;
  ListDelta(delta, Op::kRemove).number(100).number(199'000);
  apply(delta);
  EXPECT_LT(shard_.memory_bytes(), 64u * 1024);
  ListDelta(delta, Op::kRemove).number(0).number(1000);
  apply(delta);
  EXPECT_FALSE(find());
}

TEST_F(ListValueTest, AQueueDoesNotGrow) {
  for (int i = 0; i < 3000; ++i) push(false, "element:" + std::to_string(i));
  const uint64_t before = shard_.memory_bytes();
  std::string delta;
  for (int i = 0; i < 50'000; ++i) {
    push(false, "element:" + std::to_string(i % 3000));
    ListDelta(delta, Op::kRemove).number(0).number(1);
    apply(delta);
  }
  EXPECT_LT(shard_.memory_bytes(), before + before / 4 + 16 * 1024);
}

TEST_F(ListValueTest, DeltasThatDoNotFitAreRefused) {
  push(false, "a");
  push(false, "b");
  const auto refused = [&](auto&& write, Op op) {
    std::string delta;
    ListDelta writer(delta, op);
    write(writer);
    return !kListOps.check_delta(find().entry, delta);
  };
  EXPECT_TRUE(refused([](ListDelta&) {}, Op::kPushBack));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.number(1).number(2); }, Op::kRemove));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.number(0).number(0); }, Op::kRemove));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.number(UINT64_MAX).number(3); }, Op::kRemove));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.number(2).flag(false).element("x"); }, Op::kInsert));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.number(2).element("x"); }, Op::kReplace));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.number(0).number(0); }, Op::kRemoveEach));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.number(0).number(2); }, Op::kRemoveEach));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.number(4); }, Op::kRotate));
  EXPECT_TRUE(refused([](ListDelta& delta) { delta.element("x"); }, static_cast<Op>(9)));
  std::string delta;
  ListDelta(delta, Op::kRotate).flag(true);
  EXPECT_FALSE(kListOps.check_delta(nullptr, delta));
}

// A list built as a whole is cut where one is that grew by single elements, and what fits into one chunk is a listpack.
TEST_F(ListValueTest, BuiltAsAWhole) {
  std::mt19937_64 random(7);
  for (int64_t limit : {-2, -1, 5, 128}) {
    collection_limits().list_listpack_size = limit;
    for (int round = 0; round < 200; ++round) {
      Model model;
      ListBuilder built;
      ChunkedList grown;
      for (uint64_t n = 1 + random() % (round % 2 ? 8 : 300); n > 0; --n) {
        model.push_back(element(random, 60));
        built.add(model.back());
        grown.push(false, model.back());
      }
      const std::string bytes = built.encoded();
      ASSERT_TRUE(kListOps.check(bytes));
      store_encoded(shard_, find(), hash_, kKey, {.kind = NewValue::Kind::kTyped, .type = ValueType::kList, .encoded = bytes}, 0, 0);
      check(model, random);
      ASSERT_EQ(encoding(), grown.chunks() == 1 && !grown.chunk(0).plain ? "listpack" : "quicklist");
      check_round_trip(model, random);
    }
  }
}

}  // namespace
}  // namespace pion
