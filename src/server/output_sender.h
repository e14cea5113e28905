// The last step of a reply: an output chain onto a socket. Small bytes are gathered, file slices go by sendfile, descriptors
// as SCM_RIGHTS. Belongs to its connection's thread.
#pragma once

#include <cstdint>

#include "resp/output.h"

namespace pion {

class OutputSender {
 public:
  enum class Result {
    kDone,     // nothing is left
    kBlocked,  // the socket or this turn's share is full: call again when the socket is writable
    kBroken,   // the peer or the file is gone
  };

  // Takes everything of `chain`; what it gives back is empty and may carry a buffer for reuse.
  void take(OutputChain& chain);

  // Sends at most kTurnBytes; adds what went out to `sent_bytes`.
  Result send(int fd, uint64_t& sent_bytes);

  bool empty() const { return link_ == chain_.links().size() || chain_.empty(); }
  uint64_t pending_bytes() const;

 private:
  Result send_bytes(int fd, uint64_t& budget, uint64_t& sent_bytes);
  Result send_slice(int fd, uint64_t& budget, uint64_t& sent_bytes);
  void skip_finished();

  OutputChain chain_;
  size_t link_ = 0;    // the first link not sent yet
  size_t offset_ = 0;  // of its bytes, what is sent
};

}  // namespace pion
