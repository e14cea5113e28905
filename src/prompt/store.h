// Prompt memory: the plane. Every call may come from any thread that may block for a disk read (never a reactor's).
//
// Locks, in the order they may be taken: mutex_ (the tree and the models; shared by matches, exclusive and short for what
// changes them), then lease_mutex_, then ticket_mutex_. claim_mutex_ is taken with none of the others held. Payload is never
// written or verified under a lock; token ids are compared under the shared one.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "prompt/claim.h"
#include "prompt/records.h"
#include "prompt/requests.h"
#include "prompt/tree.h"
#include "storage/storage.h"

namespace pion {

struct PromptOptions {
  uint64_t budget_bytes = 0;  // of payload on disk; 0: half of what is free, or ours already, in the data directory's file system
};

class PromptStore : public Plane {
 public:
  PromptStore(Storage& storage, PromptOptions options);  // before recover(); add_plane() is the caller's
  ~PromptStore() override;

  // After recover(): settles the budget and starts the thread that ends leases, claims and waits. stop() ends it and
  // forgets who waits; before the storage stops.
  Status start();
  void stop();
  void set_budget(uint64_t bytes);  // takes effect with the next PUT; 0 as in the options

  PromptResult<Lsn> model_set(std::string_view name, std::string_view json);
  std::shared_ptr<const Model> model(std::string_view name) const;  // null: none of this name
  ModelInfo model_info(const Model& model) const;
  std::vector<std::string> model_names() const;

  // The longest match and a lease on it. With a claim asked for it may have to wait for another client: then nothing is
  // returned and `later` is called once, from another thread (never from this call). `later` may be dropped unused by stop().
  using MatchAnswer = std::function<void(PromptResult<MatchReply>)>;
  std::optional<PromptResult<MatchReply>> match(MatchRequest request, std::shared_ptr<PromptClient> client, MatchAnswer later);

  // Room under the budget for rows that stream to disk before their PUT is looked at. Null when there is none without
  // evicting: keep them in memory then. Never blocks, so a reactor may call; asking in vain makes the timer thread keep room.
  std::shared_ptr<StreamRoom> stream_room(uint64_t bytes);

  PromptResult<PutReply> put(PutRequest& request, PromptClient& client);
  // How many there were: the mark of a PUT whose first bytes come now, wherever its rows are kept until it runs. Never blocks.
  uint64_t revocations() const { return revocations_; }

  // The rows of a lease as byte runs. With `verify` every checksum the runs touch was checked.
  PromptResult<RangeReply> range(const RangeRequest& request, const PromptClient& client);
  bool release(uint64_t lease, PromptClient& client);
  void disconnect(const std::shared_ptr<PromptClient>& client);

  struct Forgotten {
    uint64_t tokens = 0;
    Lsn lsn = 0;
  };
  PromptResult<Forgotten> forget(std::string_view model, const Chain& chain, std::string_view salt);
  // The name too: it may be declared anew and starts empty. Unknown names: nothing was forgotten.
  PromptResult<Forgotten> revoke_model(std::string_view model);
  PromptResult<Forgotten> revoke_salt(std::string_view salt, std::optional<std::string_view> model);

  // Chains that nothing continues, by slot from `cursor` on, at most `count` looked up; the next cursor, 0 at the end.
  PromptResult<std::pair<uint64_t, std::vector<ListedChain>>> list(std::string_view model, std::optional<std::string_view> salt,
                                                                   uint64_t cursor, size_t count) const;
  PromptStats stats() const;
  void reset_stats();
  Lsn last_lsn() const;  // of what any reply about the state may have shown
  ExtentStore& extents() { return storage_.extents(); }

  std::string_view name() const override { return "prompt"; }
  std::pair<uint8_t, uint8_t> record_types() const override { return {48, 79}; }
  Status load_section(uint32_t number, Lsn lsn, std::string_view body) override;
  Status apply(Lsn lsn, uint8_t type, std::string_view body) override;
  void record_extents(uint8_t type, std::string_view body, const std::function<void(ExtentRef)>& visit) override;
  void live_extents(const std::function<void(ExtentRef)>& visit) override;
  Status write_checkpoint(CheckpointSink& sink) override;

