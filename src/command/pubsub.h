// Publish and subscribe, over all threads.
//
// Order: all receivers of one channel, pattern subscribers too, get its messages in the same order; the messages of one
// publisher reach a receiver in the publisher's order, whatever their channels. A message is handed to its receivers under its
// channel's lock, so a Subscriber must take it quickly and must not call back.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "storage/journal.h"

namespace pion {

enum class SubscriptionKind : uint8_t { kChannel, kPattern, kShard, kMonitor };  // kMonitor: MonitorFeed's lines come the same way
inline constexpr size_t kSubscriptionKinds = 3;

// One message, shared by all that receive it.
struct PublishedMessage {
  SubscriptionKind kind = SubscriptionKind::kChannel;  // or kShard, or kMonitor: the payload is the line
  std::string channel, payload;
  Lsn required = 0;  // what it tells of: it does not leave before the journal wrote this record
};

// Where messages for one connection go.
class Subscriber {
 public:
  virtual ~Subscriber() = default;
  // Any thread. `pattern`: what the channel matched, null for a subscription to the channel itself.
  virtual void deliver(std::shared_ptr<const PublishedMessage> message, std::shared_ptr<const std::string> pattern) = 0;
};

// All channels and who listens. Any thread. Subscribers and their names are kept by Subscriptions.
class PubSub {
 public:
  PubSub() = default;
  PubSub(const PubSub&) = delete;
  PubSub& operator=(const PubSub&) = delete;

  // To the subscribers of the channel, and for kChannel to those whose pattern matches it. Returns how many copies went out.
  uint64_t publish(SubscriptionKind kind, std::string_view channel, std::string_view payload, Lsn required);
  // What publish() would return now.
  uint64_t count_receivers(SubscriptionKind kind, std::string_view channel) const;

  // Those with a subscriber whose name matches the glob; all without one. kChannel or kShard.
  std::vector<std::string> channels(SubscriptionKind kind, std::optional<std::string_view> pattern) const;
  uint64_t subscribers(SubscriptionKind kind, std::string_view channel) const;
  // Channels of the kind that have a subscriber; distinct patterns.
  uint64_t count(SubscriptionKind kind) const { return counts_[static_cast<size_t>(kind)].load(std::memory_order_relaxed); }

 private:
  friend class Subscriptions;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <typename Value>
  using Map = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;
  using Listeners = std::unordered_set<Subscriber*>;

  struct alignas(64) Part {
    mutable std::mutex mutex;
    std::array<Map<Listeners>, 2> channels;  // plain, shard
  };
  struct Pattern {
    std::shared_ptr<const std::string> text;
    Listeners listeners;
  };

  void add(SubscriptionKind kind, std::string_view name, Subscriber& subscriber);
  void remove(SubscriptionKind kind, std::string_view name, Subscriber& subscriber);
  static size_t index(SubscriptionKind kind) { return kind == SubscriptionKind::kShard ? 1 : 0; }
  Part& part(std::string_view channel) const { return parts_[Hash()(channel) % parts_.size()]; }

  mutable std::array<Part, 64> parts_;
  mutable std::shared_mutex patterns_mutex_;  // taken after a part's
  Map<Pattern> patterns_;
  std::array<std::atomic<uint64_t>, kSubscriptionKinds> counts_{};
};

// What one connection is subscribed to; ends its subscriptions when it is destroyed. Belongs to the connection.
class Subscriptions {
 public:
  Subscriptions(PubSub& hub, std::unique_ptr<Subscriber> subscriber) : hub_(hub), subscriber_(std::move(subscriber)) {}
  ~Subscriptions();
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  // False: it was there already.
  bool add(SubscriptionKind kind, std::string_view name);
  bool remove(SubscriptionKind kind, std::string_view name);
  bool has(SubscriptionKind kind, std::string_view name) const { return names(kind).find(name) != names(kind).end(); }
  std::vector<std::string> all(SubscriptionKind kind) const;

  size_t count(SubscriptionKind kind) const { return names(kind).size(); }
  size_t total() const { return names_[0].size() + names_[1].size() + names_[2].size(); }
  uint64_t bytes() const { return bytes_; }  // of the names

 private:
  using Names = std::unordered_set<std::string, PubSub::Hash, std::equal_to<>>;

  const Names& names(SubscriptionKind kind) const { return names_[static_cast<size_t>(kind)]; }

  PubSub& hub_;
  std::unique_ptr<Subscriber> subscriber_;
  std::array<Names, kSubscriptionKinds> names_;
  uint64_t bytes_ = 0;
};

}  // namespace pion
