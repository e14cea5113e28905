// Records and checkpoint sections whose bytes are whole and whose values cannot be: each is refused, and what stands beside it stays.
#include "prompt/records.h"

#include <cmath>
#include <functional>
#include <limits>

#include "prompt/test_oracle.h"

namespace pion {
namespace {

using namespace prompt_test;

AddRecord good_add() {
  AddRecord record;
  record.name = {3, 77};
  record.model = 1;
  record.salt = "s";
  record.to = 10;
  record.prefill_ms = std::numeric_limits<float>::quiet_NaN();
  record.refs = {{1, 0, 2}};
  return record;
}

TEST(Records, ComeBackAsTheyWere) {
  AddRecord add = good_add();
  add.refs.push_back({});
  const std::string body = encode(add);
  const auto back = decode_add(body);
  ASSERT_TRUE(back);
  EXPECT_EQ(encode(*back), body);
  EXPECT_EQ(back->salt, "s");
  const ReplaceRecord replace{{3, 77}, 78, 5, 2, 1.5f, {{1, 2, 3}}, {{4, 5}, {6, 7}}};
  EXPECT_EQ(encode(*decode_replace(encode(replace))), encode(replace));
  const std::vector<RowsRecord> rows = {{{1, 2}, 3}, {{4, 5}, 6}};
  EXPECT_EQ(encode(*decode_rows(encode(rows))), encode(rows));
  const std::vector<RootName> roots = {{1, "a"}, {2, ""}};
  EXPECT_EQ(encode(*decode_roots(encode(roots))), encode(roots));
  const ModelRecord model{1, "m", "{}"};
  EXPECT_EQ(encode(*decode_model(encode(model))), encode(model));
  for (size_t cut = 0; cut < body.size(); ++cut) EXPECT_FALSE(decode_add(body.substr(0, cut))) << cut;
  EXPECT_FALSE(decode_add(body + "x"));
}

TEST(Records, ImpossibleSegmentsAreRefused) {
  const std::vector<std::pair<const char*, std::function<void(AddRecord&)>>> wrong = {
      {"no id", [](AddRecord& r) { r.name.id = 0; }},
      {"an id after which the next would wrap", [](AddRecord& r) { r.name.id = UINT64_MAX; }},
      {"a slot beyond all", [](AddRecord& r) { r.name.slot = kMaxSlots; }},
      {"no tokens", [](AddRecord& r) { r.to = 0; }},
      {"no tokens of its own", [](AddRecord& r) { r.from = r.to; }},
      {"from beyond to", [](AddRecord& r) { r.parent = {1, 2}, r.from = 11; }},
      {"more tokens than a chain has", [](AddRecord& r) { r.to = kMaxTokens + 1; }},
      {"the largest number of tokens", [](AddRecord& r) { r.to = UINT32_MAX; }},
      {"window rows that begin behind its end", [](AddRecord& r) { r.rows_from = 11; }},
      {"on the root, not from the start", [](AddRecord& r) { r.from = 5; }},
      {"a boundary on the root", [](AddRecord& r) { r.from = 10, r.flags = kSegmentBoundary; }},
      {"a boundary with tokens", [](AddRecord& r) { r.parent = {1, 2}, r.from = 5, r.flags = kSegmentBoundary; }},
      {"its own parent", [](AddRecord& r) { r.parent = {3, 77}, r.from = 5; }},
      {"a parent without id", [](AddRecord& r) { r.parent = {1, 0}, r.from = 5; }},
      {"a flag nobody knows", [](AddRecord& r) { r.flags = 64; }},
      {"no model", [](AddRecord& r) { r.model = 0; }},
      {"a salt that is too long", [](AddRecord& r) { static const std::string salt(1025, 's'); r.salt = salt; }},
      {"a time below 0", [](AddRecord& r) { r.prefill_ms = -1; }},
      {"a time without end", [](AddRecord& r) { r.prefill_ms = std::numeric_limits<float>::infinity(); }},
      {"no extents", [](AddRecord& r) { r.refs.clear(); }},
      {"only empty extents", [](AddRecord& r) { r.refs = {{}, {}}; }},
      {"an extent without pages", [](AddRecord& r) { r.refs = {{1, 0, 0}}; }},
      {"more extents than pools", [](AddRecord& r) { r.refs.assign(kMaxPools + 2, {1, 0, 1}); }},
  };
  ASSERT_TRUE(decode_add(encode(good_add())));
  for (const auto& [what, spoil] : wrong) {
    AddRecord record = good_add();
    spoil(record);
    EXPECT_FALSE(decode_add(encode(record))) << what;
  }
}

TEST(Records, OtherImpossibleValuesAreRefused) {
  const ReplaceRecord good{{3, 77}, 78, 5, 2, 1.5f, {{1, 2, 3}}, {}};
  const std::vector<std::function<void(ReplaceRecord&)>> wrong = {
      [](ReplaceRecord& r) { r.new_id = 0; },     [](ReplaceRecord& r) { r.new_id = kMaxId; }, [](ReplaceRecord& r) { r.to = 0; },
      [](ReplaceRecord& r) { r.rows_from = 6; },  [](ReplaceRecord& r) { r.to = UINT32_MAX; }, [](ReplaceRecord& r) { r.prefill_ms = -1; },
      [](ReplaceRecord& r) { r.refs = {{}}; },    [](ReplaceRecord& r) { r.name.id = 0; }};
  ASSERT_TRUE(decode_replace(encode(good)));
  for (size_t i = 0; i < wrong.size(); ++i) {
    ReplaceRecord record = good;
    wrong[i](record);
    EXPECT_FALSE(decode_replace(encode(record))) << i;
  }
  std::string many;
  ByteWriter(many).varint(UINT64_MAX);
  EXPECT_FALSE(decode_names(many)) << "a count is no reason to take memory";
  many.clear();
  ByteWriter(many).varint(UINT64_MAX / 12 + 1);  // times 12 it wraps
  EXPECT_FALSE(decode_names(many));
  EXPECT_FALSE(decode_model(encode(ModelRecord{0, "m", "{}"})));
  EXPECT_FALSE(decode_model(encode(ModelRecord{UINT32_MAX, "m", "{}"}))) << "the next id would be 0";
  EXPECT_FALSE(decode_model(encode(ModelRecord{1, "", "{}"})));
  EXPECT_FALSE(decode_model(encode(ModelRecord{1, std::string(1025, 'n'), "{}"})));
}

// Records that decode, applied to a store that has one segment.
TEST(Records, ThatDoNotFitWhatIsThereChangeNothing) {
  TestStore store;
  store.declare("m", {{"kv", "all"}, {"s", "trailing"}});
  const Chain chain = chain_of(count_up(20));
  ASSERT_TRUE(store.put("m", chain, 0));
  const uint64_t id = store.match("m", chain)->segments[0].id;
  const auto apply = [&](uint8_t type, const std::string& body) { return store->apply(1'000'000, type, body).has_value(); };
  AddRecord add = good_add();
  add.refs = {{1, 0, 2}, {1, 2, 2}};
  const auto refused = [&](const char* what, const std::function<void(AddRecord&)>& spoil) {
    AddRecord record = add;
    spoil(record);
    ASSERT_TRUE(decode_add(encode(record))) << what;
    EXPECT_FALSE(apply(kPromptAdd, encode(record))) << what;
  };
  refused("an unknown model", [](AddRecord& r) { r.model = 9; });
  refused("another number of pools", [](AddRecord& r) { r.refs.pop_back(); });
  refused("a parent in a slot nobody has", [](AddRecord& r) { r.parent = {kMaxSlots - 1, 5}, r.from = 5; });
  refused("a parent with another id", [&](AddRecord& r) { r.parent = {0, id + 1}, r.from = 5; });
  refused("beyond its parent", [&](AddRecord& r) { r.parent = {0, id}, r.from = 21, r.to = 30; });
  refused("a boundary beyond its parent", [&](AddRecord& r) { r.parent = {0, id}, r.from = r.to = 21, r.flags = kSegmentBoundary; });
  EXPECT_FALSE(apply(kPromptModelSet, encode(ModelRecord{1, "other", manifest_of({{"kv", "all"}})}))) << "the id is m's";
  EXPECT_FALSE(apply(kPromptModelSet, encode(ModelRecord{2, "other", "{}"})));
  EXPECT_FALSE(apply(kPromptReplace, encode(ReplaceRecord{{0, id}, id + 9, 20, 0, 1, {{1, 0, 1}}, {{0, id}}}))) << "another number of pools";
  EXPECT_FALSE(apply(kPromptReplace, encode(ReplaceRecord{{0, id}, id + 9, 21, 0, 1, {{1, 0, 1}, {1, 1, 1}}, {{0, id}}}))) << "beyond its end";
  EXPECT_FALSE(apply(kPromptReplace, encode(ReplaceRecord{{1, id}, id + 9, 10, 0, 1, {{1, 0, 1}, {1, 1, 1}}, {{0, id}}}))) << "not there";
  EXPECT_TRUE(apply(kPromptDropRows, encode(std::vector<RowsRecord>{{{0, id}, 1}, {{kMaxSlots - 1, 5}, 1}}))) << "attention rows stay";
  EXPECT_TRUE(apply(kPromptDrop, encode_names({{kMaxSlots - 1, 5}, {UINT32_MAX, 5}, {0, id + 1}})));
  EXPECT_TRUE(apply(kPromptModelDrop, "x"));
  EXPECT_FALSE(apply(79, ""));
  EXPECT_EQ(store.matched("m", chain), 20u);
  EXPECT_EQ(store->stats().segments, 1u);
  // A slot far away costs what one segment costs.
  add.name.slot = kMaxSlots - 1;
  EXPECT_TRUE(apply(kPromptAdd, encode(add)));
  EXPECT_EQ(store->stats().segments, 2u);
  EXPECT_TRUE(apply(kPromptDrop, encode_names({{kMaxSlots - 1, add.name.id}})));
  EXPECT_EQ(store->stats().segments, 1u);
}

// Sections as a checkpoint has them, loaded into an empty store.
class Sections : public testing::Test {
 public:
  static std::string models(uint32_t next_id = 2, uint64_t last_segment = 1000) {
    std::string body;
    ByteWriter(body).put(kCheckpointVersion).put(next_id).put(last_segment).varint(1).put(uint64_t{0}).put(uint64_t{0}).bytes(
        encode(ModelRecord{1, "m", manifest_of({{"kv", "all"}})}));
    return body;
  }
  static std::string roots() {
    std::string body;
    ByteWriter(body).put(kCheckpointVersion).varint(1).put(uint32_t{0}).put(uint32_t{1}).bytes("");
    return body;
  }
  static std::string segments(const std::vector<PackedSegment>& all, uint32_t count, uint32_t refs) {
    std::string body;
    ByteWriter writer(body);
    writer.put(kCheckpointVersion).put(count).put(refs);
    for (const PackedSegment& one : all) writer.put(one);
    for (size_t i = 0; i < all.size(); ++i) writer.put(ExtentRef{1, static_cast<uint32_t>(i) * 2, 2});
    return body;
  }
  static PackedSegment packed(uint32_t slot, uint64_t id, uint32_t parent, uint32_t from, uint32_t to) {
    PackedSegment one{};
    one.slot = slot, one.id = id, one.parent = parent, one.from = from, one.to = to, one.rows_from = from, one.refs = 1;
    one.prefill_ms = std::numeric_limits<float>::quiet_NaN();
    return one;
  }
  // How many of these segments are there afterwards.
  static uint64_t kept(const std::vector<PackedSegment>& all) {
    TestStore store;
    EXPECT_TRUE(store->load_section(kModelsSection, 1, models()));
    EXPECT_TRUE(store->load_section(kRootsSection, 1, roots()));
    EXPECT_TRUE(store->load_section(kSegmentsSection, 1, segments(all, static_cast<uint32_t>(all.size()), static_cast<uint32_t>(all.size()))));
    store->live_extents([](ExtentRef) {});
    const uint64_t segments = store->stats().segments;
    EXPECT_EQ(store->stats().corrupt_segments, all.size() - segments);
    return segments;
  }
};

TEST_F(Sections, GoodOnesAreLinkedInAnyOrder) {
  EXPECT_EQ(kept({packed(0, 1, kRootParent, 0, 10), packed(1, 2, 0, 10, 20), packed(5000, 3, 1, 15, 30)}), 3u);
  EXPECT_EQ(kept({packed(5000, 3, 1, 15, 30), packed(1, 2, 0, 10, 20), packed(0, 1, kRootParent, 0, 10)}), 3u);
  EXPECT_EQ(kept({packed(kMaxSlots - 1, 3, kRootParent, 0, 10)}), 1u);
}

TEST_F(Sections, WrongSegmentsGoWithWhatHangsOnThem) {
  const PackedSegment root = packed(0, 1, kRootParent, 0, 10);
  const auto with = [&](PackedSegment wrong) { return kept({root, wrong, packed(9, 90, wrong.slot, wrong.from + 1, wrong.from + 2)}); };
  EXPECT_EQ(with(packed(1, 2, 0, 10, 20)), 3u);
  EXPECT_EQ(with(packed(1, 0, 0, 10, 20)), 1u) << "no id";
  EXPECT_EQ(with(packed(1, UINT64_MAX, 0, 10, 20)), 1u);
  EXPECT_EQ(with(packed(kMaxSlots, 2, 0, 10, 20)), 1u);
  EXPECT_EQ(with(packed(UINT32_MAX, 2, 0, 10, 20)), 1u);
  EXPECT_EQ(with(packed(1, 2, 0, 11, 20)), 1u) << "beyond its parent";
  EXPECT_EQ(with(packed(1, 2, 0, 0, 20)), 1u) << "before its parent";
  EXPECT_EQ(with(packed(1, 2, 0, 10, 10)), 1u) << "no tokens";
  EXPECT_EQ(with(packed(1, 2, 0, 10, 5)), 1u);
  EXPECT_EQ(with(packed(1, 2, 0, 10, UINT32_MAX)), 1u);
  EXPECT_EQ(with(packed(1, 2, 7, 10, 20)), 1u) << "no such parent";
  EXPECT_EQ(with(packed(1, 2, kRootParent | 5, 0, 20)), 1u) << "no such root";
  EXPECT_EQ(with(packed(1, 2, kRootParent, 3, 20)), 1u) << "on the root, not from the start";
  PackedSegment wrong = packed(1, 2, 0, 10, 20);
  wrong.prefill_ms = -5;
  EXPECT_EQ(with(wrong), 1u);
  wrong = packed(1, 2, 0, 10, 20);
  wrong.rows_from = 21;
  EXPECT_EQ(with(wrong), 1u);
  wrong = packed(1, 2, 0, 10, 20);
  wrong.root = 3;
  EXPECT_EQ(with(wrong), 1u);
  EXPECT_EQ(kept({root, packed(0, 7, kRootParent, 0, 5)}), 1u) << "two in one slot";
}

TEST_F(Sections, CirclesEnd) {
  EXPECT_EQ(kept({packed(0, 1, 0, 5, 10)}), 0u);
  EXPECT_EQ(kept({packed(0, 1, 1, 5, 10), packed(1, 2, 0, 5, 10)}), 0u);
  std::vector<PackedSegment> many;
  for (uint32_t i = 0; i < 60'000; ++i) many.push_back(packed(i, i + 1, i, 5, 10));  // each its own parent
  EXPECT_EQ(kept(many), 0u);
  for (uint32_t i = 0; i < 60'000; ++i) many[i] = packed(i, i + 1, i == 0 ? 59'999 : i - 1, i + 1, i + 2);  // one long circle
  EXPECT_EQ(kept(many), 0u);
}

TEST_F(Sections, CountsThatAreNotThereAreRefused) {
  TestStore store;
  const auto refused = [&](uint32_t number, const std::string& body) { EXPECT_FALSE(store->load_section(number, 1, body)) << number; };
  const std::vector<PackedSegment> one = {packed(0, 1, kRootParent, 0, 10)};
  refused(kSegmentsSection, segments(one, UINT32_MAX, 1));
  refused(kSegmentsSection, segments(one, 1, UINT32_MAX));
  refused(kSegmentsSection, segments(one, 0, 1));
  refused(kSegmentsSection, segments({}, 0, 0) + "x");
  PackedSegment greedy = packed(0, 1, kRootParent, 0, 10);
  greedy.refs = 200;
  refused(kSegmentsSection, segments({greedy}, 1, 1));
  refused(kModelsSection, models(UINT32_MAX));
  refused(kModelsSection, models(2, UINT64_MAX));
  std::string counts;
  ByteWriter(counts).put(kCheckpointVersion).varint(UINT64_MAX);
  refused(kRootsSection, counts);
  ByteWriter(counts).put(uint32_t{0});
  refused(kRootsSection, counts);
  refused(kModelsSection, models() + "x");
  refused(kModelsSection, "");
  std::string long_salt;
  ByteWriter(long_salt).put(kCheckpointVersion).varint(1).put(uint32_t{0}).put(uint32_t{1}).bytes(std::string(1025, 's'));
  refused(kRootsSection, long_salt);
  std::string version;
  ByteWriter(version).put(uint32_t{99});
  refused(kSegmentsSection, version);
}

TEST(Content, ImpossibleMediaIsRefused) {
  const auto decodes = [](const std::vector<MediaItem>& media) {
    std::string out;
    ByteWriter writer(out);
    writer.put(uint64_t{7}).put(uint32_t{0}).put(uint32_t{10}).put(uint32_t{20}).put(static_cast<uint32_t>(media.size()));
    out.append(20 * 4, '\1');
    for (const MediaItem& item : media) writer.put(item.position).put(item.length).put(static_cast<uint8_t>(item.digest.size())).raw(item.digest);
    return Content::decode(out, 7, 0, 10, 20).has_value();
  };
  EXPECT_TRUE(decodes({{10, 5, "d"}, {15, 15, "e"}}));
  EXPECT_FALSE(decodes({{10, 0, "d"}}));
  EXPECT_FALSE(decodes({{10, 5, ""}}));
  EXPECT_FALSE(decodes({{10, 5, std::string(65, 'd')}}));
  EXPECT_FALSE(decodes({{9, 5, "d"}}));
  EXPECT_FALSE(decodes({{10, 5, "d"}, {14, 1, "e"}}));
  EXPECT_FALSE(decodes({{20, 1, "d"}, {10, 1, "e"}}));
  EXPECT_FALSE(decodes({{29, 2, "d"}}));
  EXPECT_FALSE(decodes({{29, UINT32_MAX, "d"}}));
  std::string counts;
  ByteWriter(counts).put(uint64_t{7}).put(uint32_t{0}).put(uint32_t{0}).put(uint32_t{0}).put(UINT32_MAX);
  EXPECT_FALSE(Content::decode(counts, 7, 0, 0, 0)) << "a count is no reason to take memory";
  counts.clear();
  ByteWriter(counts).put(uint64_t{7}).put(uint32_t{0}).put(UINT32_MAX).put(uint32_t{0}).put(uint32_t{0});
  EXPECT_FALSE(Content::decode(counts, 7, 0, 5, 0)) << "beyond the longest chain";
}

}  // namespace
}  // namespace pion
