// LPOP RPOP LMPOP LMOVE RPOPLPUSH.
#include <algorithm>

#include "command/arguments.h"
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
  if (!keys.find(0, found)) return Outcome::kDone;
  if (!found) return counted ? ctx.reply.nil_array() : ctx.reply.nil(), Outcome::kDone;
  if (counted && count == 0) return ctx.reply.array(0), Outcome::kDone;
  const uint64_t taken = std::min(static_cast<uint64_t>(count), ListReader(*found.entry).size());
  if (taken > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
  keys.pop(0, found, end, taken, counted);
  return Outcome::kDone;
}

Outcome move(CommandContext& ctx, ListEnd from_end, ListEnd to_end) {
  const std::string_view names[] = {ctx.arg(1), ctx.arg(2)};
  ListKeys keys(ctx, names);
  Found source, target;
  if (!keys.find(0, source)) return Outcome::kDone;
  if (!source) return ctx.reply.nil(), Outcome::kDone;
  if (!keys.find(1, target)) return Outcome::kDone;
  source = keys.access().find_again(ctx.session.database, keys.keys()[0]);  // an expired target may have been removed
  // Asked under the lock, where the element's size is known: the answer does not wait for anything.
  const ListReader reader(*source.entry);
  const ShortText element = reader.at(from_end == ListEnd::kLeft ? 0 : reader.size() - 1);
  if (!admitted(ctx, names[0].size() + names[1].size() + element.bytes.size() + 2 * kPopRecordBytes)) return Outcome::kDone;
  keys.move(0, source, from_end, 1, target, to_end);
  return Outcome::kDone;
}

}  // namespace

Outcome lpop_command(CommandContext& ctx) { return pop(ctx, ListEnd::kLeft); }
Outcome rpop_command(CommandContext& ctx) { return pop(ctx, ListEnd::kRight); }
Outcome rpoplpush_command(CommandContext& ctx) { return move(ctx, ListEnd::kRight, ListEnd::kLeft); }

Outcome lmove_command(CommandContext& ctx) {
  const auto from = list_end_argument(ctx, 3);
  if (!from) return Outcome::kDone;
  const auto to = list_end_argument(ctx, 4);
  return to ? move(ctx, *from, *to) : Outcome::kDone;
}

Outcome lmpop_command(CommandContext& ctx) {
  int64_t keys = 0, count = -1;
  if (!range_argument(ctx, 1, 1, INT64_MAX, keys, "ERR numkeys should be greater than 0")) return Outcome::kDone;
  if (keys >= static_cast<int64_t>(ctx.argc()) - 2) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  const size_t where = 2 + static_cast<size_t>(keys);
  const auto end = list_end_argument(ctx, where);
  if (!end) return Outcome::kDone;
  for (size_t i = where + 1; i < ctx.argc(); i += 2) {
    if (count != -1 || i + 1 >= ctx.argc() || !same_word(ctx.arg(i), "count")) return ctx.reply.error(kSyntaxError), Outcome::kDone;
    if (!range_argument(ctx, i + 1, 1, INT64_MAX, count, "ERR count should be greater than 0")) return Outcome::kDone;
  }
  std::vector<std::string_view> names;
  for (size_t i = 2; i < where; ++i) names.push_back(ctx.arg(i));
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  ListKeys lists(ctx, names);
  for (size_t i = 0; i < names.size(); ++i) {
    Found found;
    if (!lists.find(i, found)) return Outcome::kDone;
    if (!found) continue;
    const uint64_t taken = std::min(count < 0 ? 1 : static_cast<uint64_t>(count), ListReader(*found.entry).size());
    if (taken > kElementsOnReactor && !ctx.on_worker) return Outcome::kNeedsWorker;
    ctx.reply.array(2);
    ctx.reply.bulk(names[i]);
    lists.pop(i, found, *end, taken, true);
    return Outcome::kDone;
  }
  ctx.reply.nil_array();
  return Outcome::kDone;
}

}  // namespace pion
