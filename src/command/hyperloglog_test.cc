#include "command/hyperloglog.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pion::hll {
namespace {

constexpr uint64_t kMost = 3000;

void expect_registers(const std::string& value, const Registers& model) {
  for (unsigned i = 0; i < kRegisters; ++i) ASSERT_EQ(register_at(value, i), model[i]) << "register " << i;
}

// A sparse and a dense value get the same additions as an array; both must hold what the array holds, at every size.
TEST(HyperLogLog, BothEncodingsHoldWhatAnArrayHolds) {
  std::mt19937_64 random(4);
  std::string sparse = make_sparse(), dense = make_sparse();
  ASSERT_TRUE(make_dense(dense));
  Registers model{};
  bool became_dense = false;
  for (int step = 0; step < 4000; ++step) {
    // Counts of any height, in neighbouring registers too, so that runs meet.
    const Place place{static_cast<unsigned>(random() % 2 ? random() % 64 : random() % kRegisters),
                      static_cast<uint8_t>(random() % 4 ? random() % 3 + 1 : random() % 32 + 1)};
    const bool raises = place.count > model[place.index];
    ASSERT_EQ(raise(sparse, place, kMost), raises ? Raised::kRaised : Raised::kUnchanged);
    ASSERT_EQ(raise(dense, place, kMost), raises ? Raised::kRaised : Raised::kUnchanged);
    if (raises) model[place.index] = place.count;
    ASSERT_TRUE(is_valid(sparse));
    ASSERT_TRUE(encoding(sparse) == Encoding::kDense || sparse.size() <= kMost);
    became_dense = became_dense || encoding(sparse) == Encoding::kDense;
    if (step % 500 == 0) expect_registers(sparse, model);
    if (step % 100 == 0) {
      ASSERT_EQ(estimate(sparse), estimate(dense));
    }
  }
  EXPECT_TRUE(became_dense);
  expect_registers(sparse, model);
  expect_registers(dense, model);
  EXPECT_EQ(estimate(dense), estimate(model));
}

TEST(HyperLogLog, ACountAboveThirtyTwoMakesItDense) {
  std::string value = make_sparse();
  EXPECT_EQ(raise(value, {7, 32}, kMost), Raised::kRaised);
  EXPECT_EQ(encoding(value), Encoding::kSparse);
  EXPECT_EQ(raise(value, {16383, 33}, kMost), Raised::kRaised);
  EXPECT_EQ(encoding(value), Encoding::kDense);
  EXPECT_EQ(register_at(value, 7), 32);
  EXPECT_EQ(register_at(value, 16383), 33);
}

// What Redis 8.2.3 answers to PFADD h a b; GET h; PFDEBUG DECODE h.
TEST(HyperLogLog, BytesAreRedis) {
  std::string value = make_sparse();
  for (const char* element : {"a", "b"}) raise(value, place_of(element), kMost);
  EXPECT_EQ(value, std::string("HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80q\xa6\x84K\xfb\x80" "BZ", 24));
  EXPECT_EQ(describe_runs(value), "Z:12711 v:2,1 Z:3068 v:1,1 Z:603");
  EXPECT_EQ(estimate(value), 2u);
}

TEST(HyperLogLog, TheErrorIsWhatTheoryAllows) {
  std::string value = make_sparse();
  uint64_t next_check = 10;
  for (uint64_t n = 1; n <= 200'000; ++n) {
    raise(value, place_of(std::to_string(n * 7919)), kMost);
    if (n != next_check) continue;
    next_check = next_check * 3;
    const double off = std::fabs(static_cast<double>(*estimate(value)) - static_cast<double>(n));
    EXPECT_LE(off, std::max(1.0, 6 * 1.04 / 128 * static_cast<double>(n))) << n;
  }
}

TEST(HyperLogLog, AMergeIsTheLargerOfEachRegister) {
  std::string odd = make_sparse(), even = make_sparse(), all = make_sparse();
  for (int i = 0; i < 3000; ++i) {
    raise(i % 2 ? odd : even, place_of(std::to_string(i)), kMost);
    raise(all, place_of(std::to_string(i)), kMost);
  }
  Registers merged{};
  ASSERT_TRUE(merge_into(merged, odd));
  ASSERT_TRUE(merge_into(merged, even));
  expect_registers(all, merged);
  std::string written = make_sparse();
  ASSERT_TRUE(make_dense(written));
  write_dense(written, merged);
  expect_registers(written, merged);
}

TEST(HyperLogLog, DamagedBytesAreRefusedAndNeverReadBeyond) {
  const std::string header = make_sparse().substr(0, kHeaderBytes);
  for (const std::string& runs : {std::string(), std::string("\x7f"), std::string("\x7f\xfe"), std::string("\x7f\xff\x00", 3), std::string("\xff"),
                                  std::string(300, '\0'), std::string(5000, '\xff')}) {
    std::string value = header + runs;
    ASSERT_TRUE(is_valid(value));
    Registers registers{};
    EXPECT_FALSE(merge_into(registers, value));
    EXPECT_FALSE(estimate(value));
    const std::string before = value;
    EXPECT_FALSE(make_dense(value));
    EXPECT_EQ(value, before);
  }
  std::mt19937_64 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string value = header;
    for (size_t i = random() % 200; i > 0; --i) value.push_back(static_cast<char>(random()));
    Registers registers{};
    merge_into(registers, value);
    for (int i = 0; i < 5; ++i) {
      const Place place{static_cast<unsigned>(random() % kRegisters), static_cast<uint8_t>(random() % 51 + 1)};
      register_at(value, place.index);
      const bool cut = static_cast<uint8_t>(value.back()) >> 6 == 1;  // its last run may be the one that is changed
      if (raise(value, place, kMost) == Raised::kRaised && !cut) {
        ASSERT_EQ(register_at(value, place.index), place.count);
      }
    }
  }
}

TEST(HyperLogLog, OnlyTheRightHeaderIsValid) {
  EXPECT_FALSE(is_valid(""));
  EXPECT_FALSE(is_valid("HYLL"));
  EXPECT_FALSE(is_valid(std::string("hyll\x01", 5) + std::string(11, '\0')));
  EXPECT_FALSE(is_valid(std::string("HYLL\x02", 5) + std::string(11, '\0')));
  EXPECT_FALSE(is_valid(std::string("HYLL\x00", 5) + std::string(11, '\0'))) << "dense, too short";
  EXPECT_TRUE(is_valid(std::string("HYLL\x01", 5) + std::string(11, '\0')));
}

}  // namespace
}  // namespace pion::hll
