#include "base/latency_monitor.h"

#include <gtest/gtest.h>

#include "base/cycle_clock.h"

namespace pion {
namespace {

TEST(LatencyMonitor, KeepsTheWorstOfEachSecondAndForgetsOldSeconds) {
  LatencyMonitor monitor;
  monitor.add("disk", 7, 100);
  monitor.add("disk", 5, 100);
  monitor.add("disk", 9, 101);
  monitor.add("other", 1, 101);
  auto events = monitor.events();
  ASSERT_EQ(events.size(), 2u);
  const LatencyMonitor::Event& disk = events.find("disk")->second;
  ASSERT_EQ(disk.samples.size(), 2u);
  EXPECT_EQ(disk.samples[0].ms, 7u);
  EXPECT_EQ(disk.samples[1].wall_s, 101);
  EXPECT_EQ(disk.worst_ms, 9u);
  for (int64_t second = 200; second < 200 + static_cast<int64_t>(LatencyMonitor::kKept); ++second) monitor.add("disk", 2, second);
  events = monitor.events();
  EXPECT_EQ(events.find("disk")->second.samples.size(), LatencyMonitor::kKept);
  EXPECT_EQ(events.find("disk")->second.samples.front().wall_s, 200);
  EXPECT_EQ(events.find("disk")->second.worst_ms, 9u);
  EXPECT_TRUE(monitor.forget("disk"));
  EXPECT_FALSE(monitor.forget("disk"));
  EXPECT_EQ(monitor.forget_all(), 1u);
  EXPECT_TRUE(monitor.events().empty());
}

TEST(LatencyMonitor, AThresholdDecides) {
  LatencyMonitor monitor;
  monitor.note("disk", 1'000'000);
  EXPECT_TRUE(monitor.events().empty());
  monitor.set_threshold_ms(10);
  monitor.note("disk", 9);
  EXPECT_TRUE(monitor.events().empty());
  monitor.note("disk", 10);
  EXPECT_EQ(monitor.events().size(), 1u);
}

TEST(CycleClock, AgreesWithTheMonotonicClock) {
  const auto measure = [] {
    const int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    const uint64_t begin = CycleClock::now();
    while (clock_ns(CLOCK_MONOTONIC) - begin_ns < 20'000'000) {
    }
    const auto ns = static_cast<double>(CycleClock::to_ns(CycleClock::now() - begin));
    return ns / static_cast<double>(clock_ns(CLOCK_MONOTONIC) - begin_ns);
  };
  EXPECT_NEAR(measure(), 1, 0.05);
  CycleClock::calibrate();
  EXPECT_NEAR(measure(), 1, 0.05);
  EXPECT_NEAR(static_cast<double>(CycleClock::to_ns(CycleClock::from_ns(1'000'000))), 1e6, 2);
  EXPECT_GT(CycleClock::from_ns(UINT64_MAX / 4), CycleClock::from_ns(UINT64_MAX / 8));
}

}  // namespace
}  // namespace pion
