#include "server/options.h"

#include <sys/un.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "command/arguments.h"
#include "command/docs_page.h"
#include "command/glob.h"
#include "command/version.h"
#include "server/config_rewrite.h"
#include "server/config_syntax.h"
#include "server/options_table.h"

namespace pion {

struct Options::Given {
  const OptionSpec* spec = nullptr;
  std::string where;  // "--port" or "/etc/pion.conf:12: port"
  std::string value;
  bool is_line = false;  // of a file
};

namespace {

std::string did_you_mean(std::string_view name, std::string_view dashes) {
  const std::string near = nearest_option(name);
  if (near.empty()) return "";
  return "; did you mean " + std::string(dashes) + near + "?";
}

bool takes_value(const OptionSpec& spec) {
  if (spec.kind == OptionKind::kAction) return !spec.value.empty();
  return spec.kind != OptionKind::kSwitch && spec.kind != OptionKind::kNotice && spec.kind != OptionKind::kRefused;
}

std::string needed(const OptionSpec& spec) {
  return spec.kind == OptionKind::kText || spec.kind == OptionKind::kAction ? std::string(spec.value) : expected_values(spec);
}

// "--port", "--port=5" and "-p": the option, and the value when it is part of the argument.
struct Flag {
  const OptionSpec* spec = nullptr;
  std::string name;  // as given, without =value
  std::optional<std::string> value;
};

Flag read_flag(const std::string& argument) {
  Flag flag{nullptr, argument, std::nullopt};
  if (argument.starts_with("--")) {
    const size_t equals = argument.find('=');
    flag.name = argument.substr(0, equals);
    if (equals != std::string::npos) flag.value = argument.substr(equals + 1);
    flag.spec = find_option(std::string_view(flag.name).substr(2));
  } else if (argument.size() == 2) {
    flag.spec = find_option_letter(argument[1]);
  }
  return flag;
}

Result<std::string> first_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!file) return fail(ErrorCode::kInvalid, "cannot read " + path);
  std::getline(file, line);
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) return fail(ErrorCode::kInvalid, path + " holds no password in its first line");
  return line;
}

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

bool loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

}  // namespace

Options::Options() {
  on_change("requirepass", [](const Settings&) { return Status(); });
  on_change("loglevel", [](const Settings& settings) { return set_log_level(settings.log_level()), Status(); });
}

std::optional<int> Options::start(int argc, const char* const* argv) {
  const char* password = std::getenv("PION_REQUIREPASS");
  if (password && *password) settings_.requirepass = outside_password_ = password;
  const std::vector<std::string> arguments(argv + 1, argv + std::max(argc, 1));
  if (Status status = parse(arguments); !status) {
    std::fprintf(stderr, "pion-server: %s\nTry: pion-server --help\n", status.error().message.c_str());
    return 1;
  }
  if (action_.empty()) return std::nullopt;
  std::string text;
  if (action_ == "help") text = options_help();
  if (action_ == "version") {
    text = "pion-server " + std::string(kPionVersion) + " (speaks as Redis " + std::string(kRedisVersion) + ")\n";
  }
  if (action_ == "dump-docs") text = dump_page_ == "commands" ? commands_page() : configuration_page();
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

Status Options::parse(const std::vector<std::string>& arguments) {
  Result<std::vector<Given>> flags = read_arguments(arguments);
  if (!flags) return std::unexpected(flags.error());
  if (!config_file_.empty()) {
    const Result<std::vector<Given>> lines = read_file(config_file_);
    if (!lines) return std::unexpected(lines.error());
    for (const Given& given : *lines) PION_TRY(take(given));
  }
  for (const Given& given : *flags) PION_TRY(take(given));
  finish();
  return {};
}

// Splits the command line; the config file's name is taken at once, because it is read before the flags count.
Result<std::vector<Options::Given>> Options::read_arguments(const std::vector<std::string>& arguments) {
  std::vector<Given> flags;
  for (size_t at = 0; at < arguments.size(); at++) {
    const std::string& argument = arguments[at];
    if (!argument.starts_with('-') || argument == "-") {
      if (at > 0) return fail(ErrorCode::kInvalid, "unexpected argument '" + argument + "': flags begin with --");
      config_file_ = absolute(argument);
      continue;
    }
    Flag flag = read_flag(argument);
    if (!flag.spec) {
      const std::string bare = flag.name.substr(std::min(flag.name.find_first_not_of('-'), flag.name.size()));
      return fail(ErrorCode::kInvalid, flag.name + ": no such flag" + did_you_mean(bare, "--"));
    }
    if (flag.spec->kind == OptionKind::kRefused) return fail(ErrorCode::kInvalid, flag.name + " " + std::string(flag.spec->doc));
    if (!takes_value(*flag.spec)) {
      if (flag.value) return fail(ErrorCode::kInvalid, flag.name + " takes no value");
      flag.value = "yes";
    } else if (!flag.value) {
      const bool there = at + 1 < arguments.size() && !(arguments[at + 1].starts_with('-') && read_flag(arguments[at + 1]).spec);
      if (!there) return fail(ErrorCode::kInvalid, flag.name + " needs a value: " + needed(*flag.spec));
      flag.value = arguments[++at];
    }
    if (flag.spec->name == "config") config_file_ = absolute(*flag.value);
    flags.push_back({flag.spec, flag.name, *flag.value});
  }
  return flags;
}

Result<std::vector<Options::Given>> Options::read_file(const std::string& path) const {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) return fail(ErrorCode::kInvalid, "cannot read the configuration file " + path);
  std::vector<Given> lines;
  std::string line;
  for (size_t number = 1; std::getline(file, line); number++) {
    const std::string where = path + ":" + std::to_string(number) + ": ";
    if (config_comment(line)) continue;
    const auto words = split_words(line);
    if (!words) return fail(ErrorCode::kInvalid, where + "unbalanced quotes");
    if (words->empty()) continue;
    const std::string& name = words->front();
    const OptionSpec* spec = find_option(name);
    if (spec && spec->kind == OptionKind::kRefused) return fail(ErrorCode::kInvalid, where + name + " " + std::string(spec->doc));
    const bool allowed = spec && (spec->kind != OptionKind::kAction || spec->name == "requirepass-file");
    if (spec && !allowed) return fail(ErrorCode::kInvalid, where + name + " is a flag, not a parameter");
    if (!allowed) return fail(ErrorCode::kInvalid, where + "no such parameter: " + name + did_you_mean(name, ""));
    if (words->size() < 2) return fail(ErrorCode::kInvalid, where + name + " needs a value: " + needed(*spec));
    std::string value = (*words)[1];
    const bool many = spec->kind == OptionKind::kWords || spec->kind == OptionKind::kLimits || spec->kind == OptionKind::kPercentiles ||
                      spec->kind == OptionKind::kSavePoints;
    if (many) {
      for (size_t i = 2; i < words->size(); i++) value.append(" ").append((*words)[i]);
    } else if (words->size() > 2) {
      return fail(ErrorCode::kInvalid, where + name + " takes one value: " + needed(*spec));
    }
    lines.push_back({spec, where + name, value, true});
  }
  return lines;
}

