// The way back of a suspended command: from any thread, through the inbox of the reactor that owns the connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "command/context.h"

namespace pion {

class IoThread;

class ConnectionCompletion final : public Completion {
 public:
  // `turn` tells the commands of one connection apart.
  ConnectionCompletion(IoThread& thread, uint64_t client, uint64_t turn) : thread_(thread), client_(client), turn_(turn) {}
  ~ConnectionCompletion() override;

  void complete(std::function<void(ReplyWriter&)> write, Lsn required) override;
  bool abandoned() const override { return abandoned_.load(std::memory_order_acquire); }
  void on_timeout(int64_t delay_ms, std::function<void()> call) override;

  void on_interrupt(std::function<bool(Interrupt)> call) override;

  // For the connection: when it ends, and for CLIENT UNBLOCK (false: the command cannot be ended, or was answered already).
  void abandon() {
    abandoned_.store(true, std::memory_order_release);
    interrupt(Interrupt::kGone);
  }
  bool interrupt(Interrupt why);

 private:
  IoThread& thread_;
  const uint64_t client_;
  const uint64_t turn_;
  std::atomic<bool> completed_{false};
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> timed_{false};
  std::mutex interrupt_mutex_;
  std::function<bool(Interrupt)> interrupt_;
};

}  // namespace pion
