#include "command/score.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>

namespace pion {
namespace {

bool reads_whole(std::string_view text, double& value) {
  if (text.size() > 5000 || (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))) return false;
  const std::string terminated(text);
  char* end = nullptr;
  errno = 0;
  value = std::strtod(terminated.c_str(), &end);
  return static_cast<size_t>(end - terminated.c_str()) == text.size() && !std::isnan(value);
}

}  // namespace

std::optional<double> score_argument(std::string_view text) {
  double value = 0;
  if (text.empty() || !reads_whole(text, value)) return std::nullopt;
  if (errno == ERANGE && (std::isinf(value) || value == 0)) return std::nullopt;
  return value;
}

std::optional<ScoreBound> score_bound(std::string_view text) {
  ScoreBound bound;
  if (!text.empty() && text.front() == '(') {
    bound.exclusive = true;
    text.remove_prefix(1);
  }
  if (text.find_first_of("xX") != std::string_view::npos || !reads_whole(text, bound.score)) return std::nullopt;
  return bound;
}

bool LexBound::below(std::string_view member) const {
  switch (kind) {
    case Kind::kLeast: return true;
    case Kind::kMost: return false;
    case Kind::kInclusive: return text <= member;
    case Kind::kExclusive: return text < member;
  }
  return false;
}

bool LexBound::above(std::string_view member) const {
  switch (kind) {
    case Kind::kLeast: return false;
    case Kind::kMost: return true;
    case Kind::kInclusive: return text >= member;
    case Kind::kExclusive: return text > member;
  }
  return false;
}

std::optional<LexBound> lex_bound(std::string_view text) {
  if (text == "-") return LexBound{LexBound::Kind::kLeast, {}};
  if (text == "+") return LexBound{LexBound::Kind::kMost, {}};
  if (text.empty() || (text.front() != '[' && text.front() != '(')) return std::nullopt;
  return LexBound{text.front() == '[' ? LexBound::Kind::kInclusive : LexBound::Kind::kExclusive, text.substr(1)};
}

void reply_member(ReplyWriter& reply, const ShortText& member) {
  char room[20];
  reply.bulk(member.view(room));
}

void reply_scored(ReplyWriter& reply, const ScoredMember& item, bool with_score) {
  if (with_score && reply.protocol() > 2) reply.array(2);
  reply_member(reply, item.member);
  if (with_score) reply.real(item.score);
}

void reply_scored_header(ReplyWriter& reply, uint64_t members, bool with_scores) {
  reply.array(static_cast<int64_t>(with_scores && reply.protocol() < 3 ? 2 * members : members));
}

}  // namespace pion
