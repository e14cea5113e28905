// The keyspace over real storage in a temporary directory and over the faulty file system: recovery, checkpoints, expiry,
// eviction, threads.
#include "keyspace/keyspace.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "base/clock.h"
#include "io/faulty_filesystem.h"

namespace pion {
namespace {

using Contents = std::map<std::pair<int, std::string>, std::pair<std::string, int64_t>>;  // value, expiry

// A server's half: storage and the keyspace on it.
struct House {
  std::unique_ptr<Storage> storage;
  std::unique_ptr<Keyspace> keyspace;

  explicit House(FileSystem& files, const std::string& dir = "/data") {
    auto opened = Storage::open(files, {.dir = dir});
    if (!opened) return;
    storage = std::move(*opened);
    keyspace = std::make_unique<Keyspace>(*storage);
    storage->add_plane(keyspace.get());
    if (!storage->recover()) keyspace.reset();
  }
  ~House() {
    if (storage) storage->stop();
  }

  Lsn set(int db, std::string_view name, const NewValue& value, int64_t expiry_ms = 0) {
    const Key key = keyspace->key(name);
    if (!keyspace->admit(name.size() + value.record_bytes() + 64, WriteKind::kGrows)) return 0;
    KeyAccess access(*keyspace, key);
    access.set(db, key, access.find(db, key), value, expiry_ms);
    return access.finish();
  }
  Lsn set(int db, std::string_view name, std::string_view value, int64_t expiry_ms = 0) {
    return set(db, name, NewValue::from_argument(value), expiry_ms);
  }
  Lsn del(int db, std::string_view name) {
    const Key key = keyspace->key(name);
    (void)keyspace->admit(name.size() + 16, WriteKind::kFrees);
    KeyAccess access(*keyspace, key);
    if (const Found found = access.find(db, key)) access.erase(db, key, found);
    return access.finish();
  }
  std::optional<std::string> get(int db, std::string_view name) {
    const Key key = keyspace->key(name);
    KeyAccess access(*keyspace, key);
    const Found found = access.find(db, key);
    if (!found) return std::nullopt;
    return text(*found.entry);
  }
  std::string text(const Entry& entry) {
    if (entry.encoding() == Encoding::kInt) return std::to_string(entry.integer());
    if (entry.encoding() != Encoding::kExtent) return std::string(entry.bytes());
    auto extent = storage->extents().open(entry.extent());
    if (!extent) return "unreadable: " + extent.error().message;
    std::string bytes((*extent)->payload_bytes(), '\0');
    const Status read = (*extent)->read(0, bytes.size(), bytes.data());
    return read ? bytes : "unreadable: " + read.error().message;
  }
  ExtentRef extent(std::string_view bytes) {
    auto writer = storage->extents().create(Space::kValues, bytes.size(), 0);
    EXPECT_TRUE(writer && (*writer)->append(bytes));
    return *(*writer)->finish();
  }
  Contents contents() {
    Contents all;
    for (int db = 0; db < static_cast<int>(kDatabases); ++db) {
      std::vector<std::string> keys;
      Lsn visible = 0;
      keyspace->scan(db, 0, UINT64_MAX, {}, keys, visible);
      for (const std::string& name : keys) {
        const Key key = keyspace->key(name);
        KeyAccess access(*keyspace, key);
        const Found found = access.find(db, key);
        if (found) all[{db, name}] = {text(*found.entry), found.entry->has_expiry() ? found.entry->expiry() : 0};
      }
    }
    return all;
  }
};

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/pion-keyspace-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_ + "/data"; }

 private:
  std::string path_;
};

