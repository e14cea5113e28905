// For tests: the simplest plane there is. Keys with small values in records and large ones in extents, in four sections,
// each with a lock and the lsn a checkpoint reflects. One record may change several keys.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "storage/storage.h"

namespace pion {

class ModelPlane final : public Plane {
 public:
  static constexpr uint8_t kType = static_cast<uint8_t>(RecordType::kKeyspace);
  static constexpr size_t kSections = 4;

  struct Change {
    std::string key;
    std::optional<std::string> value;  // nullopt: the key goes
    bool large = false;                // the value lies in an extent
  };

  explicit ModelPlane(Storage& storage) : storage_(storage) { storage.add_plane(this); }

  // Data, record, state, as a command does it. Returns the record's lsn.
  Result<Lsn> change(const std::vector<Change>& changes) {
    bool frees = true;
    for (const Change& one : changes) frees = frees && !one.value;
    std::string body;
    ByteWriter out(body);
    std::vector<std::pair<std::string, Value>> values;
    for (const Change& one : changes) {
      Value value;
      if (one.value && one.large) {
        Result<std::unique_ptr<ExtentWriter>> writer = storage_.extents().create(Space::kValues, one.value->size(), one.key.size());
        if (!writer) return give_back(values, writer.error());
        (*writer)->set_aux(one.key);
        if (Status status = (*writer)->append(*one.value); !status) return give_back(values, status.error());
        Result<ExtentRef> ref = (*writer)->finish();
        if (!ref) return give_back(values, ref.error());
        value.ref = *ref;
      } else if (one.value) {
        value.small = *one.value;
      }
      out.put<uint8_t>(!one.value ? 0 : one.large ? 2 : 1).bytes(one.key);
      if (one.value && one.large) out.put(value.ref);
      if (one.value && !one.large) out.bytes(value.small);
      values.emplace_back(one.key, value);
    }
    if (Status status = storage_.journal().admit(body.size(), frees ? WriteKind::kFrees : WriteKind::kGrows); !status) {
      return give_back(values, status.error());
    }
    std::set<size_t> sections;
    for (const Change& one : changes) sections.insert(section_of(one.key));
    for (const size_t section : sections) parts_[section].mutex.lock();
    const Lsn lsn = storage_.journal().append(kType, {body});
    for (size_t at = 0; at < changes.size(); at++) {
      put(values[at].first, changes[at].value ? std::optional(values[at].second) : std::nullopt, lsn, true);
    }
    for (const size_t section : sections) parts_[section].mutex.unlock();
    return lsn;
  }

  // nullopt: no such key. kCorrupt: its bytes did not verify.
  Result<std::optional<std::string>> get(const std::string& key) {
    Part& part = parts_[section_of(key)];
    std::lock_guard lock(part.mutex);
    const auto found = part.values.find(key);
    if (found == part.values.end()) return std::optional<std::string>();
    if (!found->second.ref) return std::optional(found->second.small);
    Result<std::shared_ptr<Extent>> extent = storage_.extents().open(found->second.ref);
    if (!extent) return std::unexpected(extent.error());
    if ((*extent)->aux() != key) return fail(ErrorCode::kInternal, "another key's extent was opened and verified");
    std::string value((*extent)->payload_bytes(), '\0');
    PION_TRY((*extent)->read(0, value.size(), value.data()));
    return std::optional(std::move(value));
  }

  std::vector<std::string> keys() {
    std::vector<std::string> all;
    for (Part& part : parts_) {
      std::lock_guard lock(part.mutex);
      for (const auto& [key, value] : part.values) all.push_back(key);
    }
    return all;
  }

  std::optional<ExtentRef> ref(const std::string& key) {
    Part& part = parts_[section_of(key)];
    std::lock_guard lock(part.mutex);
    const auto found = part.values.find(key);
    if (found == part.values.end() || !found->second.ref) return std::nullopt;
    return found->second.ref;
  }

