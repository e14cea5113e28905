// One thread's event loop. Sockets, timers and an inbox; epoll underneath (another backend can stand behind the same class).
// Everything but post() and wake() belongs to the thread that calls run().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"

namespace pion {

// A descriptor's owner. Called on the reactor's thread.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_readable() = 0;
  virtual void on_writable() = 0;
};

class Reactor {
 public:
  using TimerId = uint64_t;  // 0 is no timer

  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Level-triggered interest. The handler must outlive its registration.
  Status add(int fd, EventHandler* handler, bool read, bool write);
  Status change(int fd, EventHandler* handler, bool read, bool write);
  void remove(int fd);

  // Runs once, `delay_ms` from now or later, on this thread. Millisecond precision.
  TimerId after(int64_t delay_ms, std::function<void()> call);
  void cancel(TimerId timer);

  // From any thread: runs on the reactor's thread soon, in the order given.
  void post(std::function<void()> call);

  // Called at the end of each tick, after all ready events and posted calls (the server writes the journal and sends there).
  void at_tick_end(std::function<void()> call);

  void run();   // until stop()
  void stop();  // from any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pion
