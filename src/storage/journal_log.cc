#include "storage/journal_log.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/latency_monitor.h"
#include "base/log.h"
#include "storage/journal_scan.h"

namespace pion {
namespace {

constexpr uint64_t kAdmitOverhead = sizeof(RecordHeader) + kRecordAlign + kBatchRecordBytes;
constexpr size_t kScratchKeepBytes = 1 * kMiB;
constexpr uint64_t kLongRecordBytes = 1 * kMiB;  // copying it takes a lock's holder too long
constexpr uint64_t kReserveAheadBytes = 16 * kKiB;  // by each thread
constexpr size_t kSpareBuffers = 4;

std::atomic<uint64_t> next_instance{1};

// What this thread was admitted for and has not appended yet.
struct Reservation {
  uint64_t instance = 0;
  uint64_t bytes = 0;
};
thread_local Reservation reservation;

}  // namespace

JournalLog::JournalLog(FileSystem& files, JournalSetup setup)
    : files_(files), setup_(std::move(setup)), mode_(setup_.mode), instance_(next_instance.fetch_add(1)) {}

JournalLog::~JournalLog() = default;

// ---- appending ----------------------------------------------------------------------------------------------------

// For the calling thread: this many bytes beyond what must stay free.
bool JournalLog::reserve(uint64_t bytes, uint64_t kept) {
  if (reservation.instance != instance_) reservation = {instance_, 0};
  if (reservation.bytes < bytes) {
    const uint64_t missing = bytes - reservation.bytes;
    const uint64_t more = room_for(kept + missing + kReserveAheadBytes) ? missing + kReserveAheadBytes : missing;
    claimed_.fetch_add(more, std::memory_order_relaxed);
    reservation.bytes += more;
  } else if (reservation.bytes > bytes + kReserveAheadBytes) {  // a large record was admitted and not written
    claimed_.fetch_sub(reservation.bytes - bytes, std::memory_order_relaxed);
    reservation.bytes = bytes;
  }
  return room_for(kept);
}

Status JournalLog::admit(uint64_t bytes, WriteKind kind) {
  if (!enabled()) return {};
  const State state = state_.load(std::memory_order_acquire);
  if (state == State::kFailed) return refusal();
  const bool grows = kind == WriteKind::kGrows;
  if (state == State::kFull && grows) {
    refused_full_.fetch_add(1, std::memory_order_relaxed);
    return refusal();
  }
  if (bytes > kMaxRecordBytes) return fail(ErrorCode::kTooLarge, "a record of " + std::to_string(bytes) + " bytes is over the limit");

  const uint64_t kept = grows ? setup_.sizes.reserve_bytes : 0;
  if (reserve(bytes + kAdmitOverhead, kept)) return {};

  Status extended;
  {
    std::lock_guard lock(write_mutex_);
    extended = extend_room_locked(setup_.sizes.reserve_bytes);
  }
  if (room_for(kept)) return {};
  claimed_.fetch_sub(std::exchange(reservation.bytes, 0), std::memory_order_relaxed);
  refused_full_.fetch_add(1, std::memory_order_relaxed);
  const std::string why = extended ? "the journal has no room" : extended.error().message;
  if (grows) set_full(true, why);
  return fail(ErrorCode::kNoSpace, why);
}

// Makes room for what is used and outstanding, and `extra`; more than that when the disk has it.
Status JournalLog::extend_room_locked(uint64_t extra) {
  if (!current_ || room_for(extra)) return {};
  const int64_t now = monotonic_ms();
  if (now < extend_at_ms_.load(std::memory_order_relaxed)) return fail(ErrorCode::kNoSpace, "the disk is full: the journal cannot grow");
  const uint64_t must = claimed_.load() + extra;
  Status status;
  for (const uint64_t target : {must + setup_.sizes.ahead_bytes, must}) {
    if (target <= current_->room) return {};
    status = current_->file->allocate(current_->room, target - current_->room);
    if (!status) continue;
    current_->room = target;
    room_.store(target, std::memory_order_relaxed);
    return {};
  }
  extend_at_ms_.store(now + setup_.retry_ms, std::memory_order_relaxed);
  return status;
}

void JournalLog::begin_buffer_locked() {
  pending_.assign(kBatchRecordBytes, '\0');
  pending_first_ = appended_.load(std::memory_order_relaxed) + 1;
  use_locked(kBatchRecordBytes, 0);
}

// The only writer at a time: no locked instruction.
void JournalLog::use_locked(uint64_t bytes, uint64_t reserved) {
  used_.store(used_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  if (bytes != reserved) claimed_.fetch_add(bytes - reserved, std::memory_order_relaxed);
}

Lsn JournalLog::append(uint8_t type, std::initializer_list<std::string_view> parts) {
  if (!enabled()) return appended_.fetch_add(1, std::memory_order_acq_rel) + 1;
  thread_local std::string scratch;
  scratch.assign(kRecordRoomBytes, '\0');
  for (const std::string_view part : parts) scratch.append(part);
  const Lsn lsn = append_built(type, scratch);
  if (scratch.capacity() > kScratchKeepBytes) std::string().swap(scratch);
  return lsn;
}

Lsn JournalLog::append_built(uint8_t type, std::string& record) {
  if (!enabled()) return appended_.fetch_add(1, std::memory_order_acq_rel) + 1;
  // Hashed outside the lock; inside, only the lsn is mixed in.
  const auto total = static_cast<uint32_t>(record.size());
  const uint64_t body_hash = xxh3(std::string_view(record).substr(kRecordRoomBytes));
  record.resize(padded_record(total), '\0');
  const uint64_t size = record.size();
  const uint64_t key = record_key(setup_.seed, total, type, 0);
  RecordHeader header{.total_bytes = total, .type = type, .flags = 0, .header_check = 0, .lsn = 0, .hash = 0};
  uint64_t reserved = 0;
  if (reservation.instance == instance_) {
    reserved = std::min<uint64_t>(reservation.bytes, size);
    reservation.bytes -= reserved;
  }

  if (size >= kLongRecordBytes) return append_long(header, key, body_hash, record, reserved);
  std::lock_guard lock(append_mutex_);
  if (pending_.empty()) begin_buffer_locked();
  header.lsn = appended_.load(std::memory_order_relaxed) + 1;
  const uint64_t place = record_place(key, header.lsn);
  header.header_check = record_header_check(place);
  header.hash = record_hash(body_hash, place);
  std::memcpy(record.data(), &header, sizeof header);
  pending_.append(record);
  use_locked(size, reserved);
  appended_.store(header.lsn, std::memory_order_release);
  return header.lsn;
}

// A batch of its own, laid out before the lock is taken: others append meanwhile, and their buffer is not copied to make room.
Lsn JournalLog::append_long(RecordHeader header, uint64_t key, uint64_t body_hash, std::string& record, uint64_t reserved) {
  const uint64_t size = record.size();
  Batch batch;
  batch.bytes.reserve(kBatchRecordBytes + size);
  batch.bytes.assign(kBatchRecordBytes, '\0');
  batch.bytes.append(record);
  std::lock_guard lock(append_mutex_);
  seal_pending_locked();
  header.lsn = appended_.load(std::memory_order_relaxed) + 1;
  const uint64_t place = record_place(key, header.lsn);
  header.header_check = record_header_check(place);
  header.hash = record_hash(body_hash, place);
  std::memcpy(batch.bytes.data() + kBatchRecordBytes, &header, sizeof header);
  batch.first = batch.last = header.lsn;
  sealed_.push_back(std::move(batch));
  use_locked(kBatchRecordBytes + size, reserved);
  long_pending_.store(true, std::memory_order_relaxed);
  appended_.store(header.lsn, std::memory_order_release);
  return header.lsn;
}

void JournalLog::seal_pending_locked() {
  if (pending_.empty()) return;
  Batch batch;
  batch.bytes.swap(pending_);
  batch.first = pending_first_;
  batch.last = appended_.load(std::memory_order_relaxed);
  sealed_.push_back(std::move(batch));
}

// ---- writing ------------------------------------------------------------------------------------------------------

void JournalLog::fill_batch_header(std::string& buffer, Lsn first, Lsn synced) {
  std::memcpy(buffer.data(), batch_record(setup_.seed, first, synced, setup_.next_payload_file()).data(), kBatchRecordBytes);
}

Status JournalLog::write_pending() {
  if (!enabled()) return {};
  if (state_.load(std::memory_order_acquire) == State::kFailed) return refusal();
  if (written_.load(std::memory_order_acquire) == appended_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(write_mutex_);
  return write_locked(false);
}

Status JournalLog::write_locked(bool even_if_empty) {
  if (state_.load(std::memory_order_acquire) == State::kFailed) return refusal();
  std::vector<Batch> sealed;
  std::string buffer;
  Lsn first = 0, last = 0;
  {
    std::lock_guard lock(append_mutex_);
    if (pending_.empty() && sealed_.empty()) {
      if (!even_if_empty) return {};
      begin_buffer_locked();
    }
    sealed.swap(sealed_);
    buffer.swap(pending_);
    first = pending_first_;
    last = appended_.load(std::memory_order_relaxed);
    if (!sealed.empty()) {
      long_writing_.store(true, std::memory_order_relaxed);
      long_pending_.store(false, std::memory_order_relaxed);
    }
    if (!spare_.empty()) {
      pending_.swap(spare_.back());
      pending_.clear();
      spare_.pop_back();
    }
  }
  const bool wanted = new_file_wanted_.load(std::memory_order_relaxed);
  if (prepared_ && (wanted || current_->end >= setup_.sizes.file_bytes)) switch_file_locked();
  Status status;
  const auto put = [&](std::string bytes, Lsn from, Lsn to) {
    if (status) {
      status = put_batch_locked(std::move(bytes), from, to);
    } else {  // behind one that could not be written
      put_aside_locked({.bytes = std::move(bytes), .first = from, .last = to, .file = nullptr, .offset = 0, .size = 0});
    }
  };
  for (Batch& batch : sealed) put(std::move(batch.bytes), batch.first, batch.last);
  if (!buffer.empty()) put(std::move(buffer), first, last);
  if (!sealed.empty()) long_writing_.store(false, std::memory_order_relaxed);
  return status;
}

// For mend() to write again.
void JournalLog::put_aside_locked(Batch batch) {
  fill_batch_header(batch.bytes, batch.first, synced_.load());
  batch.size = batch.bytes.size();
  unwritten_.push_back(std::move(batch));
}

void JournalLog::switch_file_locked() {
  const uint64_t need = claimed_.load() - current_->end + prepared_->end + setup_.sizes.reserve_bytes;
  if (need > prepared_->room) {
    const uint64_t target = need + setup_.sizes.ahead_bytes;
    if (!prepared_->file->allocate(prepared_->room, target - prepared_->room)) return;  // go on in the old file
    prepared_->room = target;
  }
  {
    std::lock_guard lock(append_mutex_);
    use_locked(prepared_->end - current_->end, 0);  // less, usually: the sum wraps, as meant
  }
  room_.store(prepared_->room);
  closing_.push_back(std::move(current_));
  current_ = std::move(prepared_);
  prepared_.reset();
  new_file_wanted_.store(false, std::memory_order_relaxed);
}

Status JournalLog::put_batch_locked(std::string buffer, Lsn first, Lsn last) {
  LogFile& file = *current_;
  const uint64_t size = buffer.size();
  const uint64_t end = file.end + size;
  if (end > file.zeroed.load()) {
    // The housekeeping thread did not keep up. Taking its lock makes sure that it lays no zeros over this batch.
    std::lock_guard lock(fill_mutex_);
    if (end > file.zeroed.load()) file.zeroed.store(end);
  }
  const Lsn synced = synced_.load(std::memory_order_acquire);
  fill_batch_header(buffer, first, synced);
  Batch batch{.bytes = std::move(buffer), .first = first, .last = last, .file = current_, .offset = file.end, .size = size};
  const auto write = [&] {
    const LatencyProbe probe("aof-write");
    return file.file->pwrite(batch.bytes, file.end);
  };
  if (Status status = write(); !status) {
    write_failures_.fetch_add(1, std::memory_order_relaxed);
    batch.file.reset();
    unwritten_.push_back(std::move(batch));
    set_failed(status.error());
    return status;
  }
  file.end = end;
  file.last_lsn = std::max(file.last_lsn, last);
  named_ = synced;
  written_.store(last, std::memory_order_release);
  keep_locked(std::move(batch));
  if (file.zeroed.load() < std::min(end + setup_.sizes.ahead_bytes / 2, file.room)) setup_.wake_housekeeping();
  return {};
}

void JournalLog::keep_locked(Batch batch) {
  tail_bytes_ += batch.bytes.size();
  tail_.push_back(std::move(batch));
  // The newest stays in any case; older ones can be read back from their file.
  while (tail_bytes_ > setup_.sizes.keep_bytes && tail_dropped_ + 1 < tail_.size()) {
    std::string& bytes = tail_[tail_dropped_++].bytes;
    tail_bytes_ -= bytes.size();
    std::string().swap(bytes);
  }
}

void JournalLog::release_synced_locked(Lsn synced) {
  while (!tail_.empty() && tail_.front().last <= synced) {
    std::string& bytes = tail_.front().bytes;
    tail_bytes_ -= bytes.size();
    if (tail_dropped_ > 0) tail_dropped_--;
    if (spare_.size() < kSpareBuffers && bytes.capacity() >= kPageBytes && bytes.capacity() <= 4 * kMiB) spare_.push_back(std::move(bytes));
    tail_.pop_front();
  }
}

// ---- syncing ------------------------------------------------------------------------------------------------------

void JournalLog::request_sync(Lsn lsn) {
  if (!enabled()) return;
  lsn = std::min(lsn, appended_lsn());
  if (lsn <= synced_.load(std::memory_order_acquire)) return;
  {
    std::lock_guard lock(wait_mutex_);
    if (lsn <= requested_) return;
    requested_ = lsn;
  }
  wake_.notify_one();
}

void JournalLog::want_stated(Lsn lsn, bool at_once) {
  if (!enabled()) return;
  {
    std::lock_guard lock(wait_mutex_);
    wanted_stated_ = std::max(wanted_stated_, lsn);
    if (!at_once || stated_at_once_ || stated_.load() >= wanted_stated_) return;
    stated_at_once_ = true;
  }
  wake_.notify_one();
}

void JournalLog::set_progress_listener(std::function<void()> listener) {
  std::lock_guard lock(wait_mutex_);
  listener_ = std::move(listener);
}

void JournalLog::set_mode(SyncMode mode) {
  mode_.store(mode);
  wake_.notify_one();
}

Status JournalLog::sync_up_to(Lsn lsn) {
  if (!enabled()) return {};
  lsn = std::min(lsn, appended_lsn());
  std::unique_lock lock(wait_mutex_);
  if (synced_.load() >= lsn) return {};
  const uint64_t failures = failures_;
  requested_ = std::max(requested_, lsn);
  wake_.notify_one();
  advanced_.wait(lock, [&] { return synced_.load() >= lsn || failures_ != failures || stopping_; });
  if (synced_.load() >= lsn) return {};
  if (failures_ != failures) return std::unexpected(last_error_);
  return fail(ErrorCode::kUnavailable, "the server is stopping");
}

void JournalLog::sync_tick() {
  bool due, asked, at_once;
  Lsn wanted;
  {
    std::unique_lock lock(wait_mutex_);
    const auto pressing = [&] {
      return stopping_ || requested_ > synced_.load() || stated_at_once_ || state_.load() == State::kFailed;
    };
    const int64_t wait_ms = next_second_ms_ - monotonic_ms();
    if (wait_ms > 0) wake_.wait_for(lock, std::chrono::milliseconds(wait_ms), pressing);
    if (stopping_) return;
    if (state_.load() == State::kFailed) {
      const int64_t rest_ms = mend_at_ms_ - monotonic_ms();
      if (rest_ms > 0) wake_.wait_for(lock, std::chrono::milliseconds(rest_ms), [&] { return stopping_; });
      if (stopping_) return;
    }
    due = monotonic_ms() >= next_second_ms_;
    asked = requested_ > synced_.load();
    at_once = std::exchange(stated_at_once_, false);
    wanted = wanted_stated_;
    if (due) next_second_ms_ = monotonic_ms() + (mode() == SyncMode::kNo ? 30'000 : 1000);
  }

  if (state_.load() == State::kFailed) {
    mend_at_ms_ = monotonic_ms() + setup_.retry_ms;
    if (Status status = mend(); !status) return note_failure(status.error());
    log_notice("the journal goes on in a new file");
    notify();
    if (!asked && !at_once) return;
  }
  const bool unsynced = synced_.load() < appended_.load() || setup_.payload_dirty();
  const bool unstated = stated_.load() < wanted;
  if (asked || at_once || (due && (unsynced || unstated))) {
    if (!sync_once()) return;
  }
  if (!due && !at_once) return;
  // Nothing new to write says by itself what was synced; so that the journal on disk knows, an empty batch does.
  {
    std::lock_guard lock(write_mutex_);
    if (named_ < synced_.load() && !write_locked(true)) return;
  }
  if (at_once) static_cast<void>(sync_once());
}

Status JournalLog::sync_once() {
  std::lock_guard syncing(sync_mutex_);
  if (Status status = write_pending(); !status) {
    note_failure(status.error());
    return status;
  }
  // Payload first, up to a point fixed before: what was written after it may be synced too, but does not count.
  Lsn target, named;
  std::vector<std::shared_ptr<LogFile>> files;
  {
    std::lock_guard lock(write_mutex_);
    if (!current_) return fail(ErrorCode::kIo, "the journal has no file");
    target = written_.load();
    named = named_;
    files = closing_;
    files.push_back(current_);
  }
  Status status = setup_.sync_payload();
  for (const std::shared_ptr<LogFile>& file : files) {
    if (status) {
      const LatencyProbe probe("aof-fsync");
      status = file->file->sync_data();
    }
  }
  if (!status) {
    sync_failures_.fetch_add(1, std::memory_order_relaxed);
    set_failed(status.error());
    note_failure(status.error());
    return status;
  }
  {
    std::lock_guard lock(write_mutex_);
    std::erase_if(closing_, [&](const std::shared_ptr<LogFile>& file) {
      if (std::find(files.begin(), files.end(), file) == files.end()) return false;
      old_.push_back({file->path, file->last_lsn, file->end});
      return true;
    });
    release_synced_locked(target);
    synced_.store(target, std::memory_order_release);
    stated_.store(named, std::memory_order_release);
  }
  notify();
  return {};
}

void JournalLog::notify() {
  std::function<void()> listener;
  {
    std::lock_guard lock(wait_mutex_);
    advanced_.notify_all();
    listener = listener_;
  }
  if (listener) listener();
}

void JournalLog::wake_for_stop() {
  {
    std::lock_guard lock(wait_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  advanced_.notify_all();
}

Status JournalLog::finish() {
  if (!enabled()) return {};
  if (state_.load() == State::kFailed) PION_TRY(mend());
  PION_TRY(sync_once());
  {
    std::lock_guard lock(write_mutex_);
    if (named_ < synced_.load()) PION_TRY(write_locked(true));
    if (prepared_) {
      static_cast<void>(files_.remove(prepared_->path));
      prepared_.reset();
    }
  }
  return sync_once();
}

// ---- refusing -----------------------------------------------------------------------------------------------------

void JournalLog::set_failed(const Error& error) {
  bool news;
  {
    std::lock_guard lock(wait_mutex_);
    last_error_ = error;
    news = state_.exchange(State::kFailed) != State::kFailed;
  }
  if (news) log_warning("writes are refused until the journal is mended: " + error.message);
  wake_.notify_all();
}

void JournalLog::note_failure(const Error& error) {
  {
    std::lock_guard lock(wait_mutex_);
    failures_++;
    last_error_ = error;
  }
  advanced_.notify_all();
}

void JournalLog::set_full(bool full, const std::string& why) {
  bool news;
  {
    std::lock_guard lock(wait_mutex_);
    State from = full ? State::kOk : State::kFull;
    news = state_.compare_exchange_strong(from, full ? State::kFull : State::kOk);
    if (full && news) last_error_ = {ErrorCode::kNoSpace, why};
  }
  if (!news) return;
  if (full) {
    log_warning("writes are refused until the disk has room: " + why);
    setup_.wake_housekeeping();
  } else {
    log_notice("the disk has room again, writes are accepted");
  }
}

Status JournalLog::refusal() const {
  std::lock_guard lock(wait_mutex_);
  return std::unexpected(last_error_);
}

JournalLog::Stats JournalLog::stats() const {
  Stats stats;
  {
    std::lock_guard lock(write_mutex_);
    for (const OldJournalFile& file : old_) stats.bytes += file.bytes;
    for (const std::shared_ptr<LogFile>& file : closing_) stats.bytes += file->end;
    if (current_) stats.bytes += current_->end - kJournalHeaderBytes;
  }
  stats.refused_full = refused_full_.load();
  stats.sync_failures = sync_failures_.load();
  stats.write_failures = write_failures_.load();
  std::lock_guard lock(wait_mutex_);
  stats.accepting = state_.load() == State::kOk;
  if (!stats.accepting) stats.refusal = last_error_.message;
  return stats;
}

}  // namespace pion