Status Options::take(const Given& given) {
  const OptionSpec& spec = *given.spec;
  if (spec.kind == OptionKind::kAction) return take_action(given);
  std::string value = given.value;
  if (spec.kind == OptionKind::kSavePoints && given.is_line && !value.empty()) {
    if (std::exchange(save_line_read_, true)) value = settings_.save + " " + value;
  }
  if (const auto parsed = parse_option(spec, value, settings_); !parsed) {
    return fail(ErrorCode::kInvalid, given.where + ": '" + given.value + "' is not valid, expected " + parsed.error().expected);
  }
  if (spec.kind == OptionKind::kNotice && same_word(given.value, "yes")) {
    notices_.push_back(given.where + ": accepted, changes nothing: " + std::string(spec.doc));
  }
  if (spec.name == "profile") notices_.push_back(given.where + " " + given.value + ": accepted, changes nothing yet");
  if (spec.name == "bind") bind_given_ = true;
  if (spec.name == "unixsocket") unixsocket_given_ = true;
  if (spec.name == "requirepass") outside_password_.clear();
  return {};
}

Status Options::take_action(const Given& given) {
  const std::string_view name = given.spec->name;
  if (name == "requirepass-file") {
    const Result<std::string> password = first_line(given.value);
    if (!password) return fail(ErrorCode::kInvalid, given.where + ": " + password.error().message);
    settings_.requirepass = outside_password_ = *password;
  } else if (name != "config") {
    if (name == "dump-docs" && given.value != "commands" && given.value != "configuration") {
      return fail(ErrorCode::kInvalid, given.where + ": '" + given.value + "' is not valid, expected commands or configuration");
    }
    action_ = name;
    dump_page_ = given.value;
  }
  return {};
}

void Options::finish() {
  settings_.dir = absolute(settings_.dir);
  if (settings_.workers == 0) settings_.workers = std::max(1u, std::thread::hardware_concurrency());
  baseline_ = Settings();
  baseline_.dir = absolute(baseline_.dir);
  baseline_.workers = std::max(1u, std::thread::hardware_concurrency());
  baseline_.unixsocket = settings_.dir + "/pion.sock";
  if (!unixsocket_given_) {
    // The system's limit is for the whole path; nobody asked for this one, so it does not stop the start.
    if (baseline_.unixsocket.size() >= sizeof sockaddr_un{}.sun_path) {
      notices_.push_back("the path of the data directory is too long for a Unix socket in it: there is none; name one with --unixsocket");
      baseline_.unixsocket.clear();
    }
    settings_.unixsocket = baseline_.unixsocket;
  } else {
    settings_.unixsocket = same_word(settings_.unixsocket, "off") || settings_.unixsocket.empty() ? "" : absolute(settings_.unixsocket);
  }
  if (!settings_.requirepass.empty() && !bind_given_) {
    notices_.push_back("a password is set and --bind is not: listening on loopback only; name addresses with --bind to open others");
  }
  const bool open = settings_.port != 0 && !std::all_of(settings_.bind.begin(), settings_.bind.end(), loopback);
  if (open && settings_.requirepass.empty()) {
    notices_.push_back("listening beyond loopback without a password: anyone who reaches the port may read and write; set requirepass");
  }
  if (std::getenv("PION_IO_THREADS")) notices_.push_back("PION_IO_THREADS is not used: -w N threads serve one keyspace");
}

