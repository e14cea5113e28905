// The table of options as text: --help and the generated part of docs/configuration.md.
#include <algorithm>
#include <string>
#include <vector>

#include "server/options.h"
#include "server/options_table.h"

namespace pion {
namespace {

std::vector<std::string_view> groups() {
  std::vector<std::string_view> names;
  for (const OptionSpec& spec : option_table()) {
    if (std::find(names.begin(), names.end(), spec.group) == names.end()) names.push_back(spec.group);
  }
  return names;
}

std::string default_of(const OptionSpec& spec) {
  if (!spec.default_text.empty()) return std::string(spec.default_text);
  return spec.is_setting() ? format_option_for_file(spec, Settings()) : "";
}

constexpr size_t kWidth = 100;
constexpr size_t kColumn = 34;

// `text` from column kColumn on, broken at blanks.
void append_wrapped(std::string& out, std::string_view text) {
  size_t column = kColumn;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (column > kColumn && column + 1 + end > kWidth) {
      out.append("\n").append(kColumn, ' ');
      column = kColumn;
    } else if (column > kColumn) {
      out.push_back(' ');
      column++;
    }
    out.append(text.substr(0, end));
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out.push_back('\n');
}

// Pipes end a cell.
std::string cell(std::string_view text) {
  std::string safe;
  for (char c : text) safe.append(c == '|' ? "\\|" : std::string(1, c));
  return safe;
}

}  // namespace

std::string options_help() {
  std::string out =
      "Usage: pion-server [CONFIG-FILE] [--NAME VALUE ...]\n\n"
      "Every name is also a line of the configuration file and, but for the first group's, a parameter of CONFIG.\n"
      "Later ones win; the command line wins over the file, the file over PION_REQUIREPASS.\n";
  for (std::string_view group : groups()) {
    out.append("\n").append(group).append(":\n");
    for (const OptionSpec& spec : option_table()) {
      if (spec.group != group) continue;
      std::string flag = spec.letter ? std::string("  -") + spec.letter + ", --" : "      --";
      flag.append(spec.name);
      if (!spec.value.empty()) flag.append(" ").append(spec.value);
      out.append(flag);
      if (flag.size() + 2 > kColumn) {
        out.append("\n").append(kColumn, ' ');
      } else {
        out.append(kColumn - flag.size(), ' ');
      }
      std::string text(spec.doc);
      if (const std::string value = default_of(spec); !value.empty() && value != "\"\"") text += " [" + value + "]";
      append_wrapped(out, text);
    }
  }
  out += "\nFlags of the original that are not in this release stop the start and say so.\n";
  return out;
}

std::string configuration_page() {
  std::string out = "<!-- The tables below are printed by `pion-server --dump-docs configuration`; change src/server/options_table.cc. -->\n";
  for (std::string_view group : groups()) {
    out.append("\n## ").append(group).append("\n\n| name | value | default | `CONFIG SET` | what it does | compared with Redis |\n|---|---|---|---|---|---|\n");
    for (const OptionSpec& spec : option_table()) {
      if (spec.group != group) continue;
      std::string name = "`" + std::string(spec.name) + "`";
      if (spec.letter) name += std::string(", `-") + spec.letter + "`";
      const std::string value = default_of(spec);
      out += "| " + name + " | " + cell(spec.is_setting() ? expected_values(spec) : std::string(spec.value)) + " | " +
             (value.empty() ? "" : spec.default_text.empty() || value.starts_with('<') ? "`" + value + "`" : cell(value)) + " | " +
             (!spec.is_setting() ? "no parameter" : spec.holding == Holding::kFixed && spec.changeable == Changeable::kAtRunTime ? "to this value" : spec.changeable == Changeable::kAtRunTime ? "yes" : "at start only") + " | " +
             cell(spec.doc) + " | " + cell(spec.is_setting() ? spec.origin : "Pion's own") + " |\n";
    }
  }
  out += "\n## Flags of the original that are not in this release\n\nEach stops the start with this sentence.\n\n| flag | sentence |\n|---|---|\n";
  for (const OptionSpec& spec : refused_options()) {
    out += "| `--" + std::string(spec.name) + "` | " + cell(spec.doc) + " |\n";
  }
  return out;
}

}  // namespace pion
