#include "command/list_keys.h"

#include <algorithm>

#include "command/arguments.h"

namespace pion {
namespace {

using Op = ListDelta::Op;

}  // namespace

std::optional<ListEnd> list_end_argument(CommandContext& ctx, size_t position) {
  if (same_word(ctx.arg(position), "left")) return ListEnd::kLeft;
  if (same_word(ctx.arg(position), "right")) return ListEnd::kRight;
  ctx.reply.error(kSyntaxError);
  return std::nullopt;
}

void reply_text(ReplyWriter& reply, const ShortText& text) {
  char room[20];
  reply.bulk(text.view(room));
}

bool ListKeys::find_list(size_t number, Found& found) {
  found = find(number, KeyAccess::Lookup::kWrite);
  const bool fits = !found || found.entry->type() == ValueType::kList;
  if (!fits) ctx_.reply.error(kWrongType);
  return fits;
}

void ListKeys::pop(size_t number, Found found, ListEnd end, uint64_t count, bool as_array) {
  const ListReader reader(*found.entry);
  const uint64_t size = reader.size(), taken = std::min(count, size);
  uint64_t left = taken;
  const auto answer = [&](const ShortText& text) { return reply_text(ctx_.reply, text), --left > 0; };
  if (as_array) ctx_.reply.array(static_cast<int64_t>(taken));
  end == ListEnd::kLeft ? reader.forward(0, answer) : reader.backward(size - 1, answer);
  ListDelta(delta_of_thread(), Op::kRemove).number(end == ListEnd::kLeft ? 0 : size - taken).number(taken);
  change(number, found, ValueType::kList, delta_of_thread(), KeyEvent::kList, end == ListEnd::kLeft ? "lpop" : "rpop");
}

void ListKeys::move(size_t from, Found source, ListEnd from_end, size_t to, Found target, ListEnd to_end) {
  const int database = ctx_.session.database;
  const bool from_left = from_end == ListEnd::kLeft, to_left = to_end == ListEnd::kLeft;
  const ListReader reader(*source.entry);
  const uint64_t index = from_left ? 0 : reader.size() - 1;
  const std::string element = reader.at(index).string();
  const auto apply = [&](size_t number, Found found) {
    return access().change(database, keys()[number], found, ValueType::kList, delta_of_thread());
  };
  if (keys()[from].bytes == keys()[to].bytes) {
    ListDelta(delta_of_thread(), Op::kRotate).number(uint64_t{from_left} | uint64_t{to_left} << 1);
    source = apply(from, source);
  } else {
    ListDelta(delta_of_thread(), to_left ? Op::kPushFront : Op::kPushBack).element(element);
    apply(to, target);
    ListDelta(delta_of_thread(), Op::kRemove).number(index).number(1);
    source = apply(from, access().find_again(database, keys()[from]));
  }
  access().event(KeyEvent::kList, to_left ? "lpush" : "rpush", database, keys()[to]);
  access().event(KeyEvent::kList, from_left ? "lpop" : "rpop", database, keys()[from]);
  if (!source) access().event(KeyEvent::kGeneric, "del", database, keys()[from]);
  ctx_.reply.bulk(element);
}

}  // namespace pion
