// SINTER SINTERSTORE SINTERCARD SUNION SUNIONSTORE SDIFF SDIFFSTORE, and SMEMBERS of a large set.
#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "command/arguments.h"
#include "command/family_set.h"
#include "command/set_sources.h"
#include "keyspace/collection_limits.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

constexpr int kFreeAttempts = 3;  // without the locks; then it holds them

enum class Algebra { kUnion, kInter, kDiff };

// What OBJECT ENCODING would say on Redis of a set that its members are added to one by one.
class LabelTracker {
 public:
  explicit LabelTracker(SetLabel first) : label_(first) {}

  void add(const ShortText& member) {
    char room[20];
    const size_t bytes = member.view(room).size();
    const bool integer = member.integer || ShortText(member.bytes).integer;
    const CollectionLimits& limits = collection_limits();
    ++members_;
    integers_ += integer;
    if (label_ == SetLabel::kIntset && integer) {
      if (members_ > limits.set_integers) label_ = SetLabel::kHashtable;
    } else if (label_ != SetLabel::kHashtable) {
      label_ = members_ <= limits.set_entries && bytes <= limits.set_value_bytes ? SetLabel::kListpack : SetLabel::kHashtable;
    }
  }
  SetLabel label() const { return label_; }
  bool only_integers() const { return integers_ == members_; }

 private:
  SetLabel label_;
  uint64_t members_ = 0, integers_ = 0;
};

// A result: members, each once.
class Members {
 public:
  void add(const ShortText& member) {
    char room[20];
    ByteWriter(bytes_).bytes(member.view(room));
    ++count_;
  }
  void count_one() { ++count_; }
  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }
  void clear() {
    bytes_.clear();
    count_ = 0;
  }
  void reply(ReplyWriter& reply) const {
    reply.set(static_cast<int64_t>(count_));
    for (ByteReader in(bytes_); !in.empty();) reply.bulk(in.bytes());
  }

 private:
  std::string bytes_;
  uint64_t count_ = 0;
};

// What Redis 8.2 weighs: for a few sets it looks members up, otherwise it fills a set with the first one's and removes.
bool diff_fills_first(const SetSources& sources) {
  uint64_t lookups = 0, removals = 0;
  for (size_t i = 0; i < sources.count(); ++i) {
    if (!sources.exists(i)) continue;
    lookups += sources.size(0);
    removals += sources.size(i);
  }
  return lookups / 2 > removals;
}

struct Request {
  Algebra algebra = Algebra::kUnion;
  std::vector<Key> keys;      // the destination first, if there is one
  bool stores = false;
  bool only_counts = false;   // SINTERCARD
  uint64_t limit = 0;         // of it; 0: none
  std::string_view event;     // of the form that stores
};

class Calculation {
 public:
  Calculation(CommandContext& ctx, const Request& request) : ctx_(ctx), request_(request), sources_(ctx, request.keys, request.stores) {}

  Outcome run() {
    for (int attempt = 0;; ++attempt) {
      if (!sources_.look(attempt == 0 ? KeyAccess::Lookup::kWrite : KeyAccess::Lookup::kPeek)) return Outcome::kDone;
      const bool quick = work() <= kElementsOnReactor;
      if (!quick && !ctx_.on_worker) return Outcome::kNeedsWorker;
      if (attempt == 0) sources_.count_lookups();
      if (!quick && attempt < kFreeAttempts) sources_.let_go();
      result_.clear();
      tracker_.emplace(first_label());
      const bool done = calculate();
      if (!done) continue;
      if (!request_.stores) {
        sources_.unlock();
        request_.only_counts ? ctx_.reply.integer(static_cast<int64_t>(result_.count())) : result_.reply(ctx_.reply);
      } else {
        store();
      }
      return Outcome::kDone;
    }
  }

 private:
  // Members that are looked at or looked up, about.
  uint64_t work() const {
    uint64_t all = 0, least = UINT64_MAX;
    for (size_t i = 0; i < sources_.count(); ++i) {
      all += sources_.size(i);
      least = std::min(least, sources_.size(i));
    }
    if (request_.algebra == Algebra::kInter) return least * sources_.count();
    return request_.algebra == Algebra::kDiff ? sources_.size(0) * sources_.count() : all;
  }

  size_t smallest() const {
    size_t best = 0;
    for (size_t i = 1; i < sources_.count(); ++i) {
      if (sources_.size(i) < sources_.size(best)) best = i;
    }
    return best;
  }

  SetLabel first_label() const {
    if (request_.algebra != Algebra::kInter || sources_.says_intset(smallest())) return SetLabel::kIntset;
    return SetLabel::kListpack;
  }

  void take(const ShortText& member) {
    request_.only_counts ? result_.count_one() : result_.add(member);
    if (request_.stores) tracker_->add(member);
  }

  bool calculate() {
    switch (request_.algebra) {
      case Algebra::kUnion: return unite();
      case Algebra::kInter: return intersect();
      case Algebra::kDiff: break;
    }
    return subtract();
  }

  bool unite() {
    size_t filled = 0;
    for (size_t i = 0; i < sources_.count(); ++i) filled += sources_.exists(i);
    // One set has no member twice.
    std::optional<SetTable> seen;
    if (filled > 1) seen.emplace(ctx_.services.keyspace->pool());
    for (size_t i = 0; i < sources_.count(); ++i) {
      const bool whole = sources_.each(i, [&](const ShortText& member) {
        char room[20];
        if (!seen || seen->add(member.view(room))) take(member);
        return true;
      });
      if (!whole) return false;
    }
    return true;
  }

