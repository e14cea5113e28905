// What PayloadStore does at a start: which files there are, which of their pages planes still name.
#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "storage/payload_store.h"

namespace pion {
Status PayloadStore::scan() {
  std::lock_guard lock(mutex_);
  for (size_t space = 0; space < live_pages_.size(); space++) {
    const std::string dir = space_dir(static_cast<Space>(space));
    const Result<std::vector<std::string>> names = disk_.list(dir);
    if (!names) return std::unexpected(names.error());
    for (const std::string& name : *names) {
      if (name.ends_with(".dat.new")) {
        static_cast<void>(disk_.remove(dir + "/" + name));
        continue;
      }
      uint32_t id = 0;
      const char* const end = name.data() + name.size();
      const auto [stop, error] = std::from_chars(name.data(), end, id);
      if (error != std::errc() || id == 0 || std::string_view(stop, end) != ".dat" || table_.contains(id)) continue;
      auto file = std::make_unique<PayloadFile>();
      file->id = id;
      file->space = static_cast<Space>(space);
      file->path = dir + "/" + name;
      Result<std::unique_ptr<File>> opened = disk_.open(file->path, OpenMode::kRead);
      const Result<uint64_t> size = opened ? (*opened)->size() : Result<uint64_t>(std::unexpected(opened.error()));
      if (!size) {
        log_warning("a payload file cannot be read: " + size.error().message);
        continue;
      }
      file->tail_page = (*size + kPageBytes - 1) / kPageBytes;
      file->sealed = true;
      next_file_.store(std::max(next_file_.load(), id + 1));
      table_[id] = std::move(file);
    }
  }
  return {};
}

void PayloadStore::raise_next_file(uint32_t id) { next_file_.store(std::max(next_file_.load(), id)); }

Status PayloadStore::verify(ExtentRef ref) {
  Result<std::shared_ptr<Extent>> extent = open(ref);
  if (!extent) return std::unexpected(extent.error());
  return (*extent)->verify(0, (*extent)->payload_bytes());
}

bool PayloadStore::mark_live(ExtentRef ref) {
  if (!ref || ref.pages == 0) return false;
  std::lock_guard lock(mutex_);
  PayloadFile* file = find_locked(ref.file);
  if (!file) return false;
  const uint64_t end = static_cast<uint64_t>(ref.page) + ref.pages;
  if (end > file->tail_page) return false;
  if (file->used.empty()) file->used.resize((file->tail_page + 63) / 64);
  if (!set_pages(file->used, ref.page, ref.pages)) return false;
  file->live_pages += ref.pages;
  live_pages_[static_cast<size_t>(file->space)] += ref.pages;
  return true;
}

// The page cache may hold it as clean although a sync failed; written again, the next sync writes it.
void PayloadStore::write_again(ExtentRef ref) {
  std::shared_ptr<File> writer;
  {
    std::lock_guard lock(mutex_);
    PayloadFile* file = find_locked(ref.file);
    if (!file) return;
    writer = writer_locked(*file).value_or(nullptr);
    if (!writer) return;
    file->writer = writer;
    file->unsynced.push_back(ref);
    file->dirty.store(true);
    new_names_[static_cast<size_t>(file->space)] = true;
  }
  const std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(4 * kChunkBytes);
  const uint64_t end = (static_cast<uint64_t>(ref.page) + ref.pages) * kPageBytes;
  for (uint64_t at = ref.page * kPageBytes; at < end;) {
    const Result<size_t> got = writer->pread(buffer.get(), std::min(4 * kChunkBytes, end - at), at);
    if (!got || *got == 0) return;
    if (Status status = writer->pwrite({buffer.get(), *got}, at); !status) {
      log_warning("payload is not written again: " + status.error().message);
      return;
    }
    at += *got;
  }
}

// Garbage goes later, see housekeep(): a record above the last known sync may name it, and one behind that free it. Were
// it gone and the statement of what is synced lost in another crash, the first of the two would look torn.
void PayloadStore::finish_recovery(Lsn last) {
  {
    std::lock_guard lock(mutex_);
    garbage_until_ = last;
    garbage_waits_ = true;
    std::map<Space, PayloadFile*> newest;
    for (const auto& [id, file] : table_) {
      file->gaps = file->live_pages > 0 && file->live_pages < file->tail_page;
      PayloadFile*& best = newest[file->space];
      if (file->live_pages > 0 && (!best || best->id < id)) best = file.get();
    }
    // The newest goes on being filled, so that many starts do not make many files. Behind its end, never before it.
    for (const auto& [space, file] : newest) {
      if (!file || file->tail_page * kPageBytes >= setup_.sizes.file_bytes) continue;
      const std::shared_ptr<File> writer = writer_locked(*file).value_or(nullptr);
      if (!writer) continue;
      file->writer = writer;
      file->sealed = false;
      file->allocated_end = file->tail_page * kPageBytes;
      active_[space] = file;
    }
  }
  setup_.want_stated(last, false);
}

}  // namespace pion