// One random command on the house and on the model.
void random_change(House& house, Contents& model, std::mt19937_64& random) {
  const int db = static_cast<int>(random() % 3);
  const std::string name = "key:" + std::to_string(random() % 200);
  const int64_t future = wall_ms() + 1'000'000 + static_cast<int64_t>(random() % 1000);
  const int64_t expiry_ms = random() % 4 == 0 ? future : 0;
  const Key key = house.keyspace->key(name);
  const auto in_model = model.find({db, name});
  switch (random() % 12) {
    case 0: {
      const std::string number = std::to_string(random() % 1000);
      house.set(db, name, number, expiry_ms);
      model[{db, name}] = {number, expiry_ms};
      break;
    }
    case 1: {
      house.del(db, name);
      model.erase({db, name});
      break;
    }
    case 2: {
      KeyAccess access(*house.keyspace, key);
      if (const Found found = access.find(db, key)) {
        access.set_expiry(db, key, found, expiry_ms);
        in_model->second.second = expiry_ms;
      }
      break;
    }
    case 3: {
      KeyAccess access(*house.keyspace, key);
      const Found found = access.find(db, key);
      if (found && found.entry->encoding() != Encoding::kExtent) {
        access.append(db, key, found, "tail");
        in_model->second.first += "tail";
      }
      break;
    }
    case 4: {
      KeyAccess access(*house.keyspace, key);
      const Found found = access.find(db, key);
      if (found && found.entry->encoding() != Encoding::kExtent) {
        access.set_range(db, key, found, 3, "range");
        std::string& value = in_model->second.first;
        if (value.size() < 8) value.resize(8, '\0');
        value.replace(3, 5, "range");
      }
      break;
    }
    case 5: {
      const std::string bytes(70'000 + random() % 10'000, static_cast<char>('a' + random() % 26));
      house.set(db, name, NewValue::of_extent(house.extent(bytes), bytes.size()), expiry_ms);
      model[{db, name}] = {bytes, expiry_ms};
      break;
    }
    case 6:
      if (random() % 40 != 0) break;
      house.keyspace->flush(db);
      std::erase_if(model, [db](const auto& item) { return item.first.first == db; });
      break;
    case 7: {
      if (random() % 40 != 0) break;
      house.keyspace->swap_databases(0, 1);
      Contents swapped;
      for (auto& [place, value] : model) swapped[{place.first == 0 ? 1 : place.first == 1 ? 0 : place.first, place.second}] = value;
      model = std::move(swapped);
      break;
    }
    default: {
      const std::string value(random() % 600, static_cast<char>('a' + random() % 26));
      house.set(db, name, value, expiry_ms);
      model[{db, name}] = {value, expiry_ms};
    }
  }
}

TEST(Keyspace, ComesBackAfterRestartsWithAndWithoutCheckpoints) {
  TemporaryDirectory dir;
  std::mt19937_64 random(11);
  Contents model;
  for (int round = 0; round < 12; ++round) {
    House house(real_filesystem(), dir.path());
    ASSERT_TRUE(house.keyspace);
    ASSERT_EQ(house.contents(), model) << "round " << round;
    for (int step = 0; step < 400; ++step) {
      random_change(house, model, random);
      if (round % 3 == 1 && step == 200) {
        ASSERT_TRUE(house.storage->checkpoint());
      }
    }
    ASSERT_EQ(house.contents(), model);
    house.keyspace->maintain(1'000'000);
  }
}

TEST(Keyspace, ACheckpointWhileThreadsWriteLosesNothing) {
  TemporaryDirectory dir;
  std::map<std::string, int> expected;
  {
    House house(real_filesystem(), dir.path());
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    std::vector<std::map<std::string, int>> written(3);
    for (size_t t = 0; t < written.size(); ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int i = 0; !stop || i < 2000; ++i) {
          const std::string name = std::to_string(t) + ":" + std::to_string(random() % 500);
          house.set(0, name, std::to_string(i));
          written[t][name] = i;
        }
      });
    }
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(house.storage->checkpoint());
    stop = true;
    for (std::thread& thread : threads) thread.join();
    for (const auto& part : written) expected.insert(part.begin(), part.end());
  }
  House house(real_filesystem(), dir.path());
  for (const auto& [name, value] : expected) ASSERT_EQ(house.get(0, name), std::to_string(value)) << name;
  EXPECT_EQ(house.keyspace->size(0), expected.size());
}

TEST(Keyspace, TwoThreadsMovingValuesNeitherLoseNorDoubleThem) {
  TemporaryDirectory dir;
  House house(real_filesystem(), dir.path());
  constexpr int kTokens = 64;
  for (int i = 0; i < kTokens; ++i) house.set(0, "place:" + std::to_string(i), "token");
  const auto mover = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 20'000; ++i) {
      const std::string from = "place:" + std::to_string(random() % 256), to = "place:" + std::to_string(random() % 256);
      const Key keys[] = {house.keyspace->key(from), house.keyspace->key(to)};
      (void)house.keyspace->admit(100, WriteKind::kGrows);
      KeyAccess access(*house.keyspace, keys);
      const Found source = access.find(0, keys[0]);
      if (!source || access.find(0, keys[1])) continue;
      access.set(0, keys[1], {}, NewValue::of_entry(*source.entry), 0);
      access.erase(0, keys[0], access.find(0, keys[0]));
    }
  };
  std::thread first(mover, 1), second(mover, 2);
  std::thread looker([&] {
    for (int i = 0; i < 200; ++i) {
      house.keyspace->prefetch_bucket(0, house.keyspace->key("place:1").hash);
      house.keyspace->prefetch_entry(0, house.keyspace->key("place:1").hash);
      house.keyspace->prefetch_chained_entry(0, house.keyspace->key("place:1").hash);
      house.keyspace->stats();
      house.keyspace->maintain(1000);
    }
  });
  first.join();
  second.join();
  looker.join();
  EXPECT_EQ(house.keyspace->size(0), static_cast<uint64_t>(kTokens));
}

