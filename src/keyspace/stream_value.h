// Streams as a type of the keyspace: the deltas that change one. A stream without entries is not gone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "keyspace/entry.h"
#include "keyspace/stream.h"

namespace pion {

inline Stream& stream_of(const Entry& entry) { return *static_cast<Stream*>(entry.object()); }

// A whole value outside an entry, as ValueOps::encode writes it; decoded only after ValueOps::check.
void encode_stream(const Stream& stream, std::string& out);
std::unique_ptr<Stream> decode_stream(std::string_view encoded);

// One delta, written into a string of the caller's. What a group or consumer that it names is not there for, is ignored.
class StreamDelta {
 public:
  enum class Op : uint8_t {
    kAdd = 1,           // id, varint fields, {bytes name, bytes value}...; makes the stream
    kDropFront = 2,     // varint entries from the front, u8 kReferences or 0
    kRemove = 3,        // u8 kReferences | kDeleted, ids
    kSetId = 4,         // last id, varint entries added, max deleted id
    kSetGroup = 5,      // bytes group, last id, varint entries read + 1; makes stream and group
    kDropGroup = 6,     // bytes group
    kSetConsumer = 7,   // bytes group, bytes consumer, i64 seen, i64 active (-2: as it is); makes the consumer
    kDropConsumer = 8,  // bytes group, bytes consumer
    kDeliver = 9,       // bytes group, bytes consumer, i64 now, ids: pending once more from the start
    kAcknowledge = 10,  // bytes group, ids
    kClaim = 11,        // bytes group, bytes consumer, i64 delivered, then each: id, varint deliveries
    kAdvance = 12,      // as kSetGroup, of a group that is there: it was given entries
  };
  static constexpr uint8_t kReferences = 1;  // groups forget them too
  static constexpr uint8_t kDeleted = 2;     // as XDEL does it: remembered as the largest deleted id
  static constexpr int64_t kAsItIs = -2;

  StreamDelta(std::string& out, Op op) : out_(out) { out_.assign(1, static_cast<char>(op)); }
  StreamDelta& id(StreamId id);  // written as the difference from the one before
  StreamDelta& varint(uint64_t value);
  StreamDelta& byte(uint8_t value);
  StreamDelta& time(int64_t value);
  StreamDelta& bytes(std::string_view value);
  StreamDelta& fields(StreamFields fields);

 private:
  std::string& out_;
  StreamId previous_;
};

}  // namespace pion
