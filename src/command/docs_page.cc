#include "command/docs_page.h"

#include <map>
#include <vector>

#include "command/table.h"

namespace pion {
namespace {

std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c == '|' ? ' ' : c;
  return text;
}

std::string cell(std::string_view text) {
  std::string safe;
  for (char c : text) safe.append(c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c));
  return safe;
}

void append_syntax(std::string& out, const ArgumentDoc& argument);

void append_children(std::string& out, const ArgumentDoc& argument, std::string_view separator) {
  bool first = true;
  for (const ArgumentDoc& child : argument.children) {
    if (!first) out.append(separator);
    first = false;
    append_syntax(out, child);
  }
}

// As Redis' own documentation writes a syntax: [optional], a <b | c>, repeated ...
void append_syntax(std::string& out, const ArgumentDoc& argument) {
  std::string one;
  if (argument.type == "oneof") {
    append_children(one, argument, " | ");
    if (argument.children.size() > 1 && (!(argument.flags & 1) || !argument.token.empty())) one = "<" + one + ">";
  } else if (argument.type == "block") {
    append_children(one, argument, " ");
  } else if (argument.type != "pure-token") {
    one = argument.display.empty() ? argument.name : argument.display;
  }
  std::string text(argument.token);
  if (!text.empty() && !one.empty()) text += " ";
  text += one;
  if (argument.flags & 2) text += " [" + (argument.flags & 4 ? text : one) + " ...]";
  out += argument.flags & 1 ? "[" + text + "]" : text;
}

std::string syntax(const CommandSpec& spec) {
  std::string text = upper(spec.name);
  for (const ArgumentDoc& argument : spec.arguments) append_syntax(text += " ", argument);
  return text;
}

void append_row(std::string& out, const CommandSpec& spec, std::string_view status) {
  out += "| `" + cell(syntax(spec)) + "` | " + cell(spec.summary) + " | " + cell(spec.complexity) + " | " + std::string(spec.since) +
         " | " + cell(status) + " |\n";
}

}  // namespace

std::string commands_page() {
  std::string out =
      "# Commands\n\n<!-- Printed by `pion-server --dump-docs commands`; change the families in src/command/. -->\n\n"
      "What the server answers. A command that is not here is answered `ERR unknown command`. \"Since\" is the version of Redis, or\n"
      "of Pion for its own, that brought it; the last column compares with Redis 8.2.\n";
  std::map<std::string_view, std::vector<const CommandSpec*>> groups;
  for (const CommandSpec* spec : all_commands()) groups[spec->group].push_back(spec);
  for (const auto& [group, specs] : groups) {
    out += "\n## " + std::string(group) + "\n\n| command | what it does | complexity | since | compared with Redis |\n|---|---|---|---|---|\n";
    for (const CommandSpec* spec : specs) {
      if (spec->handler || spec->subcommands.empty()) append_row(out, *spec, spec->status);
      for (const CommandSpec& sub : spec->subcommands) {
        const bool of_container = sub.status == "as Redis" && !spec->handler;
        append_row(out, sub, of_container && spec->status.starts_with("Pion") ? spec->status : sub.status);
      }
      if (!spec->handler && spec->status.starts_with("differs")) {
        out += "| `" + upper(spec->name) + "` as a whole | | | | " + cell(spec->status) + " |\n";
      }
    }
  }
  return out;
}

}  // namespace pion
