// Streams against std::map: entries, groups and pending entries, through encode and decode.
#include "keyspace/stream_value.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "keyspace/collection_limits.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

using Op = StreamDelta::Op;
using Fields = std::vector<std::string>;

struct ModelPending {
  std::string consumer;
  int64_t delivered_ms = 0;
  uint64_t deliveries = 0;
  bool operator==(const ModelPending&) const = default;
};
struct ModelGroup {
  StreamId last_id;
  std::map<StreamId, ModelPending> pending;
  std::set<std::string> consumers;
  bool operator==(const ModelGroup&) const = default;
};
struct Model {
  std::map<StreamId, Fields> entries;
  std::map<std::string, ModelGroup> groups;
  StreamId last_id, max_deleted;
};

class StreamValueTest : public ::testing::Test {
 protected:
  Found find() { return shard_.find(hash_, kKey); }
  const Stream& stream() { return stream_of(*find().entry); }

  void apply(std::string_view delta) {
    const Found found = find();
    ASSERT_TRUE(kStreamOps.check_delta(found.entry, delta));
    for (size_t cut = 0; cut < std::min<size_t>(delta.size(), 6); ++cut) (void)kStreamOps.check_delta(found.entry, delta.substr(0, cut));
    apply_delta(shard_, found, hash_, kKey, ValueType::kStream, delta, 0);
  }

  static Fields fields_of(const StreamEntry& entry) {
    Fields fields;
    entry.each([&](const ShortText& name, const ShortText& value) {
      fields.push_back(name.string());
      fields.push_back(value.string());
    });
    EXPECT_EQ(entry.fields() * 2, fields.size());
    return fields;
  }

  void check_entries(const Model& model, std::mt19937_64& random) {
    std::map<StreamId, Fields> seen;
    stream().each({}, StreamId::last(), [&](const StreamEntry& entry) { return seen.emplace(entry.id, fields_of(entry)), true; });
    ASSERT_EQ(seen, model.entries);
    ASSERT_EQ(stream().size(), model.entries.size());
    ASSERT_EQ(stream().first_id(), model.entries.empty() ? StreamId{} : model.entries.begin()->first);
    ASSERT_EQ(stream().last_entry_id(), model.entries.empty() ? StreamId{} : model.entries.rbegin()->first);
    // A part, from both sides.
    StreamId from{random() % 1000, 0}, to{random() % 1000, random() % 10};
    std::vector<StreamId> wanted, forwards, backwards;
    for (const auto& [id, fields] : model.entries) {
      if (id >= from && id <= to) wanted.push_back(id);
    }
    stream().each(from, to, [&](const StreamEntry& entry) { return forwards.push_back(entry.id), true; });
    stream().each_backwards(from, to, [&](const StreamEntry& entry) { return backwards.push_back(entry.id), true; });
    std::reverse(backwards.begin(), backwards.end());
    ASSERT_EQ(forwards, wanted);
    ASSERT_EQ(backwards, wanted);
  }

  void check_groups(const Model& model) {
    ASSERT_EQ(stream().groups.size(), model.groups.size());
    for (const auto& [name, group] : stream().groups) {
      ModelGroup seen{group.last_id, {}, {}};
      group.pending.each({}, [&](const PendingEntry& entry) {
        seen.pending[entry.id] = {*entry.consumer->name, entry.delivered_ms, entry.deliveries};
        EXPECT_TRUE(entry.consumer->pending.find(entry.id));
        return true;
      });
      uint64_t owned = 0;
      for (const auto& [consumer_name, consumer] : group.consumers) seen.consumers.insert(consumer_name), owned += consumer.pending.size();
      ASSERT_EQ(owned, group.pending.size());
      ASSERT_EQ(seen, model.groups.at(name));
    }
  }

