#include "resp/parser.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/limits.h"
#include "resp/inline_split.h"

namespace pion {
namespace {

void to_pointers(Arguments& arguments, const char* base) {
  for (Argument& argument : arguments) {
    if (argument.streamed) continue;
    argument.bytes = {base + reinterpret_cast<uintptr_t>(argument.bytes.data()), argument.bytes.size()};
  }
}

void to_offsets(Arguments& arguments, const char* base) {
  for (Argument& argument : arguments) {
    if (argument.streamed) continue;
    argument.bytes = {reinterpret_cast<const char*>(argument.bytes.data() - base), argument.bytes.size()};
  }
}

}  // namespace

RequestParser::Result RequestParser::fail(std::string text) {
  error_ = "Protocol error: " + std::move(text);
  forget_command();
  return Result::kError;
}

void RequestParser::forget_command() {
  remaining_ = 0;
  position_ = 0;
  has_length_ = false;
  deferred_ = false;
  pending_.clear();
}

void RequestParser::rewind() {
  assert(!sink_);
  forget_command();
  cursor_ = 0;
}

// A number, CR, and one more byte that must be there and is not looked at. As Redis' string2ll: no sign but '-', no
// leading zeros, no blanks. Here the usual line, a few digits; the rest in read_odd_number().
inline RequestParser::Line RequestParser::read_number(std::string_view in, size_t offset, int64_t& number, size_t& next) {
  uint64_t value = 0;
  size_t at = offset;
  const size_t digits_end = std::min(in.size(), offset + 18);
  while (at < digits_end && in[at] >= '0' && in[at] <= '9') value = value * 10 + static_cast<uint64_t>(in[at++] - '0');
  if (at > offset && at + 1 < in.size() && in[at] == '\r' && (in[offset] != '0' || at == offset + 1)) {
    number = static_cast<int64_t>(value);
    next = at + 2;
    return Line::kNumber;
  }
  return read_odd_number(in, offset, number, next);
}

RequestParser::Line RequestParser::read_odd_number(std::string_view in, size_t offset, int64_t& number, size_t& next) {
  const size_t end = in.find('\r', offset);
  if (end == in.npos) return in.size() - offset > kMaxInlineBytes ? Line::kTooLong : Line::kNeedMore;
  if (end + 1 >= in.size()) return Line::kNeedMore;
  next = end + 2;
  std::string_view text = in.substr(offset, end - offset);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 18) return Line::kInvalid;  // longer ones are beyond every limit
  if (text[0] == '0' && (text.size() > 1 || negative)) return Line::kInvalid;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return Line::kInvalid;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  number = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  return Line::kNumber;
}

RequestParser::Result RequestParser::next(ReadBuffer& in, Arguments& out, bool alone) {
  if (sink_) return Result::kStream;
  if (remaining_ > 0) {
    assert(deferred_ && alone);
    return parse_bulks(in, out, alone);
  }
  out.clear();
  while (cursor_ < in.size()) {
    if (in.data()[cursor_] != '*') {
      if (!alone) return Result::kAlone;
      const Result result = next_inline(in, out);
      if (result != Result::kCommand || !out.empty()) return result;
      continue;
    }
    const Result result = parse_count(in);
    if (result != Result::kCommand) return result;
    if (remaining_ > 0) return parse_bulks(in, out, alone);
  }
  return Result::kNeedMore;
}

// An empty line leaves `out` empty.
RequestParser::Result RequestParser::next_inline(ReadBuffer& in, Arguments& out) {
  const std::string_view rest = in.view().substr(cursor_);
  const size_t end = rest.find('\n');
  if (end == rest.npos) {
    return rest.size() > kMaxInlineBytes ? fail("too big inline request") : Result::kNeedMore;
  }
  size_t length = end;
  if (length > 0 && rest[length - 1] == '\r') length--;
  if (!split_inline(in.mutable_data() + cursor_, length, out)) return fail("unbalanced quotes in request");
  cursor_ += end + 1;
  return Result::kCommand;
}

RequestParser::Result RequestParser::parse_count(const ReadBuffer& in) {
  int64_t count = 0;
  size_t next = 0;
  switch (read_number(in.view(), cursor_ + 1, count, next)) {
    case Line::kNeedMore: return Result::kNeedMore;
    case Line::kTooLong: return fail("too big mbulk count string");
    case Line::kInvalid: return fail("invalid multibulk length");
    case Line::kNumber: break;
  }
  if (count > kMaxMultibulk) return fail("invalid multibulk length");
  if (count > kUnauthMultibulk && !limits_.authenticated) return fail("unauthenticated multibulk length");
  if (count <= 0) {  // an empty command: skipped without a reply
    cursor_ = next;
    return Result::kCommand;
  }
  remaining_ = count;
  position_ = next - cursor_;
  return Result::kCommand;
}

