#include "server/signals.h"

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "base/log.h"

namespace pion {
namespace {

constexpr size_t kStackBytes = 64 * 1024;
alignas(16) char crash_stack[kStackBytes];

// Only calls that are allowed in a signal handler: no allocation, no locale, no locks.
class Line {
 public:
  Line& text(const char* text) {
    while (*text && size_ < sizeof buffer_) buffer_[size_++] = *text++;
    return *this;
  }
  Line& number(uint64_t value, unsigned base) {
    char digits[24];
    size_t count = 0;
    do {
      digits[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value > 0);
    while (count > 0 && size_ < sizeof buffer_) buffer_[size_++] = digits[--count];
    return *this;
  }
  void write_to(int fd) const { [[maybe_unused]] ssize_t ignored = ::write(fd, buffer_, size_); }

 private:
  char buffer_[256];
  size_t size_ = 0;
};

void on_crash(int number, siginfo_t* info, void*) {
  const int fd = log_descriptor();
  Line line;
  line.number(static_cast<uint64_t>(::getpid()), 10).text(":P # crashed by signal ").number(static_cast<uint64_t>(number), 10);
  if (number == SIGSEGV || number == SIGBUS) line.text(" at address 0x").number(reinterpret_cast<uintptr_t>(info->si_addr), 16);
  line.text(", stack:\n").write_to(fd);
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), fd);
  // SA_RESETHAND gave the signal its old meaning back. It is raised again once the handler returns.
  ::raise(number);
}

}  // namespace

void prepare_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);

  void* frame;
  backtrace(&frame, 1);  // loads what it needs now, not while crashing
  stack_t stack{};
  stack.ss_sp = crash_stack;
  stack.ss_size = kStackBytes;
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(number, &action, nullptr);
}

int wait_for_stop() {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  int number = 0;
  while (sigwait(&stops, &number) != 0) {
  }
  return number;
}

}  // namespace pion
