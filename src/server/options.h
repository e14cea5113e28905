// The server's options: read at start from the environment (PION_REQUIREPASS), a config file and the command line, in this
// order, the later one wins; changed at run time by CONFIG SET; written back by CONFIG REWRITE.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "command/server_control.h"
#include "server/settings.h"

namespace pion {

struct OptionSpec;

class Options {
 public:
  // Runs a change: called with the settings as they would be, before they are visible, under a lock of its own (one change at a
  // time). An error refuses the whole CONFIG SET; what was applied before it is applied again with the old settings.
  using ApplyHook = std::function<Status(const Settings&)>;

  Options();

  // Reads everything. Returns an exit code when the process must not go on: --help, --version and --dump-docs have printed
  // (0); a mistake was explained on standard error (1).
  std::optional<int> start(int argc, const char* const* argv);
  // The same, for tests: no environment, nothing printed; kInvalid explains the mistake. Arguments without the program's name.
  Status parse(const std::vector<std::string>& arguments);

  // A copy; any thread.
  Settings settings() const;
  // The absolute path, empty when there is none. Constant after start.
  const std::string& config_file() const { return config_file_; }
  // What the log should say once logging works (accepted flags that change nothing, an open door without a password).
  const std::vector<std::string>& notices() const { return notices_; }

  // A parameter that changes at run time needs a hook that makes it so; one without a hook is refused by CONFIG SET.
  // Before threads start.
  // `last`: is not applied before the others have agreed.
  void on_change(std::string_view name, ApplyHook hook, bool last = false);

  // For ServerControl. Any thread.
  std::vector<ConfigValue> get(std::string_view pattern) const;
  Status set(const std::vector<ConfigValue>& values);  // the message goes behind "ERR "
  Status rewrite() const;                              // likewise
  bool password_required() const;
  bool check_password(std::string_view user, std::string_view password) const;  // takes the same time for every wrong one

 private:
  struct Given;  // a flag or a line, with its value and what to call it in an error

  Result<std::vector<Given>> read_arguments(const std::vector<std::string>& arguments);
  Result<std::vector<Given>> read_file(const std::string& path) const;
  Status take(const Given& given);
  std::vector<size_t> apply_order(const std::vector<const OptionSpec*>& specs) const;
  Status take_action(const Given& given);
  void finish();  // resolves what has no constant default, and says what deserves saying

  mutable std::mutex mutex_;         // of settings_
  mutable std::mutex change_mutex_;  // one CONFIG SET or REWRITE at a time
  Settings settings_;
  Settings baseline_;                // the defaults, resolved: what REWRITE need not write
  std::string outside_password_;     // came from the environment or a file of its own: REWRITE does not write it
  struct Hook {
    ApplyHook apply;
    bool last;
  };
  std::map<std::string, Hook, std::less<>> hooks_;
  std::vector<std::string> notices_;
  std::string config_file_;
  bool bind_given_ = false;
  bool unixsocket_given_ = false;
  bool save_line_read_ = false;      // another one adds to it
  std::string action_;               // help, version, dump-docs
  std::string dump_page_;
};

// The table of options as text.
std::string options_help();
std::string configuration_page();  // the generated part of docs/configuration.md

}  // namespace pion
