#include "storage/format.h"

namespace pion {

std::string lsn_name(Lsn lsn, std::string_view suffix) {
  const std::string digits = std::to_string(lsn);
  return std::string(20 - digits.size(), '0') + digits + std::string(suffix);
}

bool parse_lsn_name(std::string_view name, std::string_view suffix, Lsn& lsn) {
  if (name.size() != 20 + suffix.size() || !name.ends_with(suffix)) return false;
  lsn = 0;
  for (const char digit : name.substr(0, 20)) {
    if (digit < '0' || digit > '9') return false;
    if (__builtin_mul_overflow(lsn, 10, &lsn) || __builtin_add_overflow(lsn, digit - '0', &lsn)) return false;
  }
  return true;
}

}  // namespace pion
