// The bytes a connection received and has not executed. Grows by doubling as bytes come, never by what was announced.
// Belongs to one thread at a time. Views into it hold until reserve(), erase() or release().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace pion {

class ReadBuffer {
 public:
  ReadBuffer() = default;
  ReadBuffer(ReadBuffer&& other) noexcept { swap(other); }
  ReadBuffer& operator=(ReadBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ReadBuffer() { std::free(data_); }

  void swap(ReadBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
  }

  const char* data() const { return data_ + begin_; }
  char* mutable_data() { return data_ + begin_; }
  size_t size() const { return end_ - begin_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return begin_ == end_; }
  std::string_view view() const { return {data_ + begin_, end_ - begin_}; }

  // Where received bytes go: at least `bytes` of room. Room is made by moving to the front, then by doubling.
  char* reserve(size_t bytes) {
    if (empty()) begin_ = end_ = 0;
    if (capacity_ - end_ >= bytes) return data_ + end_;
    if (begin_ > 0) {
      std::memmove(data_, data_ + begin_, size());
      end_ -= begin_;
      begin_ = 0;
      if (capacity_ - end_ >= bytes) return data_ + end_;
    }
    const size_t grown = std::max(capacity_ * 2, end_ + bytes);
    char* data = static_cast<char*>(std::realloc(data_, grown));
    if (!data) throw std::bad_alloc();
    data_ = data;
    capacity_ = grown;
    return data_ + end_;
  }
  size_t room() const { return capacity_ - end_; }
  void received(size_t bytes) { end_ += bytes; }

  void append(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(reserve(bytes.size()), bytes.data(), bytes.size());
    end_ += bytes.size();
  }

  // Forgets the first `bytes`; views stay.
  void consume(size_t bytes) { begin_ += bytes; }

  // Takes `bytes` out at `offset`; what stands behind moves up.
  void erase(size_t offset, size_t bytes) {
    std::memmove(data_ + begin_ + offset, data_ + begin_ + offset + bytes, size() - offset - bytes);
    end_ -= bytes;
  }

  // Drops the bytes and the memory.
  void release() {
    std::free(data_);
    data_ = nullptr;
    capacity_ = begin_ = end_ = 0;
  }

 private:
  char* data_ = nullptr;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace pion
