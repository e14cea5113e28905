#include "server/completion.h"

#include <cassert>
#include <utility>

#include "server/io_thread.h"

namespace pion {

ConnectionCompletion::~ConnectionCompletion() {
  if (completed_ || abandoned_) return;
  thread_.post_completion(
      client_, turn_, [](ReplyWriter& reply) { reply.error("ERR internal error: the command was given up"); }, 0);
}

void ConnectionCompletion::complete(std::function<void(ReplyWriter&)> write, Lsn required) {
  const bool again = completed_.exchange(true, std::memory_order_acq_rel);
  assert(!again);
  if (!again && !abandoned()) thread_.post_completion(client_, turn_, std::move(write), required);
}

void ConnectionCompletion::on_timeout(int64_t delay_ms, std::function<void()> call) {
  const bool again = timed_.exchange(true, std::memory_order_acq_rel);
  assert(!again);
  if (again) return;
  // The timer must not keep the completion alive: dropping the last reference is how a command is given up. Of a connection
  // that is gone the call runs too: whoever waits takes itself off its list there.
  thread_.reactor().post([this_weak = weak_from_this(), &thread = thread_, delay_ms, call = std::move(call)]() mutable {
    thread.reactor().after(delay_ms, [this_weak, call = std::move(call)] {
      const auto self = this_weak.lock();
      if (self && !self->completed_.load(std::memory_order_acquire)) call();
    });
  });
}

}  // namespace pion
