// For tests of this room: a prompt store in a directory of its own that can be restarted, rows that say whose they are, and a
// model in plain terms of what a match must find.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "io/filesystem.h"
#include "prompt/store.h"

namespace pion::prompt_test {

struct PoolShape {
  std::string name, rule;
  uint32_t window = 0, keep = 0, layers = 1, sides = 2, row_bytes = 8;
};

inline std::string manifest_of(const std::vector<PoolShape>& pools, const std::string& extra = "") {
  std::string json = "{\"engine\":\"test\"" + extra + ",\"pools\":[";
  for (size_t i = 0; i < pools.size(); ++i) {
    const PoolShape& p = pools[i];
    json += (i ? ",{" : "{") + std::string("\"name\":\"") + p.name + "\",\"rule\":\"" + p.rule + "\",\"layers\":" + std::to_string(p.layers);
    if (p.rule == "window") json += ",\"window\":" + std::to_string(p.window) + ",\"keep\":" + std::to_string(p.keep);
    json += ",\"sides\":[";
    for (uint32_t s = 0; s < p.sides; ++s) json += (s ? ",\"s" : "\"s") + std::to_string(s) + "\"";
    json += "],\"row_bytes\":" + std::to_string(p.row_bytes) + "}";
  }
  return json + "]}";
}

inline Chain chain_of(std::vector<uint32_t> tokens, std::vector<MediaItem> media = {}) {
  std::string bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4);
  auto chain = make_chain(bytes, std::move(media));
  EXPECT_TRUE(chain) << (chain ? "" : chain.error().text);
  return chain ? *chain : Chain{};
}

inline std::vector<uint32_t> count_up(uint32_t n, uint32_t first = 1) {
  std::vector<uint32_t> tokens(n);
  for (uint32_t i = 0; i < n; ++i) tokens[i] = first + i;
  return tokens;
}

// The row of a token in a run of a pool: different for every prefix that leads to it.
inline void append_row(std::string& out, const Chain& chain, uint32_t token, size_t pool, size_t run, uint32_t bytes) {
  std::string prefix(reinterpret_cast<const char*>(chain.tokens.data()), size_t{token + 1} * 4);
  for (const MediaItem& item : chain.media) {
    if (item.position <= token) prefix += item.digest + std::to_string(item.position) + "/" + std::to_string(item.length);
  }
  uint64_t state = xxh3(prefix, pool * 1000 + run);
  for (uint32_t i = 0; i < bytes; i += 8) {
    state = mix64(state + i);
    out.append(reinterpret_cast<const char*>(&state), std::min<uint32_t>(8, bytes - i));
  }
}

inline std::string rows_of(const PoolSpec& pool, size_t index, const Chain& chain, const RowSet& rows) {
  std::string out;
  for (size_t run = 0; run < pool.runs(); ++run) {
    for (uint32_t t = rows.keep_from; t < rows.keep_to; ++t) append_row(out, chain, t, index, run, pool.row_bytes[run]);
    for (uint32_t t = rows.from; t < rows.to; ++t) append_row(out, chain, t, index, run, pool.row_bytes[run]);
  }
  return out;
}

class TestStore {
 public:
  // Without `files` on the real file system, so that tests can spoil what lies there; with an in-memory one restarts cost nothing.
  explicit TestStore(uint64_t budget = 1 * kGiB, FileSystem* files = nullptr)
      : budget_(budget), files_(files ? *files : real_filesystem()), real_(!files) {
    set_log_level(LogLevel::kWarning);
    char name[] = "/tmp/pion-prompt-XXXXXX";
    if (real_) dir_ = mkdtemp(name);
    open();
  }
  ~TestStore() {
    close();
    if (real_) std::filesystem::remove_all(dir_);
  }

