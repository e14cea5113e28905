#include "io/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace pion {
namespace {

constexpr int kUnixSendBytes = 4 << 20;  // less where the system's net.core.wmem_max is less

std::string describe(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(in6.sin6_port));
  }
  const auto& in = reinterpret_cast<const sockaddr_in&>(address);
  inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
  return std::string(text) + ":" + std::to_string(ntohs(in.sin_port));
}

Result<UniqueFd> accept_any(int listener, sockaddr_storage& peer) {
  while (true) {
    socklen_t size = sizeof peer;
    const int fd = ::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) return UniqueFd(fd);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return fail(ErrorCode::kUnavailable, "no connection waits");
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return fail_errno("accept", errno);
  }
}

// The address of a path. One that does not fit is reached through its directory's descriptor, held by `directory`.
Result<sockaddr_un> unix_address(const std::string& path, UniqueFd& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string name = path;
  if (name.size() >= sizeof address.sun_path) {
    const size_t slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
    directory = UniqueFd(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("cannot open the socket's directory " + parent, errno);
    name = "/proc/self/fd/" + std::to_string(directory.get()) + "/" + path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (name.size() >= sizeof address.sun_path) {
      return fail(ErrorCode::kInvalid, "the socket's name is too long: " + path);
    }
  }
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  return address;
}

// Removes what a dead server left. Nothing there is fine.
Status remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT ? Status{} : fail_errno("cannot look at " + path, errno);
  if (!S_ISSOCK(info.st_mode)) return fail(ErrorCode::kExists, path + " is there and is no socket");
  UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return fail_errno("socket", errno);
  const int result = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  // EAGAIN is a full backlog: somebody listens.
  if (result == 0 || errno == EAGAIN) return fail(ErrorCode::kBusy, "another server listens on " + path);
  if (::unlink(path.c_str()) != 0) return fail_errno("cannot remove the old socket " + path, errno);
  return {};
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

Result<UniqueFd> listen_tcp(const std::string& host, uint16_t port, int backlog) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string where = host + ":" + std::to_string(port);
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return fail(ErrorCode::kInvalid, "cannot resolve " + where + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket", errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (found->ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0) return fail_errno("cannot bind " + where, errno);
  if (::listen(fd.get(), backlog) != 0) return fail_errno("cannot listen on " + where, errno);
  return fd;
}

uint16_t local_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Result<UniqueFd> listen_unix(const std::string& path, int backlog, unsigned mode) {
  UniqueFd directory;
  auto address = unix_address(path, directory);
  if (!address) return std::unexpected(address.error());
  PION_TRY(remove_stale(path, *address));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket", errno);
  // The mode is set before anybody could connect: bind() makes the file by the umask.
  const mode_t old_mask = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
  const int bind_error = errno;
  ::umask(old_mask);
  if (bound != 0) return fail_errno("cannot bind " + path, bind_error);
  if (mode != 0600 && ::chmod(path.c_str(), mode) != 0) return fail_errno("cannot set the mode of " + path, errno);
  if (::listen(fd.get(), backlog) != 0) return fail_errno("cannot listen on " + path, errno);
  return fd;
}

Result<Accepted> accept_tcp(int listener) {
  sockaddr_storage peer{};
  auto fd = accept_any(listener, peer);
  if (!fd) return std::unexpected(fd.error());
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  ::getsockname(fd->get(), reinterpret_cast<sockaddr*>(&local), &size);
  return Accepted{std::move(*fd), describe(peer), describe(local)};
}

Result<Accepted> accept_unix(int listener, const std::string& path) {
  sockaddr_storage peer{};
  auto fd = accept_any(listener, peer);
  if (!fd) return std::unexpected(fd.error());
  // What is sent may run further ahead of its reader: by default sender and reader of a large reply wait for each other every
  // 200 KB, and a wake-up costs as much as the bytes. Pages of files are only lent to the socket; nothing is kept for an idle one.
  ::setsockopt(fd->get(), SOL_SOCKET, SO_SNDBUF, &kUnixSendBytes, sizeof kUnixSendBytes);
  return Accepted{std::move(*fd), path + ":0", path + ":0"};
}

void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void set_keepalive(int fd, int idle_s) {
  const int on = idle_s > 0 ? 1 : 0;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (!on) return;
  const int interval_s = std::max(idle_s / 3, 1), probes = 3;
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

uint64_t raise_descriptor_limit(uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  rlimit raised = limit;
  raised.rlim_cur = wanted;
  raised.rlim_max = std::max<rlim_t>(limit.rlim_max, wanted);  // root may
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) return wanted;
  raised.rlim_max = limit.rlim_max;
  raised.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

}  // namespace pion
