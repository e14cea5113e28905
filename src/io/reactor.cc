#include "io/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace pion {
namespace {

constexpr int kEventsPerTick = 256;

struct Registration {
  EventHandler* handler = nullptr;
  uint32_t generation = 0;  // counts add() of this descriptor number, so that events of a closed one are dropped
  Interest interest;
};

struct Timer {
  int64_t due_ms;
  Reactor::TimerId id;
  bool operator>(const Timer& other) const { return std::pair(due_ms, id) > std::pair(other.due_ms, other.id); }
};

uint32_t epoll_bits(Interest interest) {
  uint32_t bits = 0;
  if (interest.read) bits |= EPOLLIN;
  if (interest.write) bits |= EPOLLOUT;
  if (interest.peer_close && !interest.read) bits |= EPOLLRDHUP;
  return bits;
}

uint64_t epoll_key(int fd, uint32_t generation) { return static_cast<uint64_t>(generation) << 32 | static_cast<uint32_t>(fd); }

}  // namespace

struct Reactor::State {
  int epoll_fd = -1;
  int wake_fd = -1;
  std::vector<Registration> registrations;  // by descriptor
  int64_t now_ms = 0;
  std::atomic<uint64_t> busy_ns{0}, ticks{0}, longest_tick_ns{0};

  // The heap orders, the map owns; a cancelled timer leaves its heap entry behind until it is due.
  std::vector<Timer> heap;
  std::unordered_map<TimerId, std::function<void()>> timers;
  TimerId last_timer = 0;

  std::function<void()> tick_end;

