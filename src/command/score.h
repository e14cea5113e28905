// Scores of sorted sets in arguments and replies.
#pragma once

#include <optional>
#include <string_view>

#include "command/context.h"
#include "keyspace/sorted_set_value.h"

namespace pion {

// A score as ZADD takes it: C's notation, hexadecimal too, infinities; not out of range, no NaN.
std::optional<double> score_argument(std::string_view text);

// One end of a range of scores: "1.5", "(1.5", "-inf". Nothing is 0, what is out of range is infinite or 0.
struct ScoreBound {
  double score = 0;
  bool exclusive = false;
  bool below(double other) const { return exclusive ? score < other : score <= other; }
  bool above(double other) const { return exclusive ? score > other : score >= other; }
};
std::optional<ScoreBound> score_bound(std::string_view text);

// One end of a range of members: "-", "+", "[abc", "(abc".
struct LexBound {
  enum class Kind { kLeast, kMost, kInclusive, kExclusive } kind = Kind::kLeast;
  std::string_view text;
  bool below(std::string_view member) const;
  bool above(std::string_view member) const;
};
std::optional<LexBound> lex_bound(std::string_view text);

void reply_member(ReplyWriter& reply, const ShortText& member);
// In a list of members with scores: a pair in RESP3, two elements in RESP2.
void reply_scored(ReplyWriter& reply, const ScoredMember& item, bool with_score);
// The header of such a list.
void reply_scored_header(ReplyWriter& reply, uint64_t members, bool with_scores);

}  // namespace pion
