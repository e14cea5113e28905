// The syntax of redis.conf: one parameter a line, words separated by blanks, "double" quotes with \n \r \t \a \b \xHH and
// 'single' quotes with \'. A line that begins with # is a comment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pion {

// Nothing when quotes are unbalanced or a closing quote is followed by something else than a blank.
std::optional<std::vector<std::string>> split_words(std::string_view line);
// The word as it must be written to be read back equal; quoted only when needed.
std::string quote_word(std::string_view word);

}  // namespace pion
