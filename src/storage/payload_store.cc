#include "storage/payload_store.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/log.h"
#include "base/page_buffer.h"
#include "storage/extent.h"

namespace pion {
namespace {

constexpr size_t kMaxOpenReaders = 256;         // descriptors kept for reading; extents in use keep their own beyond that
constexpr uint64_t kGroupBytes = 16 * kChunkBytes;  // hashed, then written together: smaller writes make smaller folios, for readers too
constexpr size_t kGiveBackAtOnce = 4096;        // extents given back in one go of the housekeeping
constexpr uint64_t kMaxAheadSteps = 4;          // of allocation, behind the tail
constexpr int64_t kAskAgainMs = 20;             // while somebody waits for what was freed

uint64_t page_bytes(uint64_t pages) { return pages * kPageBytes; }

}  // namespace

// ---- pins ---------------------------------------------------------------------------------------------------------

void PinTable::pin(ExtentRef ref) {
  std::lock_guard lock(mutex_);
  counts_[key(ref)]++;
}

void PinTable::unpin(ExtentRef ref) {
  std::lock_guard lock(mutex_);
  const auto found = counts_.find(key(ref));
  if (found != counts_.end() && --found->second == 0) counts_.erase(found);
}

bool PinTable::pinned(ExtentRef ref) const {
  std::lock_guard lock(mutex_);
  return counts_.contains(key(ref));
}

// ---- writing ------------------------------------------------------------------------------------------------------

class StreamWriter final : public ExtentWriter {
 public:
  StreamWriter(PayloadStore& store, std::shared_ptr<File> file, Space space, ExtentRef ref, uint64_t payload_bytes, uint64_t aux_room)
      : store_(store), file_(std::move(file)), space_(space), ref_(ref), payload_bytes_(payload_bytes), aux_room_(aux_room) {
    const uint64_t header_bytes = extent_header_bytes(payload_bytes, aux_room);
    payload_offset_ = page_bytes(ref.page + (header_bytes + kPageBytes - 1) / kPageBytes);
    checksums_.reserve(chunks_of(payload_bytes));
  }
  ~StreamWriter() override {
    if (!finished_) store_.abandon_writer(ref_);
  }
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  uint64_t remaining() const override { return payload_bytes_ - taken_; }
  void set_aux(std::string aux) override { aux_ = std::move(aux); }

  Status append(std::string_view payload) override {
    if (payload.size() > remaining()) return fail(ErrorCode::kInvalid, "more payload than was announced");
    while (status_ && !payload.empty()) {
      const bool direct = partial_ == 0 && (payload.size() >= kChunkBytes || payload.size() == remaining());
      status_ = direct ? write_direct(payload) : fill_partial(payload);
    }
    return status_;
  }

  Result<ExtentRef> finish() override {
    if (!status_) return std::unexpected(status_.error());
    if (finished_ || remaining() != 0) return fail(ErrorCode::kInternal, "an extent was finished before its payload was there");
    if (aux_.size() > aux_room_) return fail(ErrorCode::kInternal, "an extent's owner bytes are longer than was announced");
    PION_TRY(file_->pwrite(extent_header(space_, ref_, payload_bytes_, checksums_, aux_, aux_room_), page_bytes(ref_.page)));
    PION_TRY(store_.finish_writer(ref_, file_));
    finished_ = true;
    return ref_;
  }

 private:
  // Whole chunks (the last one may be short) straight from the caller's memory.
  Status write_direct(std::string_view& payload) {
    uint64_t size = std::min<uint64_t>(payload.size(), kGroupBytes);
    if (size < remaining()) size -= size % kChunkBytes;
    const std::string_view group = payload.substr(0, size);
    for (uint64_t at = 0; at < size; at += kChunkBytes) checksums_.push_back(xxh3(group.substr(at, kChunkBytes)));
    payload.remove_prefix(size);
    return put(group);
  }