 private:
  struct Step {
    uint32_t slot = kNoSlot;
    uint64_t id = 0;
    uint32_t end = 0;  // the chain's tokens that lie in this segment end here
  };
  struct Walk {
    uint32_t root = SegmentTree::kNoRoot;
    std::vector<Step> steps;
    uint32_t length = 0;
    std::optional<std::pair<uint32_t, int64_t>> fork;
    std::vector<std::pair<uint32_t, uint64_t>> corrupt;  // slot and id
  };
  struct OpenedContent {
    std::shared_ptr<Extent> extent;
    Content content;
  };
  struct Ticket {
    uint32_t model = 0;
    std::string salt;
    std::atomic<bool> cancelled{false};
  };
  struct PutPlan;
  struct Cut;
  class PutRun;
  using Victims = std::vector<std::pair<uint32_t, uint64_t>>;

  // walk.cc
  Walk walk(const Model& model, std::string_view salt, const Chain& chain) const;
  Result<OpenedContent> open_content(const Model& model, uint32_t slot) const;
  uint32_t find_next(const Model& model, uint32_t parent, uint32_t offset, const Chain& chain, Walk* walk, OpenedContent* opened,
                     uint32_t* end) const;
  std::vector<Source> sources_of(const Model& model, const Walk& walk) const;
  bool add_branches(const Model& model, const Walk& walk, std::vector<Source>& sources) const;
  Source source_of(const Model& model, uint32_t slot, uint32_t end) const;
  PromptResult<std::shared_ptr<Model>> find_model(std::string_view name, std::string_view manifest_hash) const;

  // match.cc's caller: lease.cc
  uint32_t longest_of(const Model& model, const Chain& chain, const std::vector<Source>& sources, uint32_t limit) const;
  PromptResult<MatchReply> match_now(const MatchRequest& request, PromptClient* client);
  uint64_t grant(const MatchRequest& request, PromptClient& client, std::shared_ptr<const Model> model, const Walk& walk,
                 std::vector<Source> sources, MatchReply& reply);
  PromptResult<std::shared_ptr<Lease>> find_lease(uint64_t id, const PromptClient& client);
  PromptFault ended(const Lease& lease) const;
  void end_lease(const std::shared_ptr<Lease>& lease, LeaseEnd why);  // under mutex_ (any way) and lease_mutex_
  void sweep_leases(int64_t now_ms);
  bool room_for_lease(PromptClient& client);
  void count_match(const MatchReply& reply);

  // claim.cc
  bool settle(const std::shared_ptr<Waiter>& waiter, bool may_wait, std::optional<PromptResult<MatchReply>>* answer);
  bool decide(const std::shared_ptr<Waiter>& waiter, bool may_wait, MatchReply& reply);
  void resettle(std::vector<std::shared_ptr<Waiter>> waiters);
  void stored(const Model& model, std::string_view salt, const Chain& chain, uint64_t client);
  void end_claims_of(uint32_t model, std::optional<std::string_view> salt);
  void timer_loop();

  // evict.cc, all under mutex_ exclusive
  // `held` of the need was given out as stream room already.
  PromptResult<void> make_room(uint64_t need, uint64_t held = 0);
  PromptResult<void> await_disk();
  void want_room(uint64_t bytes);
  void keep_stream_room();
  bool evict_rows();
  bool evict_leaf();
  bool superseded(uint32_t slot, uint32_t position, size_t pool, unsigned& budget) const;
  double worth(const Segment& segment, int64_t now_us) const;
  void demote_if_many();
  uint32_t pick_leaf(bool read);
  // Removes segments (deepest first) with one record; their leases end. Frees their extents. Also when the record cannot be
  // written now: then the space comes back with the next start, and the error is returned.
  Status drop(const std::vector<uint32_t>& victims, LeaseEnd why);
  void free_all(const std::vector<ExtentRef>& refs, Lsn lsn);
  void drop_corrupt(const std::vector<std::pair<uint32_t, uint64_t>>& found, std::string_view what);
  void end_leases_on(const std::vector<std::pair<uint32_t, uint64_t>>& gone, LeaseEnd why);
  std::vector<ExtentRef> unlink_all(const std::vector<uint32_t>& victims);
  const Model* model_of(uint32_t root) const;

