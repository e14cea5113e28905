#include "command/session.h"

#include <unistd.h>

#include "command/transaction.h"
#include "command/watched_keys.h"

namespace pion {

Session::Session() = default;
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

PassedDescriptors::~PassedDescriptors() { close_all(); }

void PassedDescriptors::close_all() {
  for (int fd : fds_) ::close(fd);
  fds_.clear();
}

}  // namespace pion
