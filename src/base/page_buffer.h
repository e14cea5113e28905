// Memory on a page's border, for bytes on their way between sockets and files: the kernel copies page by page, and about a third
// slower when the two sides of a copy do not lie alike.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace pion {

class PageBuffer {
 public:
  explicit PageBuffer(size_t bytes) : bytes_(static_cast<char*>(::operator new(bytes, kAlignment))) {}
  char* get() const { return bytes_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Delete {
    void operator()(char* bytes) const { ::operator delete(bytes, kAlignment); }
  };
  std::unique_ptr<char, Delete> bytes_;
};

}  // namespace pion