  Status fill_partial(std::string_view& payload) {
    if (!buffer_) buffer_.emplace(kChunkBytes);
    const uint64_t size = std::min<uint64_t>(payload.size(), kChunkBytes - partial_);
    std::memcpy(buffer_->get() + partial_, payload.data(), size);
    payload.remove_prefix(size);
    partial_ += size;
    taken_ += size;
    if (partial_ < kChunkBytes && remaining() > 0) return {};
    const std::string_view chunk(buffer_->get(), partial_);
    checksums_.push_back(xxh3(chunk));
    taken_ -= partial_;
    partial_ = 0;
    return put(chunk);
  }

  Status put(std::string_view bytes) {
    const uint64_t offset = payload_offset_ + taken_;
    taken_ += bytes.size();
    return file_->pwrite(bytes, offset);
  }

  PayloadStore& store_;
  const std::shared_ptr<File> file_;
  const Space space_;
  const ExtentRef ref_;
  const uint64_t payload_bytes_;
  const uint64_t aux_room_;
  uint64_t payload_offset_ = 0;
  uint64_t taken_ = 0;  // in the file, or in buffer_
  uint64_t partial_ = 0;
  std::optional<PageBuffer> buffer_;
  std::vector<uint64_t> checksums_;
  std::string aux_;
  Status status_;
  bool finished_ = false;
};

uint32_t ExtentStore::pages_for(uint64_t payload_bytes, uint64_t aux_bytes) {
  const uint64_t header = (extent_header_bytes(payload_bytes, aux_bytes) + kPageBytes - 1) / kPageBytes;
  return static_cast<uint32_t>(header + (payload_bytes + kPageBytes - 1) / kPageBytes);
}

PayloadStore::PayloadStore(FileSystem& files, Setup setup) : disk_(files), setup_(std::move(setup)) {}
PayloadStore::~PayloadStore() = default;

PayloadFile* PayloadStore::find_locked(uint32_t id) const {
  const auto found = table_.find(id);
  return found == table_.end() ? nullptr : found->second.get();
}

Result<std::unique_ptr<ExtentWriter>> PayloadStore::create(Space space, uint64_t payload_bytes, uint64_t aux_bytes) {
  constexpr uint64_t kMaxExtentBytes = 1ULL << 40;
  if (payload_bytes > kMaxExtentBytes || aux_bytes > kMaxExtentBytes) return fail(ErrorCode::kTooLarge, "an extent of this size is over the limit");
  const uint32_t pages = pages_for(payload_bytes, aux_bytes);
  std::shared_ptr<File> writer;
  ExtentRef ref;
  {
    std::lock_guard lock(mutex_);
    Result<PayloadFile*> found = active_file_locked(space, pages);
    if (!found) {
      if (found.error().code == ErrorCode::kNoSpace && !waiting_.empty()) setup_.want_stated(waiting_.back().freed_by, true);
      return std::unexpected(found.error());
    }
    PayloadFile& file = **found;
    ref = {.file = file.id, .page = static_cast<uint32_t>(file.tail_page), .pages = pages};
    file.tail_page += pages;
    set_pages(file.used, ref.page, pages);
    file.live_pages += pages;
    file.writers++;
    live_pages_[static_cast<size_t>(space)] += pages;
    writer = file.writer;
  }
  return std::make_unique<StreamWriter>(*this, std::move(writer), space, ref, payload_bytes, aux_bytes);
}

// The file that gives out space, with `pages` reserved behind its tail.
Result<PayloadFile*> PayloadStore::active_file_locked(Space space, uint64_t pages) {
  PayloadFile*& active = active_[space];
  if (active && active->tail_page > 0 && page_bytes(active->tail_page + pages) > setup_.sizes.file_bytes) {
    active->sealed = true;
    active = nullptr;
  }
  if (!active) {
    Result<PayloadFile*> made = new_file_locked(space);
    if (!made) return made;
    active = *made;
  }
  PION_TRY(reserve_locked(*active, pages));
  return active;
}

Result<PayloadFile*> PayloadStore::new_file_locked(Space space) {
  const uint32_t id = next_file_.load();
  auto file = std::make_unique<PayloadFile>();
  file->id = id;
  file->space = space;
  file->path = space_dir(space) + "/" + std::to_string(id) + ".dat";
  Result<std::unique_ptr<File>> opened = disk_.open(file->path, OpenMode::kCreate);
  if (!opened) return std::unexpected(opened.error());
  file->writer = std::move(*opened);
  // The number is gone even if this file never gets an extent. Its name is synced before a record that rests on it counts.
  next_file_.store(id + 1, std::memory_order_release);
  new_names_[static_cast<size_t>(space)] = true;
  PayloadFile* const made = file.get();
  table_[id] = std::move(file);
  return made;
}

Status PayloadStore::reserve_locked(PayloadFile& file, uint64_t pages) {
  const uint64_t need = page_bytes(file.tail_page + pages);
  if (need <= file.allocated_end) return {};
  const uint64_t roomy = (need + setup_.sizes.step_bytes - 1) / setup_.sizes.step_bytes * setup_.sizes.step_bytes;
  for (const uint64_t target : {roomy, need}) {
    Status status = file.writer->allocate(file.allocated_end, target - file.allocated_end);
    if (status) {
      file.allocated_end = target;
      return {};
    }
    if (target == need) return status;
  }
  return {};
}

// Room for one more extent like the largest of the file, so that its writer need not wait for the file system: while a sync
// commits its journal, an allocation takes as long as writing 20 MiB.
void PayloadStore::reserve_ahead() {
  struct Work {
    uint32_t id;
    std::shared_ptr<File> writer;
    uint64_t from, to;
  };
  std::vector<Work> work;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [space, file] : active_) {
      if (!file || !file->wants_room()) continue;
      const uint64_t wanted = page_bytes(file->tail_page) + file->ahead_bytes;
      const uint64_t to = (wanted + setup_.sizes.step_bytes - 1) / setup_.sizes.step_bytes * setup_.sizes.step_bytes;
      work.push_back({file->id, file->writer, file->allocated_end, to});
    }
  }
  for (const Work& one : work) {
    const Status allocated = one.writer->allocate(one.from, one.to - one.from);
    std::lock_guard lock(mutex_);
    PayloadFile* file = find_locked(one.id);
    if (!file) continue;
    if (allocated) {
      file->allocated_end = std::max(file->allocated_end, one.to);
    } else {
      file->ahead_bytes = 0;  // who needs it asks for it, and hears why not
    }
  }
}

