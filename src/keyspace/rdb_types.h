// What the files rdb_<type>.cc share: the names of Redis' encodings, and elements on their way into one of ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "keyspace/packed.h"
#include "keyspace/rdb_bytes.h"
#include "keyspace/rdb_elements.h"

namespace pion {

// The first byte. Numbers that are missing were never given away or belong to modules.
enum class RdbType : uint8_t {
  kString = 0,
  kList = 1,
  kSet = 2,
  kSortedSetText = 3,        // scores as text: before 4.0
  kHash = 4,
  kSortedSet = 5,
  kHashZipmap = 9,           // before 2.6
  kListZiplist = 10,         // before 3.2
  kSetIntset = 11,
  kSortedSetZiplist = 12,    // before 7.0
  kHashZiplist = 13,         // before 7.0
  kListZiplists = 14,        // quicklist, before 7.0
  kStream1 = 15,             // before 7.0
  kHashListpack = 16,
  kSortedSetListpack = 17,
  kListNodes = 18,           // quicklist
  kStream2 = 19,             // 7.0
  kSetListpack = 20,
  kStream3 = 21,
  kHashExpiringFirst = 22,   // 7.4's release candidates
  kHashListpackExFirst = 23,
  kHashExpiring = 24,
  kHashListpackEx = 25,
};

// Elements as our encodings hold them, a varint length and the bytes each. Knows which are there already.
class EncodedElements {
 public:
  // False: the same one was added before, or all together are more than a record can hold.
  bool add_distinct(const ShortText& text);
  bool add(const ShortText& text);
  template <typename T>
  void put(T value) {
    ByteWriter(bytes_).put(value);
  }

  uint64_t distinct() const { return distinct_; }
  size_t longest() const { return longest_; }
  bool only_integers() const { return only_integers_; }
  // The elements, with a label and their number in front.
  std::string finish(uint8_t label, uint64_t count);

 private:
  std::string_view at(uint64_t offset) const { return ByteReader(std::string_view(bytes_).substr(offset)).bytes(); }
  uint64_t& slot_of(std::string_view text);
  void grow();

  std::string bytes_;
  std::vector<uint64_t> slots_;  // open addressing: where a distinct element lies, plus one; 0: free
  uint64_t distinct_ = 0;
  size_t longest_ = 0;
  bool only_integers_ = true;
};

// Each reads the body that follows the type and gives the value as ValueOps::encode writes it. False: malformed, or empty.
bool rdb_read_list(RdbType type, RdbReader& in, std::string& encoded);
bool rdb_read_set(RdbType type, RdbReader& in, std::string& encoded);
bool rdb_read_sorted_set(RdbType type, RdbReader& in, std::string& encoded);
bool rdb_read_hash(RdbType type, RdbReader& in, std::string& encoded);
bool rdb_read_stream(RdbType type, RdbReader& in, std::string& encoded);

// Each appends type and body of a value as ValueOps::encode wrote it.
void rdb_write_list(std::string_view encoded, std::string& out);
void rdb_write_set(std::string_view encoded, std::string& out);
void rdb_write_sorted_set(std::string_view encoded, std::string& out);
void rdb_write_hash(std::string_view encoded, std::string& out);
void rdb_write_stream(std::string_view encoded, std::string& out);

}  // namespace pion
