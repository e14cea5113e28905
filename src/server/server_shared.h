// What all threads of the server share. Filled before the threads start; atomics change while they run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/worker_pool.h"
#include "command/context.h"
#include "server/client_pause.h"
#include "server/settings.h"

namespace pion {

class Journal;
class ExtentStore;
class Keyspace;

// Counters of one thread: written by it, read by anyone.
struct ThreadCounters {
  std::atomic<uint64_t> connections_received{0}, rejected_connections{0};
  std::atomic<uint64_t> net_input_bytes{0}, net_output_bytes{0};
  std::atomic<uint64_t> connected{0}, blocked{0}, output_limit_disconnections{0};

  // Only the owning thread adds, so no locked instruction is needed.
  static void add(std::atomic<uint64_t>& counter, uint64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
};

struct OutputLimit {
  std::atomic<uint64_t> hard_bytes{0}, soft_bytes{0};
  std::atomic<int64_t> soft_ms{0};
};

// Options that change at run time, as the threads read them.
struct LiveSettings {
  std::atomic<int64_t> idle_timeout_s{0};
  std::atomic<int64_t> keepalive_s{300};
  std::atomic<uint64_t> max_clients{10000};
  std::atomic<uint64_t> max_bulk_bytes{kMaxBulkBytes};
  std::atomic<uint64_t> query_buffer_bytes{kQueryBufferBytes};
  std::atomic<bool> password_required{false};
  std::array<OutputLimit, kClientClasses> output_limits;
  std::atomic<uint64_t> least_output_limit_bytes{UINT64_MAX};  // nobody who is owed less need be looked at
};

// Which thread a client belongs to; changed when clients come and go.
class ClientRegistry {
 public:
  void add(uint64_t id, unsigned thread) {
    std::lock_guard lock(mutex_);
    threads_[id] = thread;
  }
  void remove(uint64_t id) {
    std::lock_guard lock(mutex_);
    threads_.erase(id);
  }
  // -1: no such client.
  int thread_of(uint64_t id) const {
    std::lock_guard lock(mutex_);
    const auto found = threads_.find(id);
    return found == threads_.end() ? -1 : static_cast<int>(found->second);
  }
  uint64_t count() const {
    std::lock_guard lock(mutex_);
    return threads_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, unsigned> threads_;
};

class IoThread;

struct ServerShared {
  Services services;
  Journal* journal = nullptr;
  ExtentStore* extents = nullptr;
  WorkerPool* workers = nullptr;
  WorkerPool* patient = nullptr;         // for what is short and may have to wait for a stripe held for long
  WorkerPool* journal_writer = nullptr;  // one thread: what a reactor should not wait for
  std::atomic<bool> journal_write_posted{false};
  LiveSettings live;
  ClientPause pause;
  ClientRegistry clients;
  std::atomic<uint64_t> last_client_id{0};
  std::vector<IoThread*> threads;

  // While a list of all clients is gathered, none moves from one thread to another.
  std::mutex move_mutex;
  unsigned gatherings = 0;  // guarded by move_mutex
};

}  // namespace pion
