// HELLO AUTH PING ECHO SELECT QUIT RESET; CLIENT's subcommands stand in family_client.cc.
#include <string>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/families.h"
#include "command/family_client.h"
#include "command/server_control.h"
#include "command/transaction.h"
#include "command/version.h"
#include "command/watched_keys.h"

namespace pion {
namespace {

constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

bool password_holds(const CommandContext& context, std::string_view user, std::string_view password) {
  const ServerControl& server = *context.services.server;
  return server.password_required() ? server.check_password(user, password) : user == "default";
}

Outcome ping(CommandContext& context) {
  if (context.argc() > 2) {
    context.reply.error("ERR wrong number of arguments for 'ping' command");
  } else if (context.session.subscribed_mode()) {
    context.reply.array(2);  // in the shape of a message
    context.reply.bulk("pong");
    context.reply.bulk(context.argc() == 2 ? context.arg(1) : "");
  } else if (context.argc() == 2) {
    context.reply.bulk(context.arg(1));
  } else {
    context.reply.simple("PONG");
  }
  return Outcome::kDone;
}

Outcome echo(CommandContext& context) {
  context.reply.bulk(context.arg(1));
  return Outcome::kDone;
}

Outcome select(CommandContext& context) {
  const auto index = integer_argument(context.arg(1));
  if (!index || *index < INT32_MIN || *index > INT32_MAX) {
    context.reply.error(index ? "ERR value is out of range, value must between -2147483648 and 2147483647" : kNotAnInteger);
  } else if (*index < 0 || *index >= kDatabases) {
    context.reply.error("ERR DB index is out of range");
  } else {
    context.session.database = static_cast<int>(*index);
    context.reply.ok();
  }
  return Outcome::kDone;
}

Outcome quit(CommandContext& context) {
  context.session.close_after_reply = true;
  context.reply.ok();
  return Outcome::kDone;
}

Outcome auth(CommandContext& context) {
  if (context.argc() > 3) {
    context.reply.error(kSyntaxError);
    return Outcome::kDone;
  }
  const bool with_user = context.argc() == 3;
  if (!with_user && !context.services.server->password_required()) {
    context.reply.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is "
        "correct?");
  } else if (password_holds(context, with_user ? context.arg(1) : "default", context.arg(with_user ? 2 : 1))) {
    context.session.authenticated = true;
    context.reply.ok();
  } else {
    context.reply.error(kWrongPassword);
  }
  return Outcome::kDone;
}

void hello_reply(CommandContext& context) {
  ReplyWriter& reply = context.reply;
  reply.map(7);
  reply.bulk("server");
  reply.bulk("redis");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.integer(context.session.protocol);
  reply.bulk("id");
  reply.integer(static_cast<int64_t>(context.session.id));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

// HELLO [protover [AUTH user password] [SETNAME name]]: nothing changes unless all of it holds.
Outcome hello(CommandContext& context) {
  Session& session = context.session;
  int protocol = session.protocol;
  if (context.argc() >= 2) {
    const auto version = integer_argument(context.arg(1));
    if (!version) return context.reply.error("ERR Protocol version is not an integer or out of range"), Outcome::kDone;
    if (*version < 2 || *version > 3) return context.reply.error("NOPROTO unsupported protocol version"), Outcome::kDone;
    protocol = static_cast<int>(*version);
  }
  std::string_view user, password, name;
  bool with_auth = false, with_name = false;
  for (size_t i = 2; i < context.argc(); i++) {
    const size_t left = context.argc() - 1 - i;
    if (same_word(context.arg(i), "auth") && left >= 2) {
      user = context.arg(i + 1), password = context.arg(i + 2), with_auth = true, i += 2;
    } else if (same_word(context.arg(i), "setname") && left >= 1) {
      name = context.arg(i + 1), with_name = true, i += 1;
      if (!valid_client_text(name)) return context.reply.error(kBadClientName), Outcome::kDone;
    } else {
      context.reply.error("ERR Syntax error in HELLO option '" + std::string(context.arg(i)) + "'");
      return Outcome::kDone;
    }
  }
  if (with_auth) {
    if (!password_holds(context, user, password)) return context.reply.error(kWrongPassword), Outcome::kDone;
    session.authenticated = true;
  }
  if (!session.authenticated) {
    context.reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option "
        "can be used to authenticate the client and select the RESP protocol version at the same time");
    return Outcome::kDone;
  }
  if (with_name) session.name = name;
  session.protocol = protocol;
  context.reply.set_protocol(protocol);
  hello_reply(context);
  return Outcome::kDone;
}

// As if the connection had been closed and opened again: leases and claims end too.
Outcome reset(CommandContext& context) {
  Session& session = context.session;
  session.database = 0;
  session.protocol = 2;
  session.authenticated = !context.services.server->password_required();
  session.name.clear();
  session.no_evict = session.no_touch = false;
  session.reply_mode = Session::ReplyMode::kOn;
  session.prompt.reset();
  session.subscriptions.reset();
  session.monitor.reset();
  session.transaction.reset();
  session.watched.reset();
  context.reply.set_protocol(2);
  context.reply.simple("RESET");
  return Outcome::kDone;
}

constexpr CommandSpec kClient[] = {
    {.name = "client|getname", .handler = client_getname},
    {.name = "client|getredir", .handler = client_getredir},
    {.name = "client|help", .handler = client_help},
    {.name = "client|id", .handler = client_id},
    {.name = "client|info", .handler = client_info},
    {.name = "client|kill", .handler = client_kill},
    {.name = "client|list", .handler = client_list},
    {.name = "client|no-evict", .handler = client_no_evict},
    {.name = "client|no-touch", .handler = client_no_touch},
    {.name = "client|pause", .handler = client_pause,
     .status = "differs: an expired key that is asked for is removed meanwhile"},
    {.name = "client|reply", .handler = client_reply},
    {.name = "client|setinfo", .handler = client_setinfo},
    {.name = "client|setname", .handler = client_setname},
    {.name = "client|trackinginfo", .handler = client_trackinginfo},
    {.name = "client|unblock", .handler = client_unblock},
    {.name = "client|unpause", .handler = client_unpause},
};

constexpr CommandSpec kConnection[] = {
    {.name = "auth", .handler = auth, .status = "differs: one user, default; no ACLs yet"},
    {.name = "client", .subcommands = kClient, .status = "differs: no CACHING and TRACKING yet"},
    {.name = "echo", .handler = echo},
    {.name = "hello", .handler = hello},
    {.name = "ping", .handler = ping},
    {.name = "quit", .handler = quit},
    {.name = "reset", .handler = reset, .status = "differs: prompt leases and claims of the connection end too"},
    {.name = "select", .handler = select},
};

}  // namespace

std::span<const CommandSpec> connection_commands() { return kConnection; }

}  // namespace pion