Status PayloadStore::finish_writer(ExtentRef ref, const std::shared_ptr<File>& written_to) {
  std::unique_lock lock(mutex_);
  PayloadFile* file = find_locked(ref.file);
  if (!file || file->failed || file->writer != written_to) return fail(ErrorCode::kIo, "the payload file failed while it was written");
  file->writers--;
  file->unsynced.push_back(ref);
  file->dirty.store(true, std::memory_order_release);
  if (file->space == Space::kPrompt) {  // the next rows of a prompt are as many as these
    file->ahead_bytes = std::max(file->ahead_bytes, std::min(page_bytes(ref.pages), kMaxAheadSteps * setup_.sizes.step_bytes));
  }
  const bool wants_room = file->wants_room();
  lock.unlock();
  if (wants_room) setup_.wake_housekeeping();
  return {};
}

void PayloadStore::abandon_writer(ExtentRef ref) {
  {
    std::lock_guard lock(mutex_);
    PayloadFile* file = find_locked(ref.file);
    if (!file) return;
    file->writers--;
  }
  free(ref, 0);
}

// ---- reading ------------------------------------------------------------------------------------------------------

Result<std::shared_ptr<File>> PayloadStore::reader_locked(PayloadFile& file) {
  file.reader_used = ++use_clock_;
  if (file.reader) return file.reader;
  Result<std::unique_ptr<File>> opened = disk_.open(file.path, OpenMode::kRead);
  if (!opened) return std::unexpected(opened.error());
  file.reader = std::move(*opened);
  if (++open_readers_ > kMaxOpenReaders) close_idle_readers_locked();
  return file.reader;
}

