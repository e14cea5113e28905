#include "resp/parser.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace pion {
namespace {

using Result = RequestParser::Result;
using Command = std::vector<std::string>;

// Keeps what streamed, so that a test can compare it.
struct KeptPayload : StreamedPayload {
  std::string bytes;
};

class KeepingSink : public PayloadSink {
 public:
  void append(std::string_view piece) override { payload_->bytes.append(piece); }
  std::shared_ptr<StreamedPayload> finish() override { return payload_; }

 private:
  std::shared_ptr<KeptPayload> payload_ = std::make_shared<KeptPayload>();
};

// Argument 2 of SET streams, as in the real table.
class SetTarget : public StreamTarget {
 public:
  std::unique_ptr<PayloadSink> open(const Arguments& before, uint64_t) override {
    asked++;
    if (before.size() != 2 || before[0].bytes != "SET") return nullptr;
    return std::make_unique<KeepingSink>();
  }
  int asked = 0;
};

// Drives a parser as a connection does: pieces arrive, batches of up to `batch` commands are parsed, then consumed.
class Driver {
 public:
  explicit Driver(StreamTarget* target = nullptr, bool authenticated = true, size_t batch = 8) : parser(target), batch_(batch) {
    parser.set_limits({.authenticated = authenticated});
  }

  void feed(std::string_view piece) {
    while (!piece.empty() && !error) {
      if (parser.stream_remaining() > 0) {
        const size_t size = std::min<uint64_t>(piece.size(), parser.stream_remaining());
        parser.feed_stream(piece.substr(0, size));
        piece.remove_prefix(size);
        if (parser.stream_remaining() > 0) return;
      } else {
        in.append(piece);
        piece = {};
      }
      parse();
    }
  }

  void parse() {
    while (true) {
      std::vector<Arguments> slots(batch_);
      size_t count = 0;
      Result last = Result::kCommand;
      while (count < batch_) {
        last = parser.next(in, slots[count], count == 0);
        if (last != Result::kCommand) break;
        count++;
      }
      for (size_t i = 0; i < count; ++i) commands.push_back(copy(slots[i]));
      const size_t parsed = parser.parsed_bytes();
      in.consume(parsed);
      parser.consumed(parsed);
      if (last == Result::kError) error = parser.protocol_error();
      if (last == Result::kError || last == Result::kNeedMore || last == Result::kStream) return;
    }
  }

  static Command copy(const Arguments& arguments) {
    Command command;
    for (const Argument& argument : arguments) {
      EXPECT_EQ(argument.size, argument.streamed ? static_cast<KeptPayload&>(*argument.streamed).bytes.size() : argument.bytes.size());
      command.push_back(argument.streamed ? static_cast<KeptPayload&>(*argument.streamed).bytes : std::string(argument.bytes));
    }
    return command;
  }

  RequestParser parser;
  ReadBuffer in;
  std::vector<Command> commands;
  std::optional<std::string> error;

 private:
  const size_t batch_;
};

std::string encode(const Command& command) {
  std::string out = "*" + std::to_string(command.size()) + "\r\n";
  for (const std::string& argument : command) out += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
  return out;
}

std::optional<std::string> error_of(std::string_view bytes, bool authenticated = true) {
  Driver driver(nullptr, authenticated);
  driver.feed(bytes);
  return driver.error;
}

TEST(RequestParser, SplitAtEveryByteGivesTheSameCommands) {
  const std::vector<Command> expected = {{"SET", "k", std::string("a\r\nb\0c", 6)}, {"PING"}, {"ECHO", ""}, {"GET", "a b"}, {"X", "\x01"}};
  const std::string bytes = encode(expected[0]) + "PING\r\n" + "*0\r\n*-1\r\n\r\n" + encode(expected[2]) + "GET \"a b\"\n" + "X '\x01'\r\n";
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second : {first, first + 1, first + 7}) {
      Driver driver;
      driver.feed(std::string_view(bytes).substr(0, first));
      if (second > first && second <= bytes.size()) driver.feed(std::string_view(bytes).substr(first, second - first));
      driver.feed(std::string_view(bytes).substr(std::min(std::max(first, second <= bytes.size() ? second : first), bytes.size())));
      ASSERT_FALSE(driver.error) << *driver.error;
      ASSERT_EQ(driver.commands, expected) << "split at " << first << " and " << second;
      ASSERT_TRUE(driver.in.empty());
    }
  }
}

