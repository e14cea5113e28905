#include "prompt/store.h"

#include <algorithm>
#include <random>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "io/filesystem.h"

namespace pion {

PromptStore::PromptStore(Storage& storage, PromptOptions options) : storage_(storage), options_(options), tree_(storage.seed()) {
  std::random_device device;
  random_ ^= device();
}

PromptStore::~PromptStore() { stop(); }

Status PromptStore::start() {
  {
    std::unique_lock lock(mutex_);
    build();
    tree_.slots.rebuild_free_slots();
    recovering_ = false;
    last_lsn_ = storage_.journal().appended_lsn();
  }
  set_budget(options_.budget_bytes);
  {
    std::unique_lock lock(mutex_);
    if (auto fits = make_room(0); !fits) log_warning("prompt memory: " + fits.error().text);
  }
  stopping_ = false;
  timer_ = std::thread([this] { timer_loop(); });
  return {};
}

void PromptStore::stop() {
  {
    std::lock_guard lock(claim_mutex_);
    stopping_ = true;
    timer_wake_.notify_all();
  }
  if (timer_.joinable()) timer_.join();
  std::lock_guard lock(claim_mutex_);
  claims_.clear();
}

void PromptStore::set_budget(uint64_t bytes) {
  if (bytes == 0) {
    uint64_t ours = 0;
    {
      std::shared_lock lock(mutex_);
      ours = tree_.bytes();
    }
    // What we hold already counts as free: a restart must not shrink the budget by what it kept.
    const auto space = real_filesystem().space(storage_.dir());
    bytes = space ? (space->free_bytes + ours) / 2 : 1 * kGiB;
  }
  budget_bytes_ = bytes;
}

PromptResult<Lsn> PromptStore::model_set(std::string_view name, std::string_view json) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return refuse(FaultKind::kInvalid, "a model's name has 1 to " + std::to_string(kMaxNameBytes) + " bytes");
  }
  auto manifest = parse_manifest(json);
  if (!manifest) return refuse(FaultKind::kInvalid, manifest.error().message);
  std::unique_lock lock(mutex_);
  if (const auto found = models_.find(name); found != models_.end()) {
    const std::string& there = found->second->manifest.canonical;
    if (there == manifest->canonical) return Lsn{last_lsn_};
    return refuse(FaultKind::kMismatch, "model " + std::string(name) + ": " + describe_difference(there, manifest->canonical));
  }
  if (models_.size() >= kMaxModels || next_model_id_ == UINT32_MAX - 1) return refuse(FaultKind::kInvalid, "there are " + std::to_string(kMaxModels) + " models already");
  const std::string body = encode(ModelRecord{next_model_id_, name, json});
  if (auto admitted = storage_.journal().admit(body.size(), WriteKind::kGrows); !admitted) return refuse(admitted.error());
  auto model = make_model(next_model_id_++, std::string(name), std::move(*manifest), std::string(json));
  models_[model->name] = model;
  models_by_id_[model->id] = model;
  return last_lsn_ = storage_.journal().append(kPromptModelSet, {body});
}

std::shared_ptr<const Model> PromptStore::model(std::string_view name) const {
  std::shared_lock lock(mutex_);
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : found->second;
}

ModelInfo PromptStore::model_info(const Model& model) const {
  ModelInfo info{model.json, model.manifest.hash, 0, 0, 0};
  std::shared_lock lock(mutex_);
  for (uint32_t index = 0; index < tree_.root_count(); ++index) {
    const Root& root = tree_.root(index);
    if (root.model != model.id) continue;
    info.tokens += root.tokens;
    info.bytes += root.bytes;
    info.segments += root.segments;
  }
  return info;
}

std::vector<std::string> PromptStore::model_names() const {
  std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, model] : models_) names.push_back(name);
  return names;
}

