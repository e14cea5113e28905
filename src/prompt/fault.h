// Why prompt memory said no. The edge turns a kind into the first word of an error reply; `text` is the sentence after it.
#pragma once

#include <expected>
#include <string>

#include "base/result.h"

namespace pion {

enum class FaultKind {
  kInvalid,   // ERR
  kNoModel,   // NOMODEL
  kMismatch,  // MISMATCH
  kNoLease,   // NOLEASE
  kRevoked,   // REVOKED
  kGap,       // GAP
  kNoRoom,    // OOM: the budget
  kDisk,      // MISCONF: the disk is full or fails
  kCorrupt,   // CORRUPT
};

struct PromptFault {
  FaultKind kind = FaultKind::kInvalid;
  std::string text;
};

template <typename T>
using PromptResult = std::expected<T, PromptFault>;

inline std::unexpected<PromptFault> refuse(FaultKind kind, std::string text) {
  return std::unexpected(PromptFault{kind, std::move(text)});
}

// An error of the storage room, as prompt memory's caller sees it.
inline std::unexpected<PromptFault> refuse(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNoSpace:
    case ErrorCode::kIo:
    case ErrorCode::kUnavailable:
      return refuse(FaultKind::kDisk, error.message);
    case ErrorCode::kCorrupt:
      return refuse(FaultKind::kCorrupt, error.message);
    default:
      return refuse(FaultKind::kInvalid, error.message);
  }
}

}  // namespace pion
