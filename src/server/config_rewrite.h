// CONFIG REWRITE: writes the values in use into the config file, keeping its comments and the order of its lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pion {

struct ConfigLine {
  std::string name;
  std::string value;        // as it stands in a file
  bool is_default = false;  // written only where the file has a line for it
};

// A line that says nothing: blank, or begins with #.
bool config_comment(std::string_view line);

// The file's new text: a line for a parameter of `lines` gets the value in use, a second line for the same one goes, what is
// no default and has no line comes at the end.
std::string rewritten_config(std::string_view text, const std::vector<ConfigLine>& lines);

// Replaces the file in one step (temporary file, sync, rename, sync of the directory); its mode stays. Through symbolic links.
Status rewrite_config_file(const std::string& path, const std::vector<ConfigLine>& lines);

}  // namespace pion