  std::mutex inbox_mutex;
  std::vector<std::function<void()>> inbox;  // guarded by inbox_mutex
  bool woken = false;                        // guarded: wake_fd was written and not read since
  std::vector<std::function<void()>> taken;  // being run; keeps its capacity
  std::atomic<bool> stopping{false};

  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t ignored = ::write(wake_fd, &one, sizeof one);
  }

  void count_tick(uint64_t ns) {
    busy_ns.store(busy_ns.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
    ticks.store(ticks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (ns <= longest_tick_ns.load(std::memory_order_relaxed)) return;
    longest_tick_ns.store(ns, std::memory_order_relaxed);
  }

  int wait_ms() const {
    if (heap.empty()) return -1;
    return static_cast<int>(std::clamp<int64_t>(heap.front().due_ms - now_ms, 0, 60'000));
  }

  void run_timers() {
    while (!heap.empty() && heap.front().due_ms <= now_ms) {
      const TimerId id = heap.front().id;
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      heap.pop_back();
      auto found = timers.find(id);
      if (found == timers.end()) continue;
      const std::function<void()> call = std::move(found->second);
      timers.erase(found);
      call();
    }
  }

  void run_inbox() {
    uint64_t count;
    [[maybe_unused]] ssize_t ignored = ::read(wake_fd, &count, sizeof count);
    {
      std::lock_guard lock(inbox_mutex);
      woken = false;
      taken.swap(inbox);
    }
    for (std::function<void()>& call : taken) {
      call();
      call = nullptr;
    }
    taken.clear();
  }

  void run_event(const epoll_event& event) {
    const auto fd = static_cast<int>(static_cast<uint32_t>(event.data.u64));
    const auto generation = static_cast<uint32_t>(event.data.u64 >> 32);
    const auto alive = [&] {
      return registrations[static_cast<size_t>(fd)].handler && registrations[static_cast<size_t>(fd)].generation == generation;
    };
    if (!alive()) return;
    EventHandler* const handler = registrations[static_cast<size_t>(fd)].handler;
    const Interest interest = registrations[static_cast<size_t>(fd)].interest;
    const bool dead = event.events & (EPOLLHUP | EPOLLERR);
    if ((event.events & EPOLLOUT) || (dead && interest.write)) {
      handler->on_writable();
      if (!alive()) return;
    }
    if (interest.read) {
      if (dead || (event.events & EPOLLIN)) handler->on_readable();
    } else if (dead || (event.events & EPOLLRDHUP)) {
      handler->on_peer_closed(dead);
    }
  }
};

Reactor::Reactor() : state_(std::make_unique<State>()) {
  state_->epoll_fd = ::epoll_create1(EPOLL_CLOEXEC);
  state_->wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  assert(state_->epoll_fd >= 0 && state_->wake_fd >= 0);
  state_->now_ms = monotonic_ms();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = epoll_key(state_->wake_fd, 0);
  ::epoll_ctl(state_->epoll_fd, EPOLL_CTL_ADD, state_->wake_fd, &event);
}

Reactor::~Reactor() {
  ::close(state_->wake_fd);
  ::close(state_->epoll_fd);
}

Status Reactor::add(int fd, EventHandler* handler, Interest interest) {
  const auto index = static_cast<size_t>(fd);
  if (state_->registrations.size() <= index) state_->registrations.resize(std::max(index + 1, index * 2));
  Registration& registration = state_->registrations[index];
  assert(!registration.handler);
  registration.generation++;
  epoll_event event{};
  event.events = epoll_bits(interest);
  event.data.u64 = epoll_key(fd, registration.generation);
  if (::epoll_ctl(state_->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno("epoll_ctl", errno);
  registration.handler = handler;
  registration.interest = interest;
  return {};
}

Status Reactor::change(int fd, Interest interest) {
  Registration& registration = state_->registrations[static_cast<size_t>(fd)];
  assert(registration.handler);
  if (registration.interest == interest) return {};
  epoll_event event{};
  event.events = epoll_bits(interest);
  event.data.u64 = epoll_key(fd, registration.generation);
  if (::epoll_ctl(state_->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0) return fail_errno("epoll_ctl", errno);
  registration.interest = interest;
  return {};
}

void Reactor::remove(int fd) {
  Registration& registration = state_->registrations[static_cast<size_t>(fd)];
  if (!registration.handler) return;
  registration.handler = nullptr;
  ::epoll_ctl(state_->epoll_fd, EPOLL_CTL_DEL, fd, nullptr);
}

Reactor::TimerId Reactor::after(int64_t delay_ms, std::function<void()> call) {
  const TimerId id = ++state_->last_timer;
  // Counted from the true time, not from the tick's: a tick may have been long.
  state_->heap.push_back({monotonic_ms() + std::max<int64_t>(delay_ms, 0), id});
  std::push_heap(state_->heap.begin(), state_->heap.end(), std::greater<>());
  state_->timers.emplace(id, std::move(call));
  return id;
}

void Reactor::cancel(TimerId timer) {
  if (state_->timers.erase(timer) == 0) return;
  // Entries of cancelled timers are swept when they outnumber the living, so that they cannot pile up.
  if (state_->heap.size() < 64 || state_->heap.size() < 2 * state_->timers.size()) return;
  std::erase_if(state_->heap, [this](const Timer& entry) { return !state_->timers.contains(entry.id); });
  std::make_heap(state_->heap.begin(), state_->heap.end(), std::greater<>());
}

void Reactor::post(std::function<void()> call) {
  {
    std::lock_guard lock(state_->inbox_mutex);
    state_->inbox.push_back(std::move(call));
    if (state_->woken) return;
    state_->woken = true;
  }
  state_->wake();
}

void Reactor::at_tick_end(std::function<void()> call) { state_->tick_end = std::move(call); }

int64_t Reactor::now_ms() const { return state_->now_ms; }

uint64_t Reactor::busy_ns() const { return state_->busy_ns.load(std::memory_order_relaxed); }

uint64_t Reactor::ticks() const { return state_->ticks.load(std::memory_order_relaxed); }
uint64_t Reactor::longest_tick_ns() const { return state_->longest_tick_ns.load(std::memory_order_relaxed); }
void Reactor::forget_longest_tick() { state_->longest_tick_ns.store(0, std::memory_order_relaxed); }

void Reactor::run() {
  epoll_event events[kEventsPerTick];
  int64_t woke_ns = clock_ns(CLOCK_MONOTONIC);
  while (!state_->stopping.load(std::memory_order_acquire)) {
    const int64_t waits_ns = clock_ns(CLOCK_MONOTONIC);
    state_->count_tick(static_cast<uint64_t>(waits_ns - woke_ns));
    state_->now_ms = waits_ns / 1'000'000;
    const int count = ::epoll_wait(state_->epoll_fd, events, kEventsPerTick, state_->wait_ms());
    woke_ns = clock_ns(CLOCK_MONOTONIC);
    state_->now_ms = woke_ns / 1'000'000;
    bool posted = false;
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == epoll_key(state_->wake_fd, 0)) {
        posted = true;
      } else {
        state_->run_event(events[i]);
      }
    }
    state_->run_timers();
    if (posted) state_->run_inbox();
    if (state_->tick_end) state_->tick_end();
  }
}

void Reactor::stop() {
  state_->stopping.store(true, std::memory_order_release);
  state_->wake();
}

}  // namespace pion
