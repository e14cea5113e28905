// Splits an inline command as Redis' sdssplitargs does: words, "..." with escapes, '...' with \' only.
#pragma once

#include <cstddef>

#include "resp/request.h"

namespace pion {

// Unquotes in place (a word never grows); the arguments are views into `line`. False: unbalanced quotes.
bool split_inline(char* line, size_t length, Arguments& out);

}  // namespace pion
