// Pages of a file that are in memory anyway, looked at where they lie: a check of bytes need not copy them first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace pion {

// A read-only mapping of a file's first bytes. Costs address space, and page tables for what was looked at; the pages are the
// page cache's. All calls from any thread.
class FileMapping {
 public:
  static std::shared_ptr<const FileMapping> make(int fd, uint64_t bytes);  // nullptr: not to be had
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  uint64_t bytes() const { return bytes_; }

  // True: all of the range was in memory, and `look` saw it. False: read it instead, which reads ahead and says errors. It may have
  // been looked at in part: the system let go of a page meanwhile and could not read it again. `look` is then left by a jump, so it
  // holds no lock and nothing with a destructor.
  using Look = void (*)(std::string_view bytes, void* context);
  bool look(uint64_t offset, uint64_t length, Look look, void* context) const;

 private:
  FileMapping(const char* base, uint64_t bytes) : base_(base), bytes_(bytes) {}
  bool in_memory(uint64_t offset, uint64_t length) const;

  const char* const base_;
  const uint64_t bytes_;
};

}  // namespace pion
