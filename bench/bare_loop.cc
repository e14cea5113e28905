// The limit for bench/redis_compare.py: what the kernel alone takes for a GET or a SET. One thread, one epoll loop; each tick
// it receives what is there, writes what the SETs of the tick would put into a journal with one pwrite, and sends fixed replies of
// the right length. Nothing is looked up, kept or checked. Ends with its parent.
//
//     bare_loop <port> <directory>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kRecordBytes = 144;         // of the journal, for a key of 16 bytes and a value of 64
constexpr off_t kFileBytes = 64 << 20;       // then from its beginning again; zeroed before, as the server does it

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

int listen_on(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 511) != 0) die("listen");
  return fd;
}

struct Answered {
  int fd;
  size_t replies;
  bool sets;
};

// redis-benchmark's requests hold '*' only where a command begins; a command in two pieces counts where it begins.
size_t count_commands(std::string_view bytes) { return static_cast<size_t>(std::count(bytes.begin(), bytes.end(), '*')); }

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: bare_loop <port> <directory>\n"), 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int listener = listen_on(std::atoi(arguments[1]));
  const int journal = ::open((std::string(arguments[2]) + "/bare-journal").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  std::string records(1 << 20, '\0');
  for (off_t at = 0; at < kFileBytes; at += static_cast<off_t>(records.size())) {
    if (::pwrite(journal, records.data(), records.size(), at) < 0) die("write");
  }
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.fd = listener;
  ::epoll_ctl(poll, EPOLL_CTL_ADD, listener, &wanted);

  std::string ok, found;  // replies for as many commands as one read may hold
  for (int i = 0; i < 4096; ++i) {
    ok += "+OK\r\n";
    found += "$64\r\n" + std::string(64, 'v') + "\r\n";
  }
  std::vector<char> in(64 << 10);
  std::vector<Answered> answered;
  epoll_event events[256];
  off_t end = 0;
  while (true) {
    const int ready = ::epoll_wait(poll, events, 256, -1);
    size_t sets = 0;
    for (int i = 0; i < ready; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listener) {
        wanted.data.fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        const int on = 1;
        ::setsockopt(wanted.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ::epoll_ctl(poll, EPOLL_CTL_ADD, wanted.data.fd, &wanted);
        continue;
      }
      const ssize_t got = ::recv(fd, in.data(), in.size(), 0);
      if (got <= 0) {
        ::close(fd);
        continue;
      }
      const std::string_view bytes(in.data(), static_cast<size_t>(got));
      const size_t commands = std::min<size_t>(count_commands(bytes), 4096);
      if (bytes.starts_with("*1\r\n$4\r\nPING")) {
        static_cast<void>(::send(fd, "+PONG\r\n", 7, MSG_NOSIGNAL));
      } else if (bytes.starts_with("*3\r\n$6\r\nCONFIG")) {
        static_cast<void>(::send(fd, "*0\r\n", 4, MSG_NOSIGNAL));
      } else {
        const bool set = bytes.find("GET") == bytes.npos;
        answered.push_back({fd, commands, set});
        if (set) sets += commands;
      }
    }
    if (sets > 0) {
      const size_t size = std::min(sets * kRecordBytes, records.size());
      if (end + static_cast<off_t>(size) > kFileBytes) end = 0;
      if (::pwrite(journal, records.data(), size, end) < 0) die("write");
      end += static_cast<off_t>(size);
    }
    for (const Answered& one : answered) {
      const std::string_view reply = one.sets ? std::string_view(ok).substr(0, one.replies * 5) : std::string_view(found).substr(0, one.replies * 71);
      static_cast<void>(::send(one.fd, reply.data(), reply.size(), MSG_NOSIGNAL));
    }
    answered.clear();
  }
}