  void check(const Model& model, std::mt19937_64& random) {
    check_entries(model, random);
    check_groups(model);
    ASSERT_EQ(stream().last_id, model.last_id);
    ASSERT_EQ(stream().max_deleted, model.max_deleted);
    std::string bytes, again;
    kStreamOps.encode(*find().entry, bytes);
    ASSERT_TRUE(kStreamOps.check(bytes));
    const uint64_t nodes = stream().radix_nodes();
    for (size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 64) ASSERT_FALSE(kStreamOps.check(bytes.substr(0, cut)));
    shard_.erase(find(), hash_);
    ASSERT_EQ(shard_.count(), 0U);
    store_encoded(shard_, {}, hash_, kKey, {.kind = NewValue::Kind::kTyped, .type = ValueType::kStream, .encoded = bytes}, 0, 0);
    kStreamOps.encode(*find().entry, again);
    ASSERT_EQ(again, bytes);
    ASSERT_EQ(stream().radix_nodes(), nodes);
  }

  void random_step(std::mt19937_64& random, Model& model);
  void add(std::mt19937_64& random, Model& model);
  void remove(std::mt19937_64& random, Model& model);
  void group_step(std::mt19937_64& random, Model& model);

  static constexpr std::string_view kKey = "the key";
  static constexpr uint64_t kSeed = 42;
  const KeyHash hash_ = Shard::hash(kKey, kSeed);
  PagePool pool_;
  Shard shard_{pool_, kSeed};
  std::string delta_;
};

void StreamValueTest::add(std::mt19937_64& random, Model& model) {
  StreamId id = model.last_id;
  random() % 3 ? void(id.ms += random() % 5) : void(id.seq += random() % 3);
  if (id <= model.last_id) id = model.last_id, id.increment();
  Fields fields;
  const unsigned shape = random() % 4;
  for (unsigned i = 0; i <= (shape == 3 ? random() % 5 : shape); ++i) {
    fields.push_back(shape == 3 ? "n" + std::to_string(random() % 100) : "f" + std::to_string(i));
    fields.push_back(random() % 2 ? std::to_string(static_cast<int64_t>(random())) : std::string(random() % 100, 'v'));
  }
  const std::vector<std::string_view> views(fields.begin(), fields.end());
  StreamDelta(delta_, Op::kAdd).id(id).fields(views);
  apply(delta_);
  model.entries[id] = fields;
  model.last_id = id;
}

void StreamValueTest::remove(std::mt19937_64& random, Model& model) {
  const bool references = random() % 2;
  const auto forget = [&](StreamId id) {
    model.entries.erase(id);
    for (auto& [name, group] : model.groups) references ? group.pending.erase(id) : 0;
  };
  if (random() % 2) {
    const uint64_t count = random() % 8;
    StreamDelta(delta_, Op::kDropFront).varint(count).byte(references ? StreamDelta::kReferences : 0);
    apply(delta_);
    for (uint64_t left = count; left > 0 && !model.entries.empty(); --left) forget(model.entries.begin()->first);
    return;
  }
  StreamDelta removal(delta_, Op::kRemove);
  removal.byte(StreamDelta::kDeleted | (references ? StreamDelta::kReferences : 0));
  for (int i = 0; i < 3 && !model.entries.empty(); ++i) {
    auto place = model.entries.begin();
    std::advance(place, random() % model.entries.size());
    const StreamId id = place->first;
    removal.id(id);
    model.max_deleted = std::max(model.max_deleted, id);
    forget(id);
  }
  apply(delta_);
}

void StreamValueTest::group_step(std::mt19937_64& random, Model& model) {
  const std::string name = "g" + std::to_string(random() % 3), consumer = "c" + std::to_string(random() % 4);
  const auto place = model.groups.find(name);
  if (place == model.groups.end() || random() % 40 == 0) {
    const StreamId id{random() % 1000, 0};
    StreamDelta(delta_, Op::kSetGroup).bytes(name).id(id).varint(0);
    model.groups[name].last_id = id;
    return apply(delta_);
  }
  ModelGroup& group = place->second;
  switch (random() % 8) {
    case 0:
      if (random() % 10) return;
      StreamDelta(delta_, Op::kDropGroup).bytes(name);
      model.groups.erase(place);
      return apply(delta_);
    case 1:
      if (random() % 3) return;
      StreamDelta(delta_, Op::kDropConsumer).bytes(name).bytes(consumer);
      group.consumers.erase(consumer);
      std::erase_if(group.pending, [&](const auto& entry) { return entry.second.consumer == consumer; });
      return apply(delta_);
    case 2:
    case 3: {
      StreamDelta acknowledged(delta_, Op::kAcknowledge);
      acknowledged.bytes(name);
      for (int i = 0; i < 4 && !group.pending.empty(); ++i) {
        auto entry = group.pending.begin();
        std::advance(entry, random() % group.pending.size());
        acknowledged.id(entry->first);
        group.pending.erase(entry);
      }
      return apply(delta_);
    }
    default: {
      const bool claims = random() % 2;
      StreamDelta change(delta_, claims ? Op::kClaim : Op::kDeliver);
      change.bytes(name).bytes(consumer).time(1234);
      group.consumers.insert(consumer);
      for (const auto& [id, fields] : model.entries) {
        if (random() % 4) continue;
        const uint64_t deliveries = claims ? random() % 100 : 1;
        change.id(id);
        if (claims) change.varint(deliveries);
        group.pending[id] = {consumer, 1234, deliveries};
      }
      return apply(delta_);
    }
  }
}