TEST(RequestParser, RandomCommandsInRandomPiecesStreamedOrNot) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<Command> expected;
    std::string bytes;
    for (int i = 0, count = 1 + static_cast<int>(random() % 20); i < count; ++i) {
      Command command;
      if (random() % 8 == 0) command = {"SET", "key", std::string(65536 + random() % 200000, static_cast<char>('a' + random() % 26)), "EX", "10"};
      while (command.empty() || random() % 3 > 0) {
        std::string argument(random() % 4 == 0 ? random() % 3000 : random() % 12, ' ');
        for (char& c : argument) c = static_cast<char>(random());
        command.push_back(argument);
      }
      expected.push_back(command);
      bytes += encode(command);
      if (random() % 5 == 0) bytes += "*0\r\n";
    }
    SetTarget target;
    Driver driver(random() % 2 ? &target : nullptr, true, 1 + random() % 64);
    const size_t largest = 1 + (random() % 2 ? random() % 100 : random() % 300000);
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min<size_t>(1 + random() % largest, bytes.size() - at);
      driver.feed(std::string_view(bytes).substr(at, size));
      at += size;
    }
    ASSERT_FALSE(driver.error) << *driver.error;
    ASSERT_EQ(driver.commands, expected);
  }
}

TEST(RequestParser, StreamedBytesNeverFillTheBuffer) {
  SetTarget target;
  Driver driver(&target);
  driver.feed("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10000000\r\n");
  const std::string piece(100000, 'x');
  for (int i = 0; i < 100; ++i) driver.feed(piece);
  EXPECT_TRUE(driver.commands.empty());
  EXPECT_LT(driver.in.capacity(), 4096u);
  driver.feed("\r\n*1\r\n$4\r\nPING\r\n");
  ASSERT_EQ(driver.commands.size(), 2u);
  EXPECT_EQ(driver.commands[0][2].size(), 10000000u);
  EXPECT_EQ(driver.commands[1], Command{"PING"});
}

TEST(RequestParser, AStreamBehindOtherCommandsWaitsUntilTheyRan) {
  SetTarget target;
  RequestParser parser(&target);
  parser.set_limits({.authenticated = true});
  ReadBuffer in;
  in.append("*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$70000\r\nabc");
  Arguments first, second;
  ASSERT_EQ(parser.next(in, first, true), Result::kCommand);
  ASSERT_EQ(parser.next(in, second, false), Result::kAlone);
  EXPECT_EQ(target.asked, 0);
  in.consume(parser.parsed_bytes());
  parser.consumed(parser.parsed_bytes());
  ASSERT_EQ(parser.next(in, second, true), Result::kStream);
  EXPECT_EQ(parser.stream_remaining(), 70000u - 3);
}

TEST(RequestParser, RewindParsesAgainWhatWasNotExecuted) {
  RequestParser parser(nullptr);
  parser.set_limits({.authenticated = true});
  ReadBuffer in;
  in.append("*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n*1\r\n$1\r\nc\r\n*2\r\n$1\r\nd");
  Arguments slots[4];
  ASSERT_EQ(parser.next(in, slots[0], true), Result::kCommand);
  const size_t end = parser.parsed_bytes();
  ASSERT_EQ(parser.next(in, slots[1], false), Result::kCommand);
  ASSERT_EQ(parser.next(in, slots[2], false), Result::kCommand);
  ASSERT_EQ(parser.next(in, slots[3], false), Result::kNeedMore);
  in.consume(end);
  parser.rewind();
  ASSERT_EQ(parser.next(in, slots[1], true), Result::kCommand);
  EXPECT_EQ(slots[1][0].bytes, "b");
  ASSERT_EQ(parser.next(in, slots[2], false), Result::kCommand);
  EXPECT_EQ(slots[2][0].bytes, "c");
  in.consume(parser.parsed_bytes());
  parser.consumed(parser.parsed_bytes());
  ASSERT_EQ(parser.next(in, slots[3], true), Result::kNeedMore);
  in.append("\r\n$1\r\ne\r\n");
  ASSERT_EQ(parser.next(in, slots[3], true), Result::kCommand);
  EXPECT_EQ(Driver::copy(slots[3]), (Command{"d", "e"}));
}

