// Arguments that the commands about expiring fields of hashes share.
#pragma once

#include <string_view>

#include "command/context.h"

namespace pion {

inline constexpr std::string_view kFieldsPositive = "ERR Number of fields must be a positive integer";

// FIELDS at `position`, the number of fields behind it, and as many arguments to the end. False: the error was answered;
// `number_error` is that of a bad number.
bool fields_argument(CommandContext& ctx, size_t position, std::string_view number_error);

// A field's expiry as wall milliseconds. False: the error was answered.
bool field_expiry_argument(CommandContext& ctx, size_t position, bool in_seconds, bool absolute, int64_t& at_ms);

class TypedKey;
// A command about expiries makes a hash listpackex, even when it finds none of its fields; so does Redis.
void name_listpackex(TypedKey& hash, std::string_view any_field);

}  // namespace pion