TEST(Keyspace, ExpiredKeysAreNeverShownAndTheirRemovalIsRecorded) {
  TemporaryDirectory dir;
  {
    House house(real_filesystem(), dir.path());
    house.set(0, "gone", "x", wall_ms() - 1);
    house.set(0, "swept", "x", wall_ms() - 1);
    house.set(0, "stays", "x", wall_ms() + 1'000'000);
    std::vector<std::string> keys;
    Lsn visible = 0;
    house.keyspace->scan(0, 0, UINT64_MAX, {}, keys, visible);
    EXPECT_EQ(keys, std::vector<std::string>{"stays"});
    EXPECT_EQ(house.keyspace->size(0), 3u);
    EXPECT_EQ(house.get(0, "gone"), std::nullopt);
    EXPECT_EQ(house.keyspace->size(0), 2u);
    house.keyspace->settings.active_expire = false;
    house.keyspace->maintain(1'000'000);
    EXPECT_EQ(house.keyspace->size(0), 2u);
    house.keyspace->settings.active_expire = true;
    house.keyspace->maintain(1'000'000);
    EXPECT_EQ(house.keyspace->size(0), 1u);
    EXPECT_EQ(house.keyspace->stats().expired, 2u);
  }
  House house(real_filesystem(), dir.path());
  EXPECT_EQ(house.keyspace->size(0), 1u);
}

class EvictionTest : public ::testing::TestWithParam<EvictionPolicy> {};