TEST(RequestParser, FramingErrorsInTheWordsOfRedis) {
  EXPECT_EQ(error_of("*+1\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*01\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("* 1\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*2147483648\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*99999999999999999999\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*2147483647\r\n"), std::nullopt);
  EXPECT_EQ(error_of("*-10\r\n*0\r\n"), std::nullopt);
  EXPECT_EQ(error_of("*1\r\nPING\r\n"), "Protocol error: expected '$', got 'P'");
  EXPECT_EQ(error_of("*1\r\n\r\n"), "Protocol error: expected '$', got '\r'");
  EXPECT_EQ(error_of("*1\r\nP"), std::nullopt);  // the line is not there yet
  EXPECT_EQ(error_of("*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$+4\r\nPING\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$04\r\nPING\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$536870913\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$536870912\r\n"), std::nullopt);
  EXPECT_EQ(error_of("*" + std::string(70000, '1')), "Protocol error: too big mbulk count string");
  EXPECT_EQ(error_of("*1\r\n$" + std::string(70000, '1')), "Protocol error: too big bulk count string");
  EXPECT_EQ(error_of(std::string(70000, 'a')), "Protocol error: too big inline request");
  EXPECT_EQ(error_of("ECHO \"a\"b\r\n"), "Protocol error: unbalanced quotes in request");
  EXPECT_EQ(error_of("ECHO 'a\r\n"), "Protocol error: unbalanced quotes in request");
}

TEST(RequestParser, BeforeAuthALittleOnly) {
  EXPECT_EQ(error_of("*11\r\n", false), "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(error_of("*10\r\n", false), std::nullopt);
  EXPECT_EQ(error_of("*4294967296\r\n", false), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*1\r\n$16385\r\n", false), "Protocol error: unauthenticated bulk length");
  EXPECT_EQ(error_of("*1\r\n$16384\r\n", false), std::nullopt);
}

TEST(RequestParser, CommandsBeforeAnErrorAreGiven) {
  Driver driver;
  driver.feed("*1\r\n$4\r\nPING\r\n*1\r\nx\r\n");
  EXPECT_EQ(driver.commands, std::vector<Command>{{"PING"}});
  EXPECT_EQ(driver.error, "Protocol error: expected '$', got 'x'");
}

TEST(RequestParser, TheBytesBehindABulkAreNotLookedAt) {
  Driver driver;
  driver.feed("*2\r\n$4\r\nECHOxx$1\r\nayy*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(driver.commands, (std::vector<Command>{{"ECHO", "a"}, {"PING"}}));
}

TEST(RequestParser, AnnouncedLengthsTakeNoMemory) {
  Driver driver;
  driver.feed("*2147483647\r\n$536870912\r\nabc");
  EXPECT_FALSE(driver.error);
  EXPECT_LT(driver.in.capacity(), 4096u);
}

TEST(RequestParser, OneCommandMayHoldSoMuch) {
  Driver driver;
  driver.parser.set_limits({.authenticated = true, .max_held_bytes = 10000});
  driver.feed("*3\r\n$1\r\na\r\n$20000\r\n" + std::string(9000, 'x'));
  EXPECT_FALSE(driver.error);
  driver.feed(std::string(9000, 'x'));
  EXPECT_EQ(driver.error, "Protocol error: a request of more than 10000 bytes");
}

TEST(RequestParser, InlineAsSdssplitargs) {
  Driver driver;
  driver.feed("  set  \"a\\x41\\n\\\"\"\t'b\\'c\\n' d\\e \"\"\r\nab\"cd\" x\n\r\nfoo'bar'\n");
  EXPECT_FALSE(driver.error);
  EXPECT_EQ(driver.commands, (std::vector<Command>{{"set", "aA\n\"", "b'c\\n", "d\\e", ""}, {"abcd", "x"}, {"foobar"}}));
}

}  // namespace
}  // namespace pion
