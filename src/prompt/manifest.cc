#include "prompt/manifest.h"

#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "prompt/sha256.h"

namespace pion {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 32;
constexpr uint64_t kMaxTokenBytes = 1ULL << 32;  // of one pool; times kMaxTokens and kMaxPools it fits 64 bits
constexpr uint64_t kMaxWindow = 1ULL << 31;
constexpr uint64_t kMaxLayers = 1ULL << 16;
constexpr size_t kMaxSides = 4096;
constexpr size_t kMaxRuns = 1ULL << 18;  // of all pools: a few bytes of manifest must not cost megabytes
constexpr size_t kDifferencesShown = 3;
constexpr size_t kValueShown = 80;

// Builds the document and refuses what a lenient parser would let pass.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  Json document;
  std::string error;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override {
    return value >= 0 ? add(static_cast<uint64_t>(value)) : add(value);
  }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) return stop("the integer " + text + " does not fit 64 bits");
    if (!std::isfinite(value)) return stop("the number " + text + " is out of range");
    // One number, one spelling: a whole number is an integer however it was written.
    if (value == std::floor(value)) {
      if (value >= 0 && value < 18446744073709551616.0) return add(static_cast<uint64_t>(value));
      if (value < 0 && value >= -9223372036854775808.0) return add(static_cast<int64_t>(value));
    }
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return stop("binary values are no JSON"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    if (stack_.back()->contains(value)) return stop("the key \"" + value + "\" stands twice in one object");
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return stop("not valid JSON at byte " + std::to_string(position));
  }

 private:
  bool stop(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  Json* place(Json value) {
    if (stack_.empty()) return &(document = std::move(value));
    Json& top = *stack_.back();
    if (top.is_array()) {
      top.push_back(std::move(value));
      return &top.back();
    }
    return &(top[key_] = std::move(value));
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (stack_.size() >= kMaxDepth) return stop("nested deeper than " + std::to_string(kMaxDepth));
    stack_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  std::vector<Json*> stack_;  // pointers stay good: a container grows only while it is the top
  std::string key_;
};

std::unexpected<Error> bad(const std::string& where, const std::string& what) {
  return fail(ErrorCode::kInvalid, "manifest: " + where + " " + what);
}

// A whole number in [low, high] of a pool's field.
Result<uint64_t> whole(const Json& pool, const char* field, const std::string& where, uint64_t low, uint64_t high) {
  const std::string name = where + "." + field;
  const auto found = pool.find(field);
  if (found == pool.end()) return bad(name, "is missing");
  if (!found->is_number_unsigned()) return bad(name, "must be a whole number");
  const auto value = found->get<uint64_t>();
  if (value < low || value > high) {
    return bad(name, "must be between " + std::to_string(low) + " and " + std::to_string(high));
  }
  return value;
}

Status read_sides(const Json& json, const std::string& where, PoolSpec& pool) {
  const auto sides = json.find("sides");
  if (sides == json.end() || !sides->is_array() || sides->empty() || sides->size() > kMaxSides) {
    return bad(where + ".sides", "must be a list of 1 to " + std::to_string(kMaxSides) + " names");
  }
  std::set<std::string> names;
  for (const Json& side : *sides) {
    if (!side.is_string() || !names.insert(side.get<std::string>()).second) {
      return bad(where + ".sides", "must hold different names");
    }
  }
  pool.sides = static_cast<uint32_t>(sides->size());
  return {};
}

Status read_row_bytes(const Json& json, const std::string& where, size_t runs_before, PoolSpec& pool) {
  const std::string name = where + ".row_bytes";
  const auto given = json.find("row_bytes");
  if (given == json.end()) return bad(name, "is missing");
  const auto usable = [](const Json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() > 0 && value.get<uint64_t>() <= UINT32_MAX;
  };
  const size_t runs = size_t{pool.layers} * pool.sides;
  if (runs > kMaxRuns - runs_before) return bad(where, "brings the layers times sides to more than " + std::to_string(kMaxRuns));
  if (usable(*given)) {
    pool.row_bytes.assign(runs, given->get<uint32_t>());
  } else {
    if (!given->is_array() || given->size() != pool.layers) {
      return bad(name, "must be one number of bytes above 0, or a list with one entry per layer");
    }
    for (const Json& layer : *given) {
      if (!layer.is_array() || layer.size() != pool.sides) return bad(name, "must give each layer a list with one number per side");
      for (const Json& side : layer) {
        if (!usable(side)) return bad(name, "must hold numbers of bytes above 0");
        pool.row_bytes.push_back(side.get<uint32_t>());
      }
    }
  }
  pool.before.push_back(0);
  for (uint32_t bytes : pool.row_bytes) pool.before.push_back(pool.before.back() + bytes);
  if (pool.token_bytes() > kMaxTokenBytes) return bad(name, "adds up to more than 4 GiB a token");
  return {};
}

Result<PoolSpec> read_pool(const Json& json, const std::string& where, size_t runs_before) {
  if (!json.is_object()) return bad(where, "must be an object");
  PoolSpec pool;
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string() || name->get_ref<const std::string&>().empty() ||
      name->get_ref<const std::string&>().size() > kMaxNameBytes) {
    return bad(where + ".name", "must be a text of 1 to " + std::to_string(kMaxNameBytes) + " bytes");
  }
  pool.name = name->get<std::string>();
  const auto rule = json.find("rule");
  const std::string rule_text = rule != json.end() && rule->is_string() ? rule->get<std::string>() : "";
  if (rule_text == "all") {
    pool.rule = PoolRule::kAll;
  } else if (rule_text == "window") {
    pool.rule = PoolRule::kWindow;
    auto window = whole(json, "window", where, 1, kMaxWindow);
    if (!window) return std::unexpected(window.error());
    pool.window = static_cast<uint32_t>(*window);
    if (json.contains("keep")) {
      auto keep = whole(json, "keep", where, 0, kMaxWindow);
      if (!keep) return std::unexpected(keep.error());
      pool.keep = static_cast<uint32_t>(*keep);
    }
  } else if (rule_text == "trailing") {
    pool.rule = PoolRule::kTrailing;
  } else {
    return bad(where + ".rule", "must be \"all\", \"window\" or \"trailing\"");
  }
  auto layers = whole(json, "layers", where, 1, kMaxLayers);
  if (!layers) return std::unexpected(layers.error());
  pool.layers = static_cast<uint32_t>(*layers);
  PION_TRY(read_sides(json, where, pool));
  PION_TRY(read_row_bytes(json, where, runs_before, pool));
  return pool;
}