Settings Options::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

void Options::on_change(std::string_view name, ApplyHook hook, bool last) {
  hooks_.insert_or_assign(std::string(name), Hook{std::move(hook), last});
}

std::vector<ConfigValue> Options::get(std::string_view pattern) const {
  const std::lock_guard lock(mutex_);
  std::vector<ConfigValue> values;
  for (const OptionSpec& spec : option_table()) {
    if (!spec.is_setting() || (spec.hidden && !same_word(pattern, spec.name))) continue;
    for (std::string_view name : {spec.name, spec.alias}) {
      if (!name.empty() && glob_match(pattern, name, true)) values.push_back({std::string(name), format_option(spec, settings_)});
    }
  }
  return values;
}

std::vector<size_t> Options::apply_order(const std::vector<const OptionSpec*>& specs) const {
  std::vector<size_t> order;
  for (const bool last : {false, true}) {
    for (size_t i = 0; i < specs.size(); i++) {
      const auto hook = hooks_.find(specs[i]->name);
      if ((hook != hooks_.end() && hook->second.last) == last) order.push_back(i);
    }
  }
  return order;
}

Status Options::set(const std::vector<ConfigValue>& values) {
  const auto refuse = [](std::string_view name, const std::string& why) {
    return fail(ErrorCode::kInvalid, "CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " + why);
  };
  const std::lock_guard change(change_mutex_);
  const Settings old = settings();
  Settings wanted = old;
  std::vector<const OptionSpec*> specs;
  for (const ConfigValue& value : values) {
    const OptionSpec* spec = find_option(value.name);
    if (!spec || !spec->is_setting()) {
      return fail(ErrorCode::kInvalid, "Unknown option or number of arguments for CONFIG SET - '" + value.name + "'");
    }
    const bool changeable = spec->changeable == Changeable::kAtRunTime && (spec->holding != Holding::kTyped || hooks_.contains(spec->name));
    if (!changeable) return refuse(value.name, "can't set immutable config");
    if (std::find(specs.begin(), specs.end(), spec) != specs.end()) return refuse(value.name, "duplicate parameter");
    specs.push_back(spec);
  }
  for (size_t i = 0; i < values.size(); i++) {
    const auto parsed = parse_option(*specs[i], values[i].value, wanted);
    if (!parsed) return refuse(values[i].name, parsed.error().redis_text);
  }
  const std::vector<size_t> order = apply_order(specs);
  const auto apply = [&](const OptionSpec& spec, const Settings& settings) -> Status {
    return spec.holding == Holding::kTyped ? hooks_.find(spec.name)->second.apply(settings) : Status{};
  };
  for (size_t i = 0; i < order.size(); i++) {
    const Status applied = apply(*specs[order[i]], wanted);
    if (applied) continue;
    for (size_t back = 0; back <= i; back++) (void)apply(*specs[order[back]], old);
    return refuse(values[order[i]].name, applied.error().message);
  }
  const std::lock_guard lock(mutex_);
  settings_ = std::move(wanted);
  return {};
}

Status Options::rewrite() const {
  if (config_file_.empty()) return fail(ErrorCode::kInvalid, "The server is running without a config file");
  const std::lock_guard change(change_mutex_);
  const Settings now = settings();
  std::vector<ConfigLine> lines;
  for (const OptionSpec& spec : option_table()) {
    if (!spec.is_setting()) continue;
    const bool secret_of_elsewhere =
        spec.name == "requirepass" && !outside_password_.empty() && now.requirepass == outside_password_;
    const bool is_default = secret_of_elsewhere || format_option(spec, now) == format_option(spec, baseline_);
    lines.push_back({std::string(spec.name), format_option_for_file(spec, now), is_default});
  }
  Status written = rewrite_config_file(config_file_, lines);
  if (!written) {
    log_warning("CONFIG REWRITE failed: " + written.error().message);
    return fail(written.error().code, "Rewriting config file: " + written.error().message);
  }
  return {};
}

bool Options::password_required() const {
  const std::lock_guard lock(mutex_);
  return !settings_.requirepass.empty();
}

bool Options::check_password(std::string_view user, std::string_view password) const {
  const std::lock_guard lock(mutex_);
  const std::string& expected = settings_.requirepass;
  // Every byte is looked at whatever comes before it, so that time does not tell how much of a guess was right.
  unsigned char difference = password.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < password.size(); i++) {
    difference = static_cast<unsigned char>(difference | (password[i] ^ (expected.empty() ? 1 : expected[i % expected.size()])));
  }
  return user == "default" && !expected.empty() && difference == 0;
}

}  // namespace pion
