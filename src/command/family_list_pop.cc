// LPOP RPOP LMPOP LMOVE RPOPLPUSH, and BLPOP BRPOP BLMPOP BLMOVE BRPOPLPUSH that wait.
#include <algorithm>

#include "command/arguments.h"
#include "command/blocking.h"
#include "command/family_list.h"
#include "command/list_keys.h"

namespace pion {
namespace {

constexpr uint64_t kPopRecordBytes = 64;  // of a pop's record, beside the key

Outcome pop(CommandContext& ctx, ListEnd end) {
  const bool counted = ctx.argc() > 2;
  int64_t count = 1;
  if (ctx.argc() > 3) {
    ctx.reply.error("ERR wrong number of arguments for '" + std::string(ctx.spec.name) + "' command");
    return Outcome::kDone;
  }
  if (counted && !range_argument(ctx, 2, 0, INT64_MAX, count, "ERR value is out of range, must be positive")) return Outcome::kDone;
  if (!admitted(ctx, ctx.arg(1).size() + kPopRecordBytes)) return Outcome::kDone;
  const std::string_view names[] = {ctx.arg(1)};
  ListKeys keys(ctx, names);
  Found found;
  if (!keys.find_list(0, found)) return Outcome::kDone;
  if (!found) return counted ? ctx.reply.nil_array() : ctx.reply.nil(), Outcome::kDone;
  if (counted && count == 0) return ctx.reply.array(0), Outcome::kDone;
  const uint64_t taken = std::min(static_cast<uint64_t>(count), ListReader(*found.entry).size());
  if (taken > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  keys.pop(0, found, end, taken, counted);
  return Outcome::kDone;
}

// `timeout_ms`: of the commands that wait.
Outcome move(CommandContext& ctx, ListEnd from_end, ListEnd to_end, std::optional<int64_t> timeout_ms = {}) {
  const std::string_view names[] = {ctx.arg(1), ctx.arg(2)};
  ListKeys keys(ctx, names);
  Found source, target;
  if (!keys.find_list(0, source)) return Outcome::kDone;
  if (timeout_ms && (!source || must_queue(ctx, keys.access(), keys.keys()[0]))) {
    if (!ctx.may_block()) return ctx.reply.nil(), Outcome::kDone;
    return wait_for_keys(ctx, keys.access(), {keys.keys().data(), 1}, {.type = ValueType::kList, .timeout_ms = *timeout_ms});
  }
  if (!source) return ctx.reply.nil(), Outcome::kDone;
  if (!keys.find_list(1, target)) return Outcome::kDone;
  source = keys.access().find_again(ctx.session.database, keys.keys()[0]);  // an expired target may have been removed
  // Asked under the lock, where the element's size is known: the answer does not wait for anything.
  const ListReader reader(*source.entry);
  const ShortText element = reader.at(from_end == ListEnd::kLeft ? 0 : reader.size() - 1);
  if (!admitted(ctx, names[0].size() + names[1].size() + element.bytes.size() + 2 * kPopRecordBytes)) return Outcome::kDone;
  keys.move(0, source, from_end, 1, target, to_end);
  return Outcome::kDone;
}

struct PopRequest {
  std::vector<std::string_view> names;
  ListEnd end = ListEnd::kLeft;
  uint64_t count = 1;
  bool as_array = true;  // the elements, even if there is but one
  std::optional<int64_t> timeout_ms;
};

// From the first key that is there: its name and elements.
Outcome pop_first(CommandContext& ctx, const PopRequest& request) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  ListKeys lists(ctx, request.names);
  for (size_t i = 0; i < request.names.size(); ++i) {
    Found found;
    if (!lists.find_list(i, found)) return Outcome::kDone;
    if (!found) continue;
    if (request.timeout_ms && must_queue(ctx, lists.access(), lists.keys()[i])) break;
    const uint64_t taken = std::min(request.count, ListReader(*found.entry).size());
    if (taken > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    ctx.reply.array(2);
    ctx.reply.bulk(request.names[i]);
    lists.pop(i, found, request.end, taken, request.as_array);
    return Outcome::kDone;
  }
  if (!request.timeout_ms) return ctx.reply.nil_array(), Outcome::kDone;
  return wait_for_keys(ctx, lists.access(), lists.keys(), {.type = ValueType::kList, .timeout_ms = *request.timeout_ms});
}

Outcome blocking_pop(CommandContext& ctx, ListEnd end) {
  PopRequest request{.end = end, .as_array = false};
  request.timeout_ms = timeout_argument(ctx, ctx.argc() - 1, TimeUnit::kSeconds);
  if (!request.timeout_ms) return Outcome::kDone;
  for (size_t i = 1; i + 1 < ctx.argc(); ++i) request.names.push_back(ctx.arg(i));
  return pop_first(ctx, request);
}

// numkeys key ... LEFT|RIGHT [COUNT count], from `at` on. False: the error was answered.
bool parse_pop_from_many(CommandContext& ctx, size_t at, PopRequest& request) {
  const auto where = counted_keys_argument(ctx, at, request.names);
  if (!where) return false;
  const auto end = list_end_argument(ctx, *where);
  if (!end) return false;
  request.end = *end;
  return count_option(ctx, *where + 1, request.count);
}

Outcome move_between_ends(CommandContext& ctx, bool waits) {
  const auto from = list_end_argument(ctx, 3);
  if (!from) return Outcome::kDone;
  const auto to = list_end_argument(ctx, 4);
  if (!to) return Outcome::kDone;
  if (!waits) return move(ctx, *from, *to);
  const auto timeout_ms = timeout_argument(ctx, 5, TimeUnit::kSeconds);
  return timeout_ms ? move(ctx, *from, *to, timeout_ms) : Outcome::kDone;
}

}  // namespace

Outcome lpop_command(CommandContext& ctx) { return pop(ctx, ListEnd::kLeft); }
Outcome rpop_command(CommandContext& ctx) { return pop(ctx, ListEnd::kRight); }
Outcome blpop_command(CommandContext& ctx) { return blocking_pop(ctx, ListEnd::kLeft); }
Outcome brpop_command(CommandContext& ctx) { return blocking_pop(ctx, ListEnd::kRight); }
Outcome lmove_command(CommandContext& ctx) { return move_between_ends(ctx, false); }
Outcome blmove_command(CommandContext& ctx) { return move_between_ends(ctx, true); }
Outcome rpoplpush_command(CommandContext& ctx) { return move(ctx, ListEnd::kRight, ListEnd::kLeft); }

Outcome brpoplpush_command(CommandContext& ctx) {
  const auto timeout_ms = timeout_argument(ctx, 3, TimeUnit::kSeconds);
  return timeout_ms ? move(ctx, ListEnd::kRight, ListEnd::kLeft, timeout_ms) : Outcome::kDone;
}

Outcome lmpop_command(CommandContext& ctx) {
  PopRequest request;
  return parse_pop_from_many(ctx, 1, request) ? pop_first(ctx, request) : Outcome::kDone;
}

Outcome blmpop_command(CommandContext& ctx) {
  PopRequest request;
  if (!parse_pop_from_many(ctx, 2, request)) return Outcome::kDone;
  request.timeout_ms = timeout_argument(ctx, 1, TimeUnit::kSeconds);
  return request.timeout_ms ? pop_first(ctx, request) : Outcome::kDone;
}

}  // namespace pion
