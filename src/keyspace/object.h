// A value that is too large for one packed run of bytes: a table, a tree. Owned by the entry that points to it; used under its
// stripe's lock. What a type keeps in it is the type's own matter (hash_table.h ...).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace pion {

class Object {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  // In constant time.
  virtual uint64_t memory_bytes() const = 0;
  // May the thread that holds a stripe's lock free it (well under a millisecond)?
  virtual bool quick_to_free() const = 0;

  uint64_t counted_bytes = 0;  // of it in its shard's count
};

// Objects that take long to free go here and are freed without any lock, in the background. Any thread.
class Graveyard {
 public:
  void take(std::unique_ptr<Object> object);
  // Frees until `deadline_us` (monotonic); true: there is more.
  bool free_some(int64_t deadline_us);

  // Not freed yet; freed since the last reset.
  uint64_t waiting() const;
  uint64_t freed() const { return freed_.load(std::memory_order_relaxed); }
  void reset_freed() { freed_.store(0, std::memory_order_relaxed); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Object>> objects_;
  bool freeing_ = false;  // one that is in no list any more
  std::atomic<uint64_t> freed_{0};
};

}  // namespace pion
