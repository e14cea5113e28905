#include "storage/recovery.h"

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "base/log.h"

namespace pion {
namespace {

constexpr uint64_t kQuarantineFileBytes = 64 * kMiB;  // of one torn tail
constexpr size_t kQuarantineFiles = 16;
constexpr uint64_t kLoggedCorruptions = 20;           // lines; the counter counts on

}  // namespace

Result<RecoveryResult> Recovery::run() {
  PION_TRY(payload_.scan());
  PION_TRY(choose_checkpoint());
  PION_TRY(scan_journal());
  order_records();
  verify_unsynced_payload();
  quarantine_tails();
  restate_synced();
  PION_TRY(cut_journal());
  load_planes();
  unify_extents();
  carry_unsynced();
  remove_old_checkpoints();
  result_.corrupt_records = corrupt_.load();
  result_.records = applied_.load();
  return std::move(result_);
}

void Recovery::count_corrupt(uint64_t records, const std::string& what) {
  corrupt_ += records;
  if (logged_.fetch_add(1) < kLoggedCorruptions) log_warning("corruption: " + what);
}

// ---- checkpoint ---------------------------------------------------------------------------------------------------

Status Recovery::choose_checkpoint() {
  const std::string dir = dir_ + "/checkpoint";
  const Result<std::vector<std::string>> names = files_.list(dir);
  if (!names) return std::unexpected(names.error());
  std::vector<CheckpointIndex> found;
  for (const std::string& name : *names) {
    Lsn lsn;
    if (name.ends_with(".tmp")) static_cast<void>(files_.remove(dir + "/" + name));
    if (!parse_lsn_name(name, ".ckpt", lsn)) continue;
    Result<std::unique_ptr<File>> file = files_.open(dir + "/" + name, OpenMode::kRead);
    if (!file) {
      count_corrupt(1, "a checkpoint cannot be read: " + file.error().message);
      continue;
    }
    found.push_back(index_checkpoint(std::move(*file), name, lsn, seed_));
  }
  // Newest first. A crash between a new checkpoint's rename and the removal of the old one leaves both; then there is a
  // choice, and the bodies are looked at before it is made.
  std::reverse(found.begin(), found.end());
  std::string buffer;
  const auto usable = [&](const CheckpointIndex& index) {
    if (!index.whole) return false;
    return found.size() == 1 || std::all_of(index.sections.begin(), index.sections.end(), [&](const CheckpointSection& section) {
             return read_section(*index.file, section, buffer).has_value();
           });
  };
  auto chosen = std::find_if(found.begin(), found.end(), usable);
  for (auto at = found.begin(); at != chosen && at != found.end(); ++at) {
    count_corrupt(1, "checkpoint " + at->name + " is damaged" + (chosen != found.end() ? "; an older one is used" : ""));
  }
  if (chosen == found.end()) {
    // None is whole: what is left of the newest that holds anything.
    chosen = std::find_if(found.begin(), found.end(), [](const CheckpointIndex& index) { return !index.sections.empty(); });
    if (chosen == found.end()) return {};
    log_warning("checkpoint " + chosen->name + " is used as far as it can be read");
  }
  checkpoint_ = std::move(*chosen);
  have_checkpoint_ = true;
  known_synced_ = checkpoint_.highest_lsn;
  payload_.raise_next_file(checkpoint_.next_payload_file);
  result_.checkpoint_lowest = checkpoint_.lowest_lsn;
  result_.checkpoint_bytes = checkpoint_.bytes;
  return {};
}

void Recovery::remove_old_checkpoints() {
  const std::string dir = dir_ + "/checkpoint";
  const Result<std::vector<std::string>> names = files_.list(dir);
  if (!names || !have_checkpoint_) return;
  // The chosen one may have got its name just before a kill.
  if (Status status = files_.sync_directory(dir); !status) return;
  for (const std::string& name : *names) {
    Lsn lsn;
    if (name == checkpoint_.name || !parse_lsn_name(name, ".ckpt", lsn)) continue;
    if (name > checkpoint_.name) {
      static_cast<void>(files_.rename(dir + "/" + name, dir_ + "/quarantine/" + name));  // damaged: kept for a look
    } else {
      static_cast<void>(files_.remove(dir + "/" + name));
    }
  }
}

// ---- journal: what is there ---------------------------------------------------------------------------------------

Status Recovery::scan_journal() {
  const std::string dir = dir_ + "/journal";
  const Result<std::vector<std::string>> names = files_.list(dir);
  if (!names) return std::unexpected(names.error());
  for (const std::string& name : *names) {
    ScannedFile file;
    if (name.ends_with(".new")) static_cast<void>(files_.remove(dir + "/" + name));
    if (!parse_lsn_name(name, ".log", file.name_lsn)) continue;
    file.name = name;
    Result<std::unique_ptr<File>> opened = files_.open(dir + "/" + name, OpenMode::kReadWrite);
    const Result<uint64_t> size = opened ? (*opened)->size() : Result<uint64_t>(std::unexpected(opened.error()));
    if (!size) {
      count_corrupt(1, "a journal file cannot be read: " + size.error().message);
      result_.old.push_back({dir + "/" + name, 0, 0});
      continue;
    }
    file.file = std::move(*opened);
    file.bytes = *size;
    scan_.files.push_back(std::move(file));
    scan_journal_file(scan_, scan_.files.size() - 1, seed_);
  }
  for (const ScannedFile& file : scan_.files) {
    log_verbose("journal file " + file.name + ": " + std::to_string(file.bytes) + " bytes, used to " + std::to_string(file.used_end) +
                ", last record " + std::to_string(file.last_lsn) + ", says synced to " + std::to_string(file.stated));
  }
  known_synced_ = std::max(known_synced_, scan_.known_synced);
  payload_.raise_next_file(scan_.next_payload_file);
  return {};
}

// Which records count: each lsn once, in order. A hole below what was synced is corruption and skipped, a hole above it
// is where a torn tail begins.
void Recovery::order_records() {
  std::stable_sort(scan_.runs.begin(), scan_.runs.end(), [](const JournalRun& a, const JournalRun& b) { return a.first < b.first; });
  Lsn next = result_.checkpoint_lowest + 1;
  cut_ = ~0ULL;
  const auto hole_until = [&](Lsn after) {  // records next..after-1 are missing
    if (next > known_synced_) {
      cut_ = next;
      return false;
    }
    const Lsn lost = std::min(after - 1, known_synced_) - next + 1;
    count_corrupt(lost, std::to_string(lost) + " journal records from " + std::to_string(next) + " on are damaged or missing");
    next += lost;
    if (next < after) cut_ = next;
    return next == after;
  };
  for (const JournalRun& run : scan_.runs) {
    if (run.last < next) continue;
    if (run.first > next && !hole_until(run.first)) break;
    pieces_.push_back({run, next});
    next = run.last + 1;
  }
  // The end itself may be damaged below what a batch or the checkpoint says was synced.
  if (cut_ == ~0ULL && next <= known_synced_) hole_until(known_synced_ + 1);
  result_.last = cut_ == ~0ULL ? next - 1 : cut_ - 1;
}

Plane* Recovery::owner(uint8_t type) const {
  for (Plane* plane : planes_) {
    const auto [first, last] = plane->record_types();
    if (type >= first && type <= last) return plane;
  }
  return nullptr;
}

// Files have no order among themselves: above the last known sync a record may be there and its payload not.
void Recovery::verify_unsynced_payload() {
  std::vector<ExtentRef> refs;
  for (const Piece& piece : pieces_) {
    if (piece.run.last <= known_synced_ || piece.run.first >= cut_) continue;
    const ScannedFile& file = scan_.files[piece.run.file];
    WindowReader reader(*file.file, file.bytes);
    read_run(reader, piece.run, std::max(piece.from, known_synced_ + 1), [&](const RecordView& record) {
      Plane* plane = record.lsn < cut_ ? owner(record.type) : nullptr;
      if (!plane) return record.lsn < cut_;
      refs.clear();
      plane->record_extents(record.type, record.body, [&](ExtentRef ref) { refs.push_back(ref); });
      for (const ExtentRef ref : refs) {
        if (Status status = payload_.verify(ref); !status) {
          log_warning("record " + std::to_string(record.lsn) + " was written but its payload was not: " + status.error().message);
          cut_ = record.lsn;
          return false;
        }
      }
      for (const ExtentRef ref : refs) payload_.write_again(ref);
      return true;
    });
  }
  if (cut_ != ~0ULL) result_.last = std::min(result_.last, cut_ - 1);
}

// ---- journal: the cut ---------------------------------------------------------------------------------------------

// After the last record of the file that stays; 0 when none does.
uint64_t Recovery::records_end(size_t index) const {
  uint64_t end = 0;
  for (const JournalRun& run : scan_.runs) {
    if (run.file != index || run.first >= cut_) continue;
    if (run.last < cut_) {
      end = std::max(end, run.end);
      continue;
    }
    const ScannedFile& file = scan_.files[index];
    WindowReader reader(*file.file, file.bytes);
    read_run(reader, run, 0, [&](const RecordView& record) {
      if (record.lsn >= cut_) return false;
      end = std::max(end, record.offset + record.bytes);
      return true;
    });
  }
  return end;
}

// After the last byte of the file that stays: behind the records only batches may stay, they say what was synced.
uint64_t Recovery::keep_end(size_t index) const {
  const uint64_t end = records_end(index);
  const ScannedFile& file = scan_.files[index];
  return end == 0 || file.last_lsn >= cut_ ? end : std::max(end, file.good_end);
}

void Recovery::quarantine_tails() {
  for (size_t index = 0; index < scan_.files.size(); index++) {
    const ScannedFile& file = scan_.files[index];
    const uint64_t from = std::max(file.last_lsn >= cut_ ? keep_end(index) : file.good_end, kJournalHeaderBytes);
    if (file.used_end <= from) continue;
    result_.torn_bytes += file.used_end - from;
    quarantine(file, from);
  }
}

// Space freed by records up to known_synced_ may be given back already, so that a later start must not take their extents
// for a torn tail: before a file that says what was synced is cut or removed, one that stays says it.
void Recovery::restate_synced() {
  for (size_t index = 0; index < scan_.files.size(); index++) {
    const bool last = std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
      return piece.run.file == index && piece.run.first <= result_.last && piece.run.last >= result_.last;
    });
    ScannedFile& file = scan_.files[index];
    const uint64_t end = keep_end(index);
    if (!last || end == 0 || (file.stated >= scan_.known_synced && file.stated_end <= end)) continue;
    const std::string statement = batch_record(seed_, result_.last + 1, scan_.known_synced, scan_.next_payload_file);
    Status status = file.file->pwrite(statement, end);
    if (status) status = file.file->sync_data();
    if (!status) {
      log_warning("what was synced is not stated again: " + status.error().message);
      continue;
    }
    file.bytes = std::max(file.bytes, end + statement.size());
    file.statement_end = end + statement.size();
  }
}