// Reads "$<length>" at position_.
inline RequestParser::Result RequestParser::parse_length(const ReadBuffer& in) {
  const std::string_view view = in.view();
  const size_t at = cursor_ + position_;
  if (at >= view.size()) return Result::kNeedMore;
  if (view[at] != '$') {  // as Redis, which looks at the mark once the line is there
    const size_t end = view.find('\r', at);
    if (end == view.npos && view.size() - at > kMaxInlineBytes) return fail("too big bulk count string");
    if (end == view.npos || end + 1 >= view.size()) return Result::kNeedMore;
    return fail(std::string("expected '$', got '") + view[at] + "'");
  }
  int64_t length = 0;
  size_t next = 0;
  switch (read_number(view, at + 1, length, next)) {
    case Line::kNeedMore: return Result::kNeedMore;
    case Line::kTooLong: return fail("too big bulk count string");
    case Line::kInvalid: return fail("invalid bulk length");
    case Line::kNumber: break;
  }
  if (length < 0 || static_cast<uint64_t>(length) > limits_.max_bulk_bytes) return fail("invalid bulk length");
  length_ = static_cast<uint64_t>(length);
  if (length_ > kUnauthBulkBytes && !limits_.authenticated) return fail("unauthenticated bulk length");
  position_ = next - cursor_;
  has_length_ = true;
  return Result::kCommand;
}

void RequestParser::finish_stream(Arguments& out) {
  out.push_back({{}, sink_->finish(), length_});
  sink_.reset();
  has_length_ = false;
  trailer_ = 2;
}

RequestParser::Result RequestParser::parse_bulks(ReadBuffer& in, Arguments& out, bool alone) {
  while (remaining_ > 0) {
    if (trailer_ > 0) {
      const size_t skipped = std::min(trailer_, in.size() - (cursor_ + position_));
      position_ += skipped;
      trailer_ -= skipped;
      if (trailer_ > 0) return defer(in, out, Result::kNeedMore);
      remaining_--;
      continue;
    }
    if (!has_length_) {
      const Result result = parse_length(in);
      if (result == Result::kNeedMore) return defer(in, out, result);
      if (result != Result::kCommand) return result;
      if (length_ >= kStreamBulkBytes && target_) {
        if (!alone) return forget_command(), Result::kAlone;
        const Result begun = begin_stream(in, out);
        if (begun == Result::kStream) return begun;
        if (trailer_ > 0) continue;
      }
    }
    const size_t begin = cursor_ + position_;
    if (in.size() - begin < length_ + 2) return defer(in, out, Result::kNeedMore);
    Argument& argument = (deferred_ ? pending_ : out).emplace_back();
    argument.bytes = {deferred_ ? reinterpret_cast<const char*>(position_) : in.data() + begin, length_};
    argument.size = length_;
    has_length_ = false;
    position_ += length_ + 2;  // the two bytes behind a bulk are not looked at
    remaining_--;
  }
  if (deferred_) {
    to_pointers(pending_, in.data() + cursor_);
    out.swap(pending_);
  }
  cursor_ += position_;
  forget_command();
  return Result::kCommand;
}

// kCommand: nobody takes it (trailer_ is 0), or all of it was in the buffer (trailer_ is set).
RequestParser::Result RequestParser::begin_stream(ReadBuffer& in, Arguments& out) {
  Arguments& before = deferred_ ? pending_ : out;
  if (deferred_) to_pointers(before, in.data() + cursor_);
  sink_ = target_->open(before, length_);
  if (deferred_) to_offsets(before, in.data() + cursor_);
  if (!sink_) return Result::kCommand;

  const size_t begin = cursor_ + position_;
  const auto there = static_cast<size_t>(std::min<uint64_t>(in.size() - begin, length_));
  if (there > 0) sink_->append(in.view().substr(begin, there));
  in.erase(begin, there);
  stream_remaining_ = length_ - there;
  if (stream_remaining_ > 0) return defer(in, out, Result::kStream);
  finish_stream(before);
  return Result::kCommand;
}

void RequestParser::feed_stream(std::string_view piece) {
  assert(sink_ && piece.size() <= stream_remaining_);
  sink_->append(piece);
  stream_remaining_ -= piece.size();
  if (stream_remaining_ == 0) finish_stream(pending_);
}

RequestParser::Result RequestParser::defer(const ReadBuffer& in, Arguments& out, Result why) {
  if (!deferred_) {
    deferred_ = true;
    pending_.swap(out);
    to_offsets(pending_, in.data() + cursor_);
  }
  const uint64_t held = in.size() - cursor_ + pending_.size() * sizeof(Argument);
  if (held > limits_.max_held_bytes) {
    sink_.reset();
    return fail("a request of more than " + std::to_string(limits_.max_held_bytes) + " bytes");
  }
  return why;
}

}  // namespace pion
