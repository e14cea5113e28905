// The command table: the only place where a command's arity, flags, keys, categories and documentation stand. COMMAND, COMMAND
// DOCS, docs/commands.md and the dispatch are printed from it. One file per family fills it (family_*.cc), table.cc joins them.
//
// A family states, for a command of Redis, its name, its handler and what is ours (stream_rule, status, kFreesSpace). What
// Redis' own table says of it (arity, flags, keys, categories, documentation) stands in redis_facts.cc, which
// scripts/command-facts prints from the reference server; the join fills it in, and it wins. A command of Pion's own
// (kPion) states everything in its family.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "command/context.h"

namespace pion {

enum CommandFlag : uint32_t {
  kWrite = 1u << 0,
  kReadOnly = 1u << 1,
  kDenyOom = 1u << 2,       // may grow memory: refused above maxmemory
  kAdmin = 1u << 3,
  kPubsub = 1u << 4,
  kNoScript = 1u << 5,
  kBlocking = 1u << 6,
  kLoading = 1u << 7,
  kStale = 1u << 8,
  kSkipMonitor = 1u << 9,
  kSkipSlowlog = 1u << 10,
  kFast = 1u << 11,
  kNoAuth = 1u << 12,       // allowed before AUTH
  kMayReplicate = 1u << 13,  // waits while writes are paused; Redis does not print it, so the family states it
  kMovableKeys = 1u << 14,
  kAllowBusy = 1u << 15,
  kNoMulti = 1u << 16,
  kSentinel = 1u << 17,
  kFreesSpace = 1u << 18,   // ours: journalled as WriteKind::kFrees, never refused on a full disk
  kPion = 1u << 19,         // ours: not a command of Redis
};

// Where keys stand: first, last (negative: from the end), step; first 0: none. `numkeys` > 0: the argument at that
// position counts the keys that follow it.
struct KeyPositions {
  int first = 0;
  int last = 0;
  int step = 0;
  int numkeys = 0;
};

// A key specification as COMMAND INFO prints it.
struct KeySpecDoc {
  enum class Begin : uint8_t { kIndex, kKeyword, kUnknown };
  enum class Find : uint8_t { kRange, kKeynum, kUnknown };
  std::string_view flags;        // in Redis' order: "RW access update"
  std::string_view notes = "";
  Begin begin = Begin::kIndex;
  std::string_view keyword = "";
  int index = 1;                 // kIndex: the position; kKeyword: where the search starts
  Find find = Find::kRange;
  int last = 0;                  // kRange: the last key, from the first one; kKeynum: where the count stands, from there
  int step = 1;                  // kRange: the step; kKeynum: the first key, from the count's argument
  int limit = 0;                 // kRange: 1/limit of the rest when last is -1; kKeynum: the step
};

// One argument of COMMAND DOCS.
struct ArgumentDoc {
  std::string_view name;
  std::string_view type;         // key string integer double pattern unix-time pure-token oneof block
  std::string_view token = "";
  uint32_t flags = 0;            // 1 optional, 2 multiple, 4 multiple-token
  int key_spec = -1;
  std::span<const ArgumentDoc> children = {};
  std::string_view since = "";
  std::string_view deprecated_since = "";
  std::string_view display = "";  // when it is not the name
};

struct CommandSpec {
  std::string_view name;                 // lower case, "client" or, for a subcommand, "client|list"
  int arity = 0;                         // as Redis: the name counts; negative: at least
  uint32_t flags = 0;
  KeyPositions keys = {};
  std::string_view categories = "";      // ACL categories, comma separated, without @
  Handler handler = nullptr;             // null: a container whose subcommands do the work
  std::span<const CommandSpec> subcommands = {};
  std::string_view group = "";
  std::string_view since = "";
  std::string_view summary = "";
  std::string_view complexity = "";
  std::span<const ArgumentDoc> arguments = {};
  std::string_view key_flags = "";       // of the key spec: "RW,ACCESS,UPDATE" ...
  std::string_view tips = "";            // comma separated
  std::string_view history = "";         // "7.0.0:text;..."
  std::string_view status = "as Redis";  // docs/commands.md: "as Redis", "differs: ...", "Pion's own"
  // May the bulk at this argument position stream to disk, given the arguments before it? Null: never.
  // The space it should go to and the aux bytes to leave room for are answered by the same function.
  struct StreamRule { bool stream = false; uint32_t space = 0; uint64_t aux_bytes = 0; };
  StreamRule (*stream_rule)(const Arguments& before, size_t position) = nullptr;
  std::string_view flag_names = "";      // of a command of Redis: its flags as COMMAND INFO prints them, space separated
  std::span<const KeySpecDoc> key_specs = {};
  std::string_view deprecated_since = "", replaced_by = "", doc_flags = "";
  uint16_t id = 0;                       // the join's: a place in arrays that count commands, subcommands included
};

// All families, sorted by name. Built once, before any thread starts.
std::span<const CommandSpec* const> all_commands();
// Any case. Null when there is none. The container is answered for "client"; subcommand() finds the rest.
const CommandSpec* find_command(std::string_view name);
const CommandSpec* find_subcommand(const CommandSpec& container, std::string_view name);
// "client" or "client|list", any case.
const CommandSpec* find_full_name(std::string_view name);

// Ids are below this.
size_t command_count();

// What a request calls: the command, or the subcommand, with a handler and a number of arguments that fits its arity.
// Otherwise spec is null and `error` is Redis' text (unknown command, unknown subcommand, wrong number of arguments).
// `arguments` is not empty. Allocates only for an error.
struct ResolvedCommand {
  const CommandSpec* spec = nullptr;
  std::string error;
  const CommandSpec* misused = nullptr;  // there is such a command, but not with so many arguments
};
ResolvedCommand resolve_command(const Arguments& arguments);

}  // namespace pion