// Nothing is appended before the cut is durable: a record of the tail must not come back behind new ones.
Status Recovery::cut_journal() {
  const std::string dir = dir_ + "/journal";
  bool names_changed = false;
  for (size_t index = 0; index < scan_.files.size(); index++) {
    ScannedFile& file = scan_.files[index];
    const std::string path = dir + "/" + file.name;
    const uint64_t end = std::max(keep_end(index), file.statement_end);
    const bool records_cut = file.last_lsn >= cut_;
    if (end == 0) {
      file.file.reset();
      PION_TRY(files_.remove(path));
      names_changed = true;
      continue;
    }
    // In any case: this also gives back the room that was allocated behind the end.
    PION_TRY(file.file->truncate(end));
    if (records_cut) PION_TRY(file.file->sync_data());
    file.bytes = end;
    const Lsn last = std::min(file.last_lsn, cut_ - 1);
    result_.old.push_back({path, last, end});
  }
  if (names_changed) PION_TRY(files_.sync_directory(dir));
  if (cut_ != ~0ULL) {
    log_warning("the journal ends at record " + std::to_string(result_.last) + ": what came after it was not whole, and is in quarantine/");
  }
  return {};
}

// Keeps the tail aside, as far as the disk has room.
void Recovery::quarantine(const ScannedFile& file, uint64_t from) {
  const std::string dir = dir_ + "/quarantine";
  if (Result<std::vector<std::string>> names = files_.list(dir); names) {
    for (size_t at = 0; at + kQuarantineFiles <= names->size(); at++) static_cast<void>(files_.remove(dir + "/" + (*names)[at]));
  }
  const std::string path = dir + "/" + lsn_name(static_cast<Lsn>(wall_ms()), "-") + file.name + ".tail";
  Result<std::unique_ptr<File>> to = files_.open(path, OpenMode::kCreate);
  if (!to) {
    log_warning("the journal's tail is not kept: " + to.error().message);
    return;
  }
  const uint64_t end = std::min(file.used_end, from + kQuarantineFileBytes);
  std::string buffer;
  for (uint64_t at = from; at < end;) {
    buffer.resize(std::min(end - at, kMiB));
    const Result<size_t> got = file.file->pread(buffer.data(), buffer.size(), at);
    if (!got || *got == 0) break;
    if (Status status = (*to)->pwrite(std::string_view(buffer).substr(0, *got), at - from); !status) {
      log_warning("the journal's tail is kept in part: " + status.error().message);
      break;
    }
    at += *got;
  }
}