  void open() {
    auto storage = Storage::open(files_, {.dir = dir_ + "/data"});
    ASSERT_TRUE(storage) << storage.error().message;
    storage_ = std::move(*storage);
    store_ = std::make_unique<PromptStore>(*storage_, PromptOptions{budget_});
    storage_->add_plane(store_.get());
    const Status recovered = storage_->recover();
    ASSERT_TRUE(recovered) << recovered.error().message;
    ASSERT_TRUE(store_->start());
    client = std::make_shared<PromptClient>(next_client_++);
  }
  void close() {
    if (!store_) return;
    store_->disconnect(client);
    store_->stop();
    storage_->stop();
    store_.reset();
    storage_.reset();
  }
  void restart() {
    close();
    open();
  }

  PromptStore* operator->() { return store_.get(); }
  Storage& storage() { return *storage_; }
  std::string dir() const { return dir_ + "/data"; }
  void set_budget_at_start(uint64_t bytes) { budget_ = bytes; }
  std::shared_ptr<PromptClient> new_client() { return std::make_shared<PromptClient>(next_client_++); }

  void declare(const std::string& name, const std::vector<PoolShape>& pools) {
    const auto lsn = store_->model_set(name, manifest_of(pools));
    ASSERT_TRUE(lsn) << lsn.error().text;
  }

  PromptResult<PutReply> put(const std::string& model, const Chain& chain, uint32_t from, const std::string& salt = "",
                             std::optional<double> prefill_ms = std::nullopt) {
    PutRequest request;
    request.model = model;
    request.salt = salt;
    request.chain = chain;
    request.from = from;
    request.prefill_ms = prefill_ms;
    const auto about = store_->model(model);
    std::vector<std::string> blobs;
    if (about) {
      for (size_t i = 0; i < about->pools().size(); ++i) {
        blobs.push_back(rows_of(about->pools()[i], i, chain, about->pools()[i].held(from, chain.size(), from, false)));
      }
      for (size_t i = 0; i < blobs.size(); ++i) request.blobs.emplace_back(about->pools()[i].name, memory_blob(blobs[i]));
    }
    return store_->put(request, *client);
  }

  PromptResult<MatchReply> match(const std::string& model, const Chain& chain, const std::string& salt = "", uint32_t max = UINT32_MAX,
                                 int64_t lease_ms = 10'000, std::shared_ptr<PromptClient> as = nullptr) {
    MatchRequest request;
    request.model = model;
    request.salt = salt;
    request.chain = chain;
    request.max = max;
    request.lease_ms = lease_ms;
    return *store_->match(std::move(request), as ? as : client, nullptr);
  }
  uint32_t matched(const std::string& model, const Chain& chain, const std::string& salt = "", uint32_t max = UINT32_MAX) {
    const auto reply = match(model, chain, salt, max, 0);
    EXPECT_TRUE(reply) << (reply ? "" : reply.error().text);
    return reply ? reply->matched : UINT32_MAX;
  }

  // The bytes of a pool as READ gives them: runs one after the other.
  PromptResult<std::string> read(uint64_t lease, const std::string& pool, std::optional<uint32_t> from = std::nullopt,
                                 std::optional<uint32_t> to = std::nullopt) {
    RangeRequest request;
    request.lease = lease;
    request.pool = pool;
    request.from = from;
    request.to = to;
    auto range = store_->range(request, *client);
    if (!range) return std::unexpected(range.error());
    std::string out;
    for (const auto& runs : range->pools[0].runs) {
      for (const ExtentRun& run : runs) {
        const size_t before = out.size();
        out.resize(before + run.length);
        const Status read = run.extent->read(run.offset, run.length, out.data() + before);
        EXPECT_TRUE(read) << (read ? "" : read.error().message);
      }
    }
    return out;
  }

  std::shared_ptr<PromptClient> client;

 private:
  std::string dir_;
  uint64_t budget_;
  FileSystem& files_;
  bool real_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<PromptStore> store_;
  std::atomic<uint64_t> next_client_{1};
};

}  // namespace pion::prompt_test
