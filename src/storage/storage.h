// One durability story: the directory, its lock, the journal, the extents, checkpoints and recovery. Planes (keyspace,
// prompt memory) register for record types and are filled by recover(). Storage knows no record's meaning.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/result.h"
#include "io/filesystem.h"
#include "storage/extents.h"
#include "storage/journal.h"

namespace pion {

// A plane's way into a checkpoint: sections, each with the lsn it reflects. A section holds whatever its plane likes.
class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  // One whole section; written with its own checksum. `lsn`: every record at or below it that touches this section's state is in
  // it, none above it is. Section numbers are the plane's own (a stripe's number, for example).
  virtual Status section(uint32_t number, Lsn lsn, std::string_view body) = 0;
};

class Plane {
 public:
  virtual ~Plane() = default;
  virtual std::string_view name() const = 0;            // stable: written into checkpoints
  virtual std::pair<uint8_t, uint8_t> record_types() const = 0;  // first and last type it owns

  // Recovery, in this order, one thread a plane: sections, then records by lsn. The plane skips what a section already holds.
  // An error means this body is not usable: it is skipped alone, counted and logged as corruption.
  virtual Status load_section(uint32_t number, Lsn lsn, std::string_view body) = 0;
  virtual Status apply(Lsn lsn, uint8_t type, std::string_view body) = 0;
  // Extents named by a record (recovery verifies those above the last known sync before it applies the record).
  virtual void record_extents(uint8_t type, std::string_view body, const std::function<void(ExtentRef)>& visit) = 0;
  // After all records: every extent the plane's state names. What no plane names is garbage.
  virtual void live_extents(const std::function<void(ExtentRef)>& visit) = 0;

  // On the checkpoint thread, while commands run; the plane takes its own locks, briefly.
  virtual Status write_checkpoint(CheckpointSink& sink) = 0;
};

struct StorageOptions {
  std::string dir;
  bool appendonly = true;
  SyncMode sync = SyncMode::kEverySecond;
  uint64_t journal_file_bytes = 64ULL << 20;      // a new file is begun beyond this; less on small disks
  uint64_t checkpoint_after_bytes = 256ULL << 20; // of journal since the last checkpoint (or twice the last checkpoint, if more)
  // 0: from the size of the disk.
  uint64_t journal_ahead_bytes = 0;               // room kept allocated and zeroed ahead of the records
  uint64_t journal_reserve_bytes = 0;             // of room that only records that free space may use
  uint64_t journal_keep_bytes = 64 * kMiB;        // of what is written and not synced: kept in memory, should the sync fail
  uint64_t payload_step_bytes = 0;                // payload files are allocated in steps of this
  uint64_t payload_file_bytes = kPayloadFileBytes;
  int64_t retry_ms = 100;                         // between attempts to write on a full or failing disk
};

struct StorageStats {
  uint64_t journal_bytes = 0;             // since the last checkpoint
  uint64_t records_since_checkpoint = 0;  // or since the start
  uint64_t journal_corrupt_records = 0;   // skipped at recovery
  uint64_t journal_torn_bytes = 0;        // cut at recovery, kept in quarantine/
  uint64_t recovered_records = 0;
  int64_t recovery_ms = 0;
  uint64_t writes_refused_full = 0;
  uint64_t sync_failures = 0;
  uint64_t write_failures = 0;
  bool accepting_writes = true;
  std::string refusal;                    // why not, when it is not
  int64_t last_checkpoint_wall_s = 0;
  bool last_checkpoint_ok = true;
  bool checkpoint_running = false;
};

class Storage {
 public:
  // Makes the directory (0700) if it is not there, refuses one of another owner or one that group or others can write,
  // takes the lock (kBusy: another server runs there).
  static Result<std::unique_ptr<Storage>> open(FileSystem& files, StorageOptions options);
  virtual ~Storage() = default;

  virtual void add_plane(Plane* plane) = 0;  // before recover(); not owned, outlives the storage's threads (stop() ends them)
  virtual Status recover() = 0;              // once; afterwards the journal accepts records and the threads run

  virtual Journal& journal() = 0;
  virtual ExtentStore& extents() = 0;

  virtual Status checkpoint() = 0;           // writes one now, in the calling thread; not on a reactor thread
  virtual bool request_checkpoint() = 0;     // in the background; false when one is running already
  virtual StorageStats stats() const = 0;
  virtual void stop() = 0;                   // writes and syncs what is pending, ends the threads; then nothing may be appended

  // Random, made with the directory, kept in it: hash seeds that must outlive a restart come from it.
  virtual uint64_t seed() const = 0;
  virtual const std::string& dir() const = 0;
};

}  // namespace pion