  // ---- Plane ----
  std::string_view name() const override { return "model"; }
  std::pair<uint8_t, uint8_t> record_types() const override { return {kType, kType}; }

  Status load_section(uint32_t number, Lsn lsn, std::string_view body) override {
    if (number >= kSections) return fail(ErrorCode::kCorrupt, "no such section");
    Part& part = parts_[number];
    part.lsn = lsn;
    ByteReader in(body);
    while (!in.empty()) {
      const std::string key(in.bytes());
      Value value;
      if (in.get<uint8_t>() == 2) {
        value.ref = in.get<ExtentRef>();
      } else {
        value.small = in.bytes();
      }
      if (!in.failed()) part.values[key] = value;
    }
    return in.complete() ? Status() : fail(ErrorCode::kCorrupt, "a section cannot be read");
  }

  Status apply(Lsn lsn, uint8_t, std::string_view body) override {
    return for_effects(body, [&](const std::string& key, const std::optional<Value>& value) {
      if (lsn > parts_[section_of(key)].lsn) put(key, value, lsn, false);
    });
  }

  void record_extents(uint8_t, std::string_view body, const std::function<void(ExtentRef)>& visit) override {
    static_cast<void>(for_effects(body, [&](const std::string&, const std::optional<Value>& value) {
      if (value && value->ref) visit(value->ref);
    }));
  }

  void live_extents(const std::function<void(ExtentRef)>& visit) override {
    for (Part& part : parts_) {
      for (const auto& [key, value] : part.values) {
        if (value.ref) visit(value.ref);
      }
    }
  }

  Status write_checkpoint(CheckpointSink& sink) override {
    for (uint32_t number = 0; number < kSections; number++) {
      std::string body;
      ByteWriter out(body);
      Lsn lsn;
      {
        std::lock_guard lock(parts_[number].mutex);
        lsn = storage_.journal().appended_lsn();
        for (const auto& [key, value] : parts_[number].values) {
          out.bytes(key).put<uint8_t>(value.ref ? 2 : 1);
          if (value.ref) {
            out.put(value.ref);
          } else {
            out.bytes(value.small);
          }
        }
      }
      PION_TRY(sink.section(number, lsn, body));
    }
    return {};
  }

 private:
  struct Value {
    std::string small;
    ExtentRef ref;
  };
  struct Part {
    std::mutex mutex;
    std::map<std::string, Value> values;
    Lsn lsn = 0;
  };

  static size_t section_of(std::string_view key) { return xxh3(key) % kSections; }

  std::unexpected<Error> give_back(const std::vector<std::pair<std::string, Value>>& values, const Error& error) {
    for (const auto& [key, value] : values) {
      if (value.ref) storage_.extents().free(value.ref, 0);
    }
    return std::unexpected(error);
  }

  void put(const std::string& key, const std::optional<Value>& value, Lsn lsn, bool live) {
    std::map<std::string, Value>& values = parts_[section_of(key)].values;
    const auto found = values.find(key);
    if (live && found != values.end() && found->second.ref) storage_.extents().free(found->second.ref, lsn);
    if (!value) {
      if (found != values.end()) values.erase(found);
    } else {
      values[key] = *value;
    }
  }

  static Status for_effects(std::string_view body, const std::function<void(const std::string&, const std::optional<Value>&)>& visit) {
    ByteReader in(body);
    while (!in.empty()) {
      const uint8_t kind = in.get<uint8_t>();
      const std::string key(in.bytes());
      std::optional<Value> value;
      if (kind != 0) value.emplace();
      if (kind == 1) value->small = in.bytes();
      if (kind == 2) value->ref = in.get<ExtentRef>();
      if (in.failed() || kind > 2) return fail(ErrorCode::kCorrupt, "an effect cannot be read");
      visit(key, value);
    }
    return {};
  }

  Storage& storage_;
  std::array<Part, kSections> parts_;
};

}  // namespace pion
