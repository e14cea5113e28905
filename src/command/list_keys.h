// What the commands on lists share: several keys at a time, pops, pushes and moves.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command/collection.h"
#include "keyspace/list_value.h"

namespace pion {

enum class ListEnd : uint8_t { kLeft, kRight };

// LEFT or RIGHT at this position. Empty: the error was answered.
std::optional<ListEnd> list_end_argument(CommandContext& ctx, size_t position);

void reply_text(ReplyWriter& reply, const ShortText& text);

// Keys that hold lists, or nothing.
class ListKeys : public TypedKeys {
 public:
  using TypedKeys::TypedKeys;

  // Empty: no such key. False: it holds another type, and that was answered.
  bool find_list(size_t number, Found& found);
  // Answers `count` elements from an end, and removes them. An array, or one element without an array.
  void pop(size_t number, Found found, ListEnd end, uint64_t count, bool as_array);
  // From one list's end to another's (which may be the same, and may not be there yet); the element is answered.
  void move(size_t from, Found source, ListEnd from_end, size_t to, Found target, ListEnd to_end);
};

}  // namespace pion
