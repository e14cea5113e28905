// Sockets: making, listening, accepting. Errors are sentences for the log.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace pion {

// Closes its descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Listens on a numeric address or a name; port 0 takes a free one. Non-blocking.
Result<UniqueFd> listen_tcp(const std::string& host, uint16_t port, int backlog);
uint16_t local_port(int fd);

// Listens on a path, mode 0600 (or `mode`). A socket nobody listens on is removed first; one that answers, or a file that is
// no socket, is an error. A path too long for a socket address is bound through its directory's descriptor.
Result<UniqueFd> listen_unix(const std::string& path, int backlog, unsigned mode = 0600);

struct Accepted {
  UniqueFd fd;
  std::string peer, local;  // "127.0.0.1:5", "[::1]:5", "/path:0"
};
// Non-blocking and close-on-exec. kUnavailable: nothing waits.
Result<Accepted> accept_tcp(int listener);
Result<Accepted> accept_unix(int listener, const std::string& path);

void set_no_delay(int fd);
void set_keepalive(int fd, int idle_s);  // 0: off

// As many descriptors as allowed, at most `wanted`; how many there are now.
uint64_t raise_descriptor_limit(uint64_t wanted);

}  // namespace pion
