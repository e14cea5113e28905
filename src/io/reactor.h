// One thread's event loop. Sockets, timers and an inbox; epoll underneath (another backend can stand behind the same class).
// Everything but post() and stop() belongs to the thread that calls run(), or to the one that prepares the reactor before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"

namespace pion {

// A descriptor's owner. Called on the reactor's thread, never after remove(), also not for events of the same tick.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_readable() = 0;
  virtual void on_writable() = 0;
  // The peer closed its side. `gone`: both directions are dead (nothing can be sent any more); otherwise a half-close.
  // Only told while the descriptor is not read from: a reader learns it from read(). Level-triggered like the rest, so
  // the handler removes the descriptor or drops `peer_close` from its interest.
  virtual void on_peer_closed(bool gone) { static_cast<void>(gone); }
};

struct Interest {
  bool read = false;
  bool write = false;
  bool peer_close = false;  // half-closes, while read is off; a dead connection is always told
  bool operator==(const Interest&) const = default;
};

class Reactor {
 public:
  using TimerId = uint64_t;  // 0 is no timer

  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Level-triggered interest. The handler must outlive its registration.
  Status add(int fd, EventHandler* handler, Interest interest);
  Status change(int fd, Interest interest);
  void remove(int fd);

  // Runs once, `delay_ms` from now or later, on this thread. Millisecond precision.
  TimerId after(int64_t delay_ms, std::function<void()> call);
  void cancel(TimerId timer);

  // From any thread: runs on the reactor's thread soon, in the order given. After run() returned, it is kept unused.
  void post(std::function<void()> call);

  // Called at the end of each tick, after all ready events, timers and posted calls (the server writes the journal and sends
  // there).
  void at_tick_end(std::function<void()> call);

  // Monotonic, read once a tick: what commands and timers of one tick agree on.
  int64_t now_ms() const;

  // Time spent not waiting, since the start. Any thread.
  uint64_t busy_ns() const;
  // Ticks so far, and the longest: from the end of a wait to the beginning of the next. Any thread.
  uint64_t ticks() const;
  uint64_t longest_tick_ns() const;
  void forget_longest_tick();

  void run();   // until stop()
  void stop();  // from any thread; the tick under way ends first

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pion
