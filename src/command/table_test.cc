#include "command/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "command/command_keys.h"
#include "command/docs_page.h"
#include "command/families.h"

namespace pion {
namespace {

Arguments arguments_of(std::initializer_list<std::string_view> words) {
  Arguments arguments;
  for (std::string_view word : words) arguments.push_back({word, nullptr, word.size()});
  return arguments;
}

std::string error_of(std::initializer_list<std::string_view> words) { return resolve_command(arguments_of(words)).error; }

void each_spec(const std::function<void(const CommandSpec&)>& visit) {
  for (const CommandSpec* spec : all_commands()) {
    visit(*spec);
    for (const CommandSpec& sub : spec->subcommands) visit(sub);
  }
}

TEST(Table, FindsEveryCommandInAnyCase) {
  ASSERT_GT(all_commands().size(), 20u);
  std::set<std::string_view> names;
  for (const CommandSpec* spec : all_commands()) {
    EXPECT_TRUE(names.insert(spec->name).second) << spec->name << " is there twice";
    std::string upper(spec->name);
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(find_command(spec->name), spec);
    EXPECT_EQ(find_command(upper), spec);
    EXPECT_EQ(find_command(upper + "_"), nullptr);
    // Bit 5 alone does not make another name: '@' and '`' are no letters.
    std::string other(spec->name);
    other[0] = '\x01';
    EXPECT_EQ(find_command(other), nullptr);
  }
  EXPECT_EQ(find_command(""), nullptr);
  EXPECT_EQ(find_command(std::string(1000, 'g')), nullptr);
}

TEST(Table, EveryCommandIsWhole) {
  std::set<std::string_view> facts;
  for (const CommandSpec& fact : redis_facts()) facts.insert(fact.name);
  each_spec([&](const CommandSpec& spec) {
    EXPECT_TRUE(spec.handler || !spec.subcommands.empty()) << spec.name;
    EXPECT_NE(spec.arity, 0) << spec.name;
    EXPECT_FALSE(spec.summary.empty()) << spec.name;
    EXPECT_FALSE(spec.group.empty()) << spec.name;
    const bool is_redis = facts.contains(spec.name);
    EXPECT_NE(is_redis, (spec.flags & kPion) != 0) << spec.name << ": either scripts/command-facts names it, or it is kPion";
    EXPECT_EQ(!is_redis, spec.status.starts_with("Pion")) << spec.name;
  });
}

TEST(Table, ResolvesOrSaysWhyNot) {
  EXPECT_EQ(resolve_command(arguments_of({"PING"})).spec, find_command("ping"));
  EXPECT_EQ(resolve_command(arguments_of({"Client", "ID"})).spec->name, "client|id");
  EXPECT_EQ(resolve_command(arguments_of({"command"})).spec->name, "command");
  EXPECT_EQ(error_of({"nosuch"}), "ERR unknown command 'nosuch', with args beginning with: ");
  EXPECT_EQ(error_of({"nosuch", "a", "b"}), "ERR unknown command 'nosuch', with args beginning with: 'a' 'b' ");
  EXPECT_EQ(error_of({"client"}), "ERR wrong number of arguments for 'client' command");
  EXPECT_EQ(error_of({"client", "nosuch"}), "ERR unknown subcommand 'nosuch'. Try CLIENT HELP.");
  EXPECT_EQ(error_of({"client", "id", "x"}), "ERR wrong number of arguments for 'client|id' command");
  EXPECT_EQ(error_of({"echo"}), "ERR wrong number of arguments for 'echo' command");
}

TEST(Table, UnknownCommandsAreCutShort) {
  const std::string name(1000, 'n'), argument(100, 'a');
  const std::string error = error_of({name, argument, argument, argument});
  EXPECT_EQ(error, "ERR unknown command '" + std::string(128, 'n') + "', with args beginning with: '" + argument + "' '" +
                       std::string(25, 'a') + "' ");  // 128 less what the first took with its quotes and blank
  EXPECT_EQ(error_of({std::string_view("a\0b", 3)}), "ERR unknown command 'a', with args beginning with: ");
}

TEST(Table, FlagsFollowTheFacts) {
  EXPECT_TRUE(find_command("auth")->flags & kNoAuth);
  EXPECT_TRUE(find_command("hello")->flags & kNoAuth);
  EXPECT_FALSE(find_command("ping")->flags & kNoAuth);
  EXPECT_TRUE(find_command("set")->flags & kWrite);
  EXPECT_TRUE(find_command("set")->flags & kDenyOom);
  EXPECT_TRUE(find_command("get")->flags & kReadOnly);
  EXPECT_FALSE(find_command("get")->flags & kWrite);
}

TEST(CommandKeys, ByTheirSpecifications) {
  const auto positions = [](std::initializer_list<std::string_view> words) {
    const Arguments arguments = arguments_of(words);
    std::vector<size_t> found;
    const auto keys = command_keys(*find_command(arguments[0].bytes), arguments);
    if (!keys) return std::vector<size_t>{999};
    for (const CommandKey& key : *keys) found.push_back(key.position);
    return found;
  };
  EXPECT_EQ(positions({"get", "k"}), (std::vector<size_t>{1}));
  EXPECT_EQ(positions({"mset", "a", "1", "b", "2"}), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(positions({"mget", "a", "b", "c"}), (std::vector<size_t>{1, 2, 3}));
  EXPECT_EQ(positions({"rename", "a", "b"}), (std::vector<size_t>{1, 2}));
  const auto flags = [](std::initializer_list<std::string_view> words) {
    return command_keys(*find_command("set"), arguments_of(words))->front().flags;
  };
  EXPECT_EQ(flags({"set", "k", "get"}), "OW update");
  EXPECT_EQ(flags({"set", "k", "v", "GET"}), "RW access update");
}

TEST(CommandKeys, ThoseThatOptionsNameOnce) {
  const auto keys = [](std::initializer_list<std::string_view> words) {
    const Arguments arguments = arguments_of(words);
    std::vector<size_t> found;
    const auto keys = command_keys(*find_command(arguments[0].bytes), arguments);
    for (const CommandKey& key : *keys) found.push_back(key.position);
    return found;
  };
  EXPECT_EQ(keys({"sort", "k", "BY", "w_*", "STORE", "a", "STORE", "b"}), (std::vector<size_t>{1, 7}));
  EXPECT_EQ(keys({"georadius", "k", "1", "2", "3", "km", "STORE", "a", "STOREDIST", "b"}), (std::vector<size_t>{1, 7, 9}));
  EXPECT_EQ(keys({"georadius", "k", "1", "2", "3", "km", "STORE"}), (std::vector<size_t>{1}));
  EXPECT_TRUE(keys({"spublish", "channel", "x"}).empty());
  EXPECT_FALSE(has_keys(*find_command("spublish")));
  EXPECT_TRUE(has_keys(*find_command("sort_ro")));
}

// A transaction locks what its commands may touch, however they are written.
TEST(CommandKeys, AllThatMayBeTouched) {
  const auto touched = [](std::initializer_list<std::string_view> words) {
    const Arguments arguments = arguments_of(words);
    return touched_keys(*find_command(arguments[0].bytes), arguments);
  };
  EXPECT_EQ(touched({"sort", "k", "STORE", "a"}), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(touched({"sort_ro", "k", "ALPHA"}), (std::vector<size_t>{1}));
  EXPECT_FALSE(touched({"sort", "k", "BY", "w_*"}).has_value());
  EXPECT_FALSE(touched({"zunion", "x", "k"}).has_value());
  const auto stores = touched({"georadiusbymember", "k", "m", "3", "km", "STORE", "a", "store", "b"});
  for (size_t position : {1u, 6u, 8u}) EXPECT_NE(std::find(stores->begin(), stores->end(), position), stores->end()) << position;
}

TEST(CommandKeys, FlagsThatDependOnTheArguments) {
  const auto flags = [](std::initializer_list<std::string_view> words) {
    const Arguments arguments = arguments_of(words);
    return command_keys(*find_command(arguments[0].bytes), arguments)->front().flags;
  };
  EXPECT_EQ(flags({"bitfield", "k", "GET", "u8", "0", "OVERFLOW", "SAT"}), "RO access");
  EXPECT_EQ(flags({"bitfield", "k", "GET", "u8", "0", "SET", "u8", "0", "1"}), "RW access update");
  EXPECT_EQ(flags({"bitfield", "k", "GET", "u8"}), "RW access update");
}

TEST(DocsPage, HasARowForEveryCommand) {
  const std::string page = commands_page();
  each_spec([&](const CommandSpec& spec) {
    std::string name(spec.name);
    for (char& c : name) c = c == '|' ? ' ' : static_cast<char>(std::toupper(c));
    EXPECT_NE(page.find("| `" + name), std::string::npos) << spec.name;
  });
  EXPECT_NE(page.find("| `GETEX key [EX seconds \\| PX milliseconds \\| EXAT unix-time-seconds"), std::string::npos);
}

}  // namespace
}  // namespace pion
