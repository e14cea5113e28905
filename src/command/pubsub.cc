#include "command/pubsub.h"

#include "command/glob.h"

namespace pion {

uint64_t PubSub::publish(SubscriptionKind kind, std::string_view channel, std::string_view payload, Lsn required) {
  std::shared_ptr<const PublishedMessage> message;
  const auto shared = [&] {
    if (!message) message = std::make_shared<PublishedMessage>(kind, std::string(channel), std::string(payload), required);
    return message;
  };
  Part& home = part(channel);
  std::lock_guard lock(home.mutex);  // held to the end: it makes the order
  uint64_t receivers = 0;
  const Map<Listeners>& channels = home.channels[index(kind)];
  if (const auto found = channels.find(channel); found != channels.end()) {
    for (Subscriber* subscriber : found->second) subscriber->deliver(shared(), nullptr);
    receivers += found->second.size();
  }
  if (kind != SubscriptionKind::kChannel || count(SubscriptionKind::kPattern) == 0) return receivers;
  std::shared_lock patterns_lock(patterns_mutex_);
  for (const auto& [text, pattern] : patterns_) {
    if (!glob_match(text, channel)) continue;
    for (Subscriber* subscriber : pattern.listeners) subscriber->deliver(shared(), pattern.text);
    receivers += pattern.listeners.size();
  }
  return receivers;
}

uint64_t PubSub::count_receivers(SubscriptionKind kind, std::string_view channel) const {
  uint64_t receivers = subscribers(kind, channel);
  if (kind != SubscriptionKind::kChannel || count(SubscriptionKind::kPattern) == 0) return receivers;
  std::shared_lock lock(patterns_mutex_);
  for (const auto& [text, pattern] : patterns_) {
    if (glob_match(text, channel)) receivers += pattern.listeners.size();
  }
  return receivers;
}

std::vector<std::string> PubSub::channels(SubscriptionKind kind, std::optional<std::string_view> pattern) const {
  std::vector<std::string> names;
  for (const Part& part : parts_) {
    std::lock_guard lock(part.mutex);
    for (const auto& [name, listeners] : part.channels[index(kind)]) {
      if (!pattern || glob_match(*pattern, name)) names.push_back(name);
    }
  }
  return names;
}

uint64_t PubSub::subscribers(SubscriptionKind kind, std::string_view channel) const {
  const Part& home = part(channel);
  std::lock_guard lock(home.mutex);
  const Map<Listeners>& channels = home.channels[index(kind)];
  const auto found = channels.find(channel);
  return found == channels.end() ? 0 : found->second.size();
}

void PubSub::add(SubscriptionKind kind, std::string_view name, Subscriber& subscriber) {
  bool first = false;
  if (kind == SubscriptionKind::kPattern) {
    std::lock_guard lock(patterns_mutex_);
    Pattern& pattern = patterns_[std::string(name)];
    if (!pattern.text) pattern.text = std::make_shared<const std::string>(name);
    first = pattern.listeners.empty();
    pattern.listeners.insert(&subscriber);
  } else {
    Part& home = part(name);
    std::lock_guard lock(home.mutex);
    Listeners& listeners = home.channels[index(kind)][std::string(name)];
    first = listeners.empty();
    listeners.insert(&subscriber);
  }
  if (first) counts_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
}

void PubSub::remove(SubscriptionKind kind, std::string_view name, Subscriber& subscriber) {
  bool last = false;
  if (kind == SubscriptionKind::kPattern) {
    std::lock_guard lock(patterns_mutex_);
    const auto found = patterns_.find(name);
    found->second.listeners.erase(&subscriber);
    last = found->second.listeners.empty();
    if (last) patterns_.erase(found);
  } else {
    Part& home = part(name);
    std::lock_guard lock(home.mutex);
    Map<Listeners>& channels = home.channels[index(kind)];
    const auto found = channels.find(name);
    found->second.erase(&subscriber);
    last = found->second.empty();
    if (last) channels.erase(found);
  }
  if (last) counts_[static_cast<size_t>(kind)].fetch_sub(1, std::memory_order_relaxed);
}

Subscriptions::~Subscriptions() {
  for (size_t kind = 0; kind < kSubscriptionKinds; ++kind) {
    for (const std::string& name : names_[kind]) hub_.remove(static_cast<SubscriptionKind>(kind), name, *subscriber_);
  }
}

bool Subscriptions::add(SubscriptionKind kind, std::string_view name) {
  if (!names_[static_cast<size_t>(kind)].emplace(name).second) return false;
  bytes_ += name.size();
  hub_.add(kind, name, *subscriber_);
  return true;
}

bool Subscriptions::remove(SubscriptionKind kind, std::string_view name) {
  Names& names = names_[static_cast<size_t>(kind)];
  const auto found = names.find(name);
  if (found == names.end()) return false;
  bytes_ -= name.size();
  hub_.remove(kind, name, *subscriber_);
  names.erase(found);
  return true;
}

std::vector<std::string> Subscriptions::all(SubscriptionKind kind) const { return {names(kind).begin(), names(kind).end()}; }

}  // namespace pion
