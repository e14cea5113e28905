// JournalLog's files: making them, starting, mending after a failure, and what is kept ready ahead of the writes.
#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "storage/journal_log.h"
#include "storage/journal_scan.h"

namespace pion {

// ---- files --------------------------------------------------------------------------------------------------------

// A new file under its final name, durable, with the batches given. Nobody writes to it yet.
Result<std::shared_ptr<JournalLog::LogFile>> JournalLog::make_file(Lsn name_lsn, uint64_t room, const std::vector<Batch*>& batches) {
  const std::string path = setup_.dir + "/" + lsn_name(name_lsn, ".log");
  const std::string temporary = path + ".new";
  if (Status removed = files_.remove(temporary); !removed && removed.error().code != ErrorCode::kNotFound) return std::unexpected(removed.error());
  Result<std::unique_ptr<File>> file = files_.open(temporary, OpenMode::kCreate);
  if (!file) return std::unexpected(file.error());

  auto made = std::make_shared<LogFile>();
  made->file = std::move(*file);
  made->path = path;
  const auto fill = [&]() -> Status {
    PION_TRY(made->file->allocate(0, room));
    made->room = room;
    std::string page(kJournalHeaderBytes, '\0');
    JournalFileHeader header{.magic = kJournalMagic,
                             .version = kFormatVersion,
                             .reserved = 0,
                             .name_lsn = name_lsn,
                             .seed = setup_.seed,
                             .created_wall_ms = wall_ms(),
                             .checksum = 0};
    header.checksum = checksum_of(header);
    std::memcpy(page.data(), &header, sizeof header);
    PION_TRY(made->file->pwrite(page, 0));
    made->end = kJournalHeaderBytes;
    for (const Batch* batch : batches) {
      PION_TRY(made->file->pwrite(batch->bytes, made->end));
      made->end += batch->bytes.size();
      made->last_lsn = std::max(made->last_lsn, batch->last);
    }
    made->zeroed.store(made->end);
    PION_TRY(made->file->sync_data());
    PION_TRY(files_.rename(temporary, path));
    return files_.sync_directory(setup_.dir);
  };
  if (Status status = fill(); !status) {
    made->file.reset();
    static_cast<void>(files_.remove(temporary));
    return std::unexpected(status.error());
  }
  return made;
}

void JournalLog::adopt_locked(std::shared_ptr<LogFile> file, std::deque<Batch> batches) {
  uint64_t offset = kJournalHeaderBytes;
  tail_ = std::move(batches);
  tail_bytes_ = 0;
  tail_dropped_ = 0;
  for (Batch& batch : tail_) {
    batch.file = file;
    batch.offset = offset;
    batch.size = batch.bytes.size();
    offset += batch.size;
    tail_bytes_ += batch.size;
  }
  unwritten_.clear();
  current_ = std::move(file);
  std::lock_guard lock(append_mutex_);
  uint64_t waiting = pending_.size();
  for (const Batch& batch : sealed_) waiting += batch.bytes.size();
  use_locked(current_->end + waiting - used_.load(), 0);
  room_.store(current_->room);
}

Status JournalLog::start(Lsn last, Lsn synced, std::vector<OldJournalFile> old, std::vector<std::string> carried,
                         bool payload_synced) {
  appended_.store(last);
  synced_.store(synced);
  if (!enabled()) {
    old_ = std::move(old);
    return {};
  }
  std::lock_guard lock(write_mutex_);
  old_ = std::move(old);
  for (std::string& bytes : carried) {
    Batch batch{.bytes = std::move(bytes), .first = synced + 1, .last = last, .file = nullptr, .offset = 0, .size = 0};
    fill_batch_header(batch.bytes, batch.first, synced);
    unwritten_.push_back(std::move(batch));
  }
  if (unwritten_.empty()) {
    // The new file begins with the statement of what is synced; free space waits for it.
    Batch batch{.bytes = batch_record(setup_.seed, last + 1, synced, setup_.next_payload_file()), .first = last + 1, .last = last,
                .file = nullptr, .offset = 0, .size = 0};
    unwritten_.push_back(std::move(batch));
  }
  written_.store(last);  // what is carried stands in the old files
  if (Status status = mend_locked(); !status) {
    // A full or failing disk does not keep the server from starting: reads are served, the sync thread goes on trying.
    write_failures_.fetch_add(1, std::memory_order_relaxed);
    set_failed(status.error());
  } else {
    named_ = synced;
    stated_.store(synced);
    if (payload_synced) {
      synced_.store(last);
      release_synced_locked(last);
    }
  }
  requested_ = last;
  next_second_ms_ = monotonic_ms() + 1000;
  return {};
}

// Everything not known to be durable goes into a new file; the failed one is not trusted again.
Status JournalLog::mend() {
  if (Status status = setup_.sync_payload(); !status) return status;
  std::lock_guard creating(create_mutex_);
  std::lock_guard lock(write_mutex_);
  return mend_locked();
}

Status JournalLog::mend_locked() {
  if (prepared_) {
    static_cast<void>(files_.remove(prepared_->path));
    prepared_.reset();
  }
  {
    std::lock_guard append_lock(append_mutex_);
    seal_pending_locked();
    for (Batch& batch : std::exchange(sealed_, {})) put_aside_locked(std::move(batch));
    long_pending_.store(false, std::memory_order_relaxed);
  }
  std::vector<Batch*> batches;
  uint64_t total = 0;
  for (std::deque<Batch>* part : {&tail_, &unwritten_}) {
    for (Batch& batch : *part) {
      if (batch.bytes.empty()) PION_TRY(load_batch(batch));
      total += batch.bytes.size();
      batches.push_back(&batch);
    }
  }
  const Lsn name_lsn = synced_.load() + 1;
  const uint64_t must = kJournalHeaderBytes + total + setup_.sizes.reserve_bytes;
  Result<std::shared_ptr<LogFile>> made = make_file(name_lsn, must + setup_.sizes.ahead_bytes, batches);
  if (!made && made.error().code == ErrorCode::kNoSpace) made = make_file(name_lsn, must, batches);
  if (!made) return std::unexpected(made.error());

  // A file of the same name was replaced by the new one, which holds all it held.
  std::erase_if(old_, [&](const OldJournalFile& file) { return file.path == (*made)->path; });
  if (current_) closing_.push_back(std::move(current_));
  for (const std::shared_ptr<LogFile>& file : closing_) {
    if (file->path != (*made)->path) old_.push_back({file->path, file->last_lsn, file->end});
  }
  closing_.clear();
  std::deque<Batch> carried;
  for (std::deque<Batch>* part : {&tail_, &unwritten_}) {
    for (Batch& batch : *part) carried.push_back(std::move(batch));
    part->clear();
  }
  adopt_locked(std::move(*made), std::move(carried));
  if (!tail_.empty()) written_.store(tail_.back().last, std::memory_order_release);
  state_.store(State::kOk, std::memory_order_release);
  return {};
}

// Reads back what memory did not keep, from the file that failed: the page cache has it, or the checksums say no.
Status JournalLog::load_batch(Batch& batch) {
  if (!batch.file) return fail(ErrorCode::kInternal, "a journal batch without bytes and file");
  std::string bytes(batch.size, '\0');
  const Result<size_t> got = batch.file->file->pread(bytes.data(), bytes.size(), batch.offset);
  if (!got) return std::unexpected(got.error());
  if (*got != bytes.size()) return fail(ErrorCode::kIo, batch.file->path + " is shorter than what was written to it");
  if (!verify_batch(bytes, setup_.seed)) return fail(ErrorCode::kIo, batch.file->path + ": what was written cannot be read back");
  batch.bytes = std::move(bytes);
  return {};
}

void JournalLog::drop_up_to(Lsn lsn) {
  std::vector<std::string> paths;
  {
    std::lock_guard lock(write_mutex_);
    std::erase_if(old_, [&](const OldJournalFile& file) {
      if (file.last_lsn > lsn) return false;
      paths.push_back(file.path);
      return true;
    });
  }
  for (const std::string& path : paths) {
    if (Status status = files_.remove(path); !status) log_warning("an old journal file stays: " + status.error().message);
  }
}

// ---- housekeeping -------------------------------------------------------------------------------------------------

bool JournalLog::housekeep() {
  if (!enabled() || state_.load() == State::kFailed) return false;
  const bool was_full = state_.load() == State::kFull;
  bool did = false;
  if (was_full || !room_for(setup_.sizes.reserve_bytes + setup_.sizes.ahead_bytes / 2)) {
    const bool extended = extend_ahead();
    if (was_full && extended && room_for(setup_.sizes.reserve_bytes)) {
      set_full(false, "");
      notify();
      did = true;
    }
  }
  did |= lay_zeros();
  prepare_next_file();
  return did;
}

// Not under the lock: allocating may wait for the file system's own journal, and writes must not wait for that.
bool JournalLog::extend_ahead() {
  std::shared_ptr<LogFile> file;
  uint64_t from, must;
  {
    std::lock_guard lock(write_mutex_);
    if (!current_ || monotonic_ms() < extend_at_ms_.load()) return false;
    file = current_;
    from = file->room;
    must = claimed_.load() + setup_.sizes.reserve_bytes;
  }
  for (const uint64_t target : {must + setup_.sizes.ahead_bytes, must + setup_.sizes.ahead_bytes / 8}) {
    if (target <= from) return true;
    if (!file->file->allocate(from, target - from)) continue;
    std::lock_guard lock(write_mutex_);
    file->room = std::max(file->room, target);
    if (current_ == file) room_.store(file->room);
    return true;
  }
  extend_at_ms_.store(monotonic_ms() + setup_.retry_ms);
  return false;
}

// Zeros ahead of the records: a sync then finds blocks that are there already and need no metadata.
bool JournalLog::lay_zeros() {
  static constexpr std::array<char, 64 * 1024> kZeros{};
  for (bool did = false;; did = true) {
    std::shared_ptr<LogFile> file;
    uint64_t target;
    {
      std::lock_guard lock(write_mutex_);
      if (state_.load() == State::kFailed || !current_) return did;
      file = current_;
      target = std::min(file->end + setup_.sizes.ahead_bytes, file->room) / kPageBytes * kPageBytes;
    }
    std::lock_guard lock(fill_mutex_);
    const uint64_t from = file->zeroed.load();
    if (from >= target) return did;
    const uint64_t step = std::min<uint64_t>(kZeros.size(), target - from);
    // Failing is no matter here: the write that comes to this place will find out.
    if (!file->file->pwrite({kZeros.data(), step}, from)) return did;
    file->zeroed.store(from + step);
  }
}

void JournalLog::prepare_next_file() {
  std::lock_guard creating(create_mutex_);
  Lsn name_lsn;
  {
    std::lock_guard lock(write_mutex_);
    if (prepared_ || !current_ || state_.load() == State::kFailed) return;
    const bool wanted = new_file_wanted_.load() && current_->last_lsn > 0;
    if (!wanted && current_->end < setup_.sizes.file_bytes / 4 * 3) return;
    if (monotonic_ms() < prepare_at_ms_.load()) return;
    name_lsn = written_.load() + 1;  // what is pending may go there
    if (current_->path == setup_.dir + "/" + lsn_name(name_lsn, ".log")) return;
  }
  const uint64_t room = kJournalHeaderBytes + setup_.sizes.ahead_bytes + setup_.sizes.reserve_bytes;
  Result<std::shared_ptr<LogFile>> made = make_file(name_lsn, room, {});
  if (!made) {
    prepare_at_ms_.store(monotonic_ms() + 1000);  // the old file goes on growing
    return;
  }
  std::lock_guard lock(write_mutex_);
  prepared_ = std::move(*made);
}

}  // namespace pion
