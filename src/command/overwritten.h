// The events of a value that takes another one's place as RENAME, COPY, MOVE and RESTORE put it there: Redis deletes what is there
// first, so the key is new, and tells what was overwritten behind the command's own events.
#pragma once

#include "keyspace/keyspace.h"

namespace pion {

class Overwritten {
 public:
  // Made before the change. `type`: of the new value.
  Overwritten(const Found& target, ValueType type) : any_(target), other_type_(target && target.entry->type() != type) {}

  void tell_new(KeyAccess& access, int database, const Key& key) const {
    if (any_) access.event(KeyEvent::kNew, "new", database, key);
  }
  void tell(KeyAccess& access, int database, const Key& key) const {
    if (any_) access.event(KeyEvent::kOverwritten, "overwritten", database, key);
    if (other_type_) access.event(KeyEvent::kTypeChanged, "type_changed", database, key);
  }

 private:
  const bool any_, other_type_;
};

}  // namespace pion
