// The hash table of large values against std::set: growth and shrinking, the walk of SCAN, even chances.
#include "keyspace/linear_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "keyspace/random.h"

namespace pion {
namespace {

struct Traits {
  static std::string_view key(const void* element) { return *static_cast<const std::string*>(element); }
};

class LinearTableTest : public ::testing::Test {
 protected:
  void add(const std::string& name) {
    auto [place, fresh] = elements_.try_emplace(name, std::make_unique<std::string>(name));
    if (fresh) table_.insert(place->second.get(), element_hash(name));
  }
  void remove(const std::string& name) {
    const auto slot = table_.find(name, element_hash(name));
    ASSERT_EQ(slot != nullptr, elements_.contains(name));
    if (!slot) return;
    table_.remove(slot, element_hash(name));
    elements_.erase(name);
  }
  void check() {
    ASSERT_EQ(table_.count(), elements_.size());
    for (const auto& [name, element] : elements_) {
      const auto slot = table_.find(name, element_hash(name));
      ASSERT_TRUE(slot) << name;
      ASSERT_EQ(table_.element(slot), element.get());
    }
    std::set<std::string> walked;
    table_.each([&](void* element) { return walked.insert(*static_cast<std::string*>(element)).second; });
    ASSERT_EQ(walked.size(), elements_.size());
  }

  std::map<std::string, std::unique_ptr<std::string>> elements_;
  LinearTable<Traits> table_;
};

TEST_F(LinearTableTest, HoldsWhatTheModelHolds) {
  std::mt19937_64 random(7);
  for (int phase = 0; phase < 8; ++phase) {
    const unsigned adds = phase % 2 ? 20 : 80;  // in a hundred
    for (int i = 0; i < 3000; ++i) {
      const std::string name = std::to_string(random() % 4000);
      random() % 100 < adds ? add(name) : remove(name);
    }
    check();
  }
  while (!elements_.empty()) remove(std::string(elements_.begin()->first));
  check();
  EXPECT_LT(table_.memory_bytes(), 8192u);
}

TEST_F(LinearTableTest, AWalkMeetsWhatIsThereAllTheWhile) {
  for (int round = 0; round < 40; ++round) {
    std::mt19937_64 random(round);
    for (int i = 0; i < 300; ++i) add("stays" + std::to_string(i));
    std::set<std::string> met;
    uint64_t position = 0;
    int step = 0;
    do {
      position = table_.scan(position, [&](void* element) { met.insert(*static_cast<std::string*>(element)); });
      // Grows for a while, then shrinks, then grows again.
      for (int i = 0; i < 100; ++i) {
        const std::string name = "goes" + std::to_string(random() % 5000);
        (step / 20 + round) % 2 ? remove(name) : add(name);
      }
    } while (position != 0 && ++step < 100000);
    ASSERT_EQ(position, 0u);
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(met.contains("stays" + std::to_string(i)));
  }
}

TEST_F(LinearTableTest, EveryElementHasTheSameChance) {
  for (int i = 0; i < 100; ++i) add(std::to_string(i));
  std::map<std::string, int> drawn;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) ++drawn[*static_cast<std::string*>(table_.random(random64))];
  ASSERT_EQ(drawn.size(), 100u);
  double chi = 0;
  for (const auto& [name, count] : drawn) chi += (count - kDraws / 100.0) * (count - kDraws / 100.0) / (kDraws / 100.0);
  EXPECT_LT(chi, 200);  // 99 degrees of freedom: more than 180 comes once in a million runs
}

}  // namespace
}  // namespace pion
