// What a start does with the directory: newest usable checkpoint, journal in order, the torn tail cut, payload unified.
// Rules: docs/durability.md. Used once, by Storage::recover().
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "io/filesystem.h"
#include "storage/checkpoint.h"
#include "storage/journal_log.h"
#include "storage/journal_scan.h"
#include "storage/payload_store.h"
#include "storage/storage.h"

namespace pion {

struct RecoveryResult {
  Lsn last = 0;                       // the last record that is kept; the next one gets last + 1
  Lsn synced = 0;                     // durable up to here
  bool payload_synced = false;        // and the payload of the records above it
  std::vector<OldJournalFile> old;    // files that stay
  std::vector<std::string> carried;   // records synced+1..last as batches for the new file
  Lsn checkpoint_lowest = 0;
  uint64_t checkpoint_bytes = 0;
  uint64_t corrupt_records = 0;
  uint64_t torn_bytes = 0;
  uint64_t records = 0;
};

class Recovery {
 public:
  Recovery(FileSystem& files, std::string dir, uint64_t seed, const std::vector<Plane*>& planes, PayloadStore& payload)
      : files_(files), dir_(std::move(dir)), seed_(seed), planes_(planes), payload_(payload) {}

  Result<RecoveryResult> run();

 private:
  // Part of a run that is replayed.
  struct Piece {
    JournalRun run;
    Lsn from = 0;
  };

  Status choose_checkpoint();
  Status scan_journal();
  void order_records();
  void verify_unsynced_payload();
  void load_planes();
  void load_plane(Plane& plane);
  void unify_extents();
  void quarantine_tails();
  void restate_synced();
  Status cut_journal();
  uint64_t records_end(size_t file) const;
  uint64_t keep_end(size_t file) const;
  void quarantine(const ScannedFile& file, uint64_t from);
  void carry_unsynced();
  void remove_old_checkpoints();
  Plane* owner(uint8_t type) const;
  void count_corrupt(uint64_t records, const std::string& what);

  FileSystem& files_;
  const std::string dir_;
  const uint64_t seed_;
  const std::vector<Plane*>& planes_;
  PayloadStore& payload_;

  CheckpointIndex checkpoint_;
  bool have_checkpoint_ = false;
  JournalScan scan_;
  std::vector<Piece> pieces_;
  Lsn known_synced_ = 0;
  Lsn cut_ = 0;  // records from here on are gone; above everything when nothing is cut
  std::atomic<uint64_t> corrupt_{0};
  std::atomic<uint64_t> applied_{0};
  std::atomic<uint64_t> logged_{0};
  RecoveryResult result_;
};

}  // namespace pion
