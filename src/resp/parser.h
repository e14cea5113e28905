// Turns a connection's bytes into commands, as they come: RESP multibulk and inline, with Redis 8.2's framing rules and
// error texts. Belongs to one thread at a time.
//
// Arguments are views into the ReadBuffer. A bulk that a StreamTarget takes does not pass through the buffer: its bytes go
// from the socket to a PayloadSink while they arrive. A length announced is never memory taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "resp/read_buffer.h"
#include "resp/request.h"

namespace pion {

// Takes one large argument in pieces. Destroyed unfinished: what it took is given back.
class PayloadSink {
 public:
  virtual ~PayloadSink() = default;
  virtual void append(std::string_view piece) = 0;  // errors are kept for finish(): the bytes must be read off anyway
  virtual std::shared_ptr<StreamedPayload> finish() = 0;  // once, after exactly the announced length
};

class StreamTarget {
 public:
  virtual ~StreamTarget() = default;
  // A bulk of `length` bytes begins at argument `before.size()`. Null: keep it in memory like any other.
  virtual std::unique_ptr<PayloadSink> open(const Arguments& before, uint64_t length) = 0;
};

class RequestParser {
 public:
  enum class Result {
    kCommand,   // `out` holds a command; parsed_bytes() says where it ends
    kNeedMore,  // the buffer ends inside a command
    kAlone,     // the next command must be parsed with nothing before it: it may stream, or be unquoted in place
    kStream,    // a bulk streams: give it stream_remaining() bytes through feed_stream(), then call next() again
    kError,     // protocol_error(); the connection ends after the reply
  };

  // `target` may be null: nothing streams.
  explicit RequestParser(StreamTarget* target) : target_(target) {}

  struct Limits {
    bool authenticated = false;  // before AUTH small limits hold, so that a stranger cannot make us hold much
    uint64_t max_bulk_bytes = kMaxBulkBytes;
    uint64_t max_held_bytes = kQueryBufferBytes;  // of one command, what does not stream
  };
  void set_limits(const Limits& limits) { limits_ = limits; }

  // Parses the command that begins at parsed_bytes(). `out` is overwritten; on kNeedMore and kStream the parser keeps what it
  // has. `alone`: no command before this one waits to be executed, and parsed_bytes() is 0. Empty commands are skipped.
  Result next(ReadBuffer& in, Arguments& out, bool alone);

  // Bytes of the buffer that the commands returned so far, and skipped ones, take up. After they were executed: consume() that
  // many of the buffer and call consumed().
  size_t parsed_bytes() const { return cursor_; }
  void consumed(size_t bytes) { cursor_ -= bytes; }
  // Forgets what was parsed but not executed; next() begins again at the buffer's first byte. Never while a command that
  // streams is under way (such a command is parsed alone, so nothing before it can ask for this).
  void rewind();

  uint64_t stream_remaining() const { return stream_remaining_; }
  uint64_t stream_taken() const { return length_ - stream_remaining_; }  // of the bulk that streams
  void feed_stream(std::string_view piece);  // at most stream_remaining() bytes

  const std::string& protocol_error() const { return error_; }  // "Protocol error: ..."

  // True between the first and the last byte of a command.
  bool inside_command() const { return remaining_ > 0 || sink_ != nullptr; }

 private:
  enum class Line { kNumber, kNeedMore, kInvalid, kTooLong };
  static Line read_number(std::string_view in, size_t offset, int64_t& number, size_t& next);
  static Line read_odd_number(std::string_view in, size_t offset, int64_t& number, size_t& next);

  Result next_inline(ReadBuffer& in, Arguments& out);
  // kCommand: goes on.
  Result parse_count(const ReadBuffer& in);
  Result parse_length(const ReadBuffer& in);
  Result parse_bulks(ReadBuffer& in, Arguments& out, bool alone);
  Result begin_stream(ReadBuffer& in, Arguments& out);
  Result defer(const ReadBuffer& in, Arguments& out, Result why);
  void finish_stream(Arguments& out);
  void forget_command();
  Result fail(std::string text);

  StreamTarget* const target_;
  Limits limits_;
  size_t cursor_ = 0;          // where the next command begins, from the buffer's first byte

  // A command under way.
  int64_t remaining_ = 0;      // arguments still to come
  size_t position_ = 0;        // where parsing goes on, from cursor_
  bool has_length_ = false;    // the bulk's header was read
  uint64_t length_ = 0;
  size_t trailer_ = 0;         // bytes behind a streamed bulk that are still to be skipped
  bool deferred_ = false;      // it did not come in one piece: its arguments are in pending_
  Arguments pending_;          // views whose pointers are offsets from cursor_, because the buffer may move
  std::unique_ptr<PayloadSink> sink_;
  uint64_t stream_remaining_ = 0;

  std::string error_;
};

}  // namespace pion
