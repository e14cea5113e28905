// Any bytes in any pieces: the parser neither crashes nor holds more than came, and pieces change nothing of what it reads.
// A libFuzzer target (clang), see scripts/run-fuzzers.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "resp/parser.h"

namespace {

using pion::Arguments;
using pion::RequestParser;

struct KeptPayload : pion::StreamedPayload {
  std::string bytes;
};

class KeepingSink : public pion::PayloadSink {
 public:
  void append(std::string_view piece) override { payload_->bytes.append(piece); }
  std::shared_ptr<pion::StreamedPayload> finish() override { return payload_; }

 private:
  std::shared_ptr<KeptPayload> payload_ = std::make_shared<KeptPayload>();
};

class Target : public pion::StreamTarget {
 public:
  std::unique_ptr<pion::PayloadSink> open(const Arguments& before, uint64_t) override {
    if (before.empty()) return nullptr;
    return std::make_unique<KeepingSink>();
  }
};

// What a reading of the whole input yields: commands as text, then the error.
std::string read_all(std::string_view bytes, size_t piece_size, size_t batch, bool authenticated) {
  Target target;
  RequestParser parser(&target);
  parser.set_limits({.authenticated = authenticated});
  pion::ReadBuffer in;
  std::string seen;
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, piece_size);
    bytes.remove_prefix(piece.size());
    while (!piece.empty()) {
      if (parser.stream_remaining() > 0) {
        const size_t size = std::min<uint64_t>(piece.size(), parser.stream_remaining());
        parser.feed_stream(piece.substr(0, size));
        piece.remove_prefix(size);
        if (parser.stream_remaining() > 0) break;
      } else {
        in.append(piece);
        piece = {};
      }
      for (bool more = true; more;) {
        std::vector<Arguments> slots(batch);
        size_t count = 0;
        auto last = RequestParser::Result::kCommand;
        while (count < batch && (last = parser.next(in, slots[count], count == 0)) == RequestParser::Result::kCommand) count++;
        for (size_t i = 0; i < count; ++i) {
          seen += "\n*";
          for (const pion::Argument& argument : slots[i]) {
            seen += ' ';
            seen += argument.streamed ? static_cast<KeptPayload&>(*argument.streamed).bytes : std::string(argument.bytes);
          }
        }
        in.consume(parser.parsed_bytes());
        parser.consumed(parser.parsed_bytes());
        if (last == RequestParser::Result::kError) return seen + "\n!" + parser.protocol_error();
        more = last == RequestParser::Result::kCommand || last == RequestParser::Result::kAlone;
      }
      if (in.capacity() > 2 * (in.size() + piece_size) + (1 << 20)) std::abort();
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t piece = 1 + data[0] % 61, batch = 1 + data[1] % 64;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const bool authenticated = data[1] < 128;
  // "Too long" errors depend on what has come when the parser looks, so inputs that could be are read one way only.
  const std::string whole = read_all(bytes, bytes.size() + 1, 64, authenticated);
  const std::string pieces = read_all(bytes, piece, batch, authenticated);
  if (size < 60000 && whole != pieces) std::abort();
  return 0;
}
