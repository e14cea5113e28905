// Handlers of the bitmap commands, for the table at the end of family_bitmap.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "command/context.h"

namespace pion {

inline constexpr std::string_view kBadBitOffset = "ERR bit offset is not an integer or out of range";

// A bit offset as SETBIT and BITFIELD take it: its byte lies below the longest string. Empty: it is none.
std::optional<uint64_t> bit_offset_argument(std::string_view text);

// family_bitmap_op.cc
Outcome bitop_command(CommandContext& ctx);

// family_bitmap_field.cc
Outcome bitfield_command(CommandContext& ctx);
Outcome bitfield_ro_command(CommandContext& ctx);

}  // namespace pion