void differences(const Json* there, const Json* here, const std::string& path, std::vector<std::string>& out) {
  if (out.size() >= kDifferencesShown || (there && here && *there == *here)) return;
  if (there && here && there->is_object() && here->is_object()) {
    std::set<std::string> keys;
    for (const auto& [key, value] : there->items()) keys.insert(key);
    for (const auto& [key, value] : here->items()) keys.insert(key);
    for (const std::string& key : keys) {
      const auto a = there->find(key), b = here->find(key);
      differences(a == there->end() ? nullptr : &*a, b == here->end() ? nullptr : &*b, path.empty() ? key : path + "." + key, out);
    }
    return;
  }
  if (there && here && there->is_array() && here->is_array()) {
    for (size_t i = 0; i < std::max(there->size(), here->size()); ++i) {
      differences(i < there->size() ? &(*there)[i] : nullptr, i < here->size() ? &(*here)[i] : nullptr,
                  path + "[" + std::to_string(i) + "]", out);
    }
    return;
  }
  const auto show = [](const Json* value) {
    if (!value) return std::string("missing");
    std::string text = value->dump(-1, ' ', true);
    if (text.size() > kValueShown) text = text.substr(0, kValueShown) + "...";
    return text;
  };
  out.push_back(path + " is " + show(there) + " there, " + show(here) + " here");
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes) {
    return fail(ErrorCode::kTooLarge, "manifest: larger than " + std::to_string(kMaxManifestBytes) + " bytes");
  }
  StrictBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return fail(ErrorCode::kInvalid, "manifest: " + (builder.error.empty() ? "not valid JSON" : builder.error));
  }
  Json& document = builder.document;
  if (!document.is_object()) return fail(ErrorCode::kInvalid, "manifest: must be a JSON object");
  Manifest manifest;
  if (const auto notes = document.find("notes"); notes != document.end()) {
    manifest.notes = notes->dump();
    document.erase(notes);
  }
  const auto pools = document.find("pools");
  if (pools == document.end() || !pools->is_array() || pools->empty() || pools->size() > kMaxPools) {
    return fail(ErrorCode::kInvalid, "manifest: pools must be a list of 1 to " + std::to_string(kMaxPools) + " pools");
  }
  std::set<std::string> names;
  size_t runs = 0;
  for (size_t i = 0; i < pools->size(); ++i) {
    const std::string where = "pools[" + std::to_string(i) + "]";
    auto pool = read_pool((*pools)[i], where, runs);
    if (!pool) return std::unexpected(pool.error());
    if (!names.insert(pool->name).second) return bad(where + ".name", "is taken by another pool");
    runs += pool->runs();
    manifest.pools.push_back(std::move(*pool));
  }
  manifest.canonical = document.dump();
  manifest.hash = sha256_hex(manifest.canonical);
  return manifest;
}

std::string describe_difference(const std::string& there, const std::string& here) {
  const Json a = Json::parse(there, nullptr, false), b = Json::parse(here, nullptr, false);
  std::vector<std::string> found;
  differences(&a, &b, "", found);
  std::string text;
  for (const std::string& difference : found) text += (text.empty() ? "" : "; ") + difference;
  return text;
}

}  // namespace pion
