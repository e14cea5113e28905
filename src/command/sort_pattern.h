// SORT's patterns: "weight_*" names a key for each element, "object_*->field" a field of a hash, "#" the element itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "resp/request.h"

namespace pion {

class SortPattern {
 public:
  explicit SortPattern(std::string_view text);

  bool element() const { return element_; }      // "#"
  bool names_keys() const { return names_keys_; }
  // Only of one that names keys.
  void key_of(std::string_view element, std::string& key) const;
  std::string_view field() const { return field_; }  // empty: the key is a string

 private:
  std::string_view before_, behind_, field_;
  bool element_ = false, names_keys_ = false;
};

// A weight as SORT reads it: up to a zero byte, decimal, infinities; what is too large is infinite, nothing is 0. Empty: no number.
std::optional<double> sort_weight(std::string_view text);

// Where SORT's arguments name the key to store under; 0: nowhere.
size_t sort_store_position(const Arguments& arguments);
// May this SORT read keys that its arguments do not name?
bool sort_reads_other_keys(const Arguments& arguments);

}  // namespace pion
