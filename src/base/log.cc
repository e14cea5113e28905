#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>

#include "base/clock.h"

namespace pion {
namespace {

std::atomic<LogLevel> level_now{LogLevel::kNotice};
std::atomic<int> log_fd{STDERR_FILENO};

}  // namespace

void set_log_level(LogLevel level) { level_now = level; }
LogLevel log_level() { return level_now; }

int log_descriptor() { return log_fd.load(); }

bool set_log_file(const std::string& path) {
  const int fd = path.empty() ? STDERR_FILENO : ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const int old = log_fd.exchange(fd);
  if (old != STDERR_FILENO && old != fd) ::close(old);
  return true;
}

void log_line(LogLevel level, std::string_view message) {
  if (level < level_now.load(std::memory_order_relaxed)) return;
  const int64_t now_ms = wall_ms();
  const time_t seconds = now_ms / 1000;
  tm parts;
  localtime_r(&seconds, &parts);
  char date[40];
  strftime(date, sizeof date, "%d %b %Y %H:%M:%S", &parts);
  char head[96];
  const int head_size = snprintf(head, sizeof head, "%d:P %s.%03d %c ", getpid(), date, static_cast<int>(now_ms % 1000),
                                 ".-*#"[static_cast<int>(level)]);
  std::string line(head, static_cast<size_t>(head_size));
  for (char c : message) line.push_back(c == '\n' || c == '\r' ? ' ' : c);  // one call, one line
  line.push_back('\n');
  [[maybe_unused]] ssize_t ignored = ::write(log_fd.load(), line.data(), line.size());
}

}  // namespace pion
