// Published messages on their way to the clients of one thread. Any thread pushes, the owner takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "command/pubsub.h"

namespace pion {

struct MessageDelivery {
  uint64_t client = 0;
  std::shared_ptr<const PublishedMessage> message;
  std::shared_ptr<const std::string> pattern;  // null: a subscription to the channel itself
};

class MessageInbox {
 public:
  explicit MessageInbox(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // True: it was empty, so the owner may be asleep. Above the limit the message is dropped and its client with it: a client
  // that missed one must not go on as if it had not.
  bool push(MessageDelivery delivery) {
    std::lock_guard lock(mutex_);
    const bool was_empty = queued_.empty() && overrun_.empty();
    uint64_t bytes = sizeof delivery;
    const bool same = !queued_.empty() && queued_.back().message == delivery.message;
    if (!same) bytes += delivery.message->channel.size() + delivery.message->payload.size();
    if (bytes_ + bytes > limit_bytes_ || overrun_.contains(delivery.client)) {
      overrun_.insert(delivery.client);
    } else {
      bytes_ += bytes;
      queued_.push_back(std::move(delivery));
    }
    filled_.store(true, std::memory_order_release);
    return was_empty;
  }

  bool empty() const { return !filled_.load(std::memory_order_acquire); }

  // Everything, in order, and the clients that lost a message behind these. `deliveries` is empty, and lends its memory.
  std::unordered_set<uint64_t> take(std::vector<MessageDelivery>& deliveries) {
    std::lock_guard lock(mutex_);
    queued_.swap(deliveries);
    bytes_ = 0;
    filled_.store(false, std::memory_order_release);
    return std::exchange(overrun_, {});
  }

 private:
  const uint64_t limit_bytes_;
  std::atomic<bool> filled_{false};
  std::mutex mutex_;
  std::vector<MessageDelivery> queued_;
  uint64_t bytes_ = 0;
  std::unordered_set<uint64_t> overrun_;
};

}  // namespace pion
