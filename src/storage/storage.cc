#include "storage/storage.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "storage/checkpoint.h"
#include "storage/journal_log.h"
#include "storage/payload_store.h"
#include "storage/recovery.h"

namespace pion {
namespace {

constexpr int64_t kCheckpointRetryMs = 30'000;

JournalSizes journal_sizes(const StorageOptions& options, uint64_t disk_bytes) {
  JournalSizes sizes;
  sizes.ahead_bytes = options.journal_ahead_bytes ? options.journal_ahead_bytes : std::clamp(disk_bytes / 64, 256 * kKiB, 8 * kMiB);
  sizes.reserve_bytes = options.journal_reserve_bytes ? options.journal_reserve_bytes : std::clamp(disk_bytes / 16, 1 * kMiB, 32 * kMiB);  // 40 bytes a DEL: 100,000 on a disk of 64 MiB
  sizes.file_bytes = std::min(options.journal_file_bytes, std::max(4 * kMiB, disk_bytes / 16));
  sizes.keep_bytes = options.journal_keep_bytes;
  return sizes;
}

PayloadSizes payload_sizes(const StorageOptions& options, uint64_t disk_bytes) {
  PayloadSizes sizes;
  sizes.file_bytes = options.payload_file_bytes;
  sizes.step_bytes = options.payload_step_bytes ? options.payload_step_bytes : std::clamp(disk_bytes / 64, 256 * kKiB, 16 * kMiB);
  return sizes;
}

class StorageImpl final : public Storage {
 public:
  StorageImpl(FileSystem& files, StorageOptions options) : files_(files), options_(std::move(options)) {}
  ~StorageImpl() override { stop(); }
  StorageImpl(const StorageImpl&) = delete;
  StorageImpl& operator=(const StorageImpl&) = delete;

  Status open();

  void add_plane(Plane* plane) override { planes_.push_back(plane); }
  Status recover() override;
  Journal& journal() override { return *journal_; }
  ExtentStore& extents() override { return *payload_; }
  Status checkpoint() override;
  bool request_checkpoint() override;
  StorageStats stats() const override;
  void stop() override;
  uint64_t seed() const override { return seed_; }
  const std::string& dir() const override { return options_.dir; }

 private:
  Status make_directories();
  Status find_seed();
  Status write_seed();
  Status write_checkpoint();
  void remove_checkpoints_but(const std::string& name);
  void run_sync();
  void run_housekeeping();
  void run_checkpoints();
  void wake_housekeeping();
  void want_stated(Lsn lsn, bool at_once);
  bool checkpoint_due() const;

  FileSystem& files_;
  StorageOptions options_;
  std::unique_ptr<File> lock_;
  uint64_t seed_ = 0;
  std::vector<Plane*> planes_;
  std::unique_ptr<PayloadStore> payload_;
  std::unique_ptr<JournalLog> journal_;
  bool recovered_ = false;
  uint64_t checkpoint_after_bytes_ = 0;

  RecoveryResult recovery_;
  int64_t recovery_ms_ = 0;

  std::thread sync_thread_;
  std::thread housekeeping_thread_;
  std::thread checkpoint_thread_;
  std::atomic<bool> stopping_{false};
  bool stopped_ = false;

  std::mutex housekeeping_mutex_;
  std::condition_variable housekeeping_wake_;
  std::atomic<bool> housekeeping_wanted_{false};

