// A connection's published messages, and the limits on what a client may be owed.
#include "base/log.h"
#include "server/connection.h"
#include "server/io_thread.h"

namespace pion {
namespace {

class ConnectionSubscriber final : public Subscriber {
 public:
  ConnectionSubscriber(IoThread& thread, uint64_t client) : thread_(thread), client_(client) {}
  void deliver(std::shared_ptr<const PublishedMessage> message, std::shared_ptr<const std::string> pattern) override {
    thread_.post_message({client_, std::move(message), std::move(pattern)});
  }

 private:
  IoThread& thread_;  // a connection does not move while it is subscribed
  const uint64_t client_;
};

}  // namespace

std::unique_ptr<Subscriber> make_connection_subscriber(IoThread& thread, uint64_t client) {
  return std::make_unique<ConnectionSubscriber>(thread, client);
}

void Connection::deliver(MessageDelivery delivery) {
  if (closed_ || killed_ || end_of_input_) return;
  if (state_ == State::kWorker) {  // the session is the worker's until it is done
    if (!delayed_) delayed_ = std::make_unique<std::vector<MessageDelivery>>();
    return delayed_->push_back(std::move(delivery));
  }
  if (session_.close_after_reply) return;
  const PublishedMessage& message = *delivery.message;
  if (message.kind == SubscriptionKind::kMonitor) {
    if (!session_.monitor) return;
    out_.tail().append(message.payload);
    thread_->mark_dirty(*this);
    return check_output_limit(owed_bytes());
  }
  if (!session_.subscriptions) return;
  const SubscriptionKind kind = delivery.pattern ? SubscriptionKind::kPattern : message.kind;
  // What was on its way when the subscription ended is not for the client any more.
  if (!session_.subscriptions->has(kind, delivery.pattern ? *delivery.pattern : message.channel)) return;
  ReplyWriter push(out_, session_.protocol);
  push.push(delivery.pattern ? 4 : 3);
  push.bulk(delivery.pattern ? "pmessage" : kind == SubscriptionKind::kShard ? "smessage" : "message");
  if (delivery.pattern) push.bulk(*delivery.pattern);
  push.bulk(message.channel);
  push.bulk(message.payload);
  require(message.required, false);
  thread_->mark_dirty(*this);
  check_output_limit(owed_bytes());
}

void Connection::deliver_delayed() {
  if (!delayed_) return;
  const auto delayed = std::move(delayed_);
  for (MessageDelivery& delivery : *delayed) deliver(std::move(delivery));
}

void Connection::check_output_limit(uint64_t owed) {
  const OutputLimit& limit = thread_->shared().live.output_limits[session_.receives_messages() ? kPubsubClients : kNormalClients];
  const uint64_t hard = limit.hard_bytes.load(std::memory_order_relaxed), soft = limit.soft_bytes.load(std::memory_order_relaxed);
  bool over = hard > 0 && owed > hard;
  if (soft == 0 || owed <= soft) {
    over_soft_since_ms_ = 0;
  } else if (over_soft_since_ms_ == 0) {
    over_soft_since_ms_ = thread_->now_ms();
  } else {
    over = over || thread_->now_ms() - over_soft_since_ms_ > limit.soft_ms.load(std::memory_order_relaxed);
  }
  if (!over) return;
  log_warning("client " + std::to_string(session_.id) + " is closed: it does not read, and is owed " + std::to_string(owed) +
              " bytes (client-output-buffer-limit)");
  ThreadCounters::add(thread_->counters().output_limit_disconnections, 1);
  close();
}

}  // namespace pion
