// Every queue, loop, buffer and name has a limit; they stand here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pion {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

// Wire.
inline constexpr uint64_t kStreamBulkBytes = 64 * kKiB;    // a payload bulk of this size or more streams into an extent
inline constexpr uint64_t kMaxBulkBytes = 512 * kMiB;      // proto-max-bulk-len
inline constexpr uint64_t kMaxInlineBytes = 64 * kKiB;
inline constexpr int64_t kMaxMultibulk = 2147483647;       // 2^31 - 1, as Redis
inline constexpr int64_t kUnauthMultibulk = 10;
inline constexpr uint64_t kUnauthBulkBytes = 16384;
inline constexpr uint64_t kQueryBufferBytes = 1 * kGiB;    // arguments of one command held in memory
inline constexpr uint64_t kOutputPauseBytes = 4 * kMiB;    // a connection that owes us this much reading is not read from
inline constexpr size_t kBatchCommands = 64;               // commands of one pipeline taken as a batch
inline constexpr size_t kPassedDescriptors = 64;           // descriptors per message on the Unix socket

// Publish and subscribe.
inline constexpr size_t kMaxSubscriptions = 1 << 18;        // channels and patterns of one connection
inline constexpr size_t kMaxChannelBytes = 64 * kKiB;       // of a channel's or pattern's name, when subscribed to
inline constexpr uint64_t kMaxSubscriptionBytes = 64 * kMiB;  // of all such names of one connection
inline constexpr uint64_t kMessageInboxBytes = 256 * kMiB;  // messages on their way to the clients of one thread

// Transactions.
inline constexpr size_t kMaxQueuedCommands = 1 << 20;       // between MULTI and EXEC
inline constexpr uint64_t kMaxQueuedBytes = 256 * kMiB;     // of their arguments in memory
inline constexpr size_t kMaxWatchedKeys = 1 << 16;          // of one connection

// Observing.
inline constexpr uint64_t kMaxSlowLogBytes = 64 * kMiB;     // of the slow log, whatever slowlog-max-len says
inline constexpr size_t kMaxPercentiles = 64;               // that INFO latencystats prints

// Keyspace.
inline constexpr unsigned kStripes = 256;
inline constexpr unsigned kDatabases = 16;
inline constexpr int64_t kMaxRandomRepeats = 16 * 1024 * 1024;  // elements that HRANDFIELD and its kin draw with repetition

// Prompt memory.
inline constexpr size_t kMaxNameBytes = 1024;              // model names and salts
inline constexpr size_t kMaxDigestBytes = 64;              // of a media item
inline constexpr uint64_t kMaxTokens = 16 * 1024 * 1024;   // in one chain
inline constexpr size_t kMaxManifestBytes = 1 * kMiB;
inline constexpr size_t kMaxPools = 64;
inline constexpr size_t kMaxModels = 16 * 1024;
inline constexpr int64_t kMaxPrefillMs = 1'000'000'000;    // of one PUT
inline constexpr int64_t kMaxLeaseMs = 24LL * 3600 * 1000;
inline constexpr size_t kMaxLeasesPerConnection = 1024;
inline constexpr size_t kMaxClaimsPerConnection = 64;

// Storage.
inline constexpr uint64_t kPageBytes = 4096;               // extents begin and end on pages
inline constexpr uint64_t kChunkBytes = 64 * kKiB;         // one checksum per chunk of payload
inline constexpr uint64_t kPayloadFileBytes = 1 * kGiB;    // a payload file is not extended beyond this
inline constexpr uint64_t kMaxRecordBytes = 640 * kMiB;    // a journal record's body

}  // namespace pion
