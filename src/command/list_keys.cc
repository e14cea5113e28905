#include "command/list_keys.h"

#include <algorithm>

#include "command/arguments.h"

namespace pion {
namespace {

using Op = ListDelta::Op;

std::vector<Key> keys_of(const CommandContext& ctx, std::span<const std::string_view> names) {
  std::vector<Key> keys;
  keys.reserve(names.size());
  for (std::string_view name : names) keys.push_back(ctx.services.keyspace->key(name));
  return keys;
}

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

ListKeys::ListKeys(CommandContext& ctx, std::span<const std::string_view> names)
    : ctx_(ctx), keys_(keys_of(ctx, names)), access_(*ctx.services.keyspace, keys_) {
  if (ctx.session.no_touch) access_.no_touch();
}

bool ListKeys::find(size_t number, Found& found) {
  found = access_.find(ctx_.session.database, keys_[number], KeyAccess::Lookup::kWrite);
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
  const int database = ctx_.session.database;
  const Key& key = keys_[number];
  found = access_.change(database, key, found, ValueType::kList, delta_of_thread());
  access_.event(KeyEvent::kList, end == ListEnd::kLeft ? "lpop" : "rpop", database, key);
  if (!found) access_.event(KeyEvent::kGeneric, "del", database, key);
}

void ListKeys::move(size_t from, Found source, ListEnd from_end, size_t to, Found target, ListEnd to_end) {
  const int database = ctx_.session.database;
  const bool from_left = from_end == ListEnd::kLeft, to_left = to_end == ListEnd::kLeft;
  const ListReader reader(*source.entry);
  const uint64_t index = from_left ? 0 : reader.size() - 1;
  const std::string element = reader.at(index).string();
  const auto change = [&](size_t number, Found found) {
    return access_.change(database, keys_[number], found, ValueType::kList, delta_of_thread());
  };
  if (keys_[from].bytes == keys_[to].bytes) {
    ListDelta(delta_of_thread(), Op::kRotate).number(uint64_t{from_left} | uint64_t{to_left} << 1);
    source = change(from, source);
  } else {
    ListDelta(delta_of_thread(), to_left ? Op::kPushFront : Op::kPushBack).element(element);
    change(to, target);
    ListDelta(delta_of_thread(), Op::kRemove).number(index).number(1);
    source = change(from, access_.find_again(database, keys_[from]));
  }
  access_.event(KeyEvent::kList, to_left ? "lpush" : "rpush", database, keys_[to]);
  access_.event(KeyEvent::kList, from_left ? "lpop" : "rpop", database, keys_[from]);
  if (!source) access_.event(KeyEvent::kGeneric, "del", database, keys_[from]);
  ctx_.reply.bulk(element);
}

}  // namespace pion
