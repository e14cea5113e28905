#include "command/table.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "command/families.h"

namespace pion {
namespace {

struct FlagName {
  std::string_view name;
  uint32_t flag;
};

// In the order of Redis' own bits: the order COMMAND INFO prints them in.
constexpr FlagName kFlagNames[] = {
    {"write", kWrite},          {"readonly", kReadOnly},       {"denyoom", kDenyOom},
    {"admin", kAdmin},          {"pubsub", kPubsub},           {"noscript", kNoScript},
    {"blocking", kBlocking},    {"loading", kLoading},         {"stale", kStale},
    {"skip_monitor", kSkipMonitor}, {"skip_slowlog", kSkipSlowlog}, {"fast", kFast},
    {"no_auth", kNoAuth},       {"may_replicate", kMayReplicate}, {"movablekeys", kMovableKeys},
    {"allow_busy", kAllowBusy}, {"no_multi", kNoMulti},        {"sentinel", kSentinel},
};

uint32_t flags_of_names(std::string_view names) {
  uint32_t flags = 0;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    for (const FlagName& entry : kFlagNames) {
      if (entry.name == names.substr(0, end)) flags |= entry.flag;
    }
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return flags;
}

std::string names_of_flags(uint32_t flags) {
  std::string names;
  for (const FlagName& entry : kFlagNames) {
    if (flags & entry.flag) names.append(names.empty() ? "" : " ").append(entry.name);
  }
  return names;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

bool equals_folded(std::string_view given, std::string_view lower_name) {
  if (given.size() != lower_name.size()) return false;
  for (size_t i = 0; i < given.size(); i++) {
    if (lower(given[i]) != lower_name[i]) return false;
  }
  return true;
}

constexpr size_t kMaxCommandName = 32;

template <typename Word>
uint64_t word_at(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Case folds by setting bit 5 of every byte; names that this maps together are told apart by equals_folded(). Reads overlap
// at the end, so that there is no loop over the last bytes.
uint32_t folded_hash(std::string_view name) {
  constexpr uint64_t kFold = 0x2020202020202020u, kMultiplier = 0x9E3779B97F4A7C15u;
  const char* at = name.data();
  const size_t size = name.size();
  uint64_t hash = size * kMultiplier, last = 0;
  if (size >= 8) {
    for (size_t i = 0; i + 8 < size; i += 8) {
      hash = (hash ^ (word_at<uint64_t>(at + i) | kFold)) * kMultiplier;
      hash ^= hash >> 29;
    }
    last = word_at<uint64_t>(at + size - 8);
  } else if (size >= 4) {
    last = word_at<uint32_t>(at) | word_at<uint32_t>(at + size - 4) << 32;
  } else if (size > 0) {
    last = word_at<uint8_t>(at) | word_at<uint8_t>(at + size / 2) << 8 | word_at<uint8_t>(at + size - 1) << 16;
  }
  hash = (hash ^ (last | kFold)) * kMultiplier;
  return static_cast<uint32_t>(hash >> 32);
}

// Every command, joined from the families and Redis' facts, and a hash over the names.
class Table {
 public:
  Table() {
    for (const CommandSpec& fact : redis_facts()) facts_[fact.name] = &fact;
    add(connection_commands());
    add(server_commands());
    add(command_commands());
    add(string_commands());
    add(set_commands());
    add(bitmap_commands());
    add(hyperloglog_commands());
    add(key_commands());
    add(dump_commands());
    add(hash_commands());
    add(list_commands());
    add(sorted_set_commands());
    add(geo_commands());
    add(sort_commands());
    add(stream_commands());
    add(prompt_commands());
    add(pubsub_commands());
    add(transaction_commands());
    add(memory_commands());
    add(observing_commands());
    std::sort(sorted_.begin(), sorted_.end(), [](auto* a, auto* b) { return a->name < b->name; });
    while (slots_.size() < sorted_.size() * 4) slots_.resize(slots_.empty() ? 256 : slots_.size() * 2);
    for (const CommandSpec* spec : sorted_) {
      assert(spec->name.size() <= kMaxCommandName);
      size_t at = folded_hash(spec->name) & (slots_.size() - 1);
      while (slots_[at].spec) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = {folded_hash(spec->name), spec};
    }
  }

  std::span<const CommandSpec* const> sorted() const { return sorted_; }
  size_t count() const { return next_id_; }

  const CommandSpec* find(std::string_view name) const {
    if (name.size() > kMaxCommandName) return nullptr;
    const uint32_t hash = folded_hash(name);
    for (size_t at = hash & (slots_.size() - 1); slots_[at].spec; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].hash == hash && equals_folded(name, slots_[at].spec->name)) return slots_[at].spec;
    }
    return nullptr;
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    const CommandSpec* spec = nullptr;
  };

  void add(std::span<const CommandSpec> family) {
    for (const CommandSpec& spec : family) {
      specs_.push_back(join(spec));
      CommandSpec& joined = specs_.back();
      if (!spec.subcommands.empty()) {
        std::vector<CommandSpec>& list = subcommands_.emplace_back();
        for (const CommandSpec& sub : spec.subcommands) list.push_back(join(sub));
        joined.subcommands = list;
      }
      sorted_.push_back(&joined);
    }
  }

  CommandSpec join(const CommandSpec& ours) {
    CommandSpec joined = joined_with_facts(ours);
    joined.id = next_id_++;
    return joined;
  }

  CommandSpec joined_with_facts(const CommandSpec& ours) {
    const auto fact = facts_.find(ours.name);
    CommandSpec joined = ours;
    if (fact != facts_.end()) {
      joined = *fact->second;
      joined.flags = flags_of_names(joined.flag_names) | (ours.flags & (kFreesSpace | kMayReplicate));
      joined.handler = ours.handler;
      joined.subcommands = ours.subcommands;
      joined.status = ours.status;
      joined.stream_rule = ours.stream_rule;
      return joined;
    }
    // Not Redis' own: everything stands in the family.
    joined.flag_names = texts_.emplace_back(names_of_flags(ours.flags));
    if (joined.key_specs.empty() && ours.keys.first > 0) joined.key_specs = key_specs_.emplace_back(key_specs_of(ours));
    return joined;
  }

  std::vector<KeySpecDoc> key_specs_of(const CommandSpec& ours) {
    KeySpecDoc doc;
    std::string& flags = texts_.emplace_back(ours.key_flags);
    for (char& c : flags) c = c == ',' ? ' ' : c;
    doc.flags = flags;
    doc.index = ours.keys.first;
    doc.last = ours.keys.last < 0 ? ours.keys.last : ours.keys.last - ours.keys.first;
    doc.step = ours.keys.step;
    return {doc};
  }

  std::map<std::string_view, const CommandSpec*> facts_;
  std::deque<CommandSpec> specs_;
  std::deque<std::vector<CommandSpec>> subcommands_;
  std::deque<std::vector<KeySpecDoc>> key_specs_;
  std::deque<std::string> texts_;
  std::vector<const CommandSpec*> sorted_;
  std::vector<Slot> slots_;
  uint16_t next_id_ = 0;
};

const Table& table() {
  static const Table instance;
  return instance;
}

// As C's %.*s: to the first zero byte, at most `limit`.
std::string_view printable(std::string_view bytes, size_t limit) {
  return bytes.substr(0, std::min(limit, std::min(bytes.find('\0'), bytes.size())));
}

std::string unknown_command(const Arguments& arguments) {
  constexpr size_t kShown = 128;
  std::string args;
  for (size_t i = 1; i < arguments.size() && args.size() < kShown; i++) {
    const size_t room = kShown - args.size();
    args.append("'").append(printable(arguments[i].bytes, room)).append("' ");
  }
  return "ERR unknown command '" + std::string(printable(arguments[0].bytes, kShown)) + "', with args beginning with: " + args;
}

std::string unknown_subcommand(const CommandSpec& container, const Arguments& arguments) {
  std::string name(container.name);
  for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c;
  const std::string error = "ERR unknown subcommand '" + std::string(printable(arguments[1].bytes, 128)) + "'.";
  return find_subcommand(container, "HELP") ? error + " Try " + name + " HELP." : error;
}

}  // namespace

std::span<const CommandSpec* const> all_commands() { return table().sorted(); }

const CommandSpec* find_command(std::string_view name) { return table().find(name); }

const CommandSpec* find_subcommand(const CommandSpec& container, std::string_view name) {
  for (const CommandSpec& sub : container.subcommands) {
    if (equals_folded(name, sub.name.substr(container.name.size() + 1))) return &sub;
  }
  return nullptr;
}

const CommandSpec* find_full_name(std::string_view name) {
  const size_t bar = name.find('|');
  const CommandSpec* spec = find_command(name.substr(0, bar));
  return !spec || bar == std::string_view::npos ? spec : find_subcommand(*spec, name.substr(bar + 1));
}

size_t command_count() { return table().count(); }

ResolvedCommand resolve_command(const Arguments& arguments) {
  const CommandSpec* spec = find_command(arguments[0].bytes);
  if (!spec) return {nullptr, unknown_command(arguments)};
  if (!spec->subcommands.empty() && arguments.size() > 1) {
    const CommandSpec* sub = find_subcommand(*spec, arguments[1].bytes);
    if (!sub) return {nullptr, unknown_subcommand(*spec, arguments)};
    spec = sub;
  }
  const auto count = static_cast<int64_t>(arguments.size());
  const bool fits = spec->arity >= 0 ? count == spec->arity : count >= -spec->arity;
  if (!fits || !spec->handler) {
    return {nullptr, "ERR wrong number of arguments for '" + std::string(spec->name) + "' command", spec};
  }
  return {spec, {}};
}

}  // namespace pion
