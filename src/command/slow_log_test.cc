#include "command/slow_log.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "command/session.h"
#include "command/table.h"

namespace pion {
namespace {

std::vector<std::string> shown(const std::vector<std::string>& words) {
  Arguments arguments;
  for (const std::string& word : words) arguments.push_back({.bytes = word, .size = word.size()});
  const ResolvedCommand resolved = resolve_command(arguments);
  EXPECT_TRUE(resolved.spec) << words[0];
  return slow_log_arguments(*resolved.spec, arguments);
}

using Words = std::vector<std::string>;

TEST(SlowLog, ArgumentsAreCutAsRedisCutsThem) {
  EXPECT_EQ(shown({"set", "a", std::string(128, 'x')}), (Words{"set", "a", std::string(128, 'x')}));
  EXPECT_EQ(shown({"set", "a", std::string(130, 'x')})[2], std::string(128, 'x') + "... (2 more bytes)");
  Words many = {"sadd", "set"};
  while (many.size() < 32) many.push_back(std::to_string(many.size()));
  EXPECT_EQ(shown(many), many);
  many.push_back("last");
  const Words cut = shown(many);
  ASSERT_EQ(cut.size(), 32u);
  EXPECT_EQ(cut[30], "30");
  EXPECT_EQ(cut[31], "... (2 more arguments)");
}

TEST(SlowLog, SecretsAreLeftOut) {
  EXPECT_EQ(shown({"AUTH", "me", "secret"}), (Words{"AUTH", "(redacted)", "(redacted)"}));
  EXPECT_EQ(shown({"hello", "3", "setname", "x", "auth", "me", "secret"}),
            (Words{"hello", "3", "setname", "x", "auth", "(redacted)", "(redacted)"}));
  EXPECT_EQ(shown({"config", "set", "maxmemory", "1", "RequirePass", "secret"}),
            (Words{"config", "set", "maxmemory", "1", "RequirePass", "(redacted)"}));
}

TEST(SlowLog, KeepsTheNewestWithinItsLimits) {
  SlowLog log;
  Session session;
  session.name = "me";
  session.peer_address = "1.2.3.4:5";
  for (int i = 0; i < 200; ++i) log.add(i, {"get", std::to_string(i)}, session);
  EXPECT_EQ(log.size(), 128u);
  const std::vector<SlowLog::Entry> two = log.newest(2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].id, 199u);
  EXPECT_EQ(two[1].arguments, (Words{"get", "198"}));
  EXPECT_EQ(two[0].peer, "1.2.3.4:5");
  EXPECT_EQ(two[0].client_name, "me");
  log.set_max_entries(3);
  EXPECT_EQ(log.size(), 3u);
  log.reset();
  EXPECT_EQ(log.size(), 0u);
  log.set_max_entries(UINT64_MAX);
  for (uint64_t i = 0; i < kMaxSlowLogBytes / kMiB + 10; ++i) log.add(1, {std::string(kMiB, 'x')}, session);
  EXPECT_LE(log.size(), kMaxSlowLogBytes / kMiB);
  EXPECT_GE(log.size(), kMaxSlowLogBytes / kMiB - 2);
  log.add(1, {}, session);
  EXPECT_EQ(log.newest(1)[0].id, 200 + kMaxSlowLogBytes / kMiB + 10);  // ids go on after a reset
}

}  // namespace
}  // namespace pion
