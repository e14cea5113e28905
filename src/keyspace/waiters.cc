#include "keyspace/waiters.h"

#include "keyspace/keyspace.h"

namespace pion {

constinit thread_local uint32_t ready_keys = 0;

std::vector<ReadyKey>& ready_keys_of_thread() {
  thread_local std::vector<ReadyKey> keys;
  return keys;
}

bool KeyWaiters::add(unsigned stripe, int database, std::string_view key, uint64_t ticket, std::shared_ptr<KeyWaiter> waiter) {
  Bucket& home = bucket(stripe);
  std::lock_guard lock(home.mutex);
  return home.queues[id(database, key)].waiters.emplace(ticket, std::move(waiter)).second;
}

bool KeyWaiters::remove(unsigned stripe, int database, std::string_view key, uint64_t ticket) {
  Bucket& home = bucket(stripe);
  std::shared_ptr<KeyWaiter> removed;  // it ends after the lock
  std::lock_guard lock(home.mutex);
  const auto queue = home.queues.find(id(database, key));
  if (queue == home.queues.end()) return false;
  const auto waiter = queue->second.waiters.find(ticket);
  if (waiter == queue->second.waiters.end()) return false;
  removed = std::move(waiter->second);
  queue->second.waiters.erase(waiter);
  if (queue->second.waiters.empty() && !queue->second.serving) home.queues.erase(queue);
  return true;
}

bool KeyWaiters::any(unsigned stripe, int database, std::string_view key) const {
  const Bucket& home = bucket(stripe);
  std::lock_guard lock(home.mutex);
  const auto queue = home.queues.find(id(database, key));
  return queue != home.queues.end() && !queue->second.waiters.empty();
}

bool KeyWaiters::begin(unsigned stripe, int database, std::string_view key) {
  Bucket& home = bucket(stripe);
  std::lock_guard lock(home.mutex);
  const auto queue = home.queues.find(id(database, key));
  if (queue == home.queues.end()) return false;
  if (queue->second.serving) return queue->second.again = true, false;
  queue->second.again = false;
  return queue->second.serving = true;
}

bool KeyWaiters::end(unsigned stripe, int database, std::string_view key) {
  Bucket& home = bucket(stripe);
  std::lock_guard lock(home.mutex);
  const auto queue = home.queues.find(id(database, key));
  if (std::exchange(queue->second.again, false)) return false;
  queue->second.serving = false;
  if (queue->second.waiters.empty()) home.queues.erase(queue);
  return true;
}

std::shared_ptr<KeyWaiter> KeyWaiters::next(unsigned stripe, int database, std::string_view key, ValueType type, uint64_t& ticket) const {
  const Bucket& home = bucket(stripe);
  std::lock_guard lock(home.mutex);
  const auto queue = home.queues.find(id(database, key));
  if (queue == home.queues.end()) return nullptr;
  for (auto waiter = queue->second.waiters.upper_bound(ticket); waiter != queue->second.waiters.end(); ++waiter) {
    ticket = waiter->first;
    if (waiter->second->wants(type)) return waiter->second;
  }
  return nullptr;
}

void KeyAccess::wait(int database, const Key& key, uint64_t ticket, std::shared_ptr<KeyWaiter> waiter) {
  if (keyspace_.waiters_.add(key.hash.stripe(), database, key.bytes, ticket, std::move(waiter))) keyspace_.listen_to(key);
}

void Keyspace::stop_waiting(int database, const Key& key, uint64_t ticket) {
  if (waiters_.remove(key.hash.stripe(), database, key.bytes, ticket)) stop_listening(key);
}

bool KeyAccess::others_wait(int database, const Key& key) {
  if (stripe(key).watchers.load(std::memory_order_relaxed) == 0) [[likely]] return false;
  return keyspace_.waiters_.any(key.hash.stripe(), database, key.bytes);
}

void KeyAccess::serve_later(int database, const Key& key) {
  std::vector<ReadyKey>& keys = ready_keys_of_thread();
  for (const ReadyKey& ready : keys) {
    if (ready.database == database && ready.key == key.bytes) return;
  }
  keys.push_back({database, std::string(key.bytes)});
  ready_keys = static_cast<uint32_t>(keys.size());
}

void KeyAccess::tell_change(int database, const Key& key) {
  keyspace_.watches_.mark(key.hash.stripe(), database, key.bytes);
  if (others_wait(database, key)) serve_later(database, key);
}

void KeyAccess::databases_change(int a, int b) {
  keyspace_.waiters_.each_key(a, b, [&](int database, std::string_view bytes) { serve_later(database, keyspace_.key(bytes)); });
}

// What a waiter does when it is served may make other keys ready: they come behind.
void Keyspace::serve_waiters() {
  std::vector<ReadyKey>& keys = ready_keys_of_thread();
  while (!keys.empty()) {
    std::vector<ReadyKey> round;
    round.swap(keys);
    for (const ReadyKey& ready : round) serve_key(ready.database, key(ready.key));
  }
  ready_keys = 0;
}

void Keyspace::serve_key(int database, const Key& key) {
  const unsigned stripe = key.hash.stripe();
  const auto type_now = [&] {
    KeyAccess access(*this, key);
    const Found found = access.find(database, key, KeyAccess::Lookup::kPeek);
    return found ? found.entry->type() : ValueType::kNone;
  };
  if (!waiters_.begin(stripe, database, key.bytes)) return;
  do {
    uint64_t ticket = 0;
    ValueType type = type_now();
    while (const std::shared_ptr<KeyWaiter> waiter = waiters_.next(stripe, database, key.bytes, type, ticket)) {
      waiter->retry();
      type = type_now();
    }
  } while (!waiters_.end(stripe, database, key.bytes));
}

}  // namespace pion
