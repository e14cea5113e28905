// Who wants to know that a key changed. A token is marked once and stays so; its owner takes it off before it goes.
// Called under the stripe's lock of the key, by any thread; costs nothing while the stripe has no watcher (Stripe::watchers).
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pion {

struct WatchToken {
  std::atomic<bool> changed{false};
};

class WatchRegistry {
 public:
  void add(unsigned stripe, int database, std::string_view key, WatchToken& token) {
    Part& part = part_of(stripe);
    std::lock_guard lock(part.mutex);
    part.tokens[{database, std::string(key)}].push_back(&token);
  }

  void remove(unsigned stripe, int database, std::string_view key, WatchToken& token) {
    Part& part = part_of(stripe);
    std::lock_guard lock(part.mutex);
    const auto found = part.tokens.find(Name{database, std::string(key)});
    if (found == part.tokens.end()) return;
    std::erase(found->second, &token);
    if (found->second.empty()) part.tokens.erase(found);
  }

  void mark(unsigned stripe, int database, std::string_view key) {
    Part& part = part_of(stripe);
    std::lock_guard lock(part.mutex);
    const auto found = part.tokens.find(Name{database, std::string(key)});
    if (found == part.tokens.end()) return;
    for (WatchToken* token : found->second) token->changed.store(true, std::memory_order_release);
  }

  // Copies of all watched keys of a database; -1: of all.
  std::vector<std::pair<int, std::string>> keys(int database) const {
    std::vector<std::pair<int, std::string>> all;
    for (const Part& part : parts_) {
      std::lock_guard lock(part.mutex);
      for (const auto& [name, tokens] : part.tokens) {
        if (database < 0 || name.first == database) all.push_back(name);
      }
    }
    return all;
  }

 private:
  using Name = std::pair<int, std::string>;
  struct alignas(64) Part {
    mutable std::mutex mutex;
    std::map<Name, std::vector<WatchToken*>> tokens;
  };
  Part& part_of(unsigned stripe) { return parts_[stripe % parts_.size()]; }

  std::array<Part, 64> parts_;
};

}  // namespace pion
