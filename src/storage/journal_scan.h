// Reading journal files after a start: which records are there and whole. Trusts nothing in them. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/filesystem.h"
#include "storage/format.h"
#include "storage/window_reader.h"

namespace pion {

// Whole records of one file that follow each other without a gap, in bytes and in lsn (batch records between them).
struct JournalRun {
  size_t file = 0;  // index into JournalScan::files
  uint64_t begin = 0;
  uint64_t end = 0;
  Lsn first = 0;
  Lsn last = 0;
};

struct ScannedFile {
  std::string name;
  Lsn name_lsn = 0;
  std::unique_ptr<File> file;
  uint64_t bytes = 0;     // size
  uint64_t good_end = 0;  // after the last whole record, batch records included
  uint64_t used_end = 0;  // after the last byte that is not zero
  Lsn last_lsn = 0;       // of its whole records; 0 when there are none
  Lsn stated = 0;         // the highest lsn that a batch in it names as synced
  uint64_t stated_end = 0;     // after that batch record
  uint64_t statement_end = 0;  // recovery's own: it put a statement there, which stays
};

struct JournalScan {
  std::vector<ScannedFile> files;  // by name
  std::vector<JournalRun> runs;    // by first lsn; may overlap: what a failed file held is in the next one again
  Lsn known_synced = 0;            // the highest that a batch names
  uint32_t next_payload_file = 0;  // likewise
  uint64_t seed = 0;               // of a file's header, when one was good
  uint64_t bad_bytes = 0;          // neither records nor zeros
};

// The header's seed, or 0 when the header is not whole.
uint64_t journal_file_seed(File& file);

// Scans one file and adds what it finds. `scan.files[index]` is open and named.
void scan_journal_file(JournalScan& scan, size_t index, uint64_t seed);

// One record of a run.
struct RecordView {
  Lsn lsn = 0;
  uint8_t type = 0;
  std::string_view body;  // valid during the call
  uint64_t offset = 0;    // in the file
  uint64_t bytes = 0;     // padded
};

// A batch record with nothing behind it: says what is synced.
std::string batch_record(uint64_t seed, Lsn next_lsn, Lsn synced, uint32_t next_payload_file);

// Calls `visit` for each record of the run with lsn >= from (batch records left out); stops when it returns false.
// The run was verified by the scan; nothing is verified again, but nothing outside [begin, end) is touched either.
void read_run(WindowReader& reader, const JournalRun& run, Lsn from, const std::function<bool(const RecordView&)>& visit);

// Verifies that `bytes` are whole records, one behind the other (a batch as it was written).
bool verify_batch(std::string_view bytes, uint64_t seed);

}  // namespace pion
