// Commands that wait for keys (BLPOP, XREADGROUP BLOCK ...), in order of arrival.
//
// A waiter is added under the locks of its keys' stripes, after it found nothing there: no change can be missed. A change of a key
// somebody waits for puts the key on a list of the thread that changed it; the thread serves the list once its command is over
// and its locks are gone (Keyspace::serve_waiters). One thread at a time serves a key: one that comes meanwhile leaves its work to
// it. So whoever waits longest is asked first, whichever threads push.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "keyspace/entry.h"

namespace pion {

// Any thread, no lock held.
class KeyWaiter {
 public:
  virtual ~KeyWaiter() = default;
  // May a key that now holds this (kNone: that is gone) serve it?
  virtual bool wants(ValueType type) const = 0;
  // Tries again. When it is done with waiting it takes itself out (Keyspace::stop_waiting).
  virtual void retry() = 0;
};

class KeyWaiters {
 public:
  // Order of locks: a stripe's, then ours. False: it waits for this key already.
  bool add(unsigned stripe, int database, std::string_view key, uint64_t ticket, std::shared_ptr<KeyWaiter> waiter);
  bool remove(unsigned stripe, int database, std::string_view key, uint64_t ticket);
  bool any(unsigned stripe, int database, std::string_view key) const;
  uint64_t next_ticket() { return last_ticket_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // Serving. begin(): false when there is nobody, or another thread is at it and will look again. end(): false when the key changed
  // since begin() or the last end(), and is to be gone through again.
  bool begin(unsigned stripe, int database, std::string_view key);
  bool end(unsigned stripe, int database, std::string_view key);
  // The first behind `ticket` (which moves on to it) that wants what the key holds; null: none.
  std::shared_ptr<KeyWaiter> next(unsigned stripe, int database, std::string_view key, ValueType type, uint64_t& ticket) const;

  // Every key of two databases (a < 0: of all) that somebody waits for.
  template <typename Visit>
  void each_key(int a, int b, Visit&& visit) const {
    for (const Bucket& bucket : buckets_) {
      std::lock_guard lock(bucket.mutex);
      for (const auto& [id, queue] : bucket.queues) {
        if (a < 0 || id[0] == a || id[0] == b) visit(static_cast<int>(id[0]), std::string_view(id).substr(1));
      }
    }
  }

 private:
  struct Queue {
    std::map<uint64_t, std::shared_ptr<KeyWaiter>> waiters;  // by ticket
    bool serving = false;
    bool again = false;
  };
  using Queues = std::unordered_map<std::string, Queue>;  // by one byte of database and the key
  struct Bucket {
    mutable std::mutex mutex;
    Queues queues;
  };
  static constexpr size_t kBuckets = 32;

  static std::string id(int database, std::string_view key) { return std::string(1, static_cast<char>(database)).append(key); }
  Bucket& bucket(unsigned stripe) { return buckets_[stripe % kBuckets]; }
  const Bucket& bucket(unsigned stripe) const { return buckets_[stripe % kBuckets]; }

  std::array<Bucket, kBuckets> buckets_;
  std::atomic<uint64_t> last_ticket_{0};
};

// Keys that this thread changed and somebody waits for.
struct ReadyKey {
  int database;
  std::string key;
};
extern constinit thread_local uint32_t ready_keys;  // how many
std::vector<ReadyKey>& ready_keys_of_thread();

}  // namespace pion
