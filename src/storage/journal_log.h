// The journal's implementation: Journal for the planes, and what Storage needs besides (files, syncing, mending).
//
// Locks, taken in this order: sync_mutex_ (one sync at a time) > write_mutex_ (files and positions; held across a pwrite)
// > append_mutex_ (the buffer; held for a memcpy). fill_mutex_ only guards zeros being laid ahead of the writes.
// Threads: reactors append and write; the sync thread (run by Storage) calls sync_tick(); the housekeeping thread calls
// housekeep(). No call that a reactor makes syncs anything.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/filesystem.h"
#include "storage/format.h"
#include "storage/journal.h"

namespace pion {

// Sizes, from the options and the size of the disk.
struct JournalSizes {
  uint64_t file_bytes = 64 * kMiB;     // a file beyond this is followed by a new one
  uint64_t ahead_bytes = 4 * kMiB;     // room kept allocated and zeroed beyond the last record
  uint64_t reserve_bytes = 1 * kMiB;   // part of the room that only WriteKind::kFrees may use
  uint64_t keep_bytes = 64 * kMiB;     // of what was written and not synced, kept in memory to be written anew
};

struct JournalSetup {
  std::string dir;
  uint64_t seed = 0;
  bool enabled = true;
  SyncMode mode = SyncMode::kEverySecond;
  JournalSizes sizes;
  int64_t retry_ms = 100;                         // between attempts on a full or failing disk
  std::function<Status()> sync_payload;           // makes all payload written so far durable
  std::function<uint32_t()> next_payload_file;    // ids from here on are unused
  std::function<bool()> payload_dirty;
  std::function<void()> wake_housekeeping;        // soon; cheap, called on reactor threads
};

struct OldJournalFile {
  std::string path;
  Lsn last_lsn = 0;
  uint64_t bytes = 0;
};

class JournalLog final : public Journal {
 public:
  JournalLog(FileSystem& files, JournalSetup setup);
  ~JournalLog() override;

  Status admit(uint64_t bytes, WriteKind kind) override;
  Lsn append(uint8_t type, std::initializer_list<std::string_view> parts) override;
  Lsn append_built(uint8_t type, std::string& record) override;
  Lsn appended_lsn() const override { return appended_.load(std::memory_order_acquire); }
  Lsn written_lsn() const override { return enabled() ? written_.load(std::memory_order_acquire) : appended_lsn(); }
  Lsn synced_lsn() const override { return enabled() ? synced_.load(std::memory_order_acquire) : appended_lsn(); }
  Status write_pending() override;
  bool long_write_ahead() const override {
    // Nobody writes after a failure: mending does.
    return (long_pending_.load(std::memory_order_relaxed) || long_writing_.load(std::memory_order_relaxed)) &&
           state_.load(std::memory_order_relaxed) != State::kFailed;
  }
  void request_sync(Lsn lsn) override;
  void set_progress_listener(std::function<void()> listener) override;
  Status sync_up_to(Lsn lsn) override;
  SyncMode mode() const override { return mode_.load(std::memory_order_relaxed); }
  void set_mode(SyncMode mode) override;
  bool enabled() const override { return setup_.enabled; }

  // Begins a new file after recovery: the next record is `last` + 1, everything up to `synced` is durable. `old` are the files
  // that stay; `carried` are whole batches of records synced+1..last, which the new file holds again, and which are durable
  // with it when `payload_synced` says that what they name is.
  Status start(Lsn last, Lsn synced, std::vector<OldJournalFile> old, std::vector<std::string> carried, bool payload_synced);

  // The sync thread's loop body: waits until there is something to do (at most a second), does it.
  void sync_tick();
  // Room ahead of the writes, zeros, the next file, and trying again on a full disk. Returns false when there was nothing to do.
  bool housekeep();
  // Wakes a waiting sync_tick() for good.
  void wake_for_stop();
  // Last words: writes and syncs all, names it as synced, gives back the room ahead.
  Status finish();

  // A space is given back only when this has reached the freeing record: the journal on disk itself says it was synced.
  Lsn stated_lsn() const { return enabled() ? stated_.load(std::memory_order_acquire) : 0; }
  // Somebody waits for stated_lsn() to reach this: the next ticks sync (soon or at once) even without other need.
  void want_stated(Lsn lsn, bool at_once);

  // After a durable checkpoint: removes old files that hold nothing above `lsn`.
  void drop_up_to(Lsn lsn);
  // So that the file in use can be dropped by the next checkpoint.
  void request_new_file() { new_file_wanted_.store(true, std::memory_order_relaxed); }

  struct Stats {
    uint64_t bytes = 0;  // in all files
    uint64_t refused_full = 0;
    uint64_t sync_failures = 0;
    uint64_t write_failures = 0;
    bool accepting = true;
    std::string refusal;
  };
  Stats stats() const;

