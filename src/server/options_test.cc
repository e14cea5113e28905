#include "server/options.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "server/config_rewrite.h"
#include "server/config_syntax.h"
#include "server/options_table.h"

namespace pion {
namespace {

std::string mistake(const std::vector<std::string>& arguments) {
  Options options;
  const Status status = options.parse(arguments);
  return status ? "" : status.error().message;
}

std::string value_of(const Options& options, std::string_view name) {
  const auto values = options.get(name);
  return values.size() == 1 ? values[0].value : "(" + std::to_string(values.size()) + " values)";
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "pion-options-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    std::ofstream(file()) << text;
  }
  ~ConfigFile() { std::filesystem::remove_all(path_); }
  std::string file() const { return path_ + "/pion.conf"; }
  const std::string& directory() const { return path_; }
  std::string text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string path_;
};

TEST(Options, EveryDefaultIsInItsOwnRange) {
  for (const OptionSpec& spec : option_table()) {
    if (!spec.is_setting()) continue;
    Settings settings;
    const std::string text = format_option(spec, settings);
    const auto parsed = parse_option(spec, text, settings);
    EXPECT_TRUE(parsed.has_value()) << spec.name << " = '" << text << "'";
    EXPECT_EQ(format_option(spec, settings), text) << spec.name;
    const auto words = split_words(format_option_for_file(spec, settings));
    ASSERT_TRUE(words.has_value()) << spec.name;
    EXPECT_FALSE(words->empty()) << spec.name;
  }
}

TEST(Options, NamesAreUniqueAndDocumented) {
  std::vector<std::string_view> names;
  for (const auto table : {option_table(), refused_options()}) {
    for (const OptionSpec& spec : table) {
      names.push_back(spec.name);
      EXPECT_FALSE(spec.doc.empty()) << spec.name;
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Options, FlagsSetTypedValues) {
  Options options;
  ASSERT_TRUE(options.parse({"-p", "7000", "--workers=3", "--bind", "127.0.0.1 ::1", "--appendonly", "no", "--appendfsync", "ALWAYS",
                             "--maxmemory", "2gb", "--unixsocketperm", "770", "--prompt-budget", "10m"}));
  const Settings settings = options.settings();
  EXPECT_EQ(settings.port, 7000);
  EXPECT_EQ(settings.workers, 3);
  EXPECT_EQ(settings.bind, (std::vector<std::string>{"127.0.0.1", "::1"}));
  EXPECT_FALSE(settings.appendonly);
  EXPECT_EQ(settings.sync_mode(), SyncMode::kAlways);
  EXPECT_EQ(settings.maxmemory_bytes, 2 * kGiB);
  EXPECT_EQ(settings.unixsocketperm, 0770);
  EXPECT_EQ(settings.prompt_budget_bytes, 10'000'000u);
  EXPECT_EQ(value_of(options, "unixsocketperm"), "770");
  EXPECT_EQ(value_of(options, "bind"), "127.0.0.1 ::1");
}

TEST(Options, ShareOfTheMachinesMemory) {
  Options half, all;
  ASSERT_TRUE(half.parse({"--maxmemory", "50%"}));
  ASSERT_TRUE(all.parse({"--maxmemory", "100%"}));
  EXPECT_GT(half.settings().maxmemory_bytes, 0u);
  EXPECT_EQ(half.settings().maxmemory_bytes * 2, all.settings().maxmemory_bytes);
  EXPECT_NE(mistake({"--maxmemory", "101%"}), "");
}

TEST(Options, MistakesNameFlagValueAndWhatWasExpected) {
  EXPECT_EQ(mistake({"--port", "70000"}), "--port: '70000' is not valid, expected an integer from 0 to 65535");
  EXPECT_EQ(mistake({"-p", "x"}), "-p: 'x' is not valid, expected an integer from 0 to 65535");
  EXPECT_EQ(mistake({"--appendfsync", "sometimes"}), "--appendfsync: 'sometimes' is not valid, expected one of everysec, always, no");
  EXPECT_EQ(mistake({"--databases", "17"}), "--databases: '17' is not valid, expected 16");
  EXPECT_EQ(mistake({"--save", "60"}), "--save: '60' is not valid, expected pairs of seconds and changes, or nothing");
  EXPECT_EQ(mistake({"--activedefrag", "yes"}),
            "--activedefrag: 'yes' is not valid, expected no: memory is not defragmented while it is in use");
  EXPECT_EQ(mistake({"--notify-keyspace-events", "KEq"}),
            "--notify-keyspace-events: 'KEq' is not valid, expected letters of KEg$lshzxetdmnocA");
  EXPECT_EQ(mistake({"--port"}), "--port needs a value: an integer from 0 to 65535");
  EXPECT_EQ(mistake({"--port", "--bind", "::1"}), "--port needs a value: an integer from 0 to 65535");
  EXPECT_EQ(mistake({"--prot", "1"}), "--prot: no such flag; did you mean --port?");
  EXPECT_EQ(mistake({"--apendonly", "no"}), "--apendonly: no such flag; did you mean --appendonly?");
  EXPECT_EQ(mistake({"--max-memory", "1g"}), "--max-memory: no such flag; did you mean --maxmemory?");
  EXPECT_EQ(mistake({"--xyzzy"}), "--xyzzy: no such flag");
  EXPECT_EQ(mistake({"-z"}), "-z: no such flag; did you mean --hz?");
  EXPECT_EQ(mistake({"--kvcache=no"}), "--kvcache takes no value");
  EXPECT_EQ(mistake({"--port", "1", "stray"}), "unexpected argument 'stray': flags begin with --");
  EXPECT_EQ(mistake({"--maxmemory", "-1"}), "--maxmemory: '-1' is not valid, expected a number of bytes such as 100mb or 2gb, or a "
                                            "share of the machine's memory such as 50%");
}

TEST(Options, FlagsOfTheOriginalAreAcceptedLoudlyOrRefused) {
  Options options;
  ASSERT_TRUE(options.parse({"--kvcache", "--metal-attention", "--cuda-attention", "--profile", "ai"}));
  ASSERT_EQ(options.notices().size(), 4u);
  EXPECT_EQ(options.notices()[1], "--metal-attention: accepted, changes nothing: no Metal in this build");
  EXPECT_EQ(options.notices()[2], "--cuda-attention: accepted, changes nothing: no CUDA in this build");
  EXPECT_EQ(mistake({"--tenant", "a=b"}), "--tenant is not in this release");
  EXPECT_EQ(mistake({"--no-wal"}), "--no-wal is not in this release: use --appendonly no");
  EXPECT_EQ(mistake({"--independent-workers"}), "--independent-workers is not needed: -w N threads serve one keyspace");
}

TEST(Options, PasswordAloneOpensNothing) {
  Options options;
  ASSERT_TRUE(options.parse({"--requirepass", "secret"}));
  EXPECT_EQ(options.settings().bind, std::vector<std::string>{"127.0.0.1"});
  EXPECT_EQ(options.notices().size(), 1u);
  EXPECT_TRUE(options.password_required());
  EXPECT_TRUE(options.check_password("default", "secret"));
  EXPECT_FALSE(options.check_password("default", "secre"));
  EXPECT_FALSE(options.check_password("default", "secretsecret"));
  EXPECT_FALSE(options.check_password("default", ""));
  EXPECT_FALSE(options.check_password("other", "secret"));
}

TEST(Options, FileThenFlags) {
  const ConfigFile file("# comment\nport 7001\n\n  bind 127.0.0.1 ::1\nrequirepass \"a \\x41\\\"b\"\nLogLevel warning\nlogfile ''\n");
  Options options;
  ASSERT_TRUE(options.parse({file.file(), "--port", "7002"}));
  EXPECT_EQ(options.settings().port, 7002);
  EXPECT_EQ(options.settings().requirepass, "a A\"b");
  EXPECT_EQ(options.settings().loglevel, "warning");
  EXPECT_EQ(options.settings().bind.size(), 2u);
  EXPECT_EQ(options.config_file(), file.file());
  EXPECT_EQ(mistake({"--config", "/nonexistent/pion.conf"}), "cannot read the configuration file /nonexistent/pion.conf");
}

TEST(Options, MistakesInAFileNameTheLine) {
  const auto in_file = [](const std::string& text) {
    const ConfigFile file(text);
    const std::string found = mistake({"--config", file.file()});
    return found.starts_with(file.file()) ? found.substr(file.file().size()) : "?" + found;
  };
  EXPECT_EQ(in_file("port 1\nmaxmemori 1g\n"), ":2: no such parameter: maxmemori; did you mean maxmemory?");
  EXPECT_EQ(in_file("port\n"), ":1: port needs a value: an integer from 0 to 65535");
  EXPECT_EQ(in_file("port 1 2\n"), ":1: port takes one value: an integer from 0 to 65535");
  EXPECT_EQ(in_file("port abc\n"), ":1: port: 'abc' is not valid, expected an integer from 0 to 65535");
  EXPECT_EQ(in_file("requirepass \"open\n"), ":1: unbalanced quotes");
  EXPECT_EQ(in_file("tenant a=b\n"), ":1: tenant is not in this release");
  EXPECT_EQ(in_file("version yes\n"), ":1: version is a flag, not a parameter");
}

TEST(Options, SetIsAllOrNothing) {
  Options options;
  ASSERT_TRUE(options.parse({}));
  std::vector<std::string> applied;
  options.on_change("timeout", [&](const Settings& s) { return applied.push_back("timeout " + std::to_string(s.timeout_s)), Status(); });
  options.on_change("maxclients", [&](const Settings& s) -> Status {
    if (s.maxclients > 500) return fail(ErrorCode::kTooLarge, "too many");
    return {};
  });
  EXPECT_TRUE(options.set({{"timeout", "5"}, {"maxclients", "100"}}));
  EXPECT_EQ(options.settings().timeout_s, 5);
  const auto refusal = [&](const std::vector<ConfigValue>& values) {
    const Status status = options.set(values);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(refusal({{"timeout", "7"}, {"maxclients", "1000"}}), "CONFIG SET failed (possibly related to argument 'maxclients') - too many");
  EXPECT_EQ(options.settings().timeout_s, 5);
  EXPECT_EQ(applied, (std::vector<std::string>{"timeout 5", "timeout 7", "timeout 5"}));
  EXPECT_EQ(refusal({{"timeout", "1"}, {"nosuch", "2"}}), "Unknown option or number of arguments for CONFIG SET - 'nosuch'");
  EXPECT_EQ(refusal({{"kvcache", "yes"}}), "Unknown option or number of arguments for CONFIG SET - 'kvcache'");
  EXPECT_EQ(refusal({{"timeout", "1"}, {"TIMEOUT", "2"}}),
            "CONFIG SET failed (possibly related to argument 'TIMEOUT') - duplicate parameter");
  EXPECT_EQ(refusal({{"databases", "3"}}), "CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config");
  EXPECT_EQ(refusal({{"timeout", "x"}}),
            "CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer");
  EXPECT_EQ(options.settings().timeout_s, 5);
}

TEST(Options, WhatMayFailIsAppliedLast) {
  Options options;
  ASSERT_TRUE(options.parse({}));
  std::vector<std::string> applied;
  options.on_change("port", [&](const Settings& s) { return applied.push_back("port " + std::to_string(s.port)), Status(); }, true);
  options.on_change("timeout", [&](const Settings& s) -> Status {
    applied.push_back("timeout " + std::to_string(s.timeout_s));
    return s.timeout_s == 13 ? Status(fail(ErrorCode::kInvalid, "unlucky")) : Status();
  });
  EXPECT_TRUE(options.set({{"port", "7001"}, {"repl-timeout", "5"}, {"timeout", "7"}}));
  EXPECT_EQ(applied, (std::vector<std::string>{"timeout 7", "port 7001"}));
  applied.clear();
  EXPECT_FALSE(options.set({{"port", "7002"}, {"repl-timeout", "6"}, {"timeout", "13"}}));
  EXPECT_EQ(applied, (std::vector<std::string>{"timeout 13", "timeout 7"}));
  EXPECT_EQ(options.settings().port, 7001);
  EXPECT_EQ(value_of(options, "repl-timeout"), "5");
}

TEST(Options, HeldParametersSayWhatTheyAre) {
  Options options;
  ASSERT_TRUE(options.parse({"--repl-timeout", "77", "--rdbcompression", "NO", "--hz", "1000"}));
  EXPECT_EQ(value_of(options, "repl-timeout"), "77");
  EXPECT_EQ(value_of(options, "hz"), "500");  // the nearest there is
  EXPECT_TRUE(options.set({{"repl-backlog-size", "2mb"}, {"rdbcompression", "no"}}));
  EXPECT_EQ(value_of(options, "repl-backlog-size"), "2097152");
  const auto refusal = [&](std::string_view name, std::string_view value) {
    const Status status = options.set({{std::string(name), std::string(value)}});
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(refusal("rdbcompression", "yes"),
            "CONFIG SET failed (possibly related to argument 'rdbcompression') - it is always 'no' here: checkpoints are not compressed");
  EXPECT_EQ(refusal("maxmemory-clients", "200%"),
            "CONFIG SET failed (possibly related to argument 'maxmemory-clients') - percentage argument must be less or equal to 100");
  EXPECT_EQ(refusal("daemonize", "no"), "CONFIG SET failed (possibly related to argument 'daemonize') - can't set immutable config");
}

TEST(Options, SavePointsOfSeveralLinesAddUp) {
  const ConfigFile file("save 3600 1\nsave 300 100\n");
  Options options;
  ASSERT_TRUE(options.parse({file.file()}));
  const auto points = options.settings().save_points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].seconds, 300);
  EXPECT_EQ(points[1].changes, 100);
  Options one;
  ASSERT_TRUE(one.parse({file.file(), "--save", "5 0"}));
  EXPECT_EQ(value_of(one, "save"), "5 0");
}

TEST(Options, AParameterNobodyAppliesCannotBeSet) {
  Options options;
  ASSERT_TRUE(options.parse({}));
  EXPECT_FALSE(options.set({{"tcp-keepalive", "10"}}));
  EXPECT_EQ(options.settings().tcp_keepalive_s, 300);
}

TEST(Options, GetTakesGlobs) {
  Options options;
  ASSERT_TRUE(options.parse({}));
  EXPECT_EQ(options.get("maxmemory*").size(), 5u);
  EXPECT_TRUE(options.get("key-load*").empty());  // hidden
  EXPECT_EQ(options.get("key-load-delay").size(), 1u);
  EXPECT_EQ(options.get("*of").size(), 2u);  // replicaof and its older name
  EXPECT_EQ(options.get("MAXMEMORY").size(), 1u);
  EXPECT_TRUE(options.get("nosuch*").empty());
  EXPECT_TRUE(options.get("help").empty());
  EXPECT_EQ(value_of(options, "save"), "");
  EXPECT_EQ(value_of(options, "databases"), "16");
}

TEST(Options, RewriteKeepsCommentsAndOrder) {
  const ConfigFile file("# mine\ntimeout 1\n\n# the port\nport 7003\ntimeout 2\n");
  ::chmod(file.file().c_str(), 0640);
  Options options;
  ASSERT_TRUE(options.parse({file.file(), "--maxmemory", "1gb"}));
  options.on_change("timeout", [](const Settings&) { return Status(); });
  ASSERT_TRUE(options.set({{"timeout", "9"}, {"requirepass", "a b"}}));
  ASSERT_TRUE(options.rewrite());
  EXPECT_EQ(file.text(),
            "# mine\ntimeout 9\n\n# the port\nport 7003\n# Generated by CONFIG REWRITE\nrequirepass \"a b\"\nmaxmemory 1gb\n");
  struct stat facts {};
  ASSERT_EQ(::stat(file.file().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0640u);
  Options again;
  ASSERT_TRUE(again.parse({file.file()}));
  EXPECT_EQ(again.settings().timeout_s, 9);
  EXPECT_EQ(again.settings().requirepass, "a b");
  ASSERT_TRUE(again.rewrite());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file.directory()), {}), 1) << "no temporary file stays";
}

TEST(Options, RewriteDoesNotWriteAPasswordThatCameFromAFile) {
  const ConfigFile file("timeout 1\n"), secret("hidden\n");
  Options options;
  ASSERT_TRUE(options.parse({file.file(), "--requirepass-file", secret.file()}));
  EXPECT_TRUE(options.check_password("default", "hidden"));
  ASSERT_TRUE(options.rewrite());
  EXPECT_EQ(file.text().find("hidden"), std::string::npos);
}

TEST(Options, RewriteNeedsAFile) {
  Options options;
  ASSERT_TRUE(options.parse({}));
  EXPECT_EQ(options.rewrite().error().message, "The server is running without a config file");
}

TEST(Options, UnixSocketFollowsTheDirectory) {
  Options plain, none;
  ASSERT_TRUE(plain.parse({"--dir", "/data"}));
  EXPECT_EQ(plain.settings().unixsocket, "/data/pion.sock");
  ASSERT_TRUE(none.parse({"--unixsocket", "off"}));
  EXPECT_EQ(none.settings().unixsocket, "");
  Options deep;
  ASSERT_TRUE(deep.parse({"--dir", "/" + std::string(200, 'd')}));
  EXPECT_EQ(deep.settings().unixsocket, "") << "longer than a socket's path may be";
  EXPECT_EQ(deep.notices().size(), 1u);
}

TEST(ConfigSyntax, QuotedWordsComeBackEqual) {
  std::string all;
  for (int c = 0; c < 256; c++) all.push_back(static_cast<char>(c));
  for (const std::string& word : {std::string("plain"), std::string(), std::string("a b"), std::string("#x"), all}) {
    const auto words = split_words(quote_word(word));
    ASSERT_TRUE(words.has_value());
    ASSERT_EQ(words->size(), 1u);
    EXPECT_EQ(words->front(), word);
  }
  EXPECT_EQ(split_words("a 'it\\'s' \"x\\ty\""), (std::vector<std::string>{"a", "it's", "x\ty"}));
  EXPECT_FALSE(split_words("\"a\"b").has_value());
  EXPECT_FALSE(split_words("'a").has_value());
}

}  // namespace
}  // namespace pion
