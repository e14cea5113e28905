#include "storage/journal_scan.h"

#include "base/bytes.h"

namespace pion {
namespace {

uint64_t place_of(const RecordHeader& header, uint64_t seed) {
  return record_place(record_key(seed, header.total_bytes, header.type, header.flags), header.lsn);
}

// The header's fields can be those of a record that fits before `end`.
bool plausible(const RecordHeader& header, uint64_t seed, uint64_t offset, uint64_t end) {
  if (header.total_bytes < sizeof(RecordHeader) || header.type == 0 || header.flags != 0) return false;
  if (header.total_bytes > sizeof(RecordHeader) + kMaxRecordBytes) return false;
  if (header.lsn == 0 || header.total_bytes > end - offset) return false;
  return header.header_check == record_header_check(place_of(header, seed));
}

bool verifies(const RecordHeader& header, uint64_t seed, std::string_view body) {
  return header.hash == record_hash(xxh3(body), place_of(header, seed));
}

// A whole record at `offset`, or an empty view of it.
bool record_at(WindowReader& reader, uint64_t seed, uint64_t offset, RecordHeader& header, std::string_view& body) {
  const uint64_t end = reader.file_bytes();
  if (offset + sizeof(RecordHeader) > end) return false;
  std::string_view bytes = reader.view(offset, sizeof(RecordHeader));
  if (bytes.size() < sizeof(RecordHeader)) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (!plausible(header, seed, offset, end)) return false;
  bytes = reader.view(offset, header.total_bytes);
  if (bytes.size() < header.total_bytes) return false;
  body = bytes.substr(sizeof(RecordHeader));
  return verifies(header, seed, body);
}

// First multiple of 8 at or after `offset` whose eight bytes are not all zero; the file's size when there is none.
uint64_t skip_zeros(WindowReader& reader, uint64_t offset) {
  const uint64_t end = reader.file_bytes();
  while (offset < end) {
    const std::string_view bytes = reader.view(offset, std::min<uint64_t>(kPageBytes, end - offset));
    size_t at = 0;
    while (at + 8 <= bytes.size() && load_le<uint64_t>(bytes.data() + at) == 0) at += 8;
    if (at + 8 <= bytes.size()) return offset + at;
    for (size_t rest = at; rest < bytes.size(); rest++) {
      if (bytes[rest] != 0) return offset + at;
    }
    offset += bytes.size();
  }
  return end;
}

}  // namespace

uint64_t journal_file_seed(File& file) {
  JournalFileHeader header;
  const Result<size_t> got = file.pread(&header, sizeof header, 0);
  if (!got || *got < sizeof header) return 0;
  if (header.magic != kJournalMagic || header.version != kFormatVersion || header.checksum != checksum_of(header)) return 0;
  return header.seed;
}

void scan_journal_file(JournalScan& scan, size_t index, uint64_t seed) {
  ScannedFile& file = scan.files[index];
  WindowReader reader(*file.file, file.bytes);
  JournalRun run;
  const auto close_run = [&] {
    if (run.first != 0) scan.runs.push_back(run);
    run = {};
  };
  uint64_t at = kJournalHeaderBytes;
  file.good_end = file.used_end = std::min(at, file.bytes);
  while (at < file.bytes) {
    RecordHeader header;
    std::string_view body;
    if (!record_at(reader, seed, at, header, body)) {
      // Damage or the end. Records behind damage count (the batches there say what had been synced), so look for the next.
      const uint64_t next = skip_zeros(reader, at);
      if (next != at) {
        close_run();
        at = next;
        continue;
      }
      close_run();
      at += kRecordAlign;
      scan.bad_bytes += kRecordAlign;
      file.used_end = std::min(at, file.bytes);
      continue;
    }
    // The file may end inside the padding, which is no part of the record. What is written behind it must be aligned all the same.
    const uint64_t end = at + padded_record(header.total_bytes);
    if (header.type == static_cast<uint8_t>(RecordType::kBatch)) {
      if (body.size() >= sizeof(BatchBody)) {
        const auto batch = load_le<BatchBody>(body.data());
        scan.known_synced = std::max(scan.known_synced, batch.synced_lsn);
        scan.next_payload_file = std::max(scan.next_payload_file, batch.next_payload_file);
        if (batch.synced_lsn > file.stated) {
          file.stated = batch.synced_lsn;
          file.stated_end = end;
        }
      }
    } else {
      if (run.first != 0 && header.lsn != run.last + 1) close_run();
      if (run.first == 0) run = {.file = index, .begin = at, .end = end, .first = header.lsn, .last = header.lsn};
      run.last = header.lsn;
      file.last_lsn = std::max(file.last_lsn, header.lsn);
    }
    run.end = end;
    file.good_end = file.used_end = end;
    at = end;
  }
  close_run();
}

void read_run(WindowReader& reader, const JournalRun& run, Lsn from, const std::function<bool(const RecordView&)>& visit) {
  for (uint64_t at = run.begin; at + sizeof(RecordHeader) <= run.end;) {
    std::string_view bytes = reader.view(at, sizeof(RecordHeader));
    if (bytes.size() < sizeof(RecordHeader)) return;
    const auto header = load_le<RecordHeader>(bytes.data());
    if (header.total_bytes < sizeof(RecordHeader) || header.total_bytes > run.end - at) return;
    const uint64_t step = padded_record(header.total_bytes);
    if (header.type != static_cast<uint8_t>(RecordType::kBatch) && header.lsn >= from) {
      bytes = reader.view(at, header.total_bytes);
      if (bytes.size() < header.total_bytes) return;
      const RecordView record{.lsn = header.lsn, .type = header.type, .body = bytes.substr(sizeof(RecordHeader)), .offset = at, .bytes = step};
      if (!visit(record)) return;
    }
    at += step;
  }
}

std::string batch_record(uint64_t seed, Lsn next_lsn, Lsn synced, uint32_t next_payload_file) {
  const BatchBody body{.synced_lsn = synced, .next_payload_file = next_payload_file, .reserved = 0};
  RecordHeader header{.total_bytes = kBatchRecordBytes,
                      .type = static_cast<uint8_t>(RecordType::kBatch),
                      .flags = 0,
                      .header_check = 0,
                      .lsn = next_lsn,
                      .hash = 0};
  seal_record(header, seed, bytes_of(body));
  return std::string(bytes_of(header)).append(bytes_of(body));
}

bool verify_batch(std::string_view bytes, uint64_t seed) {
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(RecordHeader)) return false;
    const auto header = load_le<RecordHeader>(bytes.data());
    if (!plausible(header, seed, 0, bytes.size())) return false;
    if (!verifies(header, seed, bytes.substr(sizeof header, header.total_bytes - sizeof header))) return false;
    bytes.remove_prefix(std::min<size_t>(padded_record(header.total_bytes), bytes.size()));
  }
  return true;
}

}  // namespace pion
