#include "server/config_syntax.h"

#include <algorithm>

namespace pion {
namespace {

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f' || c == '\0'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// One character behind a backslash in double quotes; moves `at` to its last character.
char escaped(std::string_view line, size_t& at) {
  if (line[at] == 'x' && at + 2 < line.size() && hex_digit(line[at + 1]) >= 0 && hex_digit(line[at + 2]) >= 0) {
    at += 2;
    return static_cast<char>(hex_digit(line[at - 1]) * 16 + hex_digit(line[at]));
  }
  switch (line[at]) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return line[at];
  }
}

// Reads a quoted part that begins at `at`; false when it does not end, or ends inside a word.
bool quoted_part(std::string_view line, size_t& at, std::string& word) {
  const char quote = line[at++];
  for (; at < line.size(); at++) {
    if (line[at] == quote) {
      at++;
      return at == line.size() || blank(line[at]);
    }
    if (line[at] == '\\' && at + 1 < line.size() && (quote == '"' || line[at + 1] == '\'')) {
      at++;
      word.push_back(quote == '"' ? escaped(line, at) : '\'');
    } else {
      word.push_back(line[at]);
    }
  }
  return false;
}

}  // namespace

std::optional<std::vector<std::string>> split_words(std::string_view line) {
  std::vector<std::string> words;
  for (size_t at = 0;;) {
    while (at < line.size() && blank(line[at])) at++;
    if (at == line.size()) return words;
    std::string& word = words.emplace_back();
    while (at < line.size() && !blank(line[at])) {
      if (line[at] == '"' || line[at] == '\'') {
        if (!quoted_part(line, at, word)) return std::nullopt;
      } else {
        word.push_back(line[at++]);
      }
    }
  }
}

std::string quote_word(std::string_view word) {
  const auto plain = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\'' && c != '\\' && c != '#'; };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "\"";
  for (char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text.append({'\\', c});
    } else if (byte < ' ' || byte == 0x7f) {
      text.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    } else {
      text.push_back(c);
    }
  }
  return text + "\"";
}

}  // namespace pion
