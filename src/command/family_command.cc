// COMMAND: the table, printed. Shapes and order of fields as Redis 8.2.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "command/arguments.h"
#include "command/command_keys.h"
#include "command/families.h"
#include "command/glob.h"

namespace pion {
namespace {

// Calls visit(word) for each word of `list`.
template <typename Visit>
void each_word(std::string_view list, char separator, Visit visit) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(separator), list.size());
    visit(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

int64_t count_words(std::string_view list, char separator) {
  return list.empty() ? 0 : std::count(list.begin(), list.end(), separator) + 1;
}

void simple_set(ReplyWriter& reply, std::string_view words, char separator, std::string_view prefix = "") {
  reply.set(count_words(words, separator));
  each_word(words, separator, [&](std::string_view word) { reply.simple(std::string(prefix).append(word)); });
}

void named(ReplyWriter& reply, std::string_view name, std::string_view value) {
  reply.bulk(name);
  reply.bulk(value);
}

void named(ReplyWriter& reply, std::string_view name, int64_t value) {
  reply.bulk(name);
  reply.integer(value);
}

// One of the two halves of a key specification: how it is called, its type, and the type's fields.
void reply_half(ReplyWriter& reply, std::string_view half, std::string_view type, std::initializer_list<std::pair<std::string_view, int64_t>> numbers,
                std::string_view keyword = "") {
  reply.bulk(half);
  reply.map(2);
  named(reply, "type", type);
  reply.bulk("spec");
  reply.map(static_cast<int64_t>(numbers.size()) + (keyword.empty() ? 0 : 1));
  if (!keyword.empty()) named(reply, "keyword", keyword);
  for (const auto& [name, value] : numbers) named(reply, name, value);
}

void reply_key_spec(ReplyWriter& reply, const KeySpecDoc& spec) {
  constexpr std::string_view kBegin = "begin_search", kFind = "find_keys";
  switch (spec.begin) {
    case KeySpecDoc::Begin::kIndex: reply_half(reply, kBegin, "index", {{"index", spec.index}}); break;
    case KeySpecDoc::Begin::kKeyword: reply_half(reply, kBegin, "keyword", {{"startfrom", spec.index}}, spec.keyword); break;
    case KeySpecDoc::Begin::kUnknown: reply_half(reply, kBegin, "unknown", {}); break;
  }
  switch (spec.find) {
    case KeySpecDoc::Find::kRange:
      reply_half(reply, kFind, "range", {{"lastkey", spec.last}, {"keystep", spec.step}, {"limit", spec.limit}});
      break;
    case KeySpecDoc::Find::kKeynum:
      reply_half(reply, kFind, "keynum", {{"keynumidx", spec.last}, {"firstkey", spec.step}, {"keystep", spec.limit}});
      break;
    case KeySpecDoc::Find::kUnknown: reply_half(reply, kFind, "unknown", {}); break;
  }
}

void reply_info(ReplyWriter& reply, const CommandSpec& spec) {
  reply.array(10);
  reply.bulk(spec.name);
  reply.integer(spec.arity);
  simple_set(reply, spec.flag_names, ' ');
  reply.integer(spec.keys.first);
  reply.integer(spec.keys.last);
  reply.integer(spec.keys.step);
  simple_set(reply, spec.categories, ',', "@");
  reply.set(count_words(spec.tips, ','));
  each_word(spec.tips, ',', [&](std::string_view tip) { reply.bulk(tip); });
  reply.set(static_cast<int64_t>(spec.key_specs.size()));
  for (const KeySpecDoc& keys : spec.key_specs) {
    reply.map(keys.notes.empty() ? 3 : 4);
    if (!keys.notes.empty()) named(reply, "notes", keys.notes);
    reply.bulk("flags");
    simple_set(reply, keys.flags, ' ');
    reply_key_spec(reply, keys);
  }
  if (spec.subcommands.empty()) return reply.set(0);
  reply.array(static_cast<int64_t>(spec.subcommands.size()));
  for (const CommandSpec& sub : spec.subcommands) reply_info(reply, sub);
}

constexpr std::string_view kArgumentFlags[] = {"optional", "multiple", "multiple_token"};

void reply_arguments(ReplyWriter& reply, std::span<const ArgumentDoc> arguments) {
  reply.array(static_cast<int64_t>(arguments.size()));
  for (const ArgumentDoc& argument : arguments) {
    const bool holds_others = argument.type == "oneof" || argument.type == "block";
    reply.map(2 + !holds_others + (argument.key_spec >= 0) + !argument.token.empty() + !argument.since.empty() +
              !argument.deprecated_since.empty() + (argument.flags != 0) + holds_others);
    named(reply, "name", argument.name);
    named(reply, "type", argument.type);
    if (!holds_others) named(reply, "display_text", argument.display.empty() ? argument.name : argument.display);
    if (argument.key_spec >= 0) named(reply, "key_spec_index", argument.key_spec);
    if (!argument.token.empty()) named(reply, "token", argument.token);
    if (!argument.since.empty()) named(reply, "since", argument.since);
    if (!argument.deprecated_since.empty()) named(reply, "deprecated_since", argument.deprecated_since);
    if (argument.flags != 0) {
      reply.bulk("flags");
      reply.set(__builtin_popcount(argument.flags));
      for (size_t bit = 0; bit < std::size(kArgumentFlags); bit++) {
        if (argument.flags & (1u << bit)) reply.simple(kArgumentFlags[bit]);
      }
    }
    if (holds_others) {
      reply.bulk("arguments");
      reply_arguments(reply, argument.children);
    }
  }
}

void reply_history(ReplyWriter& reply, std::string_view history) {
  reply.bulk("history");
  reply.set(count_words(history, '\n'));
  each_word(history, '\n', [&](std::string_view line) {
    const size_t colon = line.find(':');
    reply.array(2);
    reply.bulk(line.substr(0, colon));
    reply.bulk(line.substr(colon + 1));
  });
}

// The name and the documentation: a pair of a map.
void reply_docs(ReplyWriter& reply, const CommandSpec& spec) {
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"summary", spec.summary}, {"since", spec.since}, {"group", spec.group}, {"complexity", spec.complexity}};
  const std::pair<std::string_view, std::string_view> ends[] = {
      {"deprecated_since", spec.deprecated_since}, {"replaced_by", spec.replaced_by}};
  const auto given = [](const auto& pair) { return !pair.second.empty(); };
  reply.bulk(spec.name);
  reply.map(std::count_if(std::begin(texts), std::end(texts), given) + !spec.history.empty() + !spec.doc_flags.empty() +
            std::count_if(std::begin(ends), std::end(ends), given) + !spec.arguments.empty() + !spec.subcommands.empty());
  for (const auto& [name, text] : texts) {
    if (!text.empty()) named(reply, name, text);
  }
  if (!spec.doc_flags.empty()) {
    reply.bulk("doc_flags");
    simple_set(reply, spec.doc_flags, ' ');
  }
  for (const auto& [name, text] : ends) {
    if (!text.empty()) named(reply, name, text);
  }
  if (!spec.history.empty()) reply_history(reply, spec.history);
  if (!spec.arguments.empty()) {
    reply.bulk("arguments");
    reply_arguments(reply, spec.arguments);
  }
  if (!spec.subcommands.empty()) {
    reply.bulk("subcommands");
    reply.map(static_cast<int64_t>(spec.subcommands.size()));
    for (const CommandSpec& sub : spec.subcommands) reply_docs(reply, sub);
  }
}

