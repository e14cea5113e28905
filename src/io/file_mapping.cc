#include "io/file_mapping.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace pion {
namespace {

constexpr size_t kPagesAtOnce = 1024;

// A thread that is looking at a mapping. A page that cannot be read is told as SIGBUS, to the thread that touched it.
struct Looking {
  const char* begin;
  const char* end;
  sigjmp_buf back;
};
thread_local Looking* volatile looking = nullptr;
struct sigaction former_action;

void on_bus_error(int, siginfo_t* info, void*) {
  const char* const at = static_cast<const char*>(info->si_addr);
  Looking* const mine = looking;
  if (mine && at >= mine->begin && at < mine->end) siglongjmp(mine->back, 1);
  // Not ours: it happens again under the handler that was there before.
  sigaction(SIGBUS, &former_action, nullptr);
}

void catch_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGBUS, &action, &former_action);
  });
}

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

std::shared_ptr<const FileMapping> FileMapping::make(int fd, uint64_t bytes) {
  catch_bus_errors();
  void* const base = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return nullptr;
  return std::shared_ptr<const FileMapping>(new FileMapping(static_cast<const char*>(base), bytes));
}

FileMapping::~FileMapping() { munmap(const_cast<char*>(base_), bytes_); }

bool FileMapping::in_memory(uint64_t offset, uint64_t length) const {
  unsigned char present[kPagesAtOnce];
  const uint64_t page = page_size();
  for (uint64_t at = offset / page * page; at < offset + length; at += kPagesAtOnce * page) {
    const uint64_t size = std::min(offset + length - at, kPagesAtOnce * page);
    if (mincore(const_cast<char*>(base_) + at, size, present) != 0) return false;
    const size_t pages = (size + page - 1) / page;
    if (!std::all_of(present, present + pages, [](unsigned char bits) { return bits & 1; })) return false;
  }
  return true;
}

bool FileMapping::look(uint64_t offset, uint64_t length, Look look, void* context) const {
  if (offset > bytes_ || length > bytes_ - offset || !in_memory(offset, length)) return false;
  Looking mine;
  mine.begin = base_ + offset / page_size() * page_size();
  mine.end = base_ + offset + length;
  if (sigsetjmp(mine.back, 1) != 0) {
    looking = nullptr;
    return false;
  }
  looking = &mine;
  look({base_ + offset, length}, context);
  looking = nullptr;
  return true;
}

}  // namespace pion
