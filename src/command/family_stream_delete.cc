// XDEL XDELEX XACKDEL: entries by id.
#include <algorithm>
#include <vector>

#include "command/arguments.h"
#include "command/family_stream.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = StreamDelta::Op;

// The ids from `first` on. False: the error was answered.
bool ids_argument(CommandContext& ctx, size_t first, size_t end, std::vector<StreamId>& ids) {
  for (size_t i = first; i < end; ++i) {
    StreamId id;
    if (!stream_id_argument(ctx, i, id)) return false;
    ids.push_back(id);
  }
  return true;
}

// [KEEPREF | DELREF | ACKED] IDS n id..., in any order.
struct DeleteOptions {
  References references = References::kKeep;
  size_t first_id = 0, end_id = 0;  // positions
};

bool parse_delete_options(CommandContext& ctx, size_t from, DeleteOptions& options) {
  bool references_given = false;
  for (size_t i = from; i < ctx.argc(); ++i) {
    if (const auto references = references_option(ctx.arg(i)); references && !references_given) {
      options.references = *references;
      references_given = true;
    } else if (same_word(ctx.arg(i), "IDS") && options.first_id == 0 && i + 1 < ctx.argc()) {
      int64_t count = 0;
      if (!range_argument(ctx, i + 1, 1, INT64_MAX, count, "ERR Number of IDs must be a positive integer")) return false;
      options.first_id = i + 2;
      if (static_cast<uint64_t>(count) > ctx.argc() - options.first_id) {
        return ctx.reply.error("ERR The `numids` parameter must match the number of arguments"), false;
      }
      options.end_id = options.first_id + static_cast<size_t>(count);
      i = options.end_id - 1;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  if (options.first_id == 0) return ctx.reply.error(kSyntaxError), false;
  return true;
}

enum Answer : int64_t { kNoSuchEntry = -1, kDeleted = 1, kStillReferenced = 2 };

void reply_nothing_there(CommandContext& ctx, const DeleteOptions& options) {
  ctx.reply.array(static_cast<int64_t>(options.end_id - options.first_id));
  for (size_t i = options.first_id; i < options.end_id; ++i) ctx.reply.integer(kNoSuchEntry);
}

// Collects what is to go in one delta.
class Removal {
 public:
  Removal(StreamKey& key, References references) : key_(key), delta_(bytes_, Op::kRemove), references_(references) {
    delta_.byte(StreamDelta::kDeleted | (references == References::kDrop ? StreamDelta::kReferences : 0));
  }
  Answer remove(StreamId id) {
    // As Redis: an id that groups still refer to is answered so, whether its entry is there or not.
    if (references_ == References::kAcknowledgedOnly && key_.stream().referenced(id)) return kStillReferenced;
    if (std::find(removed_.begin(), removed_.end(), id) != removed_.end() || !key_.stream().contains(id)) return kNoSuchEntry;
    delta_.id(id);
    removed_.push_back(id);
    return kDeleted;
  }
  void apply() {
    if (!removed_.empty()) key_.change(bytes_, KeyEvent::kStream, "xdel");
  }

 private:
  StreamKey& key_;
  std::string bytes_;
  StreamDelta delta_;
  References references_;
  std::vector<StreamId> removed_;
};

}  // namespace

Outcome xdel_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, Lookup::kWrite);
  if (!key) return Outcome::kDone;
  if (!key.exists()) return ctx.reply.integer(0), Outcome::kDone;
  std::vector<StreamId> ids;
  if (!ids_argument(ctx, 2, ctx.argc(), ids)) return Outcome::kDone;
  const uint64_t before = key.stream().size();
  std::string& delta = delta_of_thread();
  StreamDelta removal(delta, Op::kRemove);
  removal.byte(StreamDelta::kDeleted);
  bool any = false;
  for (StreamId id : ids) {
    if (key.stream().contains(id)) removal.id(id), any = true;
  }
  if (any) key.change(delta, KeyEvent::kStream, "xdel");
  ctx.reply.integer(static_cast<int64_t>(before - key.stream().size()));
  return Outcome::kDone;
}

Outcome xdelex_command(CommandContext& ctx) {
  DeleteOptions options;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  StreamKey key(ctx, Lookup::kWrite);
  if (!key || !parse_delete_options(ctx, 2, options)) return Outcome::kDone;
  if (!key.exists()) return reply_nothing_there(ctx, options), Outcome::kDone;
  std::vector<StreamId> ids;
  if (!ids_argument(ctx, options.first_id, options.end_id, ids)) return Outcome::kDone;
  Removal removal(key, options.references);
  ctx.reply.array(static_cast<int64_t>(ids.size()));
  for (StreamId id : ids) ctx.reply.integer(removal.remove(id));
  removal.apply();
  return Outcome::kDone;
}

Outcome xackdel_command(CommandContext& ctx) {
  DeleteOptions options;
  if (!admitted(ctx, 2 * record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  const std::string_view name = ctx.arg(2);
  StreamKey key(ctx, Lookup::kRead);
  if (!key || !parse_delete_options(ctx, 3, options)) return Outcome::kDone;
  if (!key.group(name)) return reply_nothing_there(ctx, options), Outcome::kDone;
  std::vector<StreamId> ids;
  if (!ids_argument(ctx, options.first_id, options.end_id, ids)) return Outcome::kDone;
  std::string& delta = delta_of_thread();
  StreamDelta acknowledged(delta, Op::kAcknowledge);
  acknowledged.bytes(name);
  std::vector<StreamId> done;
  std::vector<bool> was_pending;
  for (StreamId id : ids) {
    const bool pending = key.group(name)->pending.find(id) && std::find(done.begin(), done.end(), id) == done.end();
    if (pending) acknowledged.id(id), done.push_back(id);
    was_pending.push_back(pending);
  }
  if (!done.empty()) key.change(delta);
  Removal removal(key, options.references);
  ctx.reply.array(static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    // Acknowledged counts as deleted also when the entry was gone before.
    int64_t answer = kNoSuchEntry;
    if (was_pending[i] && (answer = removal.remove(ids[i])) == kNoSuchEntry) answer = kDeleted;
    ctx.reply.integer(answer);
  }
  removal.apply();
  return Outcome::kDone;
}

}  // namespace pion
