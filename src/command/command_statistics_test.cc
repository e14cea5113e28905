#include "command/command_statistics.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "command/latency_report.h"
#include "resp/reply.h"

namespace pion {
namespace {

TEST(LatencyHistogram, SlotsJoinWithoutGapsAndAreNarrow) {
  uint64_t next = 0;
  for (unsigned slot = 0; slot < LatencyHistogram::kSlots; ++slot) {
    const uint64_t highest = histogram_highest(slot);
    EXPECT_EQ(histogram_slot(next), slot);
    EXPECT_EQ(histogram_slot(highest), slot);
    EXPECT_LE(static_cast<double>(highest - next), 0.01 * static_cast<double>(next));
    next = highest + 1;
  }
  EXPECT_GT(next, LatencyHistogram::kMostNs);
}

TEST(LatencyHistogram, WhatIsAddedIsFoundAtItsDuration) {
  auto histogram = std::make_unique<LatencyHistogram>();
  std::mt19937_64 random(1);
  auto expected = std::make_unique<LatencyHistogram::Counts>(), found = std::make_unique<LatencyHistogram::Counts>();
  uint64_t below = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t ns = random() % 2 ? random() % 1000 : random() % 2'000'000'000;
    histogram->add(CycleClock::from_ns(ns));
    below += ns < 100'000;
  }
  histogram->add(UINT64_MAX);
  histogram->add_to(*found);
  uint64_t sum = 0, sum_below = 0;
  for (unsigned slot = 0; slot < found->size(); ++slot) {
    sum += (*found)[slot];
    if (histogram_highest(slot) < 100'000) sum_below += (*found)[slot];
  }
  EXPECT_EQ(sum, 10'001u);
  EXPECT_NEAR(static_cast<double>(sum_below), static_cast<double>(below), 5);
}

TEST(CommandStatistics, ThreadsAddUpAndResetsAreZero) {
  CommandStatistics statistics;
  const CommandSpec& get = *find_command("get");
  const CommandSpec& sub = *find_full_name("CLIENT|ID");
  EXPECT_NE(get.id, sub.id);
  EXPECT_LT(std::max(get.id, sub.id), command_count());
  ThreadStatistics one(statistics);  // counts of a thread that nobody adds up
  EXPECT_FALSE(one.called(get, 5, false));
  EXPECT_EQ(statistics.calls(), 0u);

  CommandStatistics& all = command_statistics();
  all.reset();
  const uint64_t ever = all.calls_ever();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) all.local().called(get, CycleClock::from_ns(2000), n % 10 == 0);
      all.local().rejected(sub);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<CommandTotals> totals = all.totals();
  EXPECT_EQ(totals[get.id].calls, 4000u);
  EXPECT_EQ(totals[get.id].failed, 400u);
  EXPECT_NEAR(static_cast<double>(totals[get.id].ns), 8e6, 1e5);
  EXPECT_EQ(totals[sub.id].calls, 0u);
  EXPECT_EQ(totals[sub.id].rejected, 4u);
  auto counts = std::make_unique<LatencyHistogram::Counts>();
  EXPECT_TRUE(all.histogram(get, *counts));
  EXPECT_FALSE(all.histogram(sub, *counts));
  all.reset();
  EXPECT_EQ(all.totals()[get.id].calls, 0u);
  EXPECT_FALSE(all.histogram(get, *counts));
  EXPECT_EQ(all.calls(), 0u);
  EXPECT_EQ(all.calls_ever(), ever + 4000);
}

TEST(CommandStatistics, ErrorsAreCountedWhereTheyAreWritten) {
  command_statistics().reset();
  OutputChain out;
  ReplyWriter reply(out, 2);
  const uint32_t before = errors_written;
  reply.error("ERR one");
  reply.error("WRONGTYPE two");
  reply.error("ERR three");
  reply.simple("ERR is no error");
  EXPECT_EQ(errors_written, before + 3);
  EXPECT_EQ(command_statistics().errors(), (std::map<std::string, uint64_t>{{"ERR", 2}, {"WRONGTYPE", 1}}));
  for (int i = 0; i < 1000; ++i) reply.error("CODE" + std::to_string(i) + " x");
  EXPECT_LE(command_statistics().errors().size(), CommandStatistics::kErrorCodes + 1);
  EXPECT_EQ(command_statistics().error_replies(), 1003u);
  command_statistics().reset();
  EXPECT_EQ(command_statistics().error_replies(), 0u);
}

TEST(CommandStatistics, SlowIsAskedForByTicks) {
  CommandStatistics statistics;
  ThreadStatistics thread(statistics);
  const CommandSpec& get = *find_command("get");
  EXPECT_FALSE(thread.called(get, UINT64_MAX - 1, false));
  statistics.set_slow_ns(1'000'000);
  EXPECT_FALSE(thread.called(get, CycleClock::from_ns(990'000), false));
  EXPECT_TRUE(thread.called(get, CycleClock::from_ns(1'010'000), false));
  statistics.set_slow_ns(0);
  EXPECT_TRUE(thread.called(get, 0, false));
  statistics.set_slow_ns(UINT64_MAX);
  EXPECT_FALSE(thread.called(get, UINT64_MAX - 1, false));
}

TEST(LatencyReport, DrawsAsRedisDoes) {
  LatencyMonitor::Event event;
  event.worst_ms = 50;
  int64_t second = 100;
  for (const uint32_t ms : {5u, 10u, 20u, 30u, 8u, 50u}) event.samples.push_back({second++, ms});
  EXPECT_EQ(latency_graph_text("command", event, 106),
            "command - high 50 ms, low 5 ms (all time high 50 ms)\n" + std::string(80, '-') +
                "\n     #\n   _ |\n  o| |\n_o||o|\n      \n654321\nssssss\n");
}

}  // namespace
}  // namespace pion