Outcome command_all(CommandContext& context) {
  context.reply.array(static_cast<int64_t>(all_commands().size()));
  for (const CommandSpec* spec : all_commands()) reply_info(context.reply, *spec);
  return Outcome::kDone;
}

Outcome command_info(CommandContext& context) {
  if (context.argc() == 2) return command_all(context);
  context.reply.array(static_cast<int64_t>(context.argc() - 2));
  for (size_t i = 2; i < context.argc(); i++) {
    if (const CommandSpec* spec = find_full_name(context.arg(i))) {
      reply_info(context.reply, *spec);
    } else {
      context.reply.nil();
    }
  }
  return Outcome::kDone;
}

Outcome command_docs(CommandContext& context) {
  std::vector<const CommandSpec*> asked;
  if (context.argc() == 2) {
    asked.assign(all_commands().begin(), all_commands().end());
  } else {
    for (size_t i = 2; i < context.argc(); i++) {
      if (const CommandSpec* spec = find_full_name(context.arg(i))) asked.push_back(spec);
    }
  }
  context.reply.map(static_cast<int64_t>(asked.size()));
  for (const CommandSpec* spec : asked) reply_docs(context.reply, *spec);
  return Outcome::kDone;
}

Outcome command_count(CommandContext& context) {
  context.reply.integer(static_cast<int64_t>(all_commands().size()));
  return Outcome::kDone;
}