  std::mutex checkpoint_mutex_;  // held while one is written
  mutable std::mutex checkpoint_state_mutex_;
  std::condition_variable checkpoint_wake_;
  bool checkpoint_wanted_ = false;
  std::atomic<bool> checkpoint_running_{false};
  std::atomic<Lsn> checkpoint_lowest_{0};
  std::atomic<Lsn> checkpoint_begun_{0};  // or the start
  std::atomic<uint64_t> checkpoint_bytes_{0};
  std::atomic<int64_t> last_checkpoint_wall_s_{0};
  std::atomic<int64_t> next_checkpoint_ms_{0};
  std::atomic<bool> last_checkpoint_ok_{true};
};

// ---- opening ------------------------------------------------------------------------------------------------------

// Parents that are missing are made too. Every new directory is synced in its parent.
Status make_with_parents(FileSystem& files, const std::string& path) {
  const auto parent_of = [](const std::string& of) {
    const size_t slash = of.find_last_of('/');
    if (slash == std::string::npos) return std::string(".");
    return slash == 0 ? std::string("/") : of.substr(0, slash);
  };
  if (files.list(path)) return {};
  const std::string parent = parent_of(path);
  if (parent != path && !files.list(parent)) PION_TRY(make_with_parents(files, parent));
  PION_TRY(files.make_directory(path));
  return files.sync_directory(parent);
}

Status StorageImpl::open() {
  while (options_.dir.size() > 1 && options_.dir.ends_with('/')) options_.dir.pop_back();
  if (options_.dir.empty()) return fail(ErrorCode::kInvalid, "the data directory has no name");
  PION_TRY(make_with_parents(files_, options_.dir));
  PION_TRY(files_.check_private(options_.dir + "/."));  // the directory itself may be reached by a link, what is in it may not
  Result<std::unique_ptr<File>> lock = files_.lock(options_.dir + "/lock");
  if (!lock) return std::unexpected(lock.error());
  lock_ = std::move(*lock);
  PION_TRY(make_directories());
  PION_TRY(find_seed());

  const Result<FileSystemSpace> space = files_.space(options_.dir);
  const uint64_t disk_bytes = space ? space->total_bytes : 0;
  checkpoint_after_bytes_ = std::min(options_.checkpoint_after_bytes, std::max(8 * kMiB, disk_bytes / 8));
  PayloadStore::Setup payload{.dir = options_.dir + "/payload",
                              .sizes = payload_sizes(options_, disk_bytes),
                              .wake_housekeeping = [this] { wake_housekeeping(); },
                              .want_stated = [this](Lsn lsn, bool at_once) { want_stated(lsn, at_once); }};
  payload_ = std::make_unique<PayloadStore>(files_, std::move(payload));
  JournalSetup journal{.dir = options_.dir + "/journal",
                       .seed = seed_,
                       .enabled = options_.appendonly,
                       .mode = options_.sync,
                       .sizes = journal_sizes(options_, disk_bytes),
                       .retry_ms = options_.retry_ms,
                       .sync_payload = [this] { return payload_->sync_dirty(); },
                       .next_payload_file = [this] { return payload_->next_file(); },
                       .payload_dirty = [this] { return payload_->dirty(); },
                       .wake_housekeeping = [this] { wake_housekeeping(); }};
  journal_ = std::make_unique<JournalLog>(files_, std::move(journal));
  return {};
}

Status StorageImpl::make_directories() {
  for (const char* name : {"journal", "checkpoint", "quarantine", "payload", "payload/0", "payload/1"}) {
    const std::string path = options_.dir + "/" + name;
    if (files_.list(path)) {
      PION_TRY(files_.check_private(path));
    } else {
      PION_TRY(files_.make_directory(path));
    }
  }
  // In any case: a start before this one may have been killed between making and syncing.
  PION_TRY(files_.sync_directory(options_.dir + "/payload"));
  return files_.sync_directory(options_.dir);
}

// The seed has a file of its own; journal files and checkpoints carry it too, should that file be damaged.
Status StorageImpl::find_seed() {
  SeedFile content{};
  if (Result<std::unique_ptr<File>> file = files_.open(options_.dir + "/seed", OpenMode::kRead); file) {
    const Result<size_t> got = (*file)->pread(&content, sizeof content, 0);
    if (got && *got == sizeof content && content.magic == kSeedMagic && content.checksum == checksum_of(content)) {
      seed_ = content.seed;
      return {};
    }
    log_warning("the file seed is damaged; looking for the seed elsewhere");
  }
  const auto look_in = [&](const char* name, uint64_t (*seed_of)(File&)) {
    const std::string dir = options_.dir + "/" + name;
    const Result<std::vector<std::string>> names = files_.list(dir);
    for (size_t at = 0; seed_ == 0 && names && at < names->size(); at++) {
      if (Result<std::unique_ptr<File>> file = files_.open(dir + "/" + (*names)[at], OpenMode::kRead); file) seed_ = seed_of(**file);
    }
  };
  look_in("journal", journal_file_seed);
  look_in("checkpoint", checkpoint_seed);
  while (seed_ == 0) {
    if (::getrandom(&seed_, sizeof seed_, 0) != sizeof seed_) return fail_errno("no random bytes", errno);
  }
  if (Status status = write_seed(); !status) {
    // On a full disk the others still carry it; a new directory needs it.
    const Result<std::vector<std::string>> journal = files_.list(options_.dir + "/journal");
    if (!journal || journal->empty()) return status;
    log_warning("the seed is not written again: " + status.error().message);
  }
  return {};
}

Status StorageImpl::write_seed() {
  SeedFile content{.magic = kSeedMagic, .version = kFormatVersion, .reserved = 0, .seed = seed_, .checksum = 0};
  content.checksum = checksum_of(content);
  const std::string path = options_.dir + "/seed";
  static_cast<void>(files_.remove(path + ".new"));
  Result<std::unique_ptr<File>> file = files_.open(path + ".new", OpenMode::kCreate);
  if (!file) return std::unexpected(file.error());
  PION_TRY((*file)->pwrite(bytes_of(content), 0));
  PION_TRY((*file)->sync_data());
  PION_TRY(files_.rename(path + ".new", path));
  return files_.sync_directory(options_.dir);
}

Status StorageImpl::recover() {
  if (recovered_) return fail(ErrorCode::kInternal, "recovery runs once");
  recovered_ = true;
  const int64_t begun_ms = monotonic_ms();
  Recovery recovery(files_, options_.dir, seed_, planes_, *payload_);
  Result<RecoveryResult> result = recovery.run();
  if (!result) return std::unexpected(result.error());
  recovery_ = std::move(*result);
  checkpoint_lowest_ = recovery_.checkpoint_lowest;
  checkpoint_bytes_ = recovery_.checkpoint_bytes;
  PION_TRY(journal_->start(recovery_.last, recovery_.synced, std::move(recovery_.old), std::move(recovery_.carried),
                           recovery_.payload_synced));
  recovery_ms_ = monotonic_ms() - begun_ms;
  checkpoint_begun_ = journal_->appended_lsn();
  log_notice("recovered up to record " + std::to_string(recovery_.last) + ": " + std::to_string(recovery_.records) + " records replayed in " +
             std::to_string(recovery_ms_) + " ms, " + std::to_string(recovery_.corrupt_records) + " corrupt, " +
             std::to_string(recovery_.torn_bytes) + " bytes of torn tail");
  if (journal_->enabled()) sync_thread_ = std::thread([this] { run_sync(); });
  housekeeping_thread_ = std::thread([this] { run_housekeeping(); });
  checkpoint_thread_ = std::thread([this] { run_checkpoints(); });
  wake_housekeeping();
  return {};
}

// ---- threads ------------------------------------------------------------------------------------------------------

// Everybody waits for the sync thread, and it mostly waits for the disk: with a short slice of its own it runs as soon as the
// disk is done, also beside threads that use theirs up (Linux 6.12 and later; older ones ignore it).
void take_short_slices() {
  // The kernel's struct sched_attr, first version: its header and the C library's cannot be included together.
  struct {
    uint32_t size = sizeof *this, policy = 0;  // the usual policy
    uint64_t flags = 0;
    int32_t nice = ::getpriority(PRIO_PROCESS, 0);
    uint32_t priority = 0;
    uint64_t runtime_ns = 100'000, deadline_ns = 0, period_ns = 0;
  } attributes;
  static_assert(sizeof attributes == 48);
  static_cast<void>(::syscall(SYS_sched_setattr, 0, &attributes, 0));
}

void StorageImpl::run_sync() {
  take_short_slices();
  while (!stopping_.load()) journal_->sync_tick();
}

void StorageImpl::wake_housekeeping() {
  if (housekeeping_wanted_.exchange(true)) return;
  // Without the mutex a wake-up between the check and the wait could be missed; the time-out makes up for that.
  housekeeping_wake_.notify_one();
}

// What is stated without a journal is what the last checkpoint holds.
void StorageImpl::want_stated(Lsn lsn, bool at_once) {
  if (journal_->enabled()) return journal_->want_stated(lsn, at_once);
  if (at_once && monotonic_ms() >= next_checkpoint_ms_.load()) request_checkpoint();
}

void StorageImpl::run_housekeeping() {
  while (!stopping_.load()) {
    {
      std::unique_lock lock(housekeeping_mutex_);
      housekeeping_wake_.wait_for(lock, std::chrono::milliseconds(100), [&] { return stopping_.load() || housekeeping_wanted_.load(); });
    }
    housekeeping_wanted_ = false;
    if (stopping_.load()) return;
    journal_->housekeep();
    const Lsn stated = journal_->enabled() ? journal_->stated_lsn() : checkpoint_lowest_.load();
    if (payload_->housekeep(stated)) wake_housekeeping();
    if (checkpoint_due()) request_checkpoint();
  }
}

bool StorageImpl::checkpoint_due() const {
  if (checkpoint_running_.load() || monotonic_ms() < next_checkpoint_ms_.load()) return false;
  const uint64_t limit = std::max(checkpoint_after_bytes_, 2 * checkpoint_bytes_.load());
  // Without a journal, what was freed waits for the next checkpoint: the last one names it.
  return journal_->enabled() ? journal_->stats().bytes > limit : payload_->waiting_bytes() > limit;
}

void StorageImpl::run_checkpoints() {
  std::unique_lock lock(checkpoint_state_mutex_);
  for (;;) {
    checkpoint_wake_.wait(lock, [&] { return stopping_.load() || checkpoint_wanted_; });
    if (stopping_.load()) return;
    lock.unlock();
    static_cast<void>(checkpoint());
    lock.lock();
    checkpoint_wanted_ = false;
  }
}

bool StorageImpl::request_checkpoint() {
  {
    std::lock_guard lock(checkpoint_state_mutex_);
    if (checkpoint_wanted_ || checkpoint_running_.load() || stopping_.load()) return false;
    checkpoint_wanted_ = true;
  }
  checkpoint_wake_.notify_one();
  return true;
}

// ---- checkpoints --------------------------------------------------------------------------------------------------

Status StorageImpl::checkpoint() {
  std::unique_lock lock(checkpoint_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return fail(ErrorCode::kBusy, "a checkpoint is being written already");
  checkpoint_running_ = true;
  Status status = write_checkpoint();
  checkpoint_running_ = false;
  last_checkpoint_ok_ = status.has_value();
  if (status) {
    last_checkpoint_wall_s_ = wall_ms() / 1000;
  } else {
    next_checkpoint_ms_ = monotonic_ms() + kCheckpointRetryMs;
    log_warning("the checkpoint failed: " + status.error().message);
  }
  return status;
}

Status StorageImpl::write_checkpoint() {
  journal_->request_new_file();
  journal_->housekeep();
  const Lsn begun = journal_->appended_lsn();
  CheckpointWriter writer(files_, options_.dir + "/checkpoint", begun, seed_, payload_->next_file());
  PION_TRY(writer.begin());
  for (Plane* plane : planes_) {
    writer.set_plane(plane->name());
    PION_TRY(plane->write_checkpoint(writer));
  }
  // A section may hold one part of a record's effects and another section not the other part yet: then the record must be
  // there to replay. And the payload that sections name must be durable, since the checkpoint replaces the records.
  Lsn needed_above = writer.lowest_lsn();
  if (journal_->enabled()) {
    PION_TRY(journal_->write_pending());
    PION_TRY(journal_->sync_up_to(std::max(writer.highest_lsn(), begun)));
  } else {
    PION_TRY(payload_->sync_dirty());
    needed_above = std::max(writer.highest_lsn(), begun);  // there are no records to replay
  }
  PION_TRY(writer.finish(needed_above));
  remove_checkpoints_but(lsn_name(begun, ".ckpt"));
  journal_->drop_up_to(needed_above);
  checkpoint_bytes_ = writer.bytes();
  checkpoint_lowest_ = writer.lowest_lsn();
  checkpoint_begun_ = begun;
  wake_housekeeping();
  return {};
}

void StorageImpl::remove_checkpoints_but(const std::string& name) {
  const std::string dir = options_.dir + "/checkpoint";
  const Result<std::vector<std::string>> names = files_.list(dir);
  for (size_t at = 0; names && at < names->size(); at++) {
    if ((*names)[at] < name && (*names)[at].ends_with(".ckpt")) static_cast<void>(files_.remove(dir + "/" + (*names)[at]));
  }
}

// ---- the rest -----------------------------------------------------------------------------------------------------

StorageStats StorageImpl::stats() const {
  const JournalLog::Stats journal = journal_->stats();
  StorageStats stats;
  stats.journal_bytes = journal.bytes;
  stats.records_since_checkpoint = journal_->appended_lsn() - checkpoint_begun_.load();
  stats.journal_corrupt_records = recovery_.corrupt_records;
  stats.journal_torn_bytes = recovery_.torn_bytes;
  stats.recovered_records = recovery_.records;
  stats.recovery_ms = recovery_ms_;
  stats.writes_refused_full = journal.refused_full;
  stats.sync_failures = journal.sync_failures;
  stats.write_failures = journal.write_failures;
  stats.accepting_writes = journal.accepting;
  stats.refusal = journal.refusal;
  stats.last_checkpoint_wall_s = last_checkpoint_wall_s_.load();
  stats.last_checkpoint_ok = last_checkpoint_ok_.load();
  stats.checkpoint_running = checkpoint_running_.load();
  return stats;
}

void StorageImpl::stop() {
  if (std::exchange(stopped_, true)) return;
  {
    std::lock_guard lock(checkpoint_state_mutex_);
    stopping_ = true;
  }
  checkpoint_wake_.notify_all();
  if (checkpoint_thread_.joinable()) checkpoint_thread_.join();  // one under way is finished: it needs the others
  if (journal_) journal_->wake_for_stop();
  wake_housekeeping();
  housekeeping_wake_.notify_all();
  if (sync_thread_.joinable()) sync_thread_.join();
  if (housekeeping_thread_.joinable()) housekeeping_thread_.join();
  if (!journal_ || !recovered_) return;
  if (Status status = journal_->finish(); !status) log_warning("at the end: " + status.error().message);
}

}  // namespace

Result<std::unique_ptr<Storage>> Storage::open(FileSystem& files, StorageOptions options) {
  auto storage = std::make_unique<StorageImpl>(files, std::move(options));
  PION_TRY(storage->open());
  return storage;
}

}  // namespace pion
