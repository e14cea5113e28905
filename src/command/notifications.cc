#include "command/notifications.h"

#include <utility>
#include <vector>

namespace pion {
namespace {

struct EventClass {
  char letter;
  uint32_t bits;
  bool in_all = true;  // A stands for it
};

// In the order in which they are printed.
constexpr EventClass kClasses[] = {
    {'g', static_cast<uint32_t>(KeyEvent::kGeneric)},
    {'$', static_cast<uint32_t>(KeyEvent::kString)},
    {'l', static_cast<uint32_t>(KeyEvent::kList)},
    {'s', static_cast<uint32_t>(KeyEvent::kSet)},
    {'h', static_cast<uint32_t>(KeyEvent::kHash)},
    {'z', static_cast<uint32_t>(KeyEvent::kSortedSet)},
    {'x', static_cast<uint32_t>(KeyEvent::kExpired)},
    {'e', static_cast<uint32_t>(KeyEvent::kEvicted)},
    {'t', static_cast<uint32_t>(KeyEvent::kStream)},
    {'d', static_cast<uint32_t>(KeyEvent::kModule)},
    {'n', static_cast<uint32_t>(KeyEvent::kNew), false},
    {'o', static_cast<uint32_t>(KeyEvent::kOverwritten), false},
    {'c', static_cast<uint32_t>(KeyEvent::kTypeChanged), false},
};
constexpr EventClass kOthers[] = {
    {'K', kKeyspaceForm, false},
    {'E', kKeyeventForm, false},
    {'m', static_cast<uint32_t>(KeyEvent::kMiss), false},
};

constexpr uint32_t all_classes() {
  uint32_t all = 0;
  for (const EventClass& known : kClasses) all |= known.in_all ? known.bits : 0;
  return all;
}

// What a thread has to publish when its record is appended.
struct Outgoing {
  SubscriptionKind kind = SubscriptionKind::kChannel;
  int database = -1;                // of a notification; -1: a message, as it was given
  std::string_view event;           // of a notification
  std::string channel, payload;     // of a notification: the key, nothing
};

constexpr size_t kKeptOutgoing = 1024;

std::vector<Outgoing>& outgoing_of_thread() {
  thread_local std::vector<Outgoing> outgoing;
  return outgoing;
}

}  // namespace

std::optional<uint32_t> parse_event_classes(std::string_view letters) {
  uint32_t classes = 0;
  for (const char letter : letters) {
    uint32_t bits = letter == 'A' ? all_classes() : 0;
    for (const EventClass& known : kClasses) bits |= known.letter == letter ? known.bits : 0;
    for (const EventClass& known : kOthers) bits |= known.letter == letter ? known.bits : 0;
    if (bits == 0) return std::nullopt;
    classes |= bits;
  }
  return classes;
}

std::string format_event_classes(uint32_t classes, bool whole) {
  std::string text;
  const bool all = (classes & all_classes()) == all_classes();
  if (all) text.push_back('A');
  for (const EventClass& known : kClasses) {
    if ((classes & known.bits) && (!all || (whole && !known.in_all))) text.push_back(known.letter);
  }
  for (const EventClass& known : kOthers) {
    if (classes & known.bits) text.push_back(known.letter);
  }
  return text;
}

bool Notifications::event(KeyEvent, std::string_view name, int database, std::string_view key) {
  if (hub_.count(SubscriptionKind::kChannel) == 0 && hub_.count(SubscriptionKind::kPattern) == 0) return false;
  outgoing_of_thread().push_back({.database = database, .event = name, .channel = std::string(key), .payload = {}});
  return true;
}

void Notifications::publish_later(SubscriptionKind kind, std::string_view channel, std::string_view payload) {
  outgoing_of_thread().push_back({.kind = kind, .channel = std::string(channel), .payload = std::string(payload)});
}

void Notifications::journalled(Lsn required) {
  std::vector<Outgoing>& outgoing = outgoing_of_thread();
  const uint32_t classes = classes_.load(std::memory_order_relaxed);
  for (const Outgoing& out : outgoing) {
    if (out.database < 0) {
      hub_.publish(out.kind, out.channel, out.payload, required);
      continue;
    }
    const std::string database = std::to_string(out.database);
    std::string channel;
    if (classes & kKeyspaceForm) {
      channel.append("__keyspace@").append(database).append("__:").append(out.channel);
      hub_.publish(out.kind, channel, out.event, required);
    }
    if (classes & kKeyeventForm) {
      channel.assign("__keyevent@").append(database).append("__:").append(out.event);
      hub_.publish(out.kind, channel, out.channel, required);
    }
  }
  outgoing.clear();
  if (outgoing.capacity() > kKeptOutgoing) std::vector<Outgoing>().swap(outgoing);
}

}  // namespace pion