Result<std::shared_ptr<File>> PayloadStore::writer_locked(const PayloadFile& file) {
  if (file.writer) return file.writer;
  Result<std::unique_ptr<File>> opened = disk_.open(file.path, OpenMode::kReadWrite);
  if (!opened) return std::unexpected(opened.error());
  return std::shared_ptr<File>(std::move(*opened));
}

// Closes the half that was used longest ago, so that it is not done for each file.
void PayloadStore::close_idle_readers_locked() {
  std::vector<PayloadFile*> open;
  for (const auto& [id, file] : table_) {
    if (file->reader) open.push_back(file.get());
  }
  const auto middle = open.begin() + static_cast<ptrdiff_t>(open.size() / 2);
  std::nth_element(open.begin(), middle, open.end(), [](const PayloadFile* a, const PayloadFile* b) { return a->reader_used < b->reader_used; });
  for (auto at = open.begin(); at != middle; ++at) (*at)->reader.reset();
  open_readers_ = open.size() - open.size() / 2;
}

Result<std::shared_ptr<Extent>> PayloadStore::open(ExtentRef ref) {
  std::shared_ptr<File> reader;
  Space space;
  {
    std::lock_guard lock(mutex_);
    PayloadFile* file = find_locked(ref.file);
    if (!file) return fail(ErrorCode::kCorrupt, "payload file " + std::to_string(ref.file) + " is not there");
    Result<std::shared_ptr<File>> opened = reader_locked(*file);
    if (!opened) return std::unexpected(opened.error());
    reader = std::move(*opened);
    space = file->space;
  }
  return open_extent(std::move(reader), space, ref, pins_);
}

std::shared_ptr<const void> PayloadStore::hold(ExtentRef ref) {
  pins_->pin(ref);
  return {this, [pins = pins_, ref](const void*) { pins->unpin(ref); }};
}

Result<ExtentStore::Descriptor> PayloadStore::descriptor(Space space, uint32_t id) {
  std::lock_guard lock(mutex_);
  PayloadFile* file = find_locked(id);
  if (!file || file->space != space) return fail(ErrorCode::kNotFound, "no payload file " + std::to_string(id) + " in this space");
  Result<std::shared_ptr<File>> reader = reader_locked(*file);
  if (!reader) return std::unexpected(reader.error());
  return Descriptor{.fd = (*reader)->fd(), .pin = *reader};
}