  bool intersect() {
    for (size_t i = 0; i < sources_.count(); ++i) {
      if (!sources_.exists(i)) return true;
    }
    const size_t first = smallest();
    return sources_.each(first, [&](const ShortText& member) {
      for (size_t i = 0; i < sources_.count(); ++i) {
        if (i != first && !sources_.contains(i, member)) return true;
      }
      take(member);
      return request_.limit == 0 || result_.count() < request_.limit;
    });
  }

  bool subtract() {
    const bool fills = diff_fills_first(sources_);
    return sources_.each(0, [&](const ShortText& member) {
      for (size_t i = 1; i < sources_.count(); ++i) {
        if (!sources_.contains(i, member)) continue;
        if (fills && request_.stores) tracker_->add(member);
        return true;
      }
      take(member);
      return true;
    });
  }

  SetLabel label() const {
    const bool integers = request_.algebra == Algebra::kInter && tracker_->only_integers();
    return integers && result_.count() <= collection_limits().set_integers ? SetLabel::kIntset : tracker_->label();
  }

  // The value is made before the locks are taken.
  void store() {
    const Key& key = sources_.key(0);
    const int database = ctx_.session.database;
    std::string encoded;
    DecodedValue value;
    if (result_.count() > 0) {
      SetBuilder(encoded, label(), result_.count());
      encoded.append(result_.bytes());
      value = kSetOps.decode(encoded, ctx_.services.keyspace->pool());
    }
    if (!admitted(ctx_, key.bytes.size() + encoded.size() + 64)) return;
    KeyAccess& access = sources_.lock();
    const Found found = access.find(database, key, KeyAccess::Lookup::kPeek);
    if (result_.count() > 0) {
      const NewValue fresh{.kind = NewValue::Kind::kTyped, .type = ValueType::kSet, .bytes = value.packed, .encoded = encoded,
                           .object = value.object.release()};
      access.event_overwritten(database, key, found, ValueType::kSet);
      access.set_typed(database, key, found, fresh, 0);
      access.event(KeyEvent::kSet, request_.event, database, key);
    } else if (found) {
      access.erase(database, key, found);
      access.event(KeyEvent::kGeneric, "del", database, key);
    }
    sources_.unlock();
    ctx_.reply.integer(static_cast<int64_t>(result_.count()));
  }

  CommandContext& ctx_;
  const Request& request_;
  SetSources sources_;
  Members result_;
  std::optional<LabelTracker> tracker_;
};

Outcome run(CommandContext& ctx, Algebra algebra, std::string_view event = {}) {
  const Request request{.algebra = algebra, .keys = keys_of_arguments(ctx, 1), .stores = !event.empty(), .event = event};
  return Calculation(ctx, request).run();
}

}  // namespace

Outcome sunion_command(CommandContext& ctx) { return run(ctx, Algebra::kUnion); }
Outcome sinter_command(CommandContext& ctx) { return run(ctx, Algebra::kInter); }
Outcome sdiff_command(CommandContext& ctx) { return run(ctx, Algebra::kDiff); }
Outcome sunionstore_command(CommandContext& ctx) { return run(ctx, Algebra::kUnion, "sunionstore"); }
Outcome sinterstore_command(CommandContext& ctx) { return run(ctx, Algebra::kInter, "sinterstore"); }
Outcome sdiffstore_command(CommandContext& ctx) { return run(ctx, Algebra::kDiff, "sdiffstore"); }

Outcome smembers_command(CommandContext& ctx) {
  {
    const TypedKey set(ctx, ctx.arg(1), ValueType::kSet, KeyAccess::Lookup::kRead);
    if (!set) return Outcome::kDone;
    if (!set.exists()) return ctx.reply.set(0), Outcome::kDone;
    const SetReader reader(set.entry());
    if (reader.size() <= kElementsOnReactor) {
      ctx.reply.set(static_cast<int64_t>(reader.size()));
      reader.each([&](const ShortText& member) {
        char room[20];
        return ctx.reply.bulk(member.view(room)), true;
      });
      return Outcome::kDone;
    }
    if (!ctx.on_worker) return Outcome::kNeedsWorker;
  }
  return run(ctx, Algebra::kUnion);  // in steps
}

Outcome sintercard_command(CommandContext& ctx) {
  int64_t count = 0, limit = 0;
  if (!range_argument(ctx, 1, 1, INT64_MAX, count, "ERR numkeys should be greater than 0")) return Outcome::kDone;
  if (count > static_cast<int64_t>(ctx.argc()) - 2) {
    return ctx.reply.error("ERR Number of keys can't be greater than number of args"), Outcome::kDone;
  }
  for (size_t i = 2 + static_cast<size_t>(count); i < ctx.argc(); i += 2) {
    if (!same_word(ctx.arg(i), "LIMIT") || i + 1 == ctx.argc()) return ctx.reply.error(kSyntaxError), Outcome::kDone;
    if (!range_argument(ctx, i + 1, 0, INT64_MAX, limit, "ERR LIMIT can't be negative")) return Outcome::kDone;
  }
  const Request request{.algebra = Algebra::kInter, .keys = keys_of_arguments(ctx, 2, 2 + static_cast<size_t>(count)), .only_counts = true,
                        .limit = static_cast<uint64_t>(limit)};
  return Calculation(ctx, request).run();
}

}  // namespace pion
