#include "keyspace/keyspace_scope.h"

#include <cassert>

#include "keyspace/keyspace.h"

namespace pion {

KeyspaceScope::KeyspaceScope(Keyspace& keyspace, std::span<const Key> keys) : keyspace_(keyspace) {
  for (const Key& key : keys) stripes_.add(key.hash.stripe());
  enter();
}

KeyspaceScope::KeyspaceScope(Keyspace& keyspace, All) : keyspace_(keyspace) {
  stripes_.add_all();
  enter();
}

void KeyspaceScope::enter() {
  assert(!current_);
  keyspace_.lock_stripes(stripes_);
  current_ = this;
}

Lsn KeyspaceScope::finish() {
  assert(current_ == this);
  current_ = nullptr;
  return keyspace_.release(stripes_, keyspace_.append_effects(freed_, detached_));
}

StripeHold::StripeHold(StripeLock& lock) : lock_(KeyspaceScope::current() ? nullptr : &lock) {
  if (lock_) lock_->lock();
}

StripeHold::~StripeHold() {
  if (lock_) lock_->unlock();
}

}  // namespace pion
