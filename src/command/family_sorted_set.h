// Handlers of the sorted-set commands, for the table at the end of family_sorted_set.cc.
#pragma once

#include <span>
#include <string_view>

#include "command/context.h"

namespace pion {

// What ZADD, ZINCRBY and GEOADD do.
struct SortedSetAddition {
  struct Member {
    std::string_view name;
    double score;
  };
  bool nx = false, xx = false, gt = false, lt = false, changed = false, increment = false;
  bool conditional() const { return nx || xx || gt || lt; }
};
// Adds to the key of the first argument, answers.
Outcome add_members(CommandContext& ctx, const SortedSetAddition& how, std::span<const SortedSetAddition::Member> members);

// family_sorted_set_range.cc
Outcome zcount_command(CommandContext& ctx);
Outcome zlexcount_command(CommandContext& ctx);
Outcome zrange_command(CommandContext& ctx);
Outcome zrangestore_command(CommandContext& ctx);
Outcome zrangebyscore_command(CommandContext& ctx);
Outcome zrangebylex_command(CommandContext& ctx);
Outcome zrevrange_command(CommandContext& ctx);
Outcome zrevrangebyscore_command(CommandContext& ctx);
Outcome zrevrangebylex_command(CommandContext& ctx);
Outcome zremrangebyrank_command(CommandContext& ctx);
Outcome zremrangebyscore_command(CommandContext& ctx);
Outcome zremrangebylex_command(CommandContext& ctx);

// family_sorted_set_pop.cc
Outcome zpopmin_command(CommandContext& ctx);
Outcome zpopmax_command(CommandContext& ctx);
Outcome zmpop_command(CommandContext& ctx);
Outcome bzpopmin_command(CommandContext& ctx);
Outcome bzpopmax_command(CommandContext& ctx);
Outcome bzmpop_command(CommandContext& ctx);
Outcome zrandmember_command(CommandContext& ctx);
Outcome zscan_command(CommandContext& ctx);

// family_sorted_set_combine.cc
Outcome zunion_command(CommandContext& ctx);
Outcome zunionstore_command(CommandContext& ctx);
Outcome zinter_command(CommandContext& ctx);
Outcome zinterstore_command(CommandContext& ctx);
Outcome zintercard_command(CommandContext& ctx);
Outcome zdiff_command(CommandContext& ctx);
Outcome zdiffstore_command(CommandContext& ctx);

}  // namespace pion
