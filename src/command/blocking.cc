#include "command/blocking.h"

#include <cmath>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/parse.h"
#include "command/table.h"

namespace pion {
namespace {

class RetryContext final : public CommandContext {
 public:
  RetryContext(const Services& services, Session& session, const CommandSpec& spec, Arguments& arguments, ReplyWriter& reply)
      : CommandContext(services, session, spec, arguments, reply, true) {}
  bool retrying() const override { return true; }
  std::shared_ptr<Completion> suspend() override { return nullptr; }  // wait_for_keys() asks for none while retrying
  std::unique_ptr<Subscriber> make_subscriber() override { return nullptr; }
  OutputChain& unmuted() override { return reply.out(); }
};

// One command that waits. Kept by the queues of its keys.
class BlockedCommand final : public KeyWaiter, public std::enable_shared_from_this<BlockedCommand> {
 public:
  BlockedCommand(CommandContext& ctx, std::span<const Key> keys, const WaitFor& what)
      : services_(ctx.services), spec_(ctx.spec), what_(what), ticket_(ctx.services.keyspace->next_waiting_ticket()) {
    session_.id = ctx.session.id;
    session_.database = ctx.session.database;
    session_.protocol = ctx.session.protocol;
    session_.no_touch = ctx.session.no_touch;
    for (const Argument& argument : ctx.args) words_.emplace_back(argument.bytes);
    for (const Key& key : keys) keys_.push_back({std::string(key.bytes), key.hash});
  }

  // Under the locks of its keys.
  void start(CommandContext& ctx, KeyAccess& access) {
    completion_ = ctx.suspend();
    const std::weak_ptr<BlockedCommand> weak = weak_from_this();
    completion_->on_interrupt([weak](Interrupt why) {
      const auto self = weak.lock();
      return self && self->interrupt(why);
    });
    if (what_.timeout_ms > 0) {
      completion_->on_timeout(what_.timeout_ms, [weak] {
        if (const auto self = weak.lock()) self->interrupt(Interrupt::kTimeout);
      });
    }
    for (const OwnKey& key : keys_) access.wait(session_.database, key.view(), ticket_, shared_from_this());
  }

  bool wants(ValueType type) const override { return type == what_.type || what_.gone_too; }

  void retry() override {
    std::lock_guard lock(mutex_);
    if (done_ || completion_->abandoned()) return;
    Arguments arguments;
    for (const std::string& word : words_) arguments.push_back({.bytes = word, .streamed = nullptr, .size = word.size()});
    auto out = std::make_shared<OutputChain>();
    ReplyWriter reply(*out, session_.protocol);
    RetryContext ctx(services_, session_, spec_, arguments, reply);
    const uint32_t errors = errors_written;
    if (spec_.handler(ctx) != Outcome::kDone) return;
    finish();
    const uint32_t failed = std::exchange(errors_written, errors) - errors;  // it is not this thread's command that failed
    const auto answer = [out, failed](ReplyWriter& reply) {
      reply.out().splice(std::move(*out));
      errors_written += failed;
    };
    completion_->complete(answer, ctx.required_lsn());
  }

  // The time is up, CLIENT UNBLOCK, or the connection is gone. False: it had been served already.
  bool interrupt(Interrupt why) {
    std::lock_guard lock(mutex_);
    if (done_) return false;
    finish();
    if (why == Interrupt::kTimeout) completion_->complete([](ReplyWriter& reply) { reply.nil_array(); }, 0);
    if (why == Interrupt::kError) {
      completion_->complete([](ReplyWriter& reply) { reply.error(kUnblocked); }, 0);
    }
    return true;
  }

 private:
  struct OwnKey {
    std::string bytes;
    KeyHash hash;
    Key view() const { return {bytes, hash}; }
  };

  void finish() {
    done_ = true;
    for (const OwnKey& key : keys_) services_.keyspace->stop_waiting(session_.database, key.view(), ticket_);
  }

  // Held while it is tried again or ended: one or the other. Before any stripe's lock.
  std::mutex mutex_;
  bool done_ = false;
  const Services& services_;
  const CommandSpec& spec_;
  const WaitFor what_;
  const uint64_t ticket_;
  Session session_;
  std::vector<std::string> words_;
  std::vector<OwnKey> keys_;
  std::shared_ptr<Completion> completion_;
};

}  // namespace

std::optional<int64_t> timeout_argument(CommandContext& ctx, size_t position, TimeUnit unit) {
  const auto refuse = [&](std::string_view text) { return ctx.reply.error(text), std::nullopt; };
  int64_t timeout_ms = 0;
  if (unit == TimeUnit::kSeconds) {
    const auto seconds = long_double_argument(ctx.arg(position));
    if (!seconds) return refuse("ERR timeout is not a float or out of range");
    const long double ms = std::ceil(*seconds * 1000);
    if (ms > static_cast<long double>(INT64_MAX)) return refuse("ERR timeout is out of range");
    if (ms < 0) return refuse("ERR timeout is negative");
    timeout_ms = static_cast<int64_t>(ms);
  } else {
    const auto number = integer_argument(ctx.arg(position));
    if (!number) return refuse("ERR timeout is not an integer or out of range");
    timeout_ms = *number;
  }
  if (timeout_ms < 0) return refuse("ERR timeout is negative");
  if (timeout_ms > INT64_MAX - wall_ms()) return refuse("ERR timeout is out of range");
  return timeout_ms;
}

Outcome wait_for_keys(CommandContext& ctx, KeyAccess& access, std::span<const Key> keys, const WaitFor& what) {
  if (ctx.retrying()) return Outcome::kSuspended;
  if (!ctx.may_block()) return ctx.reply.nil_array(), Outcome::kDone;
  std::make_shared<BlockedCommand>(ctx, keys, what)->start(ctx, access);
  return Outcome::kSuspended;
}

}  // namespace pion
