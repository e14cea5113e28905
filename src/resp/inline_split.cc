#include "resp/inline_split.h"

#include <cstring>

namespace pion {
namespace {

bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct Cursor {
  const char* at;
  const char* const end;
  char* to;

  bool done() const { return at == end; }

  // Inside "...": one character, escapes resolved.
  void copy_escaped() {
    if (*at == '\\' && end - at >= 4 && at[1] == 'x' && hex(at[2]) >= 0 && hex(at[3]) >= 0) {
      *to++ = static_cast<char>(hex(at[2]) * 16 + hex(at[3]));
      at += 4;
    } else if (*at == '\\' && end - at >= 2) {
      static constexpr char kNames[] = "nrtba", kValues[] = "\n\r\t\b\a";
      const char* found = static_cast<const char*>(std::memchr(kNames, at[1], 5));
      *to++ = found ? kValues[found - kNames] : at[1];
      at += 2;
    } else {
      *to++ = *at++;
    }
  }

  // A quoted part behind its opening quote. False: it does not end, or something stands right behind it.
  bool copy_quoted(char quote) {
    while (!done() && *at != quote) {
      if (quote == '"') {
        copy_escaped();
      } else if (*at == '\\' && end - at >= 2 && at[1] == '\'') {
        *to++ = '\'';
        at += 2;
      } else {
        *to++ = *at++;
      }
    }
    if (done()) return false;
    at++;
    return done() || blank(*at);
  }
};

}  // namespace

bool split_inline(char* line, size_t length, Arguments& out) {
  // What stands behind a zero byte is not part of the line, as there.
  if (const void* zero = std::memchr(line, '\0', length)) length = static_cast<size_t>(static_cast<const char*>(zero) - line);
  Cursor cursor{line, line + length, line};
  while (true) {
    while (!cursor.done() && blank(*cursor.at)) cursor.at++;
    if (cursor.done()) return true;
    char* const begin = cursor.to;
    while (!cursor.done() && !blank(*cursor.at)) {
      const char c = *cursor.at++;
      if (c == '"' || c == '\'') {
        if (!cursor.copy_quoted(c)) return false;
        break;  // a closing quote ends the word
      }
      *cursor.to++ = c;
    }
    const auto size = static_cast<size_t>(cursor.to - begin);
    out.push_back({std::string_view(begin, size), nullptr, size});
  }
}

}  // namespace pion
