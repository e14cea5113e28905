// The bytes of the journal, of extents and of checkpoints, as docs/formats.md draws them. Little-endian, version-stamped.
// A change here is a new version; files of every released version stay readable (tests/formats/).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/checksum.h"
#include "base/limits.h"
#include "storage/journal.h"

namespace pion {

inline constexpr uint32_t kFormatVersion = 1;

// ---- journal ----------------------------------------------------------------------------------------------------

inline constexpr uint64_t kJournalMagic = 0x314e524a4e4f4950;  // "PIONJRN1"
inline constexpr uint64_t kJournalHeaderBytes = kPageBytes;    // then records
inline constexpr uint64_t kRecordAlign = 8;

struct JournalFileHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t reserved;
  uint64_t name_lsn;  // no record below it is in this file
  uint64_t seed;      // the directory's; key of the records' hashes
  int64_t created_wall_ms;
  uint64_t checksum;  // of the fields above
};
static_assert(sizeof(JournalFileHeader) == 48 && offsetof(JournalFileHeader, checksum) == 40);

// In front of each body; records begin on multiples of 8, padded with zeros.
struct RecordHeader {
  uint32_t total_bytes;   // header and body, without padding; so never 0
  uint8_t type;           // never 0
  uint8_t flags;          // 0
  uint16_t header_check;  // of the other fields: makes a false start in a damaged file improbable before the body is hashed
  uint64_t lsn;           // of a batch record: the lsn of the record that follows it
  uint64_t hash;          // of body and header, see record_hash()
};
static_assert(sizeof(RecordHeader) == kRecordRoomBytes && sizeof(RecordHeader) == 24 && offsetof(RecordHeader, lsn) == 8 && offsetof(RecordHeader, hash) == 16);

// Body of RecordType::kBatch, which opens each write.
struct BatchBody {
  uint64_t synced_lsn;         // all records up to this one, and the payload they name, were on disk when this was written
  uint32_t next_payload_file;  // ids of payload files from here on were not used yet
  uint32_t reserved;
};
static_assert(sizeof(BatchBody) == 16);

inline constexpr size_t kBatchRecordBytes = sizeof(RecordHeader) + sizeof(BatchBody);
static_assert(kBatchRecordBytes % kRecordAlign == 0);

// Ties a body to its place: a record whose type, length or lsn was changed does not verify, nor does one of another
// directory, nor one that a client smuggled into a value (it does not know the seed). In two steps, so that only the
// second, which needs the lsn, is done under the journal's lock.
inline uint64_t record_key(uint64_t seed, uint32_t total_bytes, uint8_t type, uint8_t flags) {
  const uint64_t shape = (static_cast<uint64_t>(total_bytes) << 16) | (static_cast<uint64_t>(type) << 8) | flags;
  return mix64(seed ^ mix64(shape));
}
inline uint64_t record_place(uint64_t key, Lsn lsn) { return mix64(key + lsn); }
inline uint64_t record_hash(uint64_t body_hash, uint64_t place) { return mix64(body_hash ^ place); }
inline uint16_t record_header_check(uint64_t place) { return static_cast<uint16_t>(place >> 48); }

// Fills in both from the other fields.
inline void seal_record(RecordHeader& header, uint64_t seed, std::string_view body) {
  const uint64_t place = record_place(record_key(seed, header.total_bytes, header.type, header.flags), header.lsn);
  header.header_check = record_header_check(place);
  header.hash = record_hash(xxh3(body), place);
}

inline constexpr uint64_t padded_record(uint64_t total_bytes) { return (total_bytes + kRecordAlign - 1) / kRecordAlign * kRecordAlign; }

// ---- extents ----------------------------------------------------------------------------------------------------

inline constexpr uint64_t kExtentMagic = 0x315458454e4f4950;  // "PIONEXT1"

// Then one u64 per chunk of payload, `aux_room` bytes of which `aux_bytes` are used (the rest zero), a u64 checksum of all
// that, zeros to the end of the page, and the payload.
struct ExtentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t space;
  uint32_t file;   // where it lies: a header found elsewhere is not it
  uint32_t page;
  uint32_t pages;
  uint32_t header_pages;
  uint64_t payload_bytes;
  uint32_t aux_bytes;
  uint32_t aux_room;
};
static_assert(sizeof(ExtentHeader) == 48 && offsetof(ExtentHeader, payload_bytes) == 32);

inline constexpr uint64_t chunks_of(uint64_t payload_bytes) { return (payload_bytes + kChunkBytes - 1) / kChunkBytes; }
inline constexpr uint64_t extent_header_bytes(uint64_t payload_bytes, uint64_t aux_room) {
  return sizeof(ExtentHeader) + chunks_of(payload_bytes) * 8 + aux_room + 8;
}

// ---- checkpoints ------------------------------------------------------------------------------------------------

inline constexpr uint64_t kCheckpointMagic = 0x31504b434e4f4950;  // "PIONCKP1"
inline constexpr uint64_t kSectionMagic = 0x314345534e4f4950;     // "PIONSEC1"
inline constexpr uint64_t kCheckpointEnd = 0x31444e454e4f4950;    // "PIONEND1"

struct CheckpointHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t next_payload_file;
  uint64_t lsn;   // the journal's last record when the checkpoint was begun; its name
  uint64_t seed;
  int64_t created_wall_ms;
  uint64_t checksum;
};
static_assert(sizeof(CheckpointHeader) == 48 && offsetof(CheckpointHeader, checksum) == 40);

// In front of each section's body; sections begin on multiples of 8, padded with zeros.
struct SectionHeader {
  uint64_t magic;
  char plane[32];      // name, padded with zeros
  uint32_t number;
  uint32_t index;      // 0, 1, 2 ... in the file
  uint64_t lsn;
  uint64_t body_bytes;
  uint64_t body_hash;
  uint64_t checksum;
};
static_assert(sizeof(SectionHeader) == 80 && offsetof(SectionHeader, checksum) == 72);

struct CheckpointFooter {
  uint64_t magic;
  uint64_t sections;
  uint64_t lowest_lsn;   // journal records above it are needed
  uint64_t highest_lsn;  // records up to it were synced before the checkpoint got its name
  uint64_t header_hashes;  // the section headers' checksums, chained
  uint64_t checksum;
};
static_assert(sizeof(CheckpointFooter) == 48 && offsetof(CheckpointFooter, checksum) == 40);

// ---- the directory's own file -----------------------------------------------------------------------------------

inline constexpr uint64_t kSeedMagic = 0x314445534e4f4950;  // "PIONSED1"

struct SeedFile {
  uint64_t magic;
  uint32_t version;
  uint32_t reserved;
  uint64_t seed;
  uint64_t checksum;
};
static_assert(sizeof(SeedFile) == 32 && offsetof(SeedFile, checksum) == 24);

// Sets or checks the last field of a struct, a checksum of the bytes before it.
template <typename T>
uint64_t checksum_of(const T& value) {
  return xxh3({reinterpret_cast<const char*>(&value), offsetof(T, checksum)});
}

template <typename T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A file's name: 20 digits and a suffix, so that names sort as numbers do.
std::string lsn_name(Lsn lsn, std::string_view suffix);
// 0 and false when the name is not of that form.
bool parse_lsn_name(std::string_view name, std::string_view suffix, Lsn& lsn);

}  // namespace pion