std::vector<uint32_t> PayloadStore::files(Space space) const {
  std::vector<uint32_t> ids;
  std::lock_guard lock(mutex_);
  for (const auto& [id, file] : table_) {
    if (file->space == space && file->live_pages > 0) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

uint64_t PayloadStore::allocated_bytes(Space space) const { return page_bytes(live_pages_[static_cast<size_t>(space)].load()); }

// ---- giving back --------------------------------------------------------------------------------------------------

void PayloadStore::free(ExtentRef ref, Lsn freed_by) {
  if (!ref) return;
  {
    std::lock_guard lock(mutex_);
    PayloadFile* file = find_locked(ref.file);
    if (!file) return;
    live_pages_[static_cast<size_t>(file->space)] -= ref.pages;
    waiting_.push_back({ref, freed_by});
    waiting_bytes_[static_cast<size_t>(file->space)] += page_bytes(ref.pages);
  }
  if (freed_by > 0) {
    setup_.want_stated(freed_by, false);
  } else {
    setup_.wake_housekeeping();
  }
}

bool PayloadStore::await_given_back(Space space, uint64_t bytes, int64_t timeout_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  std::unique_lock lock(mutex_);
  while (waiting_bytes(space) > bytes) {
    Lsn freed_by = 0;
    for (const Waiting& waiting : waiting_) freed_by = std::max(freed_by, waiting.freed_by);
    lock.unlock();
    if (freed_by > 0) setup_.want_stated(freed_by, true);
    setup_.wake_housekeeping();  // what was pinned when it was stated may not be any more
    lock.lock();
    const auto step = std::min(until, std::chrono::steady_clock::now() + std::chrono::milliseconds(kAskAgainMs));
    given_back_.wait_until(lock, step, [&] { return waiting_bytes(space) <= bytes; });
    if (std::chrono::steady_clock::now() >= until) break;
  }
  return waiting_bytes(space) <= bytes;
}

bool PayloadStore::housekeep(Lsn stated) {
  std::vector<ExtentRef> ready;
  {
    std::lock_guard lock(mutex_);
    std::deque<Waiting> rest;
    for (const Waiting& waiting : waiting_) {
      if (waiting.freed_by <= stated && ready.size() < kGiveBackAtOnce && !pins_->pinned(waiting.ref)) {
        ready.push_back(waiting.ref);
      } else {
        rest.push_back(waiting);
      }
    }
    if (!ready.empty()) waiting_.swap(rest);
  }
  const bool more = ready.size() == kGiveBackAtOnce;
  if (!ready.empty()) give_back(std::move(ready));
  trim_sealed();
  reserve_ahead();
  {
    std::lock_guard lock(mutex_);
    if (garbage_waits_ && stated < garbage_until_) return more;
    if (std::exchange(garbage_waits_, false)) unlink_empty_locked();
  }
  return punch_gaps_of_one_file() || more;
}

void PayloadStore::unlink_empty_locked() {
  std::vector<uint32_t> empty;
  for (const auto& [id, file] : table_) {
    if (file->holds_only(0)) empty.push_back(id);
  }
  for (const uint32_t id : empty) unlink_locked(id);
}

void PayloadStore::give_back(std::vector<ExtentRef> refs) {
  std::sort(refs.begin(), refs.end(), [](ExtentRef a, ExtentRef b) { return a.file != b.file ? a.file < b.file : a.page < b.page; });
  for (size_t at = 0; at < refs.size();) {
    const uint32_t id = refs[at].file;
    size_t end = at;
    uint64_t pages = 0;
    while (end < refs.size() && refs[end].file == id) pages += refs[end++].pages;

    std::shared_ptr<File> writer;
    Space space = Space::kPrompt;
    bool unlinked = false;
    {
      std::lock_guard lock(mutex_);
      PayloadFile* file = find_locked(id);
      if (file) {
        space = file->space;
        unlinked = file->holds_only(pages);
        if (unlinked) {
          unlink_locked(id);
        } else {
          writer = writer_locked(*file).value_or(nullptr);
        }
      }
    }
    for (size_t from = at; writer && from < end;) {
      size_t until = from + 1;
      while (until < end && refs[until].page == refs[until - 1].page + refs[until - 1].pages) until++;
      const uint64_t first = refs[from].page;
      const uint64_t after = refs[until - 1].page + refs[until - 1].pages;
      if (Status status = writer->punch_hole(page_bytes(first), page_bytes(after - first)); !status) {
        log_warning("space is not given back until the file is empty: " + status.error().message);
      }
      from = until;
    }
    {
      std::lock_guard lock(mutex_);
      waiting_bytes_[static_cast<size_t>(space)] -= page_bytes(pages);
      if (PayloadFile* file = unlinked ? nullptr : find_locked(id)) {
        for (size_t i = at; i < end; i++) clear_pages(file->used, refs[i].page, refs[i].pages);
        file->live_pages -= std::min(file->live_pages, pages);
        std::erase_if(file->unsynced, [&](ExtentRef ref) {
          return std::binary_search(refs.begin() + static_cast<ptrdiff_t>(at), refs.begin() + static_cast<ptrdiff_t>(end), ref,
                                    [](ExtentRef a, ExtentRef b) { return a.page < b.page; });
        });
        if (file->holds_only(0)) unlink_locked(id);
      }
    }
    given_back_.notify_all();
    at = end;
  }
}

void PayloadStore::unlink_locked(uint32_t id) {
  PayloadFile* file = find_locked(id);
  if (Status status = disk_.remove(file->path); !status && status.error().code != ErrorCode::kNotFound) {
    log_warning("an empty payload file stays: " + status.error().message);
  }
  if (file->reader) open_readers_--;
  if (active_[file->space] == file) active_[file->space] = nullptr;
  table_.erase(id);
}

// A sealed file's room beyond its end goes back, once nobody writes there.
void PayloadStore::trim_sealed() {
  std::vector<std::pair<uint32_t, std::shared_ptr<File>>> sealed;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, file] : table_) {
      if (!file->sealed || file->trimmed || file->writers > 0 || file->failed) continue;
      file->trimmed = true;
      sealed.emplace_back(id, writer_locked(*file).value_or(nullptr));
    }
  }
  for (const auto& [id, file] : sealed) {
    if (!file) continue;
    const Result<uint64_t> size = file->size();
    if (size) static_cast<void>(file->truncate(*size));
    std::lock_guard lock(mutex_);
    PayloadFile* entry = find_locked(id);
    if (entry && entry->writer_idle()) entry->writer.reset();
  }
}

