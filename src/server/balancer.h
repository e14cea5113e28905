// Which connections run on which thread. One thread that has enough to do answers more requests with each system call than two
// that sleep between them (measured with 50 clients, one request at a time: 3.5 against 4.9 us of CPU a request). So clients
// share as few threads as keep up: a thread that is busy gives half of its active clients to one that is not, and two that
// are mostly idle become one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pion {

class IoThread;

struct ThreadLoad {
  double busy = 0;       // share of the time not spent waiting
  uint64_t clients = 0;
};

struct ClientMove {
  unsigned from = 0, to = 0;
  bool all = false;  // or half of those that are active
  bool operator==(const ClientMove&) const = default;
};

// What one look at the loads suggests.
std::optional<ClientMove> suggest_move(std::span<const ThreadLoad> loads);
// Where a new client goes.
unsigned thread_for_new_client(std::span<const ThreadLoad> loads);

// Lives on thread 0.
class Balancer {
 public:
  static constexpr int64_t kStepMs = 100;

  explicit Balancer(std::vector<IoThread*> threads);
  void step(int64_t now_ns);
  unsigned thread_for_new_client() const { return newcomers_; }

 private:
  std::vector<IoThread*> threads_;
  std::vector<ThreadLoad> loads_;
  std::vector<uint64_t> busy_ns_;
  int64_t last_ns_ = 0;
  unsigned newcomers_ = 0;
  std::optional<ClientMove> suggested_;
  int times_ = 0;  // in a row
};

}  // namespace pion
