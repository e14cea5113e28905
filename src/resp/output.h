// What a connection still has to send: bytes, slices of files that go out by sendfile, and descriptors to pass.
// Belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
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

  // Where small bytes are appended; valid until the next slice() or descriptors().
  std::string& tail() {
    if (links_.empty() || links_.back().slice.length > 0) links_.emplace_back();
    return links_.back().bytes;
  }

  void slice(FileSlice slice) {
    if (slice.length == 0) return;
    total_slices_ += slice.length;
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
    total_slices_ += other.total_slices_;
    other.total_slices_ = 0;
    for (Link& link : other.links_) {
      const bool plain = link.descriptors.empty() && !links_.empty() && links_.back().slice.length == 0;
      if (plain) {
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

  // Bytes not sent yet, file slices included.
  uint64_t pending_bytes() const {
    uint64_t sum = 0;
    for (const Link& link : links_) sum += link.bytes.size() + link.slice.length;
    return sum;
  }

  void clear() { links_.clear(), total_slices_ = 0; }
  std::deque<Link>& links() { return links_; }

 private:
  std::deque<Link> links_;
  uint64_t total_slices_ = 0;
};

}  // namespace pion
