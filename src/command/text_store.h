// Bytes that outlive the locks they were read under, many small ones together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace pion {

class TextStore {
 public:
  // Lasts as long as the store.
  std::string_view keep(std::string_view text) {
    if (text.size() > left_) {
      const size_t bytes = std::max(text.size(), kBlockBytes);
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(bytes));
      at_ = blocks_.back().get();
      left_ = bytes;
    }
    char* const kept = at_;
    std::copy(text.begin(), text.end(), kept);
    at_ += text.size();
    left_ -= text.size();
    return {kept, text.size()};
  }

 private:
  static constexpr size_t kBlockBytes = 64 * 1024;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* at_ = nullptr;
  size_t left_ = 0;
};

}  // namespace pion
