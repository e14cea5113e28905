// Bodies of prompt memory's journal records and checkpoint sections. Every record is self-contained: what it needs beside the
// segment it writes is named by slot AND id, so a record whose forerunner was lost is recognised and left out. All integers
// little-endian; strings with a varint length. Format page: docs/prompt-memory.md, "Formats".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/segment.h"
#include "storage/journal.h"

namespace pion {

inline constexpr uint8_t kPromptModelSet = 48;    // id, name, json
inline constexpr uint8_t kPromptModelDrop = 49;   // id: the model and all its segments
inline constexpr uint8_t kPromptAdd = 50;         // AddRecord
inline constexpr uint8_t kPromptDrop = 51;        // segments, deepest first
inline constexpr uint8_t kPromptDropRows = 52;    // segments, each with the pools whose rows go
inline constexpr uint8_t kPromptReplace = 53;     // ReplaceRecord
inline constexpr uint8_t kPromptDropRoots = 54;   // model id and salt of each

inline constexpr uint32_t kMaxSlots = 1u << 30;
inline constexpr uint64_t kMaxId = 1ULL << 62;  // ids of segments; beyond, the next one to give out could wrap

// What a segment's fields can be, wherever they were read from. A checksum says that bytes are as they were written, not that
// they make sense.
inline bool usable_id(uint64_t id) { return id > 0 && id < kMaxId; }
bool usable_range(uint32_t from, uint32_t to, uint32_t rows_from, uint8_t flags);
bool usable_prefill(float ms);
bool usable_refs(std::span<const ExtentRef> refs);

struct SegmentName {
  uint32_t slot = kNoSlot;
  uint64_t id = 0;
};

struct AddRecord {
  SegmentName name, parent;  // parent's slot kNoSlot: hung on the root
  uint32_t model = 0;
  std::string_view salt;     // with a root parent only
  uint32_t from = 0, to = 0, rows_from = 0, edge = 0;
  uint8_t flags = 0;
  float prefill_ms = 0;
  int64_t time_us = 0;
  std::vector<ExtentRef> refs;
};
std::string encode(const AddRecord& record);
std::optional<AddRecord> decode_add(std::string_view body);

// A segment was cut at `to` (FORGET): new extents, a new id; what hung on it beyond is dropped with it.
struct ReplaceRecord {
  SegmentName name;
  uint64_t new_id = 0;
  uint32_t to = 0, rows_from = 0;
  float prefill_ms = 0;
  std::vector<ExtentRef> refs;
  std::vector<SegmentName> dropped;
};
std::string encode(const ReplaceRecord& record);
std::optional<ReplaceRecord> decode_replace(std::string_view body);

std::string encode_names(const std::vector<SegmentName>& names);
std::optional<std::vector<SegmentName>> decode_names(std::string_view body);

struct RowsRecord {
  SegmentName name;
  uint64_t pools = 0;  // bit i: the rows of extent i
};
std::string encode(const std::vector<RowsRecord>& records);
std::optional<std::vector<RowsRecord>> decode_rows(std::string_view body);

struct RootName {
  uint32_t model = 0;
  std::string_view salt;
};
std::string encode(const std::vector<RootName>& roots);
std::optional<std::vector<RootName>> decode_roots(std::string_view body);

struct ModelRecord {
  uint32_t id = 0;
  std::string_view name, json;
};
std::string encode(const ModelRecord& record);
std::optional<ModelRecord> decode_model(std::string_view body);

// Checkpoints: section 0 models, section 1 roots, sections 2 and up segments, `refs` extents behind each.
inline constexpr uint32_t kModelsSection = 0, kRootsSection = 1, kSegmentsSection = 2;
inline constexpr uint32_t kCheckpointVersion = 1;
inline constexpr uint32_t kSegmentsPerSection = 1u << 16;

struct PackedSegment {
  uint64_t id;
  int64_t last_used_us;
  uint32_t slot, parent, root, from, to, rows_from, edge, hits;
  float prefill_ms;
  uint8_t flags, refs;
  uint16_t unused;
};
static_assert(sizeof(PackedSegment) == 56);

inline constexpr uint8_t kLoadedGood = 3;  // a verdict of judge_loaded()

struct LoadedRoot {
  uint32_t index = 0, model = 0;
  std::string salt;
};

}  // namespace pion
