// Result<T>: a value, or an Error with a code and a sentence for the person who caused it.
// Fallible calls return it; exceptions do not cross rooms.
#pragma once

#include <cerrno>
#include <cstring>
#include <expected>
#include <string>
#include <utility>

namespace pion {

enum class ErrorCode {
  kInvalid,      // the caller's input is wrong
  kNotFound,
  kExists,
  kMismatch,     // identity differs (manifest)
  kNoSpace,      // the disk, or a reserve, is full; comes back by itself
  kTooLarge,     // over a limit of base/limits.h or over a budget
  kIo,           // the device or file failed
  kCorrupt,      // a checksum or a format did not hold
  kBusy,         // somebody else holds it
  kUnavailable,  // switched off, shutting down, or not in this build
  kInternal,
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // a sentence: what was wrong, what was expected
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

// The error of a failed system call: "<what>: <strerror>"; ENOSPC and EDQUOT become kNoSpace.
inline std::unexpected<Error> fail_errno(const std::string& what, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return fail(full ? ErrorCode::kNoSpace : ErrorCode::kIo, what + ": " + std::strerror(error_number));
}

}  // namespace pion

// Returns the error of a Status or Result from the calling function.
#define PION_TRY(expression)                                                          \
  do {                                                                                \
    if (auto pion_try_result = (expression); !pion_try_result) {                      \
      return std::unexpected(std::move(pion_try_result).error());                     \
    }                                                                                 \
  } while (false)
