#include "command/slow_log.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/limits.h"
#include "command/monitor_feed.h"
#include "command/session.h"
#include "command/table.h"

namespace pion {
namespace {

constexpr size_t kShownArguments = 32;
constexpr size_t kShownBytes = 128;

uint64_t cost(const SlowLog::Entry& entry) {
  const auto add = [](uint64_t sum, const std::string& text) { return sum + sizeof text + text.size(); };
  return std::accumulate(entry.arguments.begin(), entry.arguments.end(), sizeof entry + entry.peer.size() + entry.client_name.size(), add);
}

std::string shown(const Argument& argument) {
  if (argument.streamed || argument.bytes.size() < argument.size) return "(" + std::to_string(argument.size) + " bytes)";
  if (argument.bytes.size() <= kShownBytes) return std::string(argument.bytes);
  return std::string(argument.bytes.substr(0, kShownBytes)) + "... (" + std::to_string(argument.bytes.size() - kShownBytes) + " more bytes)";
}

}  // namespace

std::vector<std::string> slow_log_arguments(const CommandSpec& spec, const Arguments& arguments) {
  const std::vector<bool> secret = secret_arguments(spec, arguments);
  std::vector<std::string> text;
  const size_t count = arguments.size() <= kShownArguments ? arguments.size() : kShownArguments - 1;
  text.reserve(count + 1);
  for (size_t i = 0; i < count; ++i) text.push_back(secret[i] ? "(redacted)" : shown(arguments[i]));
  if (count < arguments.size()) text.push_back("... (" + std::to_string(arguments.size() - count) + " more arguments)");
  return text;
}

void SlowLog::set_max_entries(uint64_t entries) {
  std::lock_guard lock(mutex_);
  max_entries_ = entries;
  trim();
}

void SlowLog::add(int64_t duration_us, std::vector<std::string> arguments, const Session& session) {
  Entry entry{.wall_s = wall_ms() / 1000,
              .duration_us = duration_us,
              .arguments = std::move(arguments),
              .peer = session.peer_address,
              .client_name = session.name};
  std::lock_guard lock(mutex_);
  entry.id = next_id_++;
  bytes_ += cost(entry);
  entries_.push_front(std::move(entry));
  trim();
}

void SlowLog::trim() {
  while (entries_.size() > max_entries_ || bytes_ > kMaxSlowLogBytes) {
    bytes_ -= cost(entries_.back());
    entries_.pop_back();
  }
}

std::vector<SlowLog::Entry> SlowLog::newest(size_t count) const {
  std::lock_guard lock(mutex_);
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(std::min(count, entries_.size()));
  return {entries_.begin(), end};
}

size_t SlowLog::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void SlowLog::reset() {
  std::lock_guard lock(mutex_);
  entries_.clear();
  bytes_ = 0;
}

}  // namespace pion
