// docs/commands.md, printed from the table: pion-server --dump-docs commands.
#pragma once

#include <string>

namespace pion {

std::string commands_page();

}  // namespace pion
