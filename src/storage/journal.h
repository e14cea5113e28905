// The journal: every effect, once, in order. Group commit: threads append into one buffer in memory (under the lock that
// made the change, so order of records on a key is order of effects); the reactor that ends its tick writes what is
// pending, its own and others', with one pwritev; a thread of its own syncs. Format: docs/formats.md.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pion {

// A record that is built in place begins with this many bytes, which are the journal's: see Journal::append_built().
inline constexpr size_t kRecordRoomBytes = 24;

using Lsn = uint64_t;  // of a record: 1, 2, 3 ...; 0 is before everything

enum class SyncMode { kNo, kEverySecond, kAlways };

// Record types, one range a plane. A record's body means something to its plane only.
enum class RecordType : uint8_t {
  kBatch = 1,       // the journal's own: opens a batch, names the lsn known to be synced
  kKeyspace = 16,   // effects on keys: 16..47
  kPrompt = 48,     // prompt memory: 48..79
};

enum class WriteKind {
  kGrows,  // refused when the disk is full
  kFrees,  // DEL, FLUSH, FORGET, eviction ...: never refused on a full disk, a reserve is kept for these
};

class Journal {
 public:
  virtual ~Journal() = default;

  // Asked BEFORE a change is made, for about `bytes` of record bodies: reserves the space, so that append() cannot fail.
  // kNoSpace: the disk is full; kIo: the last write failed and has not been mended. Costs little when there is room: a thread reserves some KiB at a time.
  virtual Status admit(uint64_t bytes, WriteKind kind) = 0;

  // Appends one record, its body the parts joined; returns its lsn. Called under the lock that made the change. Any thread.
  virtual Lsn append(uint8_t type, std::initializer_list<std::string_view> parts) = 0;
  // The same for a body that `record` holds behind kRecordRoomBytes: it is copied once. What `record` holds afterwards is undefined.
  virtual Lsn append_built(uint8_t type, std::string& record) = 0;

  virtual Lsn appended_lsn() const = 0;  // the last record's
  virtual Lsn written_lsn() const = 0;   // survives SIGKILL of the process
  virtual Lsn synced_lsn() const = 0;    // survives power loss

  // Writes everything pending, in the calling thread. On failure what is pending stays pending and is tried again
  // (on a new file after an I/O error); nothing that was not written counts as written.
  virtual Status write_pending() = 0;

  // So much is pending, or being written by another thread, that a reactor should not write it or wait for it.
  virtual bool long_write_ahead() const = 0;

  // Asks the sync thread to sync up to `lsn` now (it takes all that is written by then: one sync for all waiting).
  virtual void request_sync(Lsn lsn) = 0;
  // Called on the sync thread after each advance of synced_lsn, and when a pending write succeeded after a failure.
  virtual void set_progress_listener(std::function<void()> listener) = 0;
  // Blocks until synced_lsn() >= lsn, or fails. Not on a reactor thread.
  virtual Status sync_up_to(Lsn lsn) = 0;

  virtual SyncMode mode() const = 0;
  virtual void set_mode(SyncMode mode) = 0;  // CONFIG SET appendfsync
  virtual bool enabled() const = 0;          // appendonly; when off, append() still numbers records and everything counts as written
};

}  // namespace pion
