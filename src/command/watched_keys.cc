#include "command/watched_keys.h"

namespace pion {

Lsn WatchedKeys::add(int database, std::string_view bytes) {
  const auto [entry, added] = keys_.emplace(database, bytes);
  if (!added) return 0;
  const Key key = keyspace_.key(entry->second);
  KeyAccess access(keyspace_, key);
  // One that has expired goes first: its removal is no change.
  access.find(database, key, KeyAccess::Lookup::kPeek);
  access.watch(database, key, token_);
  return access.finish();
}

void WatchedKeys::clear() {
  for (const auto& [database, bytes] : keys_) keyspace_.unwatch(database, keyspace_.key(bytes), token_);
  keys_.clear();
}

void WatchedKeys::add_keys(std::vector<Key>& keys) const {
  for (const auto& [database, bytes] : keys_) keys.push_back(keyspace_.key(bytes));
}

void WatchedKeys::expire() {
  for (const auto& [database, bytes] : keys_) {
    const Key key = keyspace_.key(bytes);
    KeyAccess(keyspace_, key).find(database, key, KeyAccess::Lookup::kPeek);
  }
}

}  // namespace pion