void StreamValueTest::random_step(std::mt19937_64& random, Model& model) {
  const unsigned kind = random() % 10;
  if (!find() || kind < 6) return add(random, model);
  kind < 8 ? remove(random, model) : group_step(random, model);
}

TEST_F(StreamValueTest, HoldsWhatTheModelHolds) {
  for (uint64_t entries : {3, 10, 100}) {
    collection_limits().stream_node_entries = entries;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      std::mt19937_64 random(seed);
      Model model;
      if (find()) shard_.erase(find(), hash_);
      for (int step = 0; step < 800; ++step) {
        random_step(random, model);
        if (step % 20 == 19) check(model, random);
        if (HasFatalFailure()) return;
      }
    }
  }
  collection_limits().stream_node_entries = 100;
}

TEST_F(StreamValueTest, CountsItsMemoryExactly) {
  StreamDelta(delta_, Op::kSetGroup).bytes("group").id({}).varint(0);
  apply(delta_);
  const uint64_t before = stream().memory_bytes();
  for (uint64_t i = 1; i <= 5000; ++i) {
    const std::string_view fields[] = {"name", "value"};
    StreamDelta(delta_, Op::kAdd).id({i, 0}).fields(fields);
    apply(delta_);
    StreamDelta(delta_, Op::kDeliver).bytes("group").bytes("consumer").time(1).id({i, 0});
    apply(delta_);
  }
  EXPECT_GT(stream().memory_bytes(), before + 5000 * 50);
  StreamDelta(delta_, Op::kDropGroup).bytes("group");
  apply(delta_);
  StreamDelta(delta_, Op::kDropFront).varint(5000).byte(0);
  apply(delta_);
  EXPECT_EQ(stream().size(), 0U);
  EXPECT_LE(stream().memory_bytes(), before + 2048);  // room of the vector of blocks
  shard_.erase(find(), hash_);
  EXPECT_EQ(shard_.count(), 0U);
}

TEST_F(StreamValueTest, SmallerThanAListpack) {
  for (uint64_t i = 0; i < 10'000; ++i) {
    const std::string number = std::to_string(i), name = "user:" + number;
    const std::string_view fields[] = {"user", name, "score", number, "city", "Berlin"};
    StreamDelta(delta_, Op::kAdd).id({1'700'000'000'000 + i * 3, 0}).fields(fields);
    apply(delta_);
  }
  uint64_t listpacks = 0;
  stream().each_raw_block([&](StreamId, const StreamBlock& block) { listpacks += block.listpack_bytes; });
  EXPECT_LT(stream().memory_bytes(), listpacks);
}

TEST_F(StreamValueTest, RefusesDeltasThatCannotBe) {
  const std::string_view fields[] = {"a", "1"};
  StreamDelta(delta_, Op::kAdd).id({5, 0}).fields(fields);
  apply(delta_);
  StreamDelta(delta_, Op::kAdd).id({5, 0}).fields(fields);
  EXPECT_FALSE(kStreamOps.check_delta(find().entry, delta_));
  StreamDelta(delta_, Op::kAdd).id({6, 0}).fields({});
  EXPECT_FALSE(kStreamOps.check_delta(find().entry, delta_));
  EXPECT_FALSE(kStreamOps.check_delta(find().entry, ""));
  EXPECT_FALSE(kStreamOps.check_delta(find().entry, "\x0d"));
}

}  // namespace
}  // namespace pion