// What lies between live extents after a start is of no use to anybody.
bool PayloadStore::punch_gaps_of_one_file() {
  PageBits used;
  std::shared_ptr<File> writer;
  uint32_t id = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(table_.begin(), table_.end(), [](const auto& entry) { return entry.second->gaps && !entry.second->failed; });
    if (found == table_.end()) return false;
    PayloadFile& file = *found->second;
    file.gaps = false;
    id = file.id;
    used = file.used;
    writer = writer_locked(file).value_or(nullptr);
    if (!writer) return true;
    // Positions from the tail on may be given out while this runs; those before it never again.
    used.resize((file.tail_page + 63) / 64);
    set_pages(used, file.tail_page, used.size() * 64 - file.tail_page);
  }
  const uint64_t end = used.size() * 64;
  for (uint64_t page = next_page(used, 0, end, false); page < end; page = next_page(used, page, end, false)) {
    const uint64_t until = next_page(used, page, end, true);
    const Result<uint64_t> data = writer->next_data(page_bytes(page));
    if (!data || *data < page_bytes(until)) {
      if (Status status = writer->punch_hole(page_bytes(page), page_bytes(until - page)); !status) {
        log_warning("payload file " + std::to_string(id) + ": " + status.error().message);
        break;
      }
    }
    page = until;
  }
  return true;
}

// ---- durability ---------------------------------------------------------------------------------------------------

bool PayloadStore::dirty() const {
  std::lock_guard lock(mutex_);
  return std::any_of(table_.begin(), table_.end(), [](const auto& entry) { return entry.second->dirty.load() || entry.second->failed; });
}

