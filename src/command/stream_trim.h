// MAXLEN, MINID, LIMIT and what becomes of references: the options of XADD and XTRIM.
#pragma once

#include "command/family_stream.h"

namespace pion {

struct StreamTrim {
  enum class By : uint8_t { kNothing, kLength, kId };
  By by = By::kNothing;
  bool approximately = false;  // whole blocks only
  uint64_t most = 0;           // kLength
  StreamId least;              // kId
  uint64_t limit = 0;          // entries removed at most; 0: all
  References references = References::kKeep;
};

// The options of XADD or XTRIM up to the first word that is none of them, whose position is returned: an id in XADD, argc()
// in XTRIM. 0: the error was answered.
struct StreamOptions {
  StreamTrim trim;
  bool no_make = false;
  bool automatic = false;  // "*"
  bool any_seq = false;    // "ms-*"
  StreamId id;
};
size_t parse_stream_options(CommandContext& ctx, bool adds, StreamOptions& options);

// How many entries of the stream the trim looks at, at most.
uint64_t trim_work(const Stream& stream, const StreamTrim& trim);
// Removes what is too much. How many entries that was.
uint64_t trim_stream(StreamKey& key, const StreamTrim& trim);

}  // namespace pion