// What is above the last known sync was read from the page cache after a kill. A sync of its file may have failed before: then
// the pages look clean, and no later sync would write them. So it is written anew: records to the new journal file, payload
// in its place.
void Recovery::carry_unsynced() {
  result_.synced = std::min(known_synced_, result_.last);
  if (result_.last == result_.synced) return;
  std::string batch(kBatchRecordBytes, '\0');
  for (const Piece& piece : pieces_) {
    if (piece.run.last <= known_synced_ || piece.run.first >= cut_) continue;
    const ScannedFile& file = scan_.files[piece.run.file];
    WindowReader reader(*file.file, file.bytes);
    WindowReader whole(*file.file, file.bytes);
    read_run(reader, piece.run, std::max(piece.from, known_synced_ + 1), [&](const RecordView& record) {
      if (record.lsn >= cut_) return false;
      batch.append(whole.view(record.offset, record.bytes));
      batch.resize(padded_record(batch.size()), '\0');  // the file may end inside the padding
      return true;
    });
  }
  result_.carried.push_back(std::move(batch));
  // Syncing much payload takes longer than a start should; the sync thread begins with it.
  result_.payload_synced = !payload_.dirty();
}

// ---- planes -------------------------------------------------------------------------------------------------------

void Recovery::load_planes() {
  std::vector<std::thread> threads;
  for (size_t at = 1; at < planes_.size(); at++) threads.emplace_back([this, at] { load_plane(*planes_[at]); });
  if (!planes_.empty()) load_plane(*planes_[0]);
  for (std::thread& thread : threads) thread.join();
}

