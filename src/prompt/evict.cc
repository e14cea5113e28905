// Room under the budget. Everything here runs under mutex_, exclusive.
//
// What goes, in this order:
// 1. Window and trailing rows that a deeper boundary has made needless: tokens and attention rows stay, the chain stays usable.
// 2. Leaves nobody matched since they were stored (or demoted).
// 3. Leaves that were used; when these are more than 80 % of the budget the least recent become class 2.
// Within a class the lowest (milliseconds of prefill saved x recency) per byte, of at most 64 looked at. Inner segments are no
// candidates, so a segment never outlives what it continues; pinned ones (leases, PUTs under way) neither.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "prompt/store.h"

namespace pion {
namespace {

constexpr size_t kLookedAt = 64;
constexpr unsigned kSupersededWalk = 512;  // segments looked at to see whether rows are needless; beyond: they are kept
constexpr double kReadShare = 0.8;
constexpr double kRecencyFloorUs = 1000;
constexpr int64_t kDiskWaitMs = 2000;    // two syncs; of a disk that takes longer nothing more is wanted
constexpr int64_t kLookAgainMs = 50;     // other PUTs change what is spare

uint64_t next_random(uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  return mix64(state);
}

}  // namespace

const Model* PromptStore::model_of(uint32_t root) const {
  const auto found = models_by_id_.find(tree_.root(root).model);
  return found == models_by_id_.end() ? nullptr : found->second.get();
}

double PromptStore::worth(const Segment& segment, int64_t now_us) const {
  const Model* model = model_of(segment.root);
  // A boundary saves the prefill of the tokens since the rows it was given with.
  const uint32_t tokens = segment.boundary() ? std::max(1u, segment.to - segment.rows_from) : segment.tokens();
  const double ms = segment.measured() ? double{segment.prefill_ms} : tokens * (model ? model->ms_per_token() : 1.0);
  const double age = static_cast<double>(std::max<int64_t>(0, now_us - segment.last_used_us)) + kRecencyFloorUs;
  return ms / age / static_cast<double>(std::max<uint64_t>(1, segment.bytes()));
}

// Makes `need` bytes fit under the budget beside what is stored and what PUTs under way have reserved.
PromptResult<void> PromptStore::make_room(uint64_t need, uint64_t held) {
  const uint64_t budget = budget_bytes_;
  const auto used = [&] { return tree_.bytes() + reserved_bytes_ + streaming_bytes_ - held; };
  const auto numbers = [&](const char* why) {
    return refuse(FaultKind::kNoRoom, std::string(why) + ": " + std::to_string(need) + " bytes needed, budget " + std::to_string(budget) +
                                          ", stored " + std::to_string(tree_.bytes()) + ", reserved " + std::to_string(reserved_bytes_ + streaming_bytes_ - held));
  };
  if (need > budget) return numbers("larger than the prompt budget");
  if (used() + need <= budget) return {};
  sweep_leases(monotonic_ms());
  while (used() + need > budget) {
    if (!evict_rows() && !evict_leaf()) return numbers("the prompt budget is full of prompts that are leased or being stored");
  }
  return {};
}

std::shared_ptr<StreamRoom> PromptStore::stream_room(uint64_t bytes) {
  // Taken first, looked at then; PUTs do the same with what they reserve. So of two that race for the last room one sees the other.
  auto room = std::make_shared<StreamRoom>(streaming_bytes_, bytes);
  const uint64_t waiting = storage_.extents().waiting_bytes(Space::kPrompt);
  if (tree_.bytes() + reserved_bytes_ + streaming_bytes_ + waiting <= budget_bytes_) return room;
  want_room(bytes + waiting);
  return nullptr;
}

void PromptStore::want_room(uint64_t bytes) {
  if (bytes > wanted_room_) wanted_room_ = bytes;
}

// The budget is a ceiling for what lies on the disk, so what was evicted counts until its holes are punched: until the journal
// states that the records which dropped it are synced, and nobody reads it any more. Without locks, after the room was reserved.
PromptResult<void> PromptStore::await_disk() {
  ExtentStore& extents = storage_.extents();
  const int64_t until_ms = monotonic_ms() + kDiskWaitMs;
  while (true) {
    const uint64_t budget = budget_bytes_, used = tree_.bytes() + reserved_bytes_ + streaming_bytes_;
    const uint64_t spare = budget > used ? budget - used : 0, waiting = extents.waiting_bytes(Space::kPrompt);
    if (waiting <= spare) return {};
    want_room(waiting);
    const int64_t left_ms = until_ms - monotonic_ms();
    if (left_ms <= 0) {
      return refuse(FaultKind::kNoRoom, "the disk has not got back what was evicted: " + std::to_string(waiting) + " bytes, budget " + std::to_string(budget));
    }
    (void)extents.await_given_back(Space::kPrompt, spare, std::min(left_ms, kLookAgainMs));
  }
}

// Once a stream found no room, as much is kept free for those that follow, up to an eighth of the budget: so what is evicted for
// them is off the disk when they come.
void PromptStore::keep_stream_room() {
  const uint64_t keep = std::min(wanted_room_.load(), budget_bytes_ / 8);
  if (keep == 0) return;
  std::unique_lock lock(mutex_);
  (void)make_room(keep);
}

// True when whoever needs the rows of this pool that end at `position` of this segment finds them further down: every path
// that goes on from there comes to a boundary of its own (trailing), or to a length whose window begins behind `position`.
bool PromptStore::superseded(uint32_t slot, uint32_t position, size_t pool_index, unsigned& budget) const {
  if (budget == 0) return false;
  --budget;
  const Segment& segment = tree_.slots[slot];
  const Model* model = model_of(segment.root);
  if (!model) return false;
  const PoolSpec& pool = model->pools()[pool_index];
  const auto deeper = [&](auto&& self, uint32_t at, uint32_t beyond) -> bool {
    if (budget == 0) return false;
    --budget;
    const Segment& node = tree_.slots[at];
    const bool has_rows = static_cast<bool>(node.ref(pool_index));
    if (pool.rule == PoolRule::kTrailing && node.to > beyond && has_rows) return true;
    if (pool.rule == PoolRule::kWindow && node.to >= uint64_t{beyond} + pool.window && has_rows) return true;
    bool some = false;
    for (uint32_t child = node.first_child; child != kNoSlot; child = tree_.slots[child].next) {
      if (tree_.slots[child].from != node.to) continue;
      if (!self(self, child, beyond)) return false;
      some = true;
    }
    return some;
  };
  // The path that stays in this segment to its end, then those that branch off behind the position.
  bool on_end = false;
  if (position < segment.to) {
    on_end = segment.ref(pool_index) && (pool.rule == PoolRule::kTrailing || segment.to >= uint64_t{position} + pool.window);
  }
  bool some = on_end;
  for (uint32_t child = segment.first_child; child != kNoSlot; child = tree_.slots[child].next) {
    const uint32_t from = tree_.slots[child].from;
    const bool on_path = pool.rule == PoolRule::kWindow || from >= position;  // a window's rows serve earlier branches too
    if (!on_path || (on_end && from == segment.to)) continue;
    if (!deeper(deeper, child, std::min(from, position))) return false;
    some = some || from >= position;
  }
  return some;
}

// Class 1. Gives up the rows of one segment.
bool PromptStore::evict_rows() {
  double worst = 0;
  uint32_t victim = kNoSlot;
  uint64_t mask = 0;
  const int64_t now_us = wall_us();
  const size_t tries = std::min(bounded_.size(), kLookedAt);
  for (size_t i = 0; i < tries && !bounded_.empty(); ++i) {
    const size_t at = bounded_.size() <= kLookedAt ? std::min(i, bounded_.size() - 1) : next_random(random_) % bounded_.size();
    const auto [slot, id] = bounded_[at];
    const Model* model = tree_.slots.live(slot, id) ? model_of(tree_.slots[slot].root) : nullptr;
    uint64_t present = 0, needless = 0;
    if (model) {
      Segment& segment = tree_.slots[slot];
      for (size_t p = 0; p < model->pools().size(); ++p) {
        const PoolSpec& pool = model->pools()[p];
        if (pool.rule == PoolRule::kAll || !segment.ref(p)) continue;
        present |= 1ULL << p;
        if (pool.rule == PoolRule::kWindow && segment.rows_from < pool.keep) continue;  // every match needs them
        unsigned walk = kSupersededWalk;
        const uint32_t host = segment.boundary() ? segment.parent : slot;
        if (!segment.pinned() && superseded(host, segment.to, p, walk)) needless |= 1ULL << p;
      }
      if (needless != 0) {
        const double value = worth(segment, now_us);
        if (victim == kNoSlot || value < worst) victim = slot, worst = value, mask = needless;
      }
    }
    if (present == 0) {  // gone, or nothing left to give up
      bounded_[at] = bounded_.back();
      bounded_.pop_back();
    }
  }
  if (victim == kNoSlot) return false;
  Segment& segment = tree_.slots[victim];
  uint64_t left = 0;
  for (size_t p = 0; p < model_of(segment.root)->pools().size(); ++p) left |= uint64_t{static_cast<bool>(segment.ref(p))} << p;
  ++counters_.evicted_boundaries;
  if (segment.boundary() && (left & ~mask) == 0) return drop({victim}, LeaseEnd::kRevoked).has_value();
  const std::string body = encode(std::vector<RowsRecord>{{{victim, segment.id}, mask}});
  if (!storage_.journal().admit(body.size(), WriteKind::kFrees)) return false;
  const Lsn lsn = storage_.journal().append(kPromptDropRows, {body});
  last_lsn_ = lsn;
  const uint64_t before = segment.bytes();
  std::vector<ExtentRef> freed;
  for (size_t p = 0; p < std::min<size_t>(segment.refs, kMaxPools); ++p) {
    if (!(mask >> p & 1)) continue;
    freed.push_back(segment.ref(p));
    segment.clear_ref(p);
  }
  tree_.recount(victim, before, segment.tokens());
  free_all(freed, lsn);
  return true;
}

uint32_t PromptStore::pick_leaf(bool read) {
  std::vector<uint32_t>& list = tree_.leaves(read);
  const int64_t now_us = wall_us();
  uint32_t best = kNoSlot;
  double lowest = 0;
  // Leaves may stand in the list of what they were; they are moved when met, and then count for nothing here.
  size_t at = 0;
  for (size_t looked = 0; looked < kLookedAt && !list.empty(); ++looked) {
    if (list.size() > kLookedAt) {
      at = next_random(random_) % list.size();
    } else if (at >= list.size()) {
      break;
    }
    const uint32_t slot = list[at];
    Segment& segment = tree_.slots[slot];
    if ((segment.read != 0) != read) {
      tree_.move_leaf(slot);
      continue;
    }
    ++at;
    if (segment.pinned()) continue;
    const double value = worth(segment, now_us);
    if (best == kNoSlot || value < lowest) best = slot, lowest = value;
  }
  return best;
}

void PromptStore::demote_if_many() {
  for (int i = 0; i < 64 && static_cast<double>(read_flag_bytes_.load()) > kReadShare * static_cast<double>(budget_bytes_.load()); ++i) {
    std::vector<uint32_t>& list = tree_.leaves(true);
    if (list.empty()) return;
    uint32_t oldest = kNoSlot;
    for (size_t looked = 0; looked < std::min(list.size(), kLookedAt); ++looked) {
      const uint32_t slot = list[list.size() <= kLookedAt ? looked : next_random(random_) % list.size()];
      if (oldest == kNoSlot || tree_.slots[slot].last_used_us < tree_.slots[oldest].last_used_us) oldest = slot;
    }
    Segment& segment = tree_.slots[oldest];
    if (segment.read == 0) {
      tree_.move_leaf(oldest);
      continue;
    }
    segment.read = 0;
    read_flag_bytes_ -= std::min(read_flag_bytes_.load(), segment.bytes());
    tree_.move_leaf(oldest);
  }
}

// Classes 2 and 3. Removes one leaf.
bool PromptStore::evict_leaf() {
  uint32_t victim = pick_leaf(false);
  if (victim == kNoSlot) {
    demote_if_many();
    victim = pick_leaf(false);
  }
  if (victim == kNoSlot) victim = pick_leaf(true);
  if (victim == kNoSlot) {
    // Sampling may have met nothing but pinned leaves: look at all of them before saying no.
    for (const bool read : {false, true}) {
      for (uint32_t slot : tree_.leaves(read)) {
        if (victim == kNoSlot && !tree_.slots[slot].pinned()) victim = slot;
      }
    }
  }
  if (victim == kNoSlot || !drop({victim}, LeaseEnd::kRevoked)) return false;
  ++counters_.evicted_segments;
  return true;
}

std::vector<ExtentRef> PromptStore::unlink_all(const std::vector<uint32_t>& victims) {
  std::vector<ExtentRef> refs;
  for (uint32_t slot : victims) {
    const Segment& segment = tree_.slots[slot];
    for (size_t i = 0; i < segment.refs; ++i) {
      if (segment.ref(i)) refs.push_back(segment.ref(i));
    }
    if (segment.read != 0) read_flag_bytes_ -= std::min(read_flag_bytes_.load(), segment.bytes());
    tree_.unlink(slot);
  }
  return refs;
}

void PromptStore::free_all(const std::vector<ExtentRef>& refs, Lsn lsn) {
  for (const ExtentRef& ref : refs) storage_.extents().free(ref, lsn);
}

Status PromptStore::drop(const std::vector<uint32_t>& victims, LeaseEnd why) {
  if (victims.empty()) return {};
  std::vector<SegmentName> names;
  std::vector<std::pair<uint32_t, uint64_t>> gone;
  for (uint32_t slot : victims) {
    names.push_back({slot, tree_.slots[slot].id});
    gone.emplace_back(slot, tree_.slots[slot].id);
  }
  const std::string body = encode_names(names);
  const Status admitted = storage_.journal().admit(body.size(), WriteKind::kFrees);
  end_leases_on(gone, why);
  const std::vector<ExtentRef> refs = unlink_all(victims);
  if (!admitted) return admitted;
  const Lsn lsn = storage_.journal().append(kPromptDrop, {body});
  last_lsn_ = lsn;
  free_all(refs, lsn);
  return {};
}

// Takes mutex_ itself: the finder held it shared.
void PromptStore::drop_corrupt(const std::vector<std::pair<uint32_t, uint64_t>>& found, std::string_view what) {
  std::unique_lock lock(mutex_);
  for (const auto& [slot, id] : found) {
    if (!tree_.slots.live(slot, id)) continue;  // somebody else found it too
    std::vector<uint32_t> victims;
    tree_.subtree(slot, victims);
    ++counters_.corrupt_segments;
    const Model* model = model_of(tree_.slots[slot].root);
    log_warning("prompt memory: a segment of model " + (model ? model->name : std::string("?")) + ", tokens " +
                std::to_string(tree_.slots[slot].from) + " to " + std::to_string(tree_.slots[slot].to) + ", is corrupt (" + std::string(what) +
                "): dropped with " + std::to_string(victims.size() - 1) + " segments that continue it");
    (void)drop(victims, LeaseEnd::kCorrupt);
  }
}

}  // namespace pion
