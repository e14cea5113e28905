// One log line per call, to the file given at start (default: standard error). Thread-safe.
// Line: "<pid>:P <date time.ms> <mark> <message>", marks as Redis: '.' debug, '-' verbose, '*' notice, '#' warning.
#pragma once

#include <string>
#include <string_view>

namespace pion {

enum class LogLevel { kDebug, kVerbose, kNotice, kWarning };

void set_log_level(LogLevel level);
LogLevel log_level();
// Empty path: standard error. Returns false, with errno set, when the file cannot be opened.
bool set_log_file(const std::string& path);
void log_line(LogLevel level, std::string_view message);
// Where lines go now; for the crash handler, which may not allocate.
int log_descriptor();

inline void log_notice(std::string_view message) { log_line(LogLevel::kNotice, message); }
inline void log_warning(std::string_view message) { log_line(LogLevel::kWarning, message); }
inline void log_verbose(std::string_view message) { log_line(LogLevel::kVerbose, message); }
inline void log_debug(std::string_view message) { log_line(LogLevel::kDebug, message); }

}  // namespace pion
