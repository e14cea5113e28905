#include "command/session.h"

#include <unistd.h>

namespace pion {

PassedDescriptors::~PassedDescriptors() { close_all(); }

void PassedDescriptors::close_all() {
  for (int fd : fds_) ::close(fd);
  fds_.clear();
}

}  // namespace pion
