// Extents: immutable runs of payload in payload/<space>/<file id>.dat, on page boundaries, appended with pwrite. An extent
// is a header (magic, lengths, XXH3-64 of each 64 KiB of payload, then `aux` bytes of its owner, then the header's own
// checksum), padded to a page, then the payload. Data first, then the journal record that names it. Format: docs/formats.md.
// All calls from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "resp/output.h"
#include "storage/journal.h"

namespace pion {

// Where an extent lies. Valid from ExtentWriter::finish() until free(). 12 bytes, because a million of them stay in RAM.
struct ExtentRef {
  uint32_t file = 0;   // 0 is no extent
  uint32_t page = 0;   // first page of the header
  uint32_t pages = 0;  // header and payload

  explicit operator bool() const { return file != 0; }
  bool operator==(const ExtentRef&) const = default;
};
static_assert(sizeof(ExtentRef) == 12);

// A directory of payload files: prompt rows of the default tenant lie in kPromptSpace, large values of keys in kValueSpace.
// Files of one space are never passed to a reader of another.
enum class Space : uint32_t { kPrompt = 0, kValues = 1 };

// Being written; owned by one thread at a time. Destroyed before finish(): the space is given back.
class ExtentWriter {
 public:
  virtual ~ExtentWriter() = default;
  virtual Status append(std::string_view payload) = 0;  // exactly payload_bytes in all
  virtual uint64_t remaining() const = 0;               // payload bytes still owed
  virtual void set_aux(std::string aux) = 0;            // at most the aux_bytes given to create()
  virtual Result<ExtentRef> finish() = 0;               // writes the header
};

// An opened extent: its header was read and verified. Keeps the bytes where they are (pinned) while it lives.
class Extent {
 public:
  virtual ~Extent() = default;
  virtual ExtentRef ref() const = 0;
  virtual uint64_t payload_bytes() const = 0;
  virtual std::string_view aux() const = 0;
  virtual const std::vector<uint64_t>& chunk_checksums() const = 0;
  virtual uint64_t payload_offset() const = 0;  // in its file
  virtual int fd() const = 0;                   // read-only
  // Reads and verifies: every chunk the range touches is checked. kCorrupt names file and chunk.
  virtual Status read(uint64_t offset, uint64_t length, char* to) = 0;
  virtual Status verify(uint64_t offset, uint64_t length) = 0;
  // For sendfile; the slice holds a pin. Verify first.
  virtual FileSlice slice(uint64_t offset, uint64_t length) = 0;
};

class ExtentStore {
 public:
  virtual ~ExtentStore() = default;

  // Reserves the space on disk (kNoSpace when there is none), then streams. payload_bytes may be 0.
  virtual Result<std::unique_ptr<ExtentWriter>> create(Space space, uint64_t payload_bytes, uint64_t aux_bytes) = 0;

  // Reads and checks the header (kCorrupt otherwise).
  virtual Result<std::shared_ptr<Extent>> open(ExtentRef ref) = 0;

  // Keeps its bytes where they are (pinned) while the answer lives, without a look at them: for those who hold locks and open it
  // later.
  virtual std::shared_ptr<const void> hold(ExtentRef ref) = 0;

  // Gives the space back once the record `freed_by` is durable and no pin holds the extent: a hole, or the whole file's end.
  virtual void free(ExtentRef ref, Lsn freed_by) = 0;

  // What was freed and lies on the disk still. await_given_back() asks for it and waits until it is at most `bytes`; false: not in
  // this time. Not on a reactor thread.
  virtual uint64_t waiting_bytes(Space space) const = 0;
  virtual bool await_given_back(Space space, uint64_t bytes, int64_t timeout_ms) = 0;

  // Pages a payload of this size would take, header included.
  static uint32_t pages_for(uint64_t payload_bytes, uint64_t aux_bytes);

  virtual uint64_t allocated_bytes(Space space) const = 0;  // live extents, in whole pages

  // ATTACH: ids of the files of a space that hold live extents, and a read-only descriptor of one (owned by the store,
  // kept open while `pin` lives).
  virtual std::vector<uint32_t> files(Space space) const = 0;
  struct Descriptor { int fd; std::shared_ptr<const void> pin; };
  virtual Result<Descriptor> descriptor(Space space, uint32_t file) = 0;
};

}  // namespace pion
