#include "keyspace/sorted_set_table.h"

#include "base/bytes.h"
#include "keyspace/varint.h"

namespace pion {
namespace {

// A block: score | u8 from a slab's page | varint member size | member.
constexpr size_t kFlagAt = sizeof(double), kSizeAt = kFlagAt + 1;

size_t block_bytes(size_t member_size) { return kSizeAt + varint_size(member_size) + member_size; }

bool from_page(const void* element) { return static_cast<const char*>(element)[kFlagAt] != 0; }

}  // namespace

std::string_view SortedSetTable::member_of(const void* element) {
  const char* at = static_cast<const char*>(element) + kSizeAt;
  const uint64_t size = read_varint(at);
  return {at, size};
}

double SortedSetTable::score_of(const void* element) { return load_le<double>(element); }

SortedSetTable::~SortedSetTable() {
  if (from_malloc_ == 0) return;
  table_.each([&](void* element) {
    if (from_page(element)) return true;
    slab_.free(element, block_bytes(member_of(element).size()), false);
    return --from_malloc_ > 0;
  });
}

void SortedSetTable::free(void* element) {
  const size_t size = block_bytes(member_of(element).size());
  blocks_bytes_ -= Slab::rounded(size);
  from_malloc_ -= !from_page(element);
  slab_.free(element, size, from_page(element));
}

bool SortedSetTable::score(std::string_view member, double& score) const {
  const auto slot = table_.find(member, element_hash(member));
  if (slot) score = score_of(table_.element(slot));
  return slot;
}

void SortedSetTable::set(std::string_view member, double score) {
  const uint64_t hash = element_hash(member);
  if (const auto slot = table_.find(member, hash)) {
    void* element = table_.element(slot);
    if (score_of(element) == score) return;  // -0 does not take the place of 0, nor 0 that of -0
    tree_.remove({score_of(element), element});
    store_le(element, score);
    tree_.insert({score, element});
    return;
  }
  const size_t size = block_bytes(member.size());
  const Slab::Block block = slab_.allocate(size);
  char* at = static_cast<char*>(block.bytes);
  store_le(at, score);
  at[kFlagAt] = block.from_page;
  copy_bytes(write_varint(at + kSizeAt, member.size()), member);
  blocks_bytes_ += Slab::rounded(size);
  from_malloc_ += !block.from_page;
  table_.insert(block.bytes, hash);
  tree_.insert({score, block.bytes});
}

bool SortedSetTable::remove(std::string_view member) {
  const uint64_t hash = element_hash(member);
  const auto slot = table_.find(member, hash);
  if (!slot) return false;
  void* element = table_.element(slot);
  tree_.remove({score_of(element), element});
  table_.remove(slot, hash);
  free(element);
  return true;
}

}  // namespace pion
