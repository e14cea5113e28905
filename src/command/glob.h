// Glob patterns as Redis matches them: * ? [a-z] [^a-z] and backslash. Time is at most pattern times text.
#pragma once

#include <string_view>

namespace pion {

bool glob_match(std::string_view pattern, std::string_view text, bool fold_case = false);

}  // namespace pion
