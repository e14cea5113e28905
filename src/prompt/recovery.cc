// The plane's side of recovery and checkpoints.
#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/log.h"
#include "prompt/store.h"

namespace pion {
namespace {

std::unexpected<Error> bad(std::string what) { return fail(ErrorCode::kCorrupt, "prompt memory: " + std::move(what)); }

}  // namespace

Status PromptStore::load_section(uint32_t number, Lsn lsn, std::string_view body) {
  built_ = false;
  section_lsn_ = std::max(section_lsn_, lsn);
  ByteReader reader(body);
  if (reader.get<uint32_t>() != kCheckpointVersion) return bad("a checkpoint section of another version");
  if (number == kModelsSection) {
    const auto next_model = reader.get<uint32_t>();
    const auto last_id = reader.get<uint64_t>();
    if (next_model == UINT32_MAX || last_id >= kMaxId) return bad("a models section with ids that cannot be");
    next_model_id_ = std::max(next_model_id_, next_model);
    id_seen(last_id);
    const auto count = reader.varint();
    for (uint64_t i = 0; i < count && !reader.failed(); ++i) {
      const auto measured_us = reader.get<uint64_t>(), measured_tokens = reader.get<uint64_t>();
      const auto record = reader.bytes();
      PION_TRY(apply(0, kPromptModelSet, record));
      const auto decoded = decode_model(record);
      models_by_id_[decoded->id]->measured_us = measured_us;
      models_by_id_[decoded->id]->measured_tokens = measured_tokens;
    }
    return reader.complete() ? Status{} : bad("a models section that ends early");
  }
  if (number == kRootsSection) {
    const auto count = reader.varint();
    for (uint64_t i = 0; i < count && !reader.failed(); ++i) {
      LoadedRoot root;
      root.index = reader.get<uint32_t>();
      root.model = reader.get<uint32_t>();
      root.salt = reader.bytes();
      if (root.salt.size() > kMaxNameBytes) return bad("a roots section with a salt that is too long");
      loaded_roots_.push_back(std::move(root));
    }
    return reader.complete() ? Status{} : bad("a roots section that ends early");
  }
  const auto count = reader.get<uint32_t>();
  const auto refs = reader.get<uint32_t>();
  const std::string_view segments = reader.raw(uint64_t{count} * sizeof(PackedSegment));
  const std::string_view extents = reader.raw(uint64_t{refs} * sizeof(ExtentRef));
  if (!reader.complete()) return bad("a segments section that ends early");
  const size_t first = loaded_.size(), first_ref = loaded_refs_.size();
  loaded_.resize(first + count);
  loaded_refs_.resize(first_ref + refs);
  if (count > 0) std::memcpy(loaded_.data() + first, segments.data(), segments.size());
  if (refs > 0) std::memcpy(loaded_refs_.data() + first_ref, extents.data(), extents.size());
  uint64_t named = 0;
  for (size_t i = first; i < loaded_.size(); ++i) named += loaded_[i].refs;
  if (named == refs) return {};
  loaded_.resize(first);
  loaded_refs_.resize(first_ref);
  return bad("a segments section whose extents do not add up");
}

// Ids are never given twice: not even that of a segment whose record of being dropped was lost, so that bytes which lie where its
// extents lay cannot pass for its own.
void PromptStore::id_seen(uint64_t id) {
  if (id >= next_id_) next_id_ = id + 1;
}

// Which of the sections' segments can be what they say: those whose fields make sense and whose ancestors are all there. A
// section that was lost takes with it what hangs on its segments.
std::vector<uint8_t> PromptStore::judge_loaded(const std::unordered_map<uint32_t, LoadedRoot>& roots) {
  enum : uint8_t { kUnknown, kOnPath, kBad, kGood = kLoadedGood };
  std::vector<uint8_t> state(loaded_.size(), kUnknown);
  // Where a slot's segment stands in loaded_ is noted in the slot itself until it is filled.
  const auto place_of = [&](uint32_t slot) { return tree_.slots.present(slot) ? tree_.slots[slot].leaf_position : kNoSlot; };
  size_t ref = 0;
  for (uint32_t i = 0; i < loaded_.size(); ++i) {
    const PackedSegment& packed = loaded_[i];
    const auto root = roots.find(packed.root);
    const bool sane = usable_id(packed.id) && packed.slot < kMaxSlots && root != roots.end() &&
                      models_by_id_[root->second.model]->ref_count == packed.refs &&
                      usable_refs({loaded_refs_.data() + ref, packed.refs}) && usable_prefill(packed.prefill_ms) &&
                      usable_range(packed.from, packed.to, packed.rows_from, packed.flags);
    ref += packed.refs;
    if (!sane || place_of(packed.slot) != kNoSlot) {
      state[i] = kBad;  // of two in one slot the first stays
    } else {
      tree_.slots.place(packed.slot).leaf_position = i;
    }
  }
  std::vector<uint32_t> path;
  for (uint32_t i = 0; i < loaded_.size(); ++i) {
    path.clear();
    uint8_t verdict = kUnknown;
    for (uint32_t at = i; verdict == kUnknown;) {
      if (state[at] != kUnknown) {
        verdict = state[at] == kGood ? kGood : kBad;  // on the path: its own ancestor
        break;
      }
      state[at] = kOnPath;
      path.push_back(at);
      const PackedSegment& packed = loaded_[at];
      if (packed.parent & kRootParent) {
        const bool fits = (packed.parent & ~kRootParent) == packed.root && packed.from == 0 && !(packed.flags & kSegmentBoundary);
        verdict = fits ? kGood : kBad;
        break;
      }
      const uint32_t above = place_of(packed.parent);
      const PackedSegment* parent = above == kNoSlot ? nullptr : &loaded_[above];
      const bool fits = parent && parent->root == packed.root && !(parent->flags & kSegmentBoundary) && packed.from > parent->from &&
                        packed.from <= parent->to;
      if (fits) {
        at = above;
      } else {
        verdict = kBad;
      }
    }
    for (uint32_t at : path) state[at] = verdict;
  }
  for (const PackedSegment& packed : loaded_) {
    if (tree_.slots.present(packed.slot)) tree_.slots[packed.slot].leaf_position = kNoSlot;
  }
  return state;
}

// Links what the sections brought.
void PromptStore::build() {
  if (built_) return;
  built_ = true;
  std::unordered_map<uint32_t, uint32_t> places;      // of roots, as numbered in the checkpoint -> here
  std::unordered_map<uint32_t, LoadedRoot> roots;
  for (LoadedRoot& root : loaded_roots_) {
    if (models_by_id_.contains(root.model)) roots[root.index] = std::move(root);
  }
  const std::vector<uint8_t> state = judge_loaded(roots);
  tree_.reserve(loaded_.size());
  size_t ref = 0, lost = 0;
  std::vector<ExtentRef> refs;
  for (uint32_t i = 0; i < loaded_.size(); ++i) {
    const PackedSegment& packed = loaded_[i];
    refs.assign(loaded_refs_.begin() + static_cast<ptrdiff_t>(ref), loaded_refs_.begin() + static_cast<ptrdiff_t>(ref + packed.refs));
    ref += packed.refs;
    if (state[i] != kLoadedGood) {
      ++lost;
      continue;
    }
    const LoadedRoot& root = roots[packed.root];
    auto [known, fresh] = places.try_emplace(packed.root, 0);
    if (fresh) known->second = tree_.make_root(root.model, root.salt);
    Segment& segment = tree_.slots[packed.slot];
    segment.id = packed.id;
    id_seen(packed.id);
    segment.last_used_us = packed.last_used_us;
    segment.root = known->second;
    segment.parent = packed.parent & kRootParent ? kRootParent | known->second : packed.parent;
    segment.from = packed.from, segment.to = packed.to, segment.rows_from = packed.rows_from;
    segment.edge = packed.edge, segment.hits = packed.hits, segment.prefill_ms = packed.prefill_ms;
    segment.flags = packed.flags & static_cast<uint8_t>(~kSegmentReadPacked);
    segment.read = packed.flags & kSegmentReadPacked ? 1 : 0;
    segment.set_refs(refs);
    tree_.link(packed.slot);
    if (segment.read != 0) read_flag_bytes_ += segment.bytes();
    if (models_by_id_[root.model]->boundaries) bounded_.emplace_back(packed.slot, packed.id);
  }
  if (lost > 0) {
    counters_.corrupt_segments += lost;
    log_warning("prompt memory: " + std::to_string(lost) + " segments of the checkpoint are wrong or hang on lost ones, and are misses now");
  }
  loaded_ = {};
  loaded_refs_ = {};
  loaded_roots_ = {};
}

Status PromptStore::apply(Lsn lsn, uint8_t type, std::string_view body) {
  if (lsn != 0 && lsn <= section_lsn_) return {};  // the checkpoint holds it
  if (lsn != 0) build();
  if (lsn > last_lsn_) last_lsn_ = lsn;
  switch (type) {
    case kPromptModelSet: {
      const auto record = decode_model(body);
      if (!record) return bad("a model record that cannot be read");
      auto manifest = parse_manifest(record->json);
      if (!manifest) return std::unexpected(manifest.error());
      if (const auto old = models_.find(record->name); old != models_.end()) {
        std::string id;
        ByteWriter(id).put(old->second->id);
        PION_TRY(apply(lsn, kPromptModelDrop, id));  // the record of its drop was lost
      }
      if (models_by_id_.contains(record->id)) return bad("a model with another one's id");
      auto model = make_model(record->id, std::string(record->name), std::move(*manifest), std::string(record->json));
      models_[model->name] = model;
      models_by_id_[model->id] = model;
      next_model_id_ = std::max(next_model_id_, model->id + 1);
      return {};
    }
    case kPromptModelDrop: {
      ByteReader reader(body);
      const auto id = reader.get<uint32_t>();
      const auto found = models_by_id_.find(id);
      if (!reader.complete() || found == models_by_id_.end()) return {};
      std::vector<uint32_t> victims;
      for (uint32_t root = 0; root < tree_.root_count(); ++root) {
        if (tree_.root(root).model != id) continue;
        for (uint32_t child = tree_.root(root).first_child; child != kNoSlot; child = tree_.slots[child].next) {
          tree_.subtree(child, victims);
        }
      }
      unlink_all(victims);
      models_.erase(found->second->name);
      models_by_id_.erase(id);
      return {};
    }
    case kPromptDropRoots: {
      const auto roots = decode_roots(body);
      if (!roots) return bad("a record of dropped salts that cannot be read");
      std::vector<uint32_t> victims;
      for (const RootName& name : *roots) {
        const uint32_t root = tree_.find_root(name.model, name.salt);
        if (root == SegmentTree::kNoRoot) continue;
        for (uint32_t child = tree_.root(root).first_child; child != kNoSlot; child = tree_.slots[child].next) {
          tree_.subtree(child, victims);
        }
      }
      unlink_all(victims);
      return {};
    }
    case kPromptAdd: {
      const auto record = decode_add(body);
      if (!record) return bad("a segment record that cannot be read");
      uint32_t root = SegmentTree::kNoRoot, parent = record->parent.slot;
      if (parent == kNoSlot) {
        if (!models_by_id_.contains(record->model)) return bad("a segment of a model that is not there");
      } else {
        if (!tree_.slots.live(parent, record->parent.id)) return bad("a segment whose parent is not there");
        const Segment& above = tree_.slots[parent];
        if (above.boundary() || record->from <= above.from || record->from > above.to) return bad("a segment that does not fit its parent");
        root = above.root;
      }
      const uint32_t model_id = parent == kNoSlot ? record->model : tree_.root(root).model;
      const auto& model = models_by_id_[model_id];
      if (record->refs.size() != model->ref_count) return bad("a segment with another number of pools than its model");
      if (tree_.slots.used(record->name.slot)) {  // the record that freed the slot was lost
        std::vector<uint32_t> victims;
        tree_.subtree(record->name.slot, victims);
        if (parent != kNoSlot && std::find(victims.begin(), victims.end(), parent) != victims.end()) {
          return bad("a segment that would be its own ancestor");
        }
        unlink_all(victims);
      }
      if (parent == kNoSlot) parent = kRootParent | (root = tree_.make_root(record->model, record->salt));
      Segment& segment = tree_.slots.place(record->name.slot);
      segment.id = record->name.id;
      id_seen(segment.id);
      segment.parent = parent;
      segment.root = root;
      segment.from = record->from, segment.to = record->to, segment.rows_from = record->rows_from;
      segment.edge = record->edge, segment.flags = record->flags, segment.prefill_ms = record->prefill_ms;
      segment.last_used_us = record->time_us;
      segment.set_refs(record->refs);
      if (segment.measured() && segment.tokens() > 0) {
        model->measured_us += static_cast<uint64_t>(segment.prefill_ms * 1000.0);
        model->measured_tokens += segment.tokens();
      }
      tree_.link(record->name.slot);
      if (model->boundaries) bounded_.emplace_back(record->name.slot, record->name.id);
      return {};
    }
    case kPromptDrop: {
      const auto names = decode_names(body);
      if (!names) return bad("a record of dropped segments that cannot be read");
      for (const SegmentName& name : *names) {
        if (!tree_.slots.live(name.slot, name.id)) continue;
        std::vector<uint32_t> victims;  // what hangs on it would be named too, unless a record was lost
        tree_.subtree(name.slot, victims);
        unlink_all(victims);
      }
      return {};
    }
    case kPromptDropRows: {
      const auto records = decode_rows(body);
      if (!records) return bad("a record of dropped rows that cannot be read");
      for (const RowsRecord& record : *records) {
        if (!tree_.slots.live(record.name.slot, record.name.id)) continue;
        Segment& segment = tree_.slots[record.name.slot];
        const Model& model = *models_by_id_.at(tree_.root(segment.root).model);
        const uint64_t before = segment.bytes();
        for (size_t i = 0; i < model.pools().size(); ++i) {
          if (record.pools >> i & 1 && model.pools()[i].rule != PoolRule::kAll) segment.clear_ref(i);
        }
        tree_.recount(record.name.slot, before, segment.tokens());
      }
      return {};
    }
    case kPromptReplace: {
      const auto record = decode_replace(body);
      if (!record) return bad("a record of a cut segment that cannot be read");
      if (!tree_.slots.live(record->name.slot, record->name.id)) return bad("a cut of a segment that is not there");
      Segment& segment = tree_.slots[record->name.slot];
      if (record->refs.size() != segment.refs || record->to > segment.to || record->to <= segment.from) return bad("a cut that does not fit its segment");
      // The record names what hung on it beyond the cut; what else does is there because a record was lost.
      std::vector<uint32_t> victims;
      beyond(record->name.slot, record->to, victims);
      unlink_all(victims);
      const uint64_t bytes = segment.bytes();
      const uint32_t tokens = segment.tokens();
      segment.id = record->new_id;
      id_seen(segment.id);
      segment.to = record->to, segment.rows_from = record->rows_from, segment.prefill_ms = record->prefill_ms;
      segment.set_refs(record->refs);
      tree_.recount(record->name.slot, bytes, tokens);
      return {};
    }
    default:
      return bad("a record of unknown type " + std::to_string(type));
  }
}

void PromptStore::record_extents(uint8_t type, std::string_view body, const std::function<void(ExtentRef)>& visit) {
  std::vector<ExtentRef> refs;
  if (type == kPromptAdd) {
    if (const auto record = decode_add(body)) refs = record->refs;
  } else if (type == kPromptReplace) {
    if (const auto record = decode_replace(body)) refs = record->refs;
  }
  for (const ExtentRef& ref : refs) {
    if (ref) visit(ref);
  }
}

void PromptStore::live_extents(const std::function<void(ExtentRef)>& visit) {
  build();
  tree_.slots.for_each([&](uint32_t, const Segment& segment) {
    for (size_t i = 0; i < segment.refs; ++i) {
      if (segment.ref(i)) visit(segment.ref(i));
    }
  });
}

Status PromptStore::write_checkpoint(CheckpointSink& sink) {
  // The sections are one cut: copied under the shared lock (matches go on, commits wait a moment), written without it.
  std::vector<std::string> sections(kSegmentsSection);
  Lsn cut;
  {
    std::shared_lock lock(mutex_);
    cut = recovering_ ? last_lsn_.load() : storage_.journal().appended_lsn();
    ByteWriter models(sections[kModelsSection]);
    models.put(kCheckpointVersion).put(next_model_id_).put(next_id_.load() - 1).varint(models_.size());
    for (const auto& [name, model] : models_) {
      models.put(model->measured_us.load()).put(model->measured_tokens.load());
      models.bytes(encode(ModelRecord{model->id, model->name, model->json}));
    }
    ByteWriter roots(sections[kRootsSection]);
    uint64_t count = 0;
    for (uint32_t i = 0; i < tree_.root_count(); ++i) count += tree_.root(i).model != 0;
    roots.put(kCheckpointVersion).varint(count);
    for (uint32_t i = 0; i < tree_.root_count(); ++i) {
      const Root& root = tree_.root(i);
      if (root.model != 0) roots.put(i).put(root.model).bytes(root.salt);
    }
    std::vector<PackedSegment> segments;
    std::string refs;
    const auto flush = [&] {
      if (segments.empty()) return;
      std::string& body = sections.emplace_back();
      body.reserve(12 + segments.size() * sizeof(PackedSegment) + refs.size());
      ByteWriter writer(body);
      writer.put(kCheckpointVersion).put(static_cast<uint32_t>(segments.size()));
      writer.put(static_cast<uint32_t>(refs.size() / sizeof(ExtentRef)));
      writer.raw({reinterpret_cast<const char*>(segments.data()), segments.size() * sizeof(PackedSegment)}).raw(refs);
      segments.clear();
      refs.clear();
    };
    tree_.slots.for_each([&](uint32_t slot, const Segment& segment) {
      PackedSegment packed{};
      packed.id = segment.id;
      const Segment::Use use = segment.use();
      packed.last_used_us = use.last_used_us;
      packed.hits = use.hits;
      packed.flags = segment.flags | (use.read ? kSegmentReadPacked : 0);
      packed.slot = slot, packed.parent = segment.parent, packed.root = segment.root;
      packed.from = segment.from, packed.to = segment.to, packed.rows_from = segment.rows_from, packed.edge = segment.edge;
      packed.prefill_ms = segment.prefill_ms, packed.refs = segment.refs;
      segments.push_back(packed);
      for (size_t i = 0; i < segment.refs; ++i) {
        const ExtentRef ref = segment.ref(i);
        refs.append(reinterpret_cast<const char*>(&ref), sizeof ref);
      }
      if (segments.size() == kSegmentsPerSection) flush();
    });
    flush();
  }
  for (uint32_t number = 0; number < sections.size(); ++number) PION_TRY(sink.section(number, cut, sections[number]));
  return {};
}

}  // namespace pion
