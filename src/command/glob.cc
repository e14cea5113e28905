#include "command/glob.h"

#include <utility>

namespace pion {
namespace {

unsigned char folded(char c, bool fold_case) {
  return static_cast<unsigned char>(fold_case && c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

// Matches one character against the element at `at` (not a star) and moves `at` behind the element.
bool element_matches(std::string_view pattern, size_t& at, char c, bool fold_case) {
  const unsigned char wanted = folded(c, fold_case);
  char element = pattern[at++];
  if (element == '?') return true;
  if (element == '\\' && at < pattern.size()) return folded(pattern[at++], fold_case) == wanted;
  if (element != '[') return folded(element, fold_case) == wanted;

  const bool negated = at < pattern.size() && pattern[at] == '^';
  if (negated) at++;
  bool found = false;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      at++;
      found = found || folded(pattern[at], fold_case) == wanted;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      unsigned char low = folded(pattern[at], fold_case), high = folded(pattern[at + 2], fold_case);
      if (low > high) std::swap(low, high);
      found = found || (wanted >= low && wanted <= high);
      at += 2;
    } else {
      found = found || folded(pattern[at], fold_case) == wanted;
    }
    at++;
  }
  if (at < pattern.size()) at++;  // the closing bracket; one that is missing is taken as there
  return found != negated;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text, bool fold_case) {
  size_t at = 0, position = 0;
  size_t star = std::string_view::npos, retry = 0;  // where to go on when what follows the last star does not match
  while (position < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at;
      retry = position;
      continue;
    }
    if (at < pattern.size() && element_matches(pattern, at, text[position], fold_case)) {
      position++;
      continue;
    }
    if (star == std::string_view::npos) return false;
    at = star;
    position = ++retry;
  }
  while (at < pattern.size() && pattern[at] == '*') at++;
  return at == pattern.size();
}

}  // namespace pion
