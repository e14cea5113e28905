#include "keyspace/set_table.h"

#include <algorithm>

#include "base/bytes.h"
#include "keyspace/random.h"

namespace pion {
namespace {

// A block: varint of size * 2 + "lies in a slab's page" | member.
size_t head_bytes(uint64_t size) {
  size_t bytes = 1;
  for (uint64_t value = size << 1; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

uint64_t read_head(const char*& at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(*at++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

}  // namespace

void SetLog::note(uint64_t place, std::string_view member, bool add) {
  if (place < passed_) return;
  std::string name(member);
  // What comes back after it went, or goes after it came, is as it was.
  if ((add ? removed_ : added_).erase(name) == 0) (add ? added_ : removed_).insert(std::move(name));
}

std::string_view SetTable::member_of(const void* element) {
  const char* at = static_cast<const char*>(element);
  const uint64_t head = read_head(at);
  return {at, head >> 1};
}

SetTable::~SetTable() {
  if (from_malloc_ == 0) return;
  table_.each([&](void* element) {
    const char* at = static_cast<const char*>(element);
    const uint64_t head = read_head(at);
    if (head & 1) return true;
    slab_.free(element, head_bytes(head >> 1) + (head >> 1), false);
    return --from_malloc_ > 0;
  });
}

bool SetTable::add(std::string_view member) {
  const uint64_t hash = element_hash(member);
  if (table_.find(member, hash)) return false;
  if (!logs_.empty()) tell(member, hash, true);
  const size_t size = head_bytes(member.size()) + member.size();
  const Slab::Block block = slab_.allocate(size);
  auto* at = static_cast<char*>(block.bytes);
  uint64_t head = member.size() << 1 | (block.from_page ? 1 : 0);
  for (; head >= 0x80; head >>= 7) *at++ = static_cast<char>(head | 0x80);
  *at++ = static_cast<char>(head);
  copy_bytes(at, member);
  blocks_bytes_ += Slab::rounded(size);
  from_malloc_ += !block.from_page;
  table_.insert(block.bytes, hash);
  return true;
}

bool SetTable::remove(std::string_view member) {
  const uint64_t hash = element_hash(member);
  const auto slot = table_.find(member, hash);
  if (!slot) return false;
  if (!logs_.empty()) tell(member, hash, false);
  void* element = table_.element(slot);
  const char* at = static_cast<const char*>(element);
  const uint64_t head = read_head(at);
  const size_t size = head_bytes(head >> 1) + (head >> 1);
  table_.remove(slot, hash);
  blocks_bytes_ -= Slab::rounded(size);
  from_malloc_ -= !(head & 1);
  slab_.free(element, size, head & 1);
  return true;
}

std::string_view SetTable::random() const { return member_of(table_.random(random64)); }

std::shared_ptr<SetLog> SetTable::start_log() {
  logs_.push_back(std::make_shared<SetLog>());
  return logs_.back();
}

bool SetTable::logs_to(const SetLog& log) const {
  return std::ranges::any_of(logs_, [&](const auto& mine) { return mine.get() == &log; });
}

void SetTable::tell(std::string_view member, uint64_t hash, bool add) {
  std::erase_if(logs_, [](const std::shared_ptr<SetLog>& log) { return log.use_count() == 1; });
  for (const std::shared_ptr<SetLog>& log : logs_) log->note(place_of(hash), member, add);
}

}  // namespace pion