void Recovery::load_plane(Plane& plane) {
  std::string buffer;
  for (const CheckpointSection& section : checkpoint_.sections) {
    if (section.plane != plane.name()) continue;
    Result<std::string_view> body = read_section(*checkpoint_.file, section, buffer);
    Status status = body ? plane.load_section(section.number, section.lsn, *body) : Status(std::unexpected(body.error()));
    if (!status) count_corrupt(1, "checkpoint " + checkpoint_.name + ": " + status.error().message);
  }
  std::string().swap(buffer);

  const auto [first, last] = plane.record_types();
  uint64_t applied = 0;
  for (const Piece& piece : pieces_) {
    if (piece.run.first >= cut_) continue;
    const ScannedFile& file = scan_.files[piece.run.file];
    if (!file.file) continue;
    WindowReader reader(*file.file, file.bytes);
    read_run(reader, piece.run, piece.from, [&](const RecordView& record) {
      if (record.lsn >= cut_) return false;
      if (record.type < first || record.type > last) return true;
      applied++;
      if (Status status = plane.apply(record.lsn, record.type, record.body); !status) {
        count_corrupt(1, "record " + std::to_string(record.lsn) + " is not usable: " + status.error().message);
      }
      return true;
    });
  }
  applied_ += applied;
}

void Recovery::unify_extents() {
  uint64_t bad = 0;
  for (Plane* plane : planes_) {
    plane->live_extents([&](ExtentRef ref) { bad += payload_.mark_live(ref) ? 0 : 1; });
  }
  if (bad > 0) count_corrupt(0, std::to_string(bad) + " extents lie in missing files or over each other; their checksums decide when they are read");
  payload_.finish_recovery(result_.last);
}

}  // namespace pion
