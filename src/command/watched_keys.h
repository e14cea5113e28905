// The keys one connection watches.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keyspace/keyspace.h"

namespace pion {

class WatchedKeys {
 public:
  explicit WatchedKeys(Keyspace& keyspace) : keyspace_(keyspace) {}
  ~WatchedKeys() { clear(); }
  WatchedKeys(const WatchedKeys&) = delete;
  WatchedKeys& operator=(const WatchedKeys&) = delete;

  // From now on; a key that is watched already stays so. Returns what the reply waits for.
  Lsn add(int database, std::string_view key);
  void clear();
  // Has one of them changed? Complete only while their stripes are held.
  bool changed() const { return token_.changed.load(std::memory_order_acquire); }
  size_t count() const { return keys_.size(); }
  // Their keys, and the ones that have expired count as changed. Within a scope that holds their stripes.
  void add_keys(std::vector<Key>& keys) const;
  void expire();

 private:
  Keyspace& keyspace_;
  WatchToken token_;
  std::set<std::pair<int, std::string>> keys_;
};

}  // namespace pion
