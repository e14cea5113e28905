// Fuzzer: any bytes as a journal file, with the right seal where the fuzzer would never find one. Recovery must neither
// crash nor hang nor deliver a record whose checksum does not hold, and what follows must be appendable and found again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "base/log.h"
#include "io/faulty_filesystem.h"
#include "storage/format.h"
#include "storage/journal_scan.h"

namespace pion {
namespace {

constexpr uint64_t kSeed = 0x5eed;

void require(bool holds) {
  if (!holds) abort();
}

// The input is a list of instructions that build a file: mostly right records with damage at chosen places.
std::string build(const uint8_t* data, size_t size, std::map<Lsn, std::string>& written) {
  std::string file(kJournalHeaderBytes, '\0');
  Lsn next = 1;
  size_t at = 0;
  const auto byte = [&] { return at < size ? data[at++] : uint8_t{0}; };
  while (at < size && file.size() < 256 * kKiB) {
    switch (const uint8_t what = byte(); what % 8) {
      case 0:
        file += batch_record(kSeed, next, byte() % (next + 2), 1);
        break;
      case 1:
        file.append(8 * (1 + byte()), '\0');
        break;
      case 2: {  // raw bytes of the input
        const size_t count = std::min<size_t>(byte(), size - at);
        file.append(reinterpret_cast<const char*>(data) + at, count);
        at += count;
        file.resize(padded_record(file.size()));
        break;
      }
      case 3:
        if (file.size() > kJournalHeaderBytes) file[kJournalHeaderBytes + (byte() * 256u + byte()) % (file.size() - kJournalHeaderBytes)] ^= static_cast<char>(1 + byte() % 255);
        break;
      case 4:
        next += byte();
        break;
      default: {
        const std::string body(1 + byte() % 100, static_cast<char>('a' + what % 20));
        RecordHeader header{.total_bytes = static_cast<uint32_t>(sizeof(RecordHeader) + body.size()), .type = 16, .flags = 0, .header_check = 0, .lsn = next, .hash = 0};
        seal_record(header, kSeed, body);
        file.append(bytes_of(header)).append(body);
        file.resize(padded_record(file.size()));
        written[next] = body;
        next++;
      }
    }
  }
  return file;
}

}  // namespace
}  // namespace pion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pion;
  set_log_file("/dev/null");
  std::map<Lsn, std::string> written;
  const std::string bytes = build(data, size, written);
  FaultyFileSystem disk(1, 16 * kMiB);
  disk.set_content("file", bytes);
  JournalScan scan;
  ScannedFile file{.name = "file", .name_lsn = 1, .file = nullptr, .bytes = bytes.size()};
  file.file = std::move(*disk.open("file", OpenMode::kReadWrite));
  scan.files.push_back(std::move(file));
  scan_journal_file(scan, 0, kSeed);
  require(scan.files[0].good_end <= scan.files[0].used_end || scan.files[0].used_end <= kJournalHeaderBytes);
  for (const JournalRun& run : scan.runs) {
    require(run.begin >= kJournalHeaderBytes && run.end <= bytes.size() && run.first <= run.last);
    WindowReader reader(*scan.files[0].file, bytes.size());
    Lsn expected = run.first;
    read_run(reader, run, 0, [&](const RecordView& record) {
      require(record.lsn == expected++);
      // Only what was written can verify: 64 bits of checksum are not met by chance.
      const auto found = written.find(record.lsn);
      require(found != written.end() && found->second == record.body);
      return true;
    });
    require(expected == run.last + 1);
  }
  return 0;
}