Outcome command_list(CommandContext& context) {
  enum class Filter { kNone, kCategory, kPattern, kModule } filter = Filter::kNone;
  std::string wanted;
  if (context.argc() == 5 && same_word(context.arg(2), "filterby")) {
    if (same_word(context.arg(3), "aclcat")) filter = Filter::kCategory;
    if (same_word(context.arg(3), "pattern")) filter = Filter::kPattern;
    if (same_word(context.arg(3), "module")) filter = Filter::kModule;
    wanted = context.arg(4);
  }
  if (context.argc() != 2 && filter == Filter::kNone) return context.reply.error(kSyntaxError), Outcome::kDone;
  std::vector<std::string_view> names;
  const auto take = [&](const CommandSpec& spec) {
    bool holds = filter == Filter::kNone || (filter == Filter::kPattern && glob_match(wanted, spec.name, true));
    if (filter == Filter::kCategory) {
      each_word(spec.categories, ',', [&](std::string_view category) { holds = holds || same_word(category, wanted); });
    }
    if (holds) names.push_back(spec.name);
  };
  for (const CommandSpec* spec : all_commands()) {
    take(*spec);
    for (const CommandSpec& sub : spec->subcommands) take(sub);
  }
  context.reply.array(static_cast<int64_t>(names.size()));
  for (std::string_view name : names) context.reply.bulk(name);
  return Outcome::kDone;
}

Outcome keys_of_command(CommandContext& context, bool with_flags) {
  const Arguments request(context.args.begin() + 2, context.args.end());
  const CommandSpec* spec = find_command(request[0].bytes);
  if (spec && !spec->subcommands.empty() && request.size() > 1) spec = find_subcommand(*spec, request[1].bytes);
  const auto refuse = [&](std::string_view text) { return context.reply.error(text), Outcome::kDone; };
  if (!spec) return refuse("ERR Invalid command specified");
  if (!has_keys(*spec)) return refuse("ERR The command has no key arguments");
  const auto count = static_cast<int64_t>(request.size());
  if (spec->arity >= 0 ? count != spec->arity : count < -spec->arity) {
    return refuse("ERR Invalid number of arguments specified for command");
  }
  const auto keys = command_keys(*spec, request);
  const bool may_be_none = spec->group == "scripting";
  if (!keys || (keys->empty() && !may_be_none)) return refuse("ERR Invalid arguments specified for command");
  context.reply.array(static_cast<int64_t>(keys->size()));
  for (const CommandKey& key : *keys) {
    if (with_flags) context.reply.array(2);
    context.reply.bulk(request[key.position].bytes);
    if (with_flags) simple_set(context.reply, key.flags, ' ');
  }
  return Outcome::kDone;
}

Outcome command_getkeys(CommandContext& context) { return keys_of_command(context, false); }
Outcome command_getkeysandflags(CommandContext& context) { return keys_of_command(context, true); }

Outcome command_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "(no subcommand)",
      "    Return details about all Redis commands.",
      "COUNT",
      "    Return the total number of commands in this Redis server.",
      "LIST",
      "    Return a list of all commands in this Redis server.",
      "INFO [<command-name> ...]",
      "    Return details about multiple Redis commands.",
      "    If no command names are given, documentation details for all",
      "    commands are returned.",
      "DOCS [<command-name> ...]",
      "    Return documentation details about multiple Redis commands.",
      "    If no command names are given, documentation details for all",
      "    commands are returned.",
      "GETKEYS <full-command>",
      "    Return the keys from a full Redis command.",
      "GETKEYSANDFLAGS <full-command>",
      "    Return the keys and the access flags from a full Redis command.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(context, kLines);
}

constexpr CommandSpec kSubcommands[] = {
    {.name = "command|count", .handler = command_count},
    {.name = "command|docs", .handler = command_docs},
    {.name = "command|getkeys", .handler = command_getkeys},
    {.name = "command|getkeysandflags", .handler = command_getkeysandflags},
    {.name = "command|help", .handler = command_help},
    {.name = "command|info", .handler = command_info},
    {.name = "command|list", .handler = command_list},
};

constexpr CommandSpec kCommands[] = {
    {.name = "command", .handler = command_all, .subcommands = kSubcommands},
};

}  // namespace

std::span<const CommandSpec> command_commands() { return kCommands; }

}  // namespace pion