PromptResult<std::pair<uint64_t, std::vector<ListedChain>>> PromptStore::list(std::string_view name, std::optional<std::string_view> salt,
                                                                               uint64_t cursor, size_t count) const {
  constexpr size_t kSlotsLookedAt = 100'000;  // a call, so that the lock is held for a moment only
  std::shared_lock lock(mutex_);
  auto model = find_model(name, {});
  if (!model) return std::unexpected(model.error());
  std::vector<ListedChain> chains;
  const int64_t now_us = wall_us();
  uint64_t slot = cursor;
  const uint64_t end = std::min<uint64_t>(tree_.slots.size(), cursor + kSlotsLookedAt);
  for (; slot < end && chains.size() < count; ++slot) {
    const auto at = static_cast<uint32_t>(slot);
    if (!tree_.slots.used(at)) continue;
    const Segment& segment = tree_.slots[at];
    if (segment.boundary() || segment.first_child != kNoSlot) continue;
    const Root& root = tree_.root(segment.root);
    if (root.model != (*model)->id || (salt && root.salt != *salt)) continue;
    ListedChain chain;
    chain.id = segment.id;
    chain.salt = root.salt;
    chain.tokens = segment.to;
    chain.bytes = segment.bytes();
    for (uint32_t up = at; !(up & kRootParent); up = tree_.slots[up].parent) chain.chain_bytes += tree_.slots[up].bytes();
    const Segment::Use use = segment.use();
    chain.hits = use.hits;
    chain.age_s = static_cast<double>(std::max<int64_t>(0, now_us - use.last_used_us)) / 1e6;
    chains.push_back(std::move(chain));
  }
  return std::pair{slot >= tree_.slots.size() ? 0 : slot, std::move(chains)};
}

PromptStats PromptStore::stats() const {
  PromptStats stats;
  stats.hits = counters_.hits, stats.misses = counters_.misses;
  stats.tokens_served = counters_.tokens_served, stats.bytes_served = counters_.bytes_served;
  stats.seconds_avoided_measured = static_cast<double>(counters_.avoided_measured_us) / 1e6;
  stats.seconds_avoided_estimated = static_cast<double>(counters_.avoided_estimated_us) / 1e6;
  stats.puts = counters_.puts, stats.puts_nothing_new = counters_.puts_nothing_new, stats.bytes_stored = counters_.bytes_stored;
  stats.corrupt_segments = counters_.corrupt_segments, stats.evicted_segments = counters_.evicted_segments;
  stats.evicted_boundaries = counters_.evicted_boundaries;
  stats.claims_given = counters_.claims_given, stats.claims_waited = counters_.claims_waited;
  stats.claims_taken_over = counters_.claims_taken_over;
  stats.budget_bytes = budget_bytes_;
  stats.read_bytes_per_second = read_bytes_per_second_;
  {
    std::shared_lock lock(mutex_);
    stats.models = models_.size();
    stats.segments = tree_.segments(), stats.tokens = tree_.tokens(), stats.bytes = tree_.bytes();
    std::lock_guard leases(lease_mutex_);
    const int64_t now_ms = monotonic_ms();
    for (const auto& [id, lease] : leases_) stats.leases += lease->end == LeaseEnd::kHolds && now_ms < lease->expires_ms;
  }
  std::lock_guard lock(claim_mutex_);
  stats.claims = claims_.all().size();
  stats.waiting = claims_.waiting();
  return stats;
}

void PromptStore::reset_stats() {
  for (auto* counter : {&counters_.hits, &counters_.misses, &counters_.tokens_served, &counters_.bytes_served, &counters_.avoided_measured_us,
                        &counters_.avoided_estimated_us, &counters_.puts, &counters_.puts_nothing_new, &counters_.bytes_stored,
                        &counters_.corrupt_segments, &counters_.evicted_segments, &counters_.evicted_boundaries, &counters_.claims_given,
                        &counters_.claims_waited, &counters_.claims_taken_over}) {
    *counter = 0;
  }
}

Lsn PromptStore::last_lsn() const { return last_lsn_; }

}  // namespace pion