 private:
  struct LogFile {
    std::unique_ptr<File> file;
    std::string path;
    Lsn last_lsn = 0;
    uint64_t end = 0;     // where the next batch goes
    uint64_t room = 0;    // allocated up to here
    std::atomic<uint64_t> zeroed{0};  // written, with zeros or records, up to here; zeros are laid from here on
  };

  // What went out with one write, kept until it is synced.
  struct Batch {
    std::string bytes;  // empty when memory ran short: then it is read back from `file`
    Lsn first = 0;
    Lsn last = 0;
    std::shared_ptr<LogFile> file;
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  enum class State : uint8_t { kOk, kFull, kFailed };

  void begin_buffer_locked();
  Lsn append_long(RecordHeader header, uint64_t key, uint64_t body_hash, std::string& record, uint64_t reserved);
  void seal_pending_locked();
  void put_aside_locked(Batch batch);
  void use_locked(uint64_t bytes, uint64_t reserved);
  void fill_batch_header(std::string& buffer, Lsn first, Lsn synced);
  Status write_locked(bool even_if_empty);
  Status put_batch_locked(std::string buffer, Lsn first, Lsn last);
  void keep_locked(Batch batch);
  void release_synced_locked(Lsn synced);
  Result<std::shared_ptr<LogFile>> make_file(Lsn name_lsn, uint64_t room, const std::vector<Batch*>& batches);
  Status load_batch(Batch& batch);
  void switch_file_locked();
  void set_failed(const Error& error);
  void set_full(bool full, const std::string& why);
  Status refusal() const;
  bool room_for(uint64_t extra) const {
    return claimed_.load(std::memory_order_relaxed) + extra <= room_.load(std::memory_order_relaxed);
  }
  bool reserve(uint64_t bytes, uint64_t kept);
  Status extend_room_locked(uint64_t extra);
  Status sync_once();
  Status mend();
  Status mend_locked();
  void adopt_locked(std::shared_ptr<LogFile> file, std::deque<Batch> batches);
  void note_failure(const Error& error);
  bool extend_ahead();
  bool lay_zeros();
  void prepare_next_file();
  void notify();

  FileSystem& files_;
  const JournalSetup setup_;
  std::atomic<SyncMode> mode_;
  const uint64_t instance_;  // tells thread-local reservations of different journals apart

  // Appending.
  std::mutex append_mutex_;
  std::string pending_;        // begins with the place of a batch record
  Lsn pending_first_ = 0;
  std::vector<Batch> sealed_;  // before it: nothing is added to them, since a long record is among them
  std::atomic<bool> long_pending_{false}, long_writing_{false};
  std::atomic<Lsn> appended_{0};

  // Room: bytes of the file in use that are written or pending (changed under append_mutex_), these and what admit() reserved,
  // and what there is. A thread reserves some KiB at a time, so that most records touch none but the first.
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> claimed_{0};
  std::atomic<uint64_t> room_{0};

  std::mutex create_mutex_;  // one file is made at a time; before write_mutex_

  // Writing.
  mutable std::mutex write_mutex_;
  std::shared_ptr<LogFile> current_;
  std::shared_ptr<LogFile> prepared_;               // the next file, ready
  std::vector<std::shared_ptr<LogFile>> closing_;   // written, not yet synced
  std::vector<OldJournalFile> old_;
  std::deque<Batch> tail_;                          // written, not yet synced
  std::deque<Batch> unwritten_;                     // a write failed
  uint64_t tail_bytes_ = 0;                         // of it in memory
  size_t tail_dropped_ = 0;                         // batches at its front whose bytes are not in memory any more
  std::vector<std::string> spare_;                  // buffers to use again
  Lsn named_ = 0;                                   // synced lsn named by the last batch written
  std::atomic<Lsn> written_{0};
  std::mutex fill_mutex_;

  // Syncing.
  std::mutex sync_mutex_;
  mutable std::mutex wait_mutex_;
  std::condition_variable wake_;      // the sync thread
  std::condition_variable advanced_;  // sync_up_to()
  Lsn requested_ = 0;
  Lsn wanted_stated_ = 0;
  bool stated_at_once_ = false;
  bool stopping_ = false;
  uint64_t failures_ = 0;             // attempts that failed
  Error last_error_;
  int64_t next_second_ms_ = 0;
  int64_t mend_at_ms_ = 0;
  std::function<void()> listener_;
  std::atomic<Lsn> synced_{0};
  std::atomic<Lsn> stated_{0};

  std::atomic<State> state_{State::kOk};
  std::atomic<bool> new_file_wanted_{false};
  std::atomic<int64_t> prepare_at_ms_{0};
  std::atomic<int64_t> extend_at_ms_{0};
  std::atomic<uint64_t> refused_full_{0};
  std::atomic<uint64_t> sync_failures_{0};
  std::atomic<uint64_t> write_failures_{0};
};

}  // namespace pion
