// The one table of options: flags, the config file, CONFIG, --help and docs/configuration.md are made from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "server/settings.h"

namespace pion {

enum class OptionKind {
  kInteger,   // min..max
  kBytes,     // a memory value: 100, 64kb, 1g; min..max
  kPercent,   // as kBytes, or a share of the machine's memory: 50%
  kOctal,     // a file mode
  kYesNo,
  kSwitch,    // on the command line without a value; yes or no in a file
  kChoice,    // one of `choices`
  kText,
  kWords,     // words separated by blanks
  kLimits,    // <class> <hard bytes> <soft bytes> <soft seconds>, for one class or more
  kPercentiles,  // numbers from 0 to 100 separated by blanks; none is allowed
  kEvents,    // classes of keyspace notifications
  kSavePoints,  // <seconds> <changes>, any number of times
  kNotice,    // accepted, changes nothing, and the log says why (`doc`); a switch
  kRefused,   // of the original, not in this release: stops the start with `doc`
  kAction,    // --help and its kin: handled by Options
};

// When a change takes effect.
enum class Changeable { kAtStart, kAtRunTime };

// Where a parameter's value is.
enum class Holding {
  kTyped,  // in Settings, at `target`
  kFixed,  // always `initial`; only that can be set
  kKept,   // in Settings::kept when it is not `initial`; nobody looks at it
};

struct OptionSpec {
  std::string_view name;      // in files and CONFIG; the flag is --<name>
  char letter = 0;            // a short flag, -p
  std::string_view group;
  OptionKind kind = OptionKind::kText;
  std::variant<std::monostate, bool Settings::*, int64_t Settings::*, uint64_t Settings::*, std::string Settings::*,
               std::vector<std::string> Settings::*, OutputLimitSettings Settings::*, std::vector<double> Settings::*>
      target = {};
  std::string_view doc;
  std::string_view value = "";  // what --help calls the value
  int64_t min = 0, max = 0;
  std::span<const std::string_view> choices = {};
  Changeable changeable = Changeable::kAtStart;
  std::string_view default_text = "";  // when the default is not a constant: "all cores"
  std::string_view alias = "";           // an older name that means the same; CONFIG GET shows both
  std::string_view origin = "as Redis";  // or "Pion's own", "differs: ..."

  Holding holding = Holding::kTyped;
  std::string_view initial = "";  // of those that are not typed
  bool clamps = false;            // an integer out of range becomes the nearest in it
  bool hidden = false;            // answered when it is asked for by its name, not by a pattern

  bool is_setting() const { return target.index() != 0 || holding != Holding::kTyped; }  // has a value: stands in files and CONFIG
};

std::span<const OptionSpec> option_table();     // what there is
std::span<const OptionSpec> held_options();     // of them those that are not typed
std::span<const OptionSpec> refused_options();  // what the original has and this release has not
// By name without the dashes, any case, in both. Null when there is none.
const OptionSpec* find_option(std::string_view name);
const OptionSpec* find_option_letter(char letter);
// The name nearest to a mistyped one, by edit distance; empty when none is near.
std::string nearest_option(std::string_view name);

// Why a value was not taken: for CONFIG SET in Redis' words, and for a person at the command line.
struct OptionError {
  std::string redis_text;  // "argument must be a memory value"
  std::string expected;    // "an integer from 0 to 65535"
};
// Sets one value. Changes nothing on error.
std::expected<void, OptionError> parse_option(const OptionSpec& spec, std::string_view text, Settings& settings);
std::string format_option(const OptionSpec& spec, const Settings& settings);
// As it is written into a file: memory in units, words quoted where needed.
std::string format_option_for_file(const OptionSpec& spec, const Settings& settings);
std::string expected_values(const OptionSpec& spec);

}  // namespace pion
