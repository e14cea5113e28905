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
  if (!completed_.exchange(true, std::memory_order_acq_rel) && !abandoned()) thread_.post_completion(client_, turn_, std::move(write), required);
}

void ConnectionCompletion::on_interrupt(std::function<bool(Interrupt)> call) {
  std::lock_guard lock(interrupt_mutex_);
  interrupt_ = std::move(call);
}

bool ConnectionCompletion::interrupt(Interrupt why) {
  std::function<bool(Interrupt)> call;
  {
    std::lock_guard lock(interrupt_mutex_);
    call = interrupt_;
  }
  return call && call(why);
}

void ConnectionCompletion::on_timeout(int64_t delay_ms, std::function<void()> call) {
  const bool again = timed_.exchange(true, std::memory_order_acq_rel);
  assert(!again);
  if (again) return;
  thread_.post_timeout(client_, turn_, delay_ms, std::move(call));
}

}  // namespace pion