Status PayloadStore::sync_dirty() {
  struct Work {
    uint32_t id;
    std::shared_ptr<File> writer;
    size_t extents;
  };
  std::vector<Work> work;
  std::vector<uint32_t> failed;
  std::array<bool, 2> names;
  {
    std::lock_guard lock(mutex_);
    names = std::exchange(new_names_, {});
    for (const auto& [id, file] : table_) {
      if (file->failed) failed.push_back(id);
      if (file->failed || !file->dirty.load()) continue;
      file->dirty.store(false);
      work.push_back({id, file->writer, file->unsynced.size()});
    }
  }
  for (size_t space = 0; space < names.size(); space++) {
    if (!names[space]) continue;
    if (Status status = disk_.sync_directory(space_dir(static_cast<Space>(space))); !status) {
      std::lock_guard lock(mutex_);
      new_names_[space] = true;
      for (const Work& one : work) {
        if (PayloadFile* file = find_locked(one.id)) file->dirty.store(true);
      }
      return status;
    }
  }
  for (Work& one : work) {
    const Status status = one.writer->sync_data();
    std::lock_guard lock(mutex_);
    PayloadFile* file = find_locked(one.id);
    if (!file) continue;  // all free meanwhile, and unlinked
    if (!status) {
      log_warning("a payload file is written anew: " + status.error().message);
      file->failed = true;
      file->sealed = true;
      if (active_[file->space] == file) active_[file->space] = nullptr;
      failed.push_back(one.id);
      continue;
    }
    file->unsynced.erase(file->unsynced.begin(), file->unsynced.begin() + static_cast<ptrdiff_t>(std::min(one.extents, file->unsynced.size())));
    if (file->writer_idle()) file->writer.reset();
  }
  for (const uint32_t id : failed) {
    PayloadFile* file;
    {
      std::lock_guard lock(mutex_);
      file = find_locked(id);
      if (file) file->writers++;  // or it would be unlinked under our hands when its last extent is freed meanwhile
    }
    if (!file) continue;
    const Status renewed = renew(*file);
    std::lock_guard lock(mutex_);
    file->writers--;
    if (file->holds_only(0)) unlink_locked(id);
    PION_TRY(renewed);
  }
  return {};
}

// After a failed sync: copies what is in use to a new file under the same name, verified and synced. The failed file's
// pages are the only copy of what was not synced yet.
Status PayloadStore::renew(PayloadFile& file) {
  std::shared_ptr<File> from;
  PageBits used;
  std::vector<ExtentRef> unsynced;
  {
    std::lock_guard lock(mutex_);
    Result<std::shared_ptr<File>> writer = writer_locked(file);
    if (!writer) return std::unexpected(writer.error());
    from = std::move(*writer);
    used = file.used;
    unsynced = file.unsynced;
  }
  const std::string temporary = file.path + ".new";
  static_cast<void>(disk_.remove(temporary));
  Result<std::unique_ptr<File>> made = disk_.open(temporary, OpenMode::kCreate);
  if (!made) return std::unexpected(made.error());
  const std::shared_ptr<File> to = std::move(*made);
  const auto copy = [&]() -> Status {
    const std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(kMiB);
    const uint64_t end = used.size() * 64;
    for (uint64_t page = next_page(used, 0, end, true); page < end; page = next_page(used, page, end, true)) {
      const uint64_t until = std::min(next_page(used, page, end, false), page + kMiB / kPageBytes);
      const Result<size_t> got = from->pread(buffer.get(), page_bytes(until - page), page_bytes(page));
      if (!got) return std::unexpected(got.error());
      PION_TRY(to->allocate(page_bytes(page), page_bytes(until - page)));
      PION_TRY(to->pwrite({buffer.get(), *got}, page_bytes(page)));
      page = until;
    }
    for (const ExtentRef ref : unsynced) {
      Result<std::shared_ptr<Extent>> extent = open_extent(to, file.space, ref, pins_);
      const Status whole = extent ? (*extent)->verify(0, (*extent)->payload_bytes()) : Status(std::unexpected(extent.error()));
      // The device failed and the page cache let go of it: then it is nowhere, and nothing that names it may count.
      if (!whole) return fail(ErrorCode::kIo, "lost to a failed sync: " + whole.error().message);
    }
    PION_TRY(to->sync_data());
    PION_TRY(disk_.rename(temporary, file.path));
    return disk_.sync_directory(space_dir(file.space));
  };
  if (Status status = copy(); !status) {
    static_cast<void>(disk_.remove(temporary));
    return status;
  }
  std::lock_guard lock(mutex_);
  file.writer = to;
  if (file.reader) open_readers_--;
  file.reader.reset();
  file.failed = false;
  file.gaps = true;  // what was freed while it was copied
  file.unsynced.clear();
  return {};
}

}  // namespace pion
