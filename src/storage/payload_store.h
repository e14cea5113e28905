// The extents' implementation: ExtentStore for the planes, and what Storage needs besides (syncing, recovery, giving back).
//
// Per file one bit a page says what is in use; that is all that is kept in memory of an extent. Space is taken from the
// tail of one active file a space only, so a position in a file is used once, and an old descriptor or a stale record can
// never meet another extent's bytes.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/filesystem.h"
#include "storage/extents.h"
#include "storage/format.h"
#include "storage/page_bits.h"

namespace pion {

struct PayloadSizes {
  uint64_t file_bytes = kPayloadFileBytes;
  uint64_t step_bytes = 16 * kMiB;  // allocated ahead of the tail
};

// Which extents are pinned, by where they begin. Outlives the store while an Extent lives.
class PinTable {
 public:
  void pin(ExtentRef ref);
  void unpin(ExtentRef ref);
  bool pinned(ExtentRef ref) const;

 private:
  static uint64_t key(ExtentRef ref) { return (static_cast<uint64_t>(ref.file) << 32) | ref.page; }
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, uint32_t> counts_;
};

// One file. Guarded by PayloadStore::mutex_ but for what is said.
struct PayloadFile {
  uint32_t id = 0;
  Space space = Space::kPrompt;
  std::string path;
  std::shared_ptr<File> writer;   // open while the file is active, has writers, is dirty, or failed
  std::shared_ptr<File> reader;   // read-only; closed again when many are open
  uint64_t reader_used = 0;       // for that
  PageBits used;                  // a bit a page
  uint64_t live_pages = 0;        // bits set
  uint64_t tail_page = 0;         // first page never given out
  uint64_t allocated_end = 0;     // bytes reserved on disk
  uint64_t ahead_bytes = 0;       // to be reserved behind the tail before anybody asks
  unsigned writers = 0;           // extents being written
  bool sealed = false;            // gives out no more
  bool trimmed = false;           // room beyond the end was given back
  bool failed = false;            // a sync failed; to be written anew
  bool gaps = false;              // found at start with bytes that nothing names
  std::atomic<bool> dirty{false}; // written since the last sync; any thread
  std::vector<ExtentRef> unsynced;

  // Nothing is in it but these pages, and nothing comes any more.
  bool holds_only(uint64_t pages) const { return sealed && writers == 0 && live_pages == pages; }
  // Less is reserved behind the tail than there should be.
  bool wants_room() const { return !sealed && !failed && writer && allocated_end < tail_page * kPageBytes + ahead_bytes; }
  // Nobody needs the writer for now. A failed file's is the only way to what was not synced.
  bool writer_idle() const { return sealed && writers == 0 && !failed && !dirty.load() && unsynced.empty(); }
};

class PayloadStore final : public ExtentStore {
 public:
  struct Setup {
    std::string dir;  // <data>/payload
    PayloadSizes sizes;
    std::function<void()> wake_housekeeping;
    std::function<void(Lsn, bool at_once)> want_stated;  // Journal's: a free waits for it
  };

  PayloadStore(FileSystem& files, Setup setup);
  ~PayloadStore() override;

  Result<std::unique_ptr<ExtentWriter>> create(Space space, uint64_t payload_bytes, uint64_t aux_bytes) override;
  Result<std::shared_ptr<Extent>> open(ExtentRef ref) override;
  std::shared_ptr<const void> hold(ExtentRef ref) override;
  void free(ExtentRef ref, Lsn freed_by) override;
  uint64_t waiting_bytes(Space space) const override { return waiting_bytes_[static_cast<size_t>(space)].load(std::memory_order_acquire); }
  bool await_given_back(Space space, uint64_t bytes, int64_t timeout_ms) override;
  uint64_t allocated_bytes(Space space) const override;
  std::vector<uint32_t> files(Space space) const override;
  Result<Descriptor> descriptor(Space space, uint32_t file) override;

  // ---- recovery, before the first create() ----
  Status scan();                                   // what files there are
  void raise_next_file(uint32_t id);               // ids below it were used
  Status verify(ExtentRef ref);                    // header and all payload
  bool mark_live(ExtentRef ref);                   // false: overlaps another, or lies in no file
  void write_again(ExtentRef ref);                 // named above the last known sync, verified: dirties its pages
  void finish_recovery(Lsn last);                  // what nothing names goes when `last` is stated as synced

  // ---- durability ----
  uint32_t next_file() const { return next_file_.load(std::memory_order_acquire); }
  bool dirty() const;
  // All payload of finished extents is on disk, with the files' names. One caller at a time.
  Status sync_dirty();
  // Gives back what records up to `stated` freed and nothing pins; some work at a time. True when there is more to do at once.
  bool housekeep(Lsn stated);
  uint64_t waiting_bytes() const { return waiting_bytes(Space::kPrompt) + waiting_bytes(Space::kValues); }

 private:
  friend class StreamWriter;
  struct Waiting {
    ExtentRef ref;
    Lsn freed_by;
  };

  PayloadFile* find_locked(uint32_t id) const;
  Result<PayloadFile*> active_file_locked(Space space, uint64_t pages);
  Result<PayloadFile*> new_file_locked(Space space);
  Status reserve_locked(PayloadFile& file, uint64_t pages);
  void reserve_ahead();
  Result<std::shared_ptr<File>> reader_locked(PayloadFile& file);
  Result<std::shared_ptr<File>> writer_locked(const PayloadFile& file);  // its own, or one for the caller alone
  void close_idle_readers_locked();
  Status finish_writer(ExtentRef ref, const std::shared_ptr<File>& written_to);
  void abandon_writer(ExtentRef ref);
  Status renew(PayloadFile& file);
  void give_back(std::vector<ExtentRef> refs);
  bool punch_gaps_of_one_file();
  void trim_sealed();
  void unlink_locked(uint32_t id);
  void unlink_empty_locked();
  std::string space_dir(Space space) const { return setup_.dir + "/" + std::to_string(static_cast<uint32_t>(space)); }

  FileSystem& disk_;
  const Setup setup_;
  const std::shared_ptr<PinTable> pins_ = std::make_shared<PinTable>();

  mutable std::mutex mutex_;
  std::unordered_map<uint32_t, std::unique_ptr<PayloadFile>> table_;
  std::map<Space, PayloadFile*> active_;
  std::atomic<uint32_t> next_file_{1};
  uint64_t open_readers_ = 0;
  uint64_t use_clock_ = 0;
  std::array<bool, 2> new_names_{};  // a space's directory holds a name that is not synced
  std::array<std::atomic<uint64_t>, 2> live_pages_{};
  std::deque<Waiting> waiting_;
  std::array<std::atomic<uint64_t>, 2> waiting_bytes_{};  // changed under mutex_
  std::condition_variable given_back_;
  Lsn garbage_until_ = 0;
  bool garbage_waits_ = false;
};

}  // namespace pion
