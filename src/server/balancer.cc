#include "server/balancer.h"

#include <algorithm>

#include "server/io_thread.h"

namespace pion {
namespace {

constexpr double kBusy = 0.85;       // more: give some away
constexpr double kHasRoom = 0.5;     // to one with less than this
constexpr double kTogether = 0.5;    // two that need less than this together become one
constexpr int kStepsToSpread = 2, kStepsToJoin = 5;

}  // namespace

std::optional<ClientMove> suggest_move(std::span<const ThreadLoad> loads) {
  const auto calmer = [](const ThreadLoad& a, const ThreadLoad& b) { return a.busy < b.busy; };
  const auto [calmest, busiest] = std::minmax_element(loads.begin(), loads.end(), calmer);
  if (busiest->busy > kBusy && calmest->busy < kHasRoom && busiest->clients > 1) {
    return ClientMove{static_cast<unsigned>(busiest - loads.begin()), static_cast<unsigned>(calmest - loads.begin()), false};
  }
  // The two calmest that have clients.
  std::optional<unsigned> first, second;
  for (unsigned i = 0; i < loads.size(); ++i) {
    if (loads[i].clients == 0) continue;
    if (!first || loads[i].busy < loads[*first].busy) {
      second = first;
      first = i;
    } else if (!second || loads[i].busy < loads[*second].busy) {
      second = i;
    }
  }
  if (!second || loads[*first].busy + loads[*second].busy >= kTogether) return std::nullopt;
  return ClientMove{std::max(*first, *second), std::min(*first, *second), true};
}

unsigned thread_for_new_client(std::span<const ThreadLoad> loads) {
  unsigned best = 0;
  for (unsigned i = 1; i < loads.size(); ++i) {
    if (loads[i].clients > 0 && loads[i].busy < loads[best].busy) best = i;
  }
  return best;
}

Balancer::Balancer(std::vector<IoThread*> threads)
    : threads_(std::move(threads)), loads_(threads_.size()), busy_ns_(threads_.size()) {}

void Balancer::step(int64_t now_ns) {
  const int64_t passed_ns = now_ns - std::exchange(last_ns_, now_ns);
  for (size_t i = 0; i < threads_.size(); ++i) {
    const uint64_t busy = threads_[i]->reactor().busy_ns();
    loads_[i].busy = static_cast<double>(busy - std::exchange(busy_ns_[i], busy)) / static_cast<double>(std::max<int64_t>(passed_ns, 1));
    loads_[i].clients = threads_[i]->counters().connected.load(std::memory_order_relaxed);
  }
  newcomers_ = pion::thread_for_new_client(loads_);
  const std::optional<ClientMove> suggestion = suggest_move(loads_);
  times_ = suggestion == suggested_ ? times_ + 1 : 1;
  suggested_ = suggestion;
  if (!suggestion || times_ < (suggestion->all ? kStepsToJoin : kStepsToSpread)) return;
  times_ = 0;
  threads_[suggestion->from]->post_move(*threads_[suggestion->to], suggestion->all);
}

}  // namespace pion
