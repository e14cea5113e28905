#include "command/monitor_feed.h"

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/session.h"
#include "command/table.h"

namespace pion {

void MonitorFeed::tell(std::string line) {
  const auto message = std::make_shared<const PublishedMessage>(SubscriptionKind::kMonitor, std::string(), std::move(line), Lsn{0});
  std::lock_guard lock(mutex_);
  for (Subscriber* watcher : watchers_) watcher->deliver(message, nullptr);
}

MonitorMembership::MonitorMembership(MonitorFeed& feed, std::unique_ptr<Subscriber> subscriber)
    : feed_(feed), subscriber_(std::move(subscriber)) {
  std::lock_guard lock(feed_.mutex_);
  feed_.watchers_.insert(subscriber_.get());
  feed_.count_.store(feed_.watchers_.size(), std::memory_order_relaxed);
}

MonitorMembership::~MonitorMembership() {
  std::lock_guard lock(feed_.mutex_);
  feed_.watchers_.erase(subscriber_.get());
  feed_.count_.store(feed_.watchers_.size(), std::memory_order_relaxed);
}

void append_quoted(std::string& out, std::string_view bytes) {
  out.push_back('"');
  for (const char c : bytes) {
    switch (c) {
      case '\\':
      case '"': out.append({'\\', c}); break;
      case '\n': out.append("\\n"); break;
      case '\r': out.append("\\r"); break;
      case '\t': out.append("\\t"); break;
      case '\a': out.append("\\a"); break;
      case '\b': out.append("\\b"); break;
      default:
        if (c >= ' ' && c <= '~') {
          out.push_back(c);
        } else {
          constexpr char kDigits[] = "0123456789abcdef";
          const auto byte = static_cast<unsigned char>(c);
          out.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]});
        }
    }
  }
  out.push_back('"');
}

std::vector<bool> secret_arguments(const CommandSpec& spec, const Arguments& arguments) {
  std::vector<bool> secret(arguments.size(), false);
  const auto hide = [&](size_t first, size_t count) {
    for (size_t i = first; i < std::min(arguments.size(), first + count); i++) secret[i] = true;
  };
  const auto is = [&](size_t i, std::string_view word) { return same_word(arguments[i].bytes, word); };
  if (spec.name == "auth") hide(1, arguments.size());
  if (spec.name == "hello") {
    for (size_t i = 2; i < arguments.size(); i++) {
      if (is(i, "auth")) hide(i + 1, 2), i += 2;
    }
  }
  if (spec.name == "migrate") {
    for (size_t i = 6; i < arguments.size(); i++) {
      if (is(i, "auth")) {
        hide(i + 1, 1), i += 1;
      } else if (is(i, "auth2")) {
        hide(i + 1, 2), i += 2;
      } else if (is(i, "keys")) {
        break;
      }
    }
  }
  if (spec.name == "acl|setuser" || spec.name == "acl|deluser" || spec.name == "acl|getuser") hide(2, arguments.size());
  if (spec.name == "config|set") {
    for (size_t i = 2; i + 1 < arguments.size(); i += 2) {
      for (std::string_view word : {"requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"}) {
        if (is(i, word)) secret[i + 1] = true;
      }
    }
  }
  return secret;
}

std::string monitored_arguments(const CommandSpec& spec, const Arguments& arguments) {
  std::string text;
  if (spec.flags & (kSkipMonitor | kAdmin)) return text;
  const std::vector<bool> secret = secret_arguments(spec, arguments);
  for (size_t i = 0; i < arguments.size(); i++) {
    text.push_back(' ');
    if (secret[i]) {
      append_quoted(text, "(redacted)");
    } else if (arguments[i].streamed) {
      append_quoted(text, "(" + std::to_string(arguments[i].size) + " bytes)");
    } else {
      append_quoted(text, arguments[i].bytes);
    }
  }
  return text;
}

void tell_monitors(MonitorFeed& feed, const Session& session, const std::string& arguments) {
  if (arguments.empty()) return;
  const int64_t now_us = wall_us();
  char time[48];
  std::snprintf(time, sizeof time, "+%lld.%06lld", static_cast<long long>(now_us / 1'000'000), static_cast<long long>(now_us % 1'000'000));
  std::string peer = session.peer_address;
  if (session.unix_socket) peer = "unix:" + peer.substr(0, peer.rfind(':'));
  feed.tell(std::string(time) + " [" + std::to_string(session.database) + " " + peer + "]" + arguments + "\r\n");
}

}  // namespace pion
