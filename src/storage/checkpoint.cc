#include "storage/checkpoint.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/clock.h"
#include "storage/window_reader.h"

namespace pion {
namespace {

constexpr uint64_t kFlushBytes = 1 * kMiB;

uint64_t section_checksum(const SectionHeader& header, uint64_t seed) {
  return xxh3({reinterpret_cast<const char*>(&header), offsetof(SectionHeader, checksum)}, seed);
}

}  // namespace

CheckpointWriter::CheckpointWriter(FileSystem& files, std::string dir, Lsn lsn, uint64_t seed, uint32_t next_payload_file)
    : files_(files),
      dir_(std::move(dir)),
      path_(dir_ + "/" + lsn_name(lsn, ".ckpt")),
      temporary_(path_ + ".tmp"),
      lsn_(lsn),
      seed_(seed),
      next_payload_file_(next_payload_file),
      lowest_(lsn) {}

CheckpointWriter::~CheckpointWriter() {
  if (finished_ || !file_) return;
  file_.reset();
  static_cast<void>(files_.remove(temporary_));
}

Status CheckpointWriter::begin() {
  if (Status removed = files_.remove(temporary_); !removed && removed.error().code != ErrorCode::kNotFound) return removed;
  Result<std::unique_ptr<File>> file = files_.open(temporary_, OpenMode::kCreate);
  if (!file) return std::unexpected(file.error());
  file_ = std::move(*file);
  CheckpointHeader header{.magic = kCheckpointMagic,
                          .version = kFormatVersion,
                          .next_payload_file = next_payload_file_,
                          .lsn = lsn_,
                          .seed = seed_,
                          .created_wall_ms = wall_ms(),
                          .checksum = 0};
  header.checksum = checksum_of(header);
  return put(bytes_of(header));
}

Status CheckpointWriter::section(uint32_t number, Lsn lsn, std::string_view body) {
  SectionHeader header{.magic = kSectionMagic,
                       .plane = {},
                       .number = number,
                       .index = static_cast<uint32_t>(sections_),
                       .lsn = lsn,
                       .body_bytes = body.size(),
                       .body_hash = xxh3(body),
                       .checksum = 0};
  if (plane_.size() > sizeof header.plane) return fail(ErrorCode::kInternal, "the plane's name " + plane_ + " is too long");
  std::memcpy(header.plane, plane_.data(), plane_.size());
  header.checksum = section_checksum(header, seed_);
  chain_ = mix64(chain_ ^ header.checksum);
  sections_++;
  lowest_ = std::min(lowest_, lsn);
  highest_ = std::max(highest_, lsn);
  PION_TRY(put(bytes_of(header)));
  PION_TRY(put(body));
  static constexpr char kZeros[kRecordAlign] = {};
  return put({kZeros, (kRecordAlign - body.size() % kRecordAlign) % kRecordAlign});
}

Status CheckpointWriter::put(std::string_view bytes) {
  at_ += bytes.size();
  if (buffer_.size() + bytes.size() > kFlushBytes) PION_TRY(flush());
  if (bytes.size() <= kFlushBytes) {
    buffer_.append(bytes);
    return {};
  }
  return file_->pwrite(bytes, at_ - bytes.size());
}

Status CheckpointWriter::flush() {
  // What is buffered ends where the bytes that did not fit begin; the position is what was written so far.
  const Result<uint64_t> end = file_->size();
  if (!end) return std::unexpected(end.error());
  PION_TRY(file_->pwrite(buffer_, *end));
  buffer_.clear();
  return {};
}

Status CheckpointWriter::finish(Lsn needed_above) {
  CheckpointFooter footer{.magic = kCheckpointEnd,
                          .sections = sections_,
                          .lowest_lsn = needed_above,
                          .highest_lsn = highest_,
                          .header_hashes = chain_,
                          .checksum = 0};
  footer.checksum = checksum_of(footer);
  PION_TRY(put(bytes_of(footer)));
  PION_TRY(flush());
  PION_TRY(file_->sync_data());
  PION_TRY(files_.rename(temporary_, path_));
  finished_ = true;
  return files_.sync_directory(dir_);
}

uint64_t checkpoint_seed(File& file) {
  CheckpointHeader header;
  const Result<size_t> got = file.pread(&header, sizeof header, 0);
  if (!got || *got < sizeof header) return 0;
  if (header.magic != kCheckpointMagic || header.version != kFormatVersion || header.checksum != checksum_of(header)) return 0;
  return header.seed;
}

CheckpointIndex index_checkpoint(std::unique_ptr<File> file, std::string name, Lsn name_lsn, uint64_t seed) {
  CheckpointIndex index;
  index.name = std::move(name);
  index.lsn = index.lowest_lsn = index.highest_lsn = name_lsn;
  index.file = std::move(file);
  const Result<uint64_t> size = index.file->size();
  if (!size) return index;
  index.bytes = *size;

  CheckpointHeader header;
  const Result<size_t> got = index.file->pread(&header, sizeof header, 0);
  bool good = got && *got == sizeof header && header.magic == kCheckpointMagic && header.checksum == checksum_of(header) &&
              header.version == kFormatVersion && header.lsn == name_lsn;
  if (good) index.next_payload_file = header.next_payload_file;

  WindowReader reader(*index.file, index.bytes);
  Lsn lowest = name_lsn, highest = 0;
  uint64_t chain = 0;
  bool ended = false;
  for (uint64_t at = sizeof header; at + sizeof(CheckpointFooter) <= index.bytes && !ended;) {
    SectionHeader section{};
    const Result<size_t> read = index.file->pread(&section, sizeof section, at);
    const bool section_good = read && *read == sizeof section && section.magic == kSectionMagic &&
                              section.checksum == section_checksum(section, seed) && section.body_bytes <= index.bytes - at - sizeof section;
    if (section_good) {
      chain = mix64(chain ^ section.checksum);
      lowest = std::min(lowest, section.lsn);
      highest = std::max(highest, section.lsn);
      const std::string_view plane(section.plane, sizeof section.plane);
      index.sections.push_back({.plane = std::string(plane.substr(0, plane.find('\0'))),
                                .number = section.number,
                                .lsn = section.lsn,
                                .offset = at + sizeof section,
                                .bytes = section.body_bytes,
                                .hash = section.body_hash});
      at += sizeof section + padded_record(section.body_bytes);
      continue;
    }
    CheckpointFooter footer;
    std::memcpy(&footer, &section, sizeof footer);
    if (read && *read >= sizeof footer && footer.magic == kCheckpointEnd && footer.checksum == checksum_of(footer)) {
      good = good && at + sizeof footer == index.bytes && footer.sections == index.sections.size() && footer.header_hashes == chain;
      lowest = std::min(lowest, footer.lowest_lsn);
      if (good) lowest = footer.lowest_lsn;
      highest = std::max(highest, footer.highest_lsn);
      ended = true;
      continue;
    }
    good = false;
    // Damage: the next place where a section or the end marker may begin.
    for (at += kRecordAlign; at + 8 <= index.bytes; at += kRecordAlign) {
      const uint64_t magic = load_le<uint64_t>(reader.view(at, 8).data());
      if (magic == kSectionMagic || magic == kCheckpointEnd) break;
    }
  }
  index.whole = good && ended;
  index.lowest_lsn = lowest;
  index.highest_lsn = highest;
  return index;
}

Result<std::string_view> read_section(File& file, const CheckpointSection& section, std::string& buffer) {
  if (buffer.size() < section.bytes) buffer.resize(section.bytes);
  const Result<size_t> got = file.pread(buffer.data(), section.bytes, section.offset);
  if (!got) return std::unexpected(got.error());
  const std::string_view body(buffer.data(), section.bytes);
  if (*got != section.bytes || xxh3(body) != section.hash) {
    return fail(ErrorCode::kCorrupt, "section " + std::to_string(section.number) + " of " + section.plane + ": the checksum does not hold");
  }
  return body;
}

}  // namespace pion
