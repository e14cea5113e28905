// Large arguments on their way to disk. The parser hands a bulk's length to a PayloadSink before its bytes come; the sink
// reserves an extent and takes the bytes in pieces, so a 512 MiB value costs a small buffer of heap.
#pragma once

#include <memory>
#include <string>

#include "resp/request.h"
#include "prompt/blob.h"
#include "storage/extents.h"

namespace pion {

// A streamed argument. Destroyed unused: its space is given back.
class ExtentPayload : public StreamedPayload {
 public:
  // Exactly one of the two: the writer, complete but for finish() (the command may set the aux first), or the error that
  // made us drop the bytes (disk full, budget): the command answers it, the connection lives on.
  std::unique_ptr<ExtentWriter> writer;
  std::shared_ptr<StreamRoom> room;  // under prompt memory's budget, when the bytes count there
  Error error;
};

}  // namespace pion
