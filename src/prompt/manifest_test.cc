// Identity: what is the same model, what is not, and what is no manifest.
#include <gtest/gtest.h>

#include "prompt/manifest.h"
#include "prompt/sha256.h"

namespace pion {
namespace {

std::string with(const std::string& fields, const std::string& pool = "") {
  return "{" + fields + (fields.empty() ? "" : ",") +
         "\"pools\":[{\"name\":\"kv\",\"rule\":\"all\",\"layers\":2,\"sides\":[\"k\",\"v\"],\"row_bytes\":8" + pool + "}]}";
}

std::string error_of(const std::string& json) {
  const auto manifest = parse_manifest(json);
  return manifest ? "accepted" : manifest.error().message;
}

TEST(Sha256, KnownDigests) {
  // FIPS 180-4 examples, as printed by coreutils' sha256sum.
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Manifest, OneModelHoweverItIsWritten) {
  const auto a = parse_manifest(with("\"engine\":\"e\",\"rope\":{\"base\":10000,\"scale\":1.0}"));
  const auto b = parse_manifest(" { \"rope\" : {\"scale\":1, \"base\":1e4 }, \"notes\":[1,{\"who\":\"x\"}],\"engine\":\"\\u0065\"," + with("").substr(1));
  ASSERT_TRUE(a);
  ASSERT_TRUE(b) << b.error().message;
  EXPECT_EQ(a->canonical, b->canonical);
  EXPECT_EQ(a->hash, b->hash);
  EXPECT_EQ(b->notes, "[1,{\"who\":\"x\"}]");
  EXPECT_EQ(parse_manifest(with("\"n\":-0.0"))->canonical, parse_manifest(with("\"n\":0"))->canonical);
  EXPECT_EQ(parse_manifest(with("\"n\":9007199254740994.0"))->canonical, parse_manifest(with("\"n\":9007199254740994"))->canonical);
}

// Every field is identity: one changed at a time, known or not, is another model.
TEST(Manifest, AnyFieldMakesAnotherModel) {
  const std::string base = with("\"engine\":\"e\",\"weights\":\"w\",\"adapters\":[{\"digest\":\"d\",\"scale\":1}],\"attention\":{\"type_k\":\"f16\",\"type_v\":\"f16\"}");
  const auto original = parse_manifest(base);
  ASSERT_TRUE(original);
  const std::pair<const char*, const char*> changes[] = {
      {"\"engine\":\"e\"", "\"engine\":\"f\""},       {"\"weights\":\"w\"", "\"weights\":\"W\""},
      {"\"scale\":1", "\"scale\":1.5"},               {"\"digest\":\"d\"", "\"digest\":\"\""},
      {"\"type_k\":\"f16\"", "\"type_k\":\"q8_0\""},  {"\"type_v\":\"f16\"", "\"type_v\":\"q8_0\""},
      {"\"layers\":2", "\"layers\":3"},               {"\"row_bytes\":8", "\"row_bytes\":4"},
      {"[\"k\",\"v\"]", "[\"v\",\"k\"]"},             {"\"name\":\"kv\"", "\"name\":\"vk\""},
      {"\"weights\":\"w\"", "\"weights\":null"},      {"\"weights\":\"w\"", "\"weights\":\"w\",\"unheard_of\":0"},
  };
  for (const auto& [from, to] : changes) {
    std::string changed = base;
    changed.replace(changed.find(from), std::string(from).size(), to);
    const auto other = parse_manifest(changed);
    ASSERT_TRUE(other) << changed;
    EXPECT_NE(other->canonical, original->canonical) << to;
    EXPECT_NE(other->hash, original->hash) << to;
    EXPECT_FALSE(describe_difference(original->canonical, other->canonical).empty()) << to;
  }
}

TEST(Manifest, NamesTheDifference) {
  const auto a = parse_manifest(with("\"engine\":\"e\"", ",\"dtype\":\"f16\"")), b = parse_manifest(with("", ",\"dtype\":\"f32\""));
  EXPECT_EQ(describe_difference(a->canonical, b->canonical),
            "engine is \"e\" there, missing here; pools[0].dtype is \"f16\" there, \"f32\" here");
}

TEST(Manifest, RefusesWhatTwoReadersCouldReadDifferently) {
  EXPECT_EQ(error_of(with("\"a\":1,\"a\":1")), "manifest: the key \"a\" stands twice in one object");
  EXPECT_EQ(error_of(with("\"a\":18446744073709551616")), "manifest: the integer 18446744073709551616 does not fit 64 bits");
  EXPECT_NE(error_of(with("\"a\":\"\xff\"")), "accepted");
  EXPECT_NE(error_of(with("\"a\":1e999")), "accepted");
  EXPECT_EQ(error_of(with("\"a\":" + std::string(40, '[') + std::string(40, ']'))), "manifest: nested deeper than 32");
  EXPECT_NE(error_of(std::string(2 << 20, ' ')), "accepted");
  EXPECT_NE(error_of(std::string(500'000, '[')), "accepted");
  EXPECT_EQ(error_of(""), "manifest: not valid JSON at byte 1");
}

TEST(Manifest, ChecksPools) {
  const auto pool = [](const std::string& fields) { return error_of("{\"pools\":[{" + fields + "}]}"); };
  const std::string rest = ",\"layers\":2,\"sides\":[\"k\"],\"row_bytes\":8";
  EXPECT_EQ(error_of("{}"), "manifest: pools must be a list of 1 to 64 pools");
  EXPECT_EQ(pool("\"name\":\"\",\"rule\":\"all\"" + rest), "manifest: pools[0].name must be a text of 1 to 1024 bytes");
  EXPECT_EQ(pool("\"name\":\"a\",\"rule\":\"some\"" + rest), "manifest: pools[0].rule must be \"all\", \"window\" or \"trailing\"");
  EXPECT_EQ(pool("\"name\":\"a\",\"rule\":\"window\"" + rest), "manifest: pools[0].window is missing");
  EXPECT_NE(pool("\"name\":\"a\",\"rule\":\"window\",\"window\":0" + rest), "accepted");
  EXPECT_NE(pool("\"name\":\"a\",\"rule\":\"window\",\"window\":2.5" + rest), "accepted");
  EXPECT_EQ(pool("\"name\":\"a\",\"rule\":\"window\",\"window\":2.0,\"keep\":1" + rest), "accepted");
  EXPECT_NE(pool("\"name\":\"a\",\"rule\":\"all\",\"layers\":0,\"sides\":[\"k\"],\"row_bytes\":8"), "accepted");
  EXPECT_NE(pool("\"name\":\"a\",\"rule\":\"all\",\"layers\":1,\"sides\":[\"k\",\"k\"],\"row_bytes\":8"), "accepted");
  EXPECT_NE(pool("\"name\":\"a\",\"rule\":\"all\",\"layers\":1,\"sides\":[\"k\"],\"row_bytes\":0"), "accepted");
  EXPECT_NE(pool("\"name\":\"a\",\"rule\":\"all\",\"layers\":2,\"sides\":[\"k\"],\"row_bytes\":[[1]]"), "accepted");
  EXPECT_NE(error_of("{\"pools\":[{\"name\":\"a\",\"rule\":\"all\"" + rest + "},{\"name\":\"a\",\"rule\":\"all\"" + rest + "}]}"), "accepted");
  const auto uneven = parse_manifest("{\"pools\":[{\"name\":\"a\",\"rule\":\"all\",\"layers\":2,\"sides\":[\"k\",\"v\"],\"row_bytes\":[[1,2],[3,4]]}]}");
  ASSERT_TRUE(uneven) << uneven.error().message;
  EXPECT_EQ(uneven->pools[0].token_bytes(), 10u);
  EXPECT_EQ(uneven->pools[0].offset(2, 5, 3), 5u * (1 + 2) + 3 * 3);
}

}  // namespace
}  // namespace pion
