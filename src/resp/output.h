// What a connection still has to send: bytes, slices of files that go out by sendfile, and descriptors to pass.
// Belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pion {

// A run of a file. `pin` keeps the bytes there (an extent's pin) until the slice was sent or dropped.
struct FileSlice {
  std::shared_ptr<const void> pin;
  int fd = -1;
  uint64_t offset = 0;
  uint64_t length = 0;
};

class OutputChain {
 public:
  struct Link {
    std::string bytes;                 // sent first
    FileSlice slice;                   // then this, when length > 0
    std::vector<int> descriptors;      // passed with the first byte of `bytes` (Unix sockets); borrowed, kept open by `pin`
    std::shared_ptr<const void> pin;
  };

  // Where small bytes are appended; valid until the next call of another member.
  std::string& tail() {
    if (links_.empty() || links_.back().slice.length > 0) links_.emplace_back();
    return links_.back().bytes;
  }

  void slice(FileSlice slice) {
    if (slice.length == 0) return;
    tail();
    links_.back().slice = std::move(slice);
  }

  // The bytes that follow carry these descriptors.
  void descriptors(std::vector<int> descriptors, std::shared_ptr<const void> pin) {
    links_.emplace_back();
    links_.back().descriptors = std::move(descriptors);
    links_.back().pin = std::move(pin);
  }

  // Moves everything of `other` behind what is here.
  void splice(OutputChain&& other) {
    if (other.empty()) return other.clear();
    for (Link& link : other.links_) {
      const bool joins = link.descriptors.empty() && !links_.empty() && links_.back().slice.length == 0;
      if (joins && link.bytes.size() <= kJoinBytes) {
        links_.back().bytes.append(link.bytes);
        links_.back().slice = std::move(link.slice);
      } else {
        links_.push_back(std::move(link));
      }
    }
    other.links_.clear();
  }

  bool empty() const {
    for (const Link& link : links_) {
      if (!link.bytes.empty() || link.slice.length > 0) return false;
    }
    return true;
  }

  // Bytes in the chain, file slices included.
  uint64_t pending_bytes() const {
    uint64_t sum = 0;
    for (const Link& link : links_) sum += link.bytes.size() + link.slice.length;
    return sum;
  }

  // A small buffer is kept for the next replies; anything else is given back.
  void clear() {
    if (links_.size() == 1 && links_[0].descriptors.empty() && !links_[0].pin && links_[0].slice.length == 0 &&
        links_[0].bytes.capacity() <= kKeptBytes) {
      links_[0].bytes.clear();
    } else {
      std::vector<Link>().swap(links_);
    }
  }

  std::vector<Link>& links() { return links_; }
  const std::vector<Link>& links() const { return links_; }

 private:
  static constexpr size_t kKeptBytes = 16 * 1024;
  static constexpr size_t kJoinBytes = 64 * 1024;  // more is moved, not copied

  std::vector<Link> links_;
};

}  // namespace pion
