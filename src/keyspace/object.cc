#include "keyspace/object.h"

#include "base/clock.h"

namespace pion {

void Graveyard::take(std::unique_ptr<Object> object) {
  std::lock_guard lock(mutex_);
  objects_.push_back(std::move(object));
}

uint64_t Graveyard::waiting() const {
  std::lock_guard lock(mutex_);
  return objects_.size() + (freeing_ ? 1 : 0);
}

bool Graveyard::free_some(int64_t deadline_us) {
  while (true) {
    std::unique_ptr<Object> object;
    {
      std::lock_guard lock(mutex_);
      if (objects_.empty()) return false;
      object = std::move(objects_.back());
      objects_.pop_back();
      freeing_ = true;
    }
    object.reset();
    freed_.fetch_add(1, std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex_);
      freeing_ = false;
    }
    if (monotonic_us() >= deadline_us) {
      std::lock_guard lock(mutex_);
      return !objects_.empty();
    }
  }
}

}  // namespace pion