TEST_P(EvictionTest, KeepsTheCeilingAndChoosesByPolicy) {
  const EvictionPolicy policy = GetParam();
  TemporaryDirectory dir;
  House house(real_filesystem(), dir.path());
  KeyspaceSettings& settings = house.keyspace->settings;
  settings.policy = policy;
  const std::string value(1000, 'v');
  const int64_t later = wall_ms() + 10'000'000;
  // Half of the keys may expire; those with even numbers are used again and again, and expire last.
  const auto name = [](int i) { return "key:" + std::to_string(i); };
  for (int i = 0; i < 2000; ++i) house.set(0, name(i), value, i % 4 < 2 ? later + (i % 2 == 0 ? 1'000'000 : 0) : 0);
  settings.maxmemory = house.keyspace->memory_bytes() * 3 / 4;
  if (policy == EvictionPolicy::kAllKeysLru || policy == EvictionPolicy::kVolatileLru) {
    // The clock counts seconds; the odd keys are made to look idle for a while.
    for (int i = 1; i < 2000; i += 2) {
      const std::string odd = name(i);
      const Key key = house.keyspace->key(odd);
      KeyAccess access(*house.keyspace, key);
      const Found found = access.find(0, key);
      found.entry->set_clock(found.entry->clock() - 100);
    }
  } else {
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 2000; i += 2) house.get(0, name(i));
    }
  }
  bool ok = true;
  for (int i = 0; i < 200 && ok; ++i) ok = house.keyspace->ensure_memory();
  if (policy == EvictionPolicy::kNoEviction) {
    EXPECT_FALSE(ok);
    EXPECT_EQ(house.keyspace->size(0), 2000u);
    return;
  }
  EXPECT_TRUE(ok);
  EXPECT_LT(house.keyspace->memory_bytes(), settings.maxmemory + 300'000);
  EXPECT_LT(house.keyspace->size(0), 1700u);
  uint64_t even = 0, odd = 0, lasting = 0;
  for (int i = 0; i < 2000; ++i) {
    const bool there = house.get(0, name(i)).has_value();
    if (i % 4 >= 2) lasting += there;
    (i % 2 == 0 ? even : odd) += there;
  }
  if (volatile_only(policy)) {
    EXPECT_EQ(lasting, 1000u);
  }
  const bool random_choice = policy == EvictionPolicy::kAllKeysRandom || policy == EvictionPolicy::kVolatileRandom;
  // The best of one stripe goes, and some stripes are chosen more often than they have odd keys: most, not all, are odd.
  if (!random_choice) {
    EXPECT_GT(even, odd + 50);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EvictionTest,
                         ::testing::Values(EvictionPolicy::kNoEviction, EvictionPolicy::kAllKeysLru, EvictionPolicy::kAllKeysLfu,
                                           EvictionPolicy::kAllKeysRandom, EvictionPolicy::kVolatileLru,
                                           EvictionPolicy::kVolatileLfu, EvictionPolicy::kVolatileRandom,
                                           EvictionPolicy::kVolatileTtl));

TEST(Keyspace, SurvivesKillsAndPowerLossAtRandomPoints) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    FaultyFileSystem disk(seed);
    std::mt19937_64 random(seed);
    Contents synced, latest;
    const CrashKind kind = seed % 2 ? CrashKind::kKill : CrashKind::kPowerLoss;
    for (int round = 0; round < 3; ++round) {
      // Every state after a command is remembered: what is found must be one of them, at or after the last acknowledged one.
      std::vector<Contents> states;
      size_t acknowledged = 0;
      {
        House house(disk);
        ASSERT_TRUE(house.keyspace) << "seed " << seed;
        latest = house.contents();
        states.push_back(latest);
        disk.crash_after(20 + random() % 120);
        for (int step = 0; step < 150 && !disk.crashed(); ++step) {
          const int db = static_cast<int>(random() % 2);
          const std::string name = "key:" + std::to_string(random() % 30), value = std::to_string(random());
          const Lsn lsn = random() % 5 == 0 ? house.del(db, name) : house.set(db, name, value);
          latest = house.contents();
          states.push_back(latest);
          if (random() % 7 == 0) (void)house.storage->checkpoint();
          const bool written = static_cast<bool>(house.storage->journal().write_pending());
          const bool safe = kind == CrashKind::kKill ? written : written && house.storage->journal().sync_up_to(lsn);
          if (safe && house.storage->journal().written_lsn() >= lsn) acknowledged = states.size() - 1;
        }
        disk.crash_now();
      }
      disk.restart(kind);
      House house(disk);
      ASSERT_TRUE(house.keyspace) << "seed " << seed;
      const Contents found = house.contents();
      bool known = false;
      for (size_t i = acknowledged; i < states.size(); ++i) known = known || states[i] == found;
      ASSERT_TRUE(known) << "seed " << seed << " round " << round << ": a state that never was, or an acknowledged change is lost";
    }
  }
}

TEST(Keyspace, ReplayRefusesWhatIsNoRecord) {
  TemporaryDirectory dir;
  House house(real_filesystem(), dir.path());
  std::mt19937_64 random(17);
  std::string good;
  write_effect(good, {.kind = EffectKind::kSet, .database = 1, .key = "k", .value = NewValue::of_bytes("value"), .expiry_ms = 77});
  write_effect(good, {.kind = EffectKind::kDelete, .database = 1, .key = "other"});
  for (size_t cut = 1; cut < good.size(); ++cut) {
    Effect effect;
    ByteReader reader(std::string_view(good).substr(0, cut));
    while (!reader.empty() && read_effect(reader, effect)) {
    }
  }
  const auto type = static_cast<uint8_t>(RecordType::kKeyspace);
  EXPECT_FALSE(house.keyspace->apply(5, type, std::string_view(good).substr(0, good.size() - 1)));
  EXPECT_EQ(house.keyspace->size(1), 0u);  // not even its first effect
  EXPECT_FALSE(house.keyspace->apply(5, type + 1, good));
  std::string append;
  write_effect(append, {.kind = EffectKind::kAppend, .database = 1, .key = "k", .value = NewValue::of_raw("x"), .offset = 3});
  EXPECT_FALSE(house.keyspace->apply(5, type, append));
  for (int i = 0; i < 20'000; ++i) {
    std::string noise = good;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) noise[random() % noise.size()] = static_cast<char>(random());
    (void)house.keyspace->apply(6 + static_cast<Lsn>(i), type, noise);
    (void)house.keyspace->load_section(static_cast<uint32_t>(random() % 300), 5, noise);
  }
}

}  // namespace
}  // namespace pion