  // forget.cc, the first two under ticket_mutex_, the next two under mutex_
  void note_revocation(std::optional<std::string> model, std::optional<std::string> salt);
  bool revoked_since(uint64_t revocations, const std::string& model, const std::string& salt) const;
  void beyond(uint32_t slot, uint32_t cut, std::vector<uint32_t>& out) const;  // what hangs on a segment behind a cut, deepest first
  uint32_t kept_end(const Walk& found, const Chain& chain) const;
  bool plan_cut(std::shared_ptr<Model> model, uint32_t slot, uint32_t at, Cut& cut);
  bool copy_cut(Cut& cut);
  Result<ExtentRef> copy_rows(const PoolSpec* pool, ExtentRef from_ref, const RowSet& had, const RowSet& kept, std::string aux);
  Status put_cut_in_place(Cut& cut);
  void give_back(std::vector<ExtentRef>& refs);
  PromptResult<Forgotten> forget_whole(std::string_view model, const Chain& chain, std::string_view salt);

  // records.cc
  void id_seen(uint64_t id);
  void build();  // after sections: links what was loaded
  std::vector<uint8_t> judge_loaded(const std::unordered_map<uint32_t, LoadedRoot>& roots);

  Storage& storage_;
  PromptOptions options_;

  mutable std::shared_mutex mutex_;
  SegmentTree tree_;
  std::map<std::string, std::shared_ptr<Model>, std::less<>> models_;
  std::unordered_map<uint32_t, std::shared_ptr<Model>> models_by_id_;
  uint32_t next_model_id_ = 1;
  std::vector<std::pair<uint32_t, uint64_t>> bounded_;  // segments that may have window or trailing rows to give up
  std::atomic<Lsn> last_lsn_{0};
  std::atomic<uint64_t> commits_{0};       // grows when what a match could find grew
  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint64_t> reserved_bytes_{0};   // of PUTs under way; changed under mutex_
  std::atomic<uint64_t> streaming_bytes_{0};  // of rows that came before their PUT
  std::atomic<uint64_t> wanted_room_{0};      // most that was missing, with what had to leave the disk first
  std::atomic<uint64_t> budget_bytes_{0};
  std::atomic<uint64_t> read_flag_bytes_{0};  // of segments that were read, about
  std::vector<PackedSegment> loaded_;      // between load_section() and build()
  std::vector<ExtentRef> loaded_refs_;
  std::vector<LoadedRoot> loaded_roots_;
  Lsn section_lsn_ = 0;
  bool built_ = true;
  bool recovering_ = true;
  uint64_t random_ = 0x9e3779b97f4a7c15ULL;

  mutable std::mutex lease_mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Lease>> leases_;
  uint64_t next_lease_ = 1;

  std::mutex ticket_mutex_;
  std::list<Ticket*> tickets_;
  // The last revocations, for PUTs whose bytes began to come before them: a model's name or all, a salt or all.
  struct Revocation {
    std::optional<std::string> model, salt;
  };
  std::deque<Revocation> revoked_;
  std::atomic<uint64_t> revocations_{0};  // all there were since the start; changed under ticket_mutex_

  mutable std::mutex claim_mutex_;
  ClaimTable claims_;
  std::condition_variable timer_wake_;
  std::thread timer_;
  bool stopping_ = false;

  struct Counters {
    std::atomic<uint64_t> hits{0}, misses{0}, tokens_served{0}, bytes_served{0}, avoided_measured_us{0}, avoided_estimated_us{0};
    std::atomic<uint64_t> puts{0}, puts_nothing_new{0}, bytes_stored{0}, corrupt_segments{0}, evicted_segments{0};
    std::atomic<uint64_t> evicted_boundaries{0}, claims_given{0}, claims_waited{0}, claims_taken_over{0};
  };
  Counters counters_;
  std::atomic<double> read_bytes_per_second_{2e9};  // of verified reads, a moving average; starts at a cautious guess
};

}  // namespace pion
