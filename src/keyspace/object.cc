#include "keyspace/object.h"

#include "base/clock.h"

namespace pion {

void Graveyard::take(std::unique_ptr<Object> object) {
  std::lock_guard lock(mutex_);
  objects_.push_back(std::move(object));
}

bool Graveyard::free_some(int64_t deadline_us) {
  while (true) {
    std::unique_ptr<Object> object;
    {
      std::lock_guard lock(mutex_);
      if (objects_.empty()) return false;
      object = std::move(objects_.back());
      objects_.pop_back();
    }
    object.reset();
    if (monotonic_us() >= deadline_us) {
      std::lock_guard lock(mutex_);
      return !objects_.empty();
    }
  }
}

}  // namespace pion
