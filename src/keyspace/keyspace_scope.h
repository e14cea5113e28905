// A transaction's hold on the keyspace: the stripes of all its keys, taken once. While it is there, every KeyAccess of this thread
// must stay within its keys, locks nothing and appends nothing; finish() appends ONE record with all effects, so that they are
// there together or not at all, for readers and after a crash. One at a time per thread; ends on the thread that made it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "keyspace/shard.h"
#include "keyspace/stripe_set.h"
#include "storage/journal.h"

namespace pion {

class Keyspace;
class StripeLock;
struct Key;

class KeyspaceScope {
 public:
  enum class All { kAll };

  KeyspaceScope(Keyspace& keyspace, std::span<const Key> keys);
  KeyspaceScope(Keyspace& keyspace, All);
  ~KeyspaceScope() {
    if (current() == this) finish();
  }
  KeyspaceScope(const KeyspaceScope&) = delete;
  KeyspaceScope& operator=(const KeyspaceScope&) = delete;

  // What the replies of all its commands must wait for.
  Lsn finish();

  // This thread's; null: none.
  static KeyspaceScope* current() { return current_; }
  bool holds(unsigned stripe) const { return stripes_.has(stripe); }

 private:
  friend class KeyAccess;

  void enter();

  static inline thread_local KeyspaceScope* current_ = nullptr;

  Keyspace& keyspace_;
  StripeSet stripes_;
  std::vector<ExtentRef> freed_;
  std::vector<std::unique_ptr<Shard>> detached_;
};

// Holds a stripe's lock while it looks at the whole keyspace; inside a scope, which holds all stripes then, it takes none.
class StripeHold {
 public:
  explicit StripeHold(StripeLock& lock);
  ~StripeHold();
  StripeHold(const StripeHold&) = delete;
  StripeHold& operator=(const StripeHold&) = delete;

 private:
  StripeLock* lock_;
};

}  // namespace pion
