// LSET LINSERT LREM LTRIM LPOS: elements in the middle.
#include <algorithm>
#include <vector>

#include "command/arguments.h"
#include "command/family_list.h"
#include "command/list_keys.h"

namespace pion {
namespace {

using Lookup = KeyAccess::Lookup;
using Op = ListDelta::Op;

bool too_long_here(const CommandContext& ctx, const TypedKey& list) {
  return !ctx.on_worker && ListReader(list.entry()).size() > kElementsOnReactor;
}

// Redis makes a quicklist of a list that an element would outgrow, before it knows whether there is a place for it.
void unpack_for(TypedKey& list, std::string_view element) {
  if (!ListReader(list.entry()).outgrown_by(element.size())) return;
  ListDelta(delta_of_thread(), Op::kUnpack);
  list.change(delta_of_thread());
}

struct PositionOptions {
  int64_t rank = 1, count = -1, most = 0;
};

bool parse_position_options(CommandContext& ctx, PositionOptions& options) {
  for (size_t i = 3; i < ctx.argc(); i += 2) {
    const std::string_view word = ctx.arg(i);
    const bool more = i + 1 < ctx.argc();
    if (more && same_word(word, "rank")) {
      if (!range_argument(ctx, i + 1, -INT64_MAX, INT64_MAX, options.rank)) return false;
      if (options.rank == 0) {
        ctx.reply.error("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list");
        return false;
      }
    } else if (more && same_word(word, "count")) {
      if (!range_argument(ctx, i + 1, 0, INT64_MAX, options.count, "ERR COUNT can't be negative")) return false;
    } else if (more && same_word(word, "maxlen")) {
      if (!range_argument(ctx, i + 1, 0, INT64_MAX, options.most, "ERR MAXLEN can't be negative")) return false;
    } else {
      return ctx.reply.error(kSyntaxError), false;
    }
  }
  return true;
}

}  // namespace

Outcome lset_command(CommandContext& ctx) {
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kWrite);
  if (!list) return Outcome::kDone;
  if (!list.exists()) return ctx.reply.error("ERR no such key"), Outcome::kDone;
  const auto index = integer_argument(ctx.arg(2));
  if (!index) return ctx.reply.error(kNotAnInteger), Outcome::kDone;
  const auto size = static_cast<int64_t>(ListReader(list.entry()).size());
  const int64_t at = *index < 0 ? *index + size : *index;
  if (at < 0 || at >= size) {
    unpack_for(list, ctx.arg(3));
    return ctx.reply.error("ERR index out of range"), Outcome::kDone;
  }
  ListDelta(delta_of_thread(), Op::kReplace).number(static_cast<uint64_t>(at)).element(ctx.arg(3));
  list.change(delta_of_thread(), KeyEvent::kList, "lset");
  ctx.reply.ok();
  return Outcome::kDone;
}

Outcome linsert_command(CommandContext& ctx) {
  const bool after = same_word(ctx.arg(2), "after");
  if (!after && !same_word(ctx.arg(2), "before")) return ctx.reply.error(kSyntaxError), Outcome::kDone;
  if (!admitted(ctx, record_bytes_of_arguments(ctx, 2))) return Outcome::kDone;
  TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kWrite);
  if (!list) return Outcome::kDone;
  if (!list.exists()) return ctx.reply.integer(0), Outcome::kDone;
  if (too_long_here(ctx, list)) return Outcome::kNeedsWorker;
  const ShortText pivot(ctx.arg(3));
  uint64_t index = 0;
  bool there = false;
  ListReader(list.entry()).forward(0, [&](const ShortText& text) {
    there = text == pivot;
    index += !there;
    return !there;
  });
  if (!there) {
    unpack_for(list, ctx.arg(4));
    return ctx.reply.integer(-1), Outcome::kDone;
  }
  ListDelta(delta_of_thread(), Op::kInsert).number(index).flag(after).element(ctx.arg(4));
  list.change(delta_of_thread(), KeyEvent::kList, "linsert");
  ctx.reply.integer(static_cast<int64_t>(ListReader(list.entry()).size()));
  return Outcome::kDone;
}

