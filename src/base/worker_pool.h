// A few threads for slow work (checksums of payload, disk reads, checkpoints asked for by a command), so that no
// reactor thread waits. Jobs run in the order given, on any thread. The queue is bounded by its users: a connection
// has at most one job at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pion {

class WorkerPool {
 public:
  explicit WorkerPool(unsigned threads);
  // Runs what is queued, then joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Any thread may call.
  void run(std::function<void()> job);
  size_t queued() const;

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pion
