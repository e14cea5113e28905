// SUBSCRIBE and its kin, PUBLISH, SPUBLISH, PUBSUB.
#include <string>

#include "base/limits.h"
#include "command/families.h"
#include "command/notifications.h"
#include "command/pubsub.h"
#include "command/transaction.h"

namespace pion {
namespace {

using Kind = SubscriptionKind;

struct KindWords {
  std::string_view subscribe, unsubscribe;
};
constexpr KindWords kWords[kSubscriptionKinds] = {
    {"subscribe", "unsubscribe"}, {"psubscribe", "punsubscribe"}, {"ssubscribe", "sunsubscribe"}};

// The number a confirmation tells: channels and patterns are counted together, shard channels alone.
int64_t told_count(const Session& session, Kind kind) {
  const Subscriptions* mine = session.subscriptions.get();
  if (!mine) return 0;
  const size_t count = kind == Kind::kShard ? mine->count(Kind::kShard) : mine->count(Kind::kChannel) + mine->count(Kind::kPattern);
  return static_cast<int64_t>(count);
}

// A confirmation is a push: CLIENT REPLY OFF and SKIP do not silence it.
void confirm(CommandContext& context, std::string_view what, const std::string_view* name, Kind kind) {
  ReplyWriter push(context.unmuted(), context.session.protocol);
  push.push(3);
  push.bulk(what);
  if (name) {
    push.bulk(*name);
  } else {
    push.nil();
  }
  push.integer(told_count(context.session, kind));
}

// What the new names would exceed, or nothing.
std::string limit_exceeded(const CommandContext& context) {
  const Subscriptions* mine = context.session.subscriptions.get();
  uint64_t bytes = mine ? mine->bytes() : 0;
  for (size_t i = 1; i < context.argc(); i++) {
    if (context.arg(i).size() > kMaxChannelBytes) {
      return "ERR channel or pattern is too long: at most " + std::to_string(kMaxChannelBytes) + " bytes";
    }
    bytes += context.arg(i).size();
  }
  if ((mine ? mine->total() : 0) + context.argc() - 1 > kMaxSubscriptions) {
    return "ERR too many subscriptions: at most " + std::to_string(kMaxSubscriptions) + " of one connection";
  }
  if (bytes > kMaxSubscriptionBytes) {
    return "ERR too many subscriptions: their names together are at most " + std::to_string(kMaxSubscriptionBytes) +
           " bytes of one connection";
  }
  return {};
}

template <Kind kind>
Outcome subscribe(CommandContext& context) {
  if (const std::string error = limit_exceeded(context); !error.empty()) return context.reply.error(error), Outcome::kDone;
  std::unique_ptr<Subscriptions>& mine = context.session.subscriptions;
  if (!mine) mine = std::make_unique<Subscriptions>(*context.services.pubsub, context.make_subscriber());
  for (size_t i = 1; i < context.argc(); i++) {
    const std::string_view name = context.arg(i);
    mine->add(kind, name);
    confirm(context, kWords[static_cast<size_t>(kind)].subscribe, &name, kind);
  }
  return Outcome::kDone;
}

template <Kind kind>
Outcome unsubscribe(CommandContext& context) {
  std::unique_ptr<Subscriptions>& mine = context.session.subscriptions;
  const std::string_view what = kWords[static_cast<size_t>(kind)].unsubscribe;
  if (context.argc() > 1) {
    for (size_t i = 1; i < context.argc(); i++) {
      const std::string_view name = context.arg(i);
      if (mine) mine->remove(kind, name);
      confirm(context, what, &name, kind);
    }
  } else if (mine && mine->count(kind) > 0) {
    for (const std::string& text : mine->all(kind)) {
      const std::string_view name = text;
      mine->remove(kind, name);
      confirm(context, what, &name, kind);
    }
  } else {
    confirm(context, what, nullptr, kind);
  }
  if (mine && mine->total() == 0) mine.reset();
  return Outcome::kDone;
}

template <Kind kind>
Outcome publish(CommandContext& context) {
  PubSub& hub = *context.services.pubsub;
  uint64_t receivers;
  if (context.transaction) {  // goes out behind the transaction's record
    receivers = hub.count_receivers(kind, context.arg(1));
    context.services.notifications->publish_later(kind, context.arg(1), context.arg(2));
    context.transaction->published = true;
  } else {
    receivers = hub.publish(kind, context.arg(1), context.arg(2), 0);
  }
  context.reply.integer(static_cast<int64_t>(receivers));
  return Outcome::kDone;
}

template <Kind kind>
Outcome pubsub_channels(CommandContext& context) {
  if (context.argc() > 3) return bad_subcommand(context, "PUBSUB");
  const auto pattern = context.argc() == 3 ? std::optional(context.arg(2)) : std::nullopt;
  const std::vector<std::string> names = context.services.pubsub->channels(kind, pattern);
  context.reply.array(static_cast<int64_t>(names.size()));
  for (const std::string& name : names) context.reply.bulk(name);
  return Outcome::kDone;
}

template <Kind kind>
Outcome pubsub_numsub(CommandContext& context) {
  context.reply.array(static_cast<int64_t>(context.argc() - 2) * 2);
  for (size_t i = 2; i < context.argc(); i++) {
    context.reply.bulk(context.arg(i));
    context.reply.integer(static_cast<int64_t>(context.services.pubsub->subscribers(kind, context.arg(i))));
  }
  return Outcome::kDone;
}

Outcome pubsub_numpat(CommandContext& context) {
  context.reply.integer(static_cast<int64_t>(context.services.pubsub->count(Kind::kPattern)));
  return Outcome::kDone;
}

Outcome pubsub_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "CHANNELS [<pattern>]",
      "    Return the currently active channels matching a <pattern> (default: '*').",
      "NUMPAT",
      "    Return number of subscriptions to patterns.",
      "NUMSUB [<channel> ...]",
      "    Return the number of subscribers for the specified channels, excluding",
      "    pattern subscriptions(default: no channels).",
      "SHARDCHANNELS [<pattern>]",
      "    Return the currently active shard level channels matching a <pattern> (default: '*').",
      "SHARDNUMSUB [<shardchannel> ...]",
      "    Return the number of subscribers for the specified shard level channel(s)",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(context, kLines);
}

constexpr CommandSpec kPubsubCommands[] = {
    {.name = "pubsub|channels", .handler = pubsub_channels<Kind::kChannel>},
    {.name = "pubsub|help", .handler = pubsub_help},
    {.name = "pubsub|numpat", .handler = pubsub_numpat},
    {.name = "pubsub|numsub", .handler = pubsub_numsub<Kind::kChannel>},
    {.name = "pubsub|shardchannels", .handler = pubsub_channels<Kind::kShard>},
    {.name = "pubsub|shardnumsub", .handler = pubsub_numsub<Kind::kShard>},
};

constexpr CommandSpec kCommands[] = {
    {.name = "psubscribe", .handler = subscribe<Kind::kPattern>},
    {.name = "publish", .flags = kMayReplicate, .handler = publish<Kind::kChannel>},
    {.name = "pubsub", .subcommands = kPubsubCommands},
    {.name = "punsubscribe", .handler = unsubscribe<Kind::kPattern>},
    {.name = "spublish", .flags = kMayReplicate, .handler = publish<Kind::kShard>},
    {.name = "ssubscribe", .handler = subscribe<Kind::kShard>},
    {.name = "subscribe", .handler = subscribe<Kind::kChannel>},
    {.name = "sunsubscribe", .handler = unsubscribe<Kind::kShard>},
    {.name = "unsubscribe", .handler = unsubscribe<Kind::kChannel>},
};

}  // namespace

std::span<const CommandSpec> pubsub_commands() { return kCommands; }

}  // namespace pion