Outcome lrem_command(CommandContext& ctx) {
  int64_t count = 0;
  if (!range_argument(ctx, 2, -INT64_MAX, INT64_MAX, count)) return Outcome::kDone;
  TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kWrite);
  if (!list) return Outcome::kDone;
  if (!list.exists()) return ctx.reply.integer(0), Outcome::kDone;
  if (too_long_here(ctx, list)) return Outcome::kNeedsWorker;
  const ListReader reader(list.entry());
  const ShortText wanted(ctx.arg(3));
  const bool backward = count < 0;
  const uint64_t most = count == 0 ? UINT64_MAX : static_cast<uint64_t>(backward ? -count : count);
  std::vector<uint64_t> found;
  uint64_t index = backward ? reader.size() - 1 : 0;
  const auto look = [&](const ShortText& text) {
    if (text == wanted) found.push_back(index);
    backward ? --index : ++index;
    return found.size() < most;
  };
  backward ? reader.backward(index, look) : reader.forward(index, look);
  if (!found.empty()) {
    if (backward) std::reverse(found.begin(), found.end());
    if (!admitted(ctx, ctx.arg(1).size() + found.size() * 10 + 64)) return Outcome::kDone;
    ListDelta delta(delta_of_thread(), Op::kRemoveEach);
    for (size_t i = 0; i < found.size(); ++i) delta.number(i == 0 ? found[0] : found[i] - found[i - 1]);
    list.change(delta_of_thread(), KeyEvent::kList, "lrem");
  }
  ctx.reply.integer(static_cast<int64_t>(found.size()));
  return Outcome::kDone;
}

Outcome ltrim_command(CommandContext& ctx) {
  const auto start = integer_argument(ctx.arg(2)), stop = integer_argument(ctx.arg(3));
  if (!start || !stop) return ctx.reply.error(kNotAnInteger), Outcome::kDone;
  if (!admitted(ctx, ctx.arg(1).size() + 96)) return Outcome::kDone;
  TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kWrite);
  if (!list) return Outcome::kDone;
  if (list.exists()) {
    const auto size = static_cast<int64_t>(ListReader(list.entry()).size());
    const int64_t first = std::max<int64_t>(*start < 0 ? *start + size : *start, 0);
    const int64_t last = std::min(*stop < 0 ? *stop + size : *stop, size - 1);
    const int64_t front = first > last ? size : first, back = first > last ? 0 : size - 1 - last;
    if (front + back > static_cast<int64_t>(kElementsOnReactor) && !ctx.on_worker) return Outcome::kNeedsWorker;
    const auto remove = [&](int64_t from, int64_t count) {
      if (count == 0) return;
      ListDelta(delta_of_thread(), Op::kRemove).number(static_cast<uint64_t>(from)).number(static_cast<uint64_t>(count));
      list.change(delta_of_thread());
    };
    remove(size - back, back);
    remove(0, front);
    list.event(KeyEvent::kList, "ltrim");
  }
  ctx.reply.ok();
  return Outcome::kDone;
}

Outcome lpos_command(CommandContext& ctx) {
  PositionOptions options;
  if (!parse_position_options(ctx, options)) return Outcome::kDone;
  const TypedKey list(ctx, ctx.arg(1), ValueType::kList, Lookup::kRead);
  if (!list) return Outcome::kDone;
  const bool all = options.count >= 0;
  std::vector<uint64_t> found;
  if (list.exists()) {
    if (too_long_here(ctx, list)) return Outcome::kNeedsWorker;
    const ListReader reader(list.entry());
    const ShortText wanted(ctx.arg(2));
    const bool backward = options.rank < 0;
    uint64_t skipped = static_cast<uint64_t>(backward ? -options.rank : options.rank) - 1;
    const uint64_t wanted_count = !all ? 1 : options.count == 0 ? UINT64_MAX : static_cast<uint64_t>(options.count);
    uint64_t index = backward ? reader.size() - 1 : 0;
    uint64_t left = options.most == 0 ? UINT64_MAX : static_cast<uint64_t>(options.most);
    const auto look = [&](const ShortText& text) {
      if (text == wanted && (skipped == 0 || skipped-- == 0)) found.push_back(index);
      backward ? --index : ++index;
      return --left > 0 && found.size() < wanted_count;
    };
    backward ? reader.backward(index, look) : reader.forward(index, look);
  }
  if (all) {
    ctx.reply.array(static_cast<int64_t>(found.size()));
    for (uint64_t position : found) ctx.reply.integer(static_cast<int64_t>(position));
  } else if (found.empty()) {
    ctx.reply.nil();
  } else {
    ctx.reply.integer(static_cast<int64_t>(found[0]));
  }
  return Outcome::kDone;
}

}  // namespace pion
