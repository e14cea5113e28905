#include "command/family_client.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "command/arguments.h"

namespace pion {

bool valid_client_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

std::string client_line(const ClientInfo& client) {
  std::string flags;
  if (client.monitor) flags.push_back('O');
  if (client.subscriber) flags.push_back('P');
  if (client.queued >= 0) flags.push_back('x');
  if (client.blocked) flags.push_back('b');
  if (client.watched_changed) flags.push_back('d');
  if (client.closing) flags.push_back('c');
  if (client.unix_socket) flags.push_back('U');
  if (client.no_evict) flags.push_back('e');
  if (client.no_touch) flags.push_back('T');
  if (flags.empty()) flags = "N";
  const auto number = [](auto value) { return std::to_string(value); };
  return "id=" + number(client.id) + " addr=" + client.address + " laddr=" + client.local_address + " fd=" + number(client.fd) +
         " name=" + client.name + " age=" + number(client.age_s) + " idle=" + number(client.idle_s) + " flags=" + flags +
         " db=" + number(client.database) + " sub=" + number(client.channels) + " psub=" + number(client.patterns) +
         " ssub=" + number(client.shard_channels) + " multi=" + number(client.queued) + " watch=" + number(client.watched) + " qbuf=" + number(client.query_buffer_bytes) +
         " qbuf-free=" + number(client.query_buffer_free_bytes) + " argv-mem=0 multi-mem=" + number(client.queued_bytes) +
         " rbs=" + number(client.reply_buffer_bytes) + " rbp=" + number(client.reply_buffer_bytes) + " obl=0 oll=" + number(client.output_parts) +
         " omem=" + number(client.output_bytes) + " tot-mem=" + number(client.memory_bytes) + " events=" +
         (client.reads ? client.output_bytes > 0 ? "rw" : "r" : client.output_bytes > 0 ? "w" : "") + " cmd=" + (client.last_command.empty() ? "NULL" : client.last_command) +
         " user=" + client.user + " redir=-1 resp=" + number(client.protocol) + " lib-name=" + client.lib_name +
         " lib-ver=" + client.lib_ver + " io-thread=" + number(client.thread) + " tot-net-in=" + number(client.net_input_bytes) +
         " tot-net-out=" + number(client.net_output_bytes) + " tot-cmds=" + number(client.commands);
}

namespace {

// There are no replicas.
enum class ClientType { kNormal, kPubsub, kOther };

std::optional<ClientType> client_type(std::string_view word) {
  if (same_word(word, "normal")) return ClientType::kNormal;
  if (same_word(word, "pubsub")) return ClientType::kPubsub;
  for (std::string_view other : {"master", "replica", "slave"}) {
    if (same_word(word, other)) return ClientType::kOther;
  }
  return std::nullopt;
}

ClientType type_of(const ClientInfo& client) { return client.subscriber ? ClientType::kPubsub : ClientType::kNormal; }

// The filters of CLIENT KILL; all that are given must hold.
struct KillFilter {
  std::optional<uint64_t> id;
  std::optional<ClientType> type;
  std::optional<std::string> address, local_address, user;
  int64_t max_age_s = 0;
  bool skip_me = true;

  bool holds(const ClientInfo& client, uint64_t self) const {
    if (skip_me && client.id == self) return false;
    if (id && *id != client.id) return false;
    if (type && *type != type_of(client)) return false;
    if (address && *address != client.address) return false;
    if (local_address && *local_address != client.local_address) return false;
    if (user && *user != client.user) return false;
    return max_age_s == 0 || client.age_s >= max_age_s;
  }
};

// The error's text, or nothing when `filter` was filled.
std::string parse_kill_option(std::string_view option, std::string_view value, KillFilter& filter) {
  if (same_word(option, "id")) {
    const auto id = integer_argument(value);
    if (!id || *id <= 0) return "ERR client-id should be greater than 0";
    filter.id = static_cast<uint64_t>(*id);
  } else if (same_word(option, "maxage")) {
    const auto age = integer_argument(value);
    if (!age) return "ERR maxage is not an integer or out of range";
    if (*age <= 0) return "ERR maxage should be greater than 0";
    filter.max_age_s = *age;
  } else if (same_word(option, "type")) {
    filter.type = client_type(value);
    if (!filter.type) return "ERR Unknown client type '" + std::string(value) + "'";
  } else if (same_word(option, "addr")) {
    filter.address = value;
  } else if (same_word(option, "laddr")) {
    filter.local_address = value;
  } else if (same_word(option, "user")) {
    if (value != "default") return "ERR No such user '" + std::string(value) + "'";
    filter.user = value;
  } else if (same_word(option, "skipme") && (same_word(value, "yes") || same_word(value, "no"))) {
    filter.skip_me = same_word(value, "yes");
  } else {
    return std::string(kSyntaxError);
  }
  return {};
}

Outcome on_off(CommandContext& context, bool& setting) {
  if (same_word(context.arg(2), "on")) {
    setting = true;
  } else if (same_word(context.arg(2), "off")) {
    setting = false;
  } else {
    return context.reply.error(kSyntaxError), Outcome::kDone;
  }
  context.reply.ok();
  return Outcome::kDone;
}

// Answers with the lines of the clients that `choose` picks from all of them.
Outcome reply_lines(CommandContext& context, std::function<std::vector<ClientInfo>(std::vector<ClientInfo>)> choose) {
  std::shared_ptr<Completion> completion = context.suspend();
  context.services.server->clients([completion, choose = std::move(choose), self = context.session.id](std::vector<ClientInfo> all) {
    std::string lines;
    for (ClientInfo& client : choose(std::move(all))) {
      if (client.id == self) client.blocked = false;  // it waits for this answer only
      lines.append(client_line(client)).push_back('\n');
    }
    completion->complete([lines = std::move(lines)](ReplyWriter& reply) { reply.verbatim(lines); }, 0);
  });
  return Outcome::kSuspended;
}

}  // namespace

Outcome client_id(CommandContext& context) {
  context.reply.integer(static_cast<int64_t>(context.session.id));
  return Outcome::kDone;
}

Outcome client_getname(CommandContext& context) {
  if (context.session.name.empty()) {
    context.reply.nil();
  } else {
    context.reply.bulk(context.session.name);
  }
  return Outcome::kDone;
}

Outcome client_setname(CommandContext& context) {
  if (!valid_client_text(context.arg(2))) return context.reply.error(kBadClientName), Outcome::kDone;
  context.session.name = context.arg(2);
  context.reply.ok();
  return Outcome::kDone;
}

Outcome client_setinfo(CommandContext& context) {
  std::string* field = same_word(context.arg(2), "lib-name")  ? &context.session.lib_name
                       : same_word(context.arg(2), "lib-ver") ? &context.session.lib_ver
                                                              : nullptr;
  if (!field) {
    context.reply.error("ERR Unrecognized option '" + std::string(context.arg(2)) + "'");
  } else if (!valid_client_text(context.arg(3))) {
    context.reply.error("ERR " + std::string(context.arg(2)) + " cannot contain spaces, newlines or special characters.");
  } else {
    *field = context.arg(3);
    context.reply.ok();
  }
  return Outcome::kDone;
}

Outcome client_no_evict(CommandContext& context) { return on_off(context, context.session.no_evict); }
Outcome client_no_touch(CommandContext& context) { return on_off(context, context.session.no_touch); }

// OFF and SKIP answer nothing; SKIP inside OFF has no effect.
Outcome client_reply(CommandContext& context) {
  using Mode = Session::ReplyMode;
  Mode& mode = context.session.reply_mode;
  if (same_word(context.arg(2), "on")) {
    mode = Mode::kOn;
    context.reply.ok();
  } else if (same_word(context.arg(2), "off")) {
    mode = Mode::kOff;
  } else if (same_word(context.arg(2), "skip")) {
    if (mode != Mode::kOff) mode = Mode::kSkipNext;
  } else {
    context.reply.error(kSyntaxError);
  }
  return Outcome::kDone;
}

Outcome client_getredir(CommandContext& context) {
  context.reply.integer(-1);
  return Outcome::kDone;
}

// Nobody tracks yet.
Outcome client_trackinginfo(CommandContext& context) {
  ReplyWriter& reply = context.reply;
  reply.map(3);
  reply.bulk("flags");
  reply.set(1);
  reply.bulk("off");
  reply.bulk("redirect");
  reply.integer(-1);
  reply.bulk("prefixes");
  reply.array(0);
  return Outcome::kDone;
}

Outcome client_info(CommandContext& context) {
  return reply_lines(context, [self = context.session.id](std::vector<ClientInfo> all) {
    std::erase_if(all, [self](const ClientInfo& client) { return client.id != self; });
    return all;
  });
}

// CLIENT LIST | CLIENT LIST TYPE type | CLIENT LIST ID id ...
Outcome client_list(CommandContext& context) {
  if (context.argc() == 2) return reply_lines(context, [](std::vector<ClientInfo> all) { return all; });
  if (context.argc() == 4 && same_word(context.arg(2), "type")) {
    const auto type = client_type(context.arg(3));
    if (!type) {
      context.reply.error("ERR Unknown client type '" + std::string(context.arg(3)) + "'");
      return Outcome::kDone;
    }
    return reply_lines(context, [type](std::vector<ClientInfo> all) {
      std::erase_if(all, [type](const ClientInfo& client) { return type_of(client) != *type; });
      return all;
    });
  }
  if (context.argc() < 4 || !same_word(context.arg(2), "id")) return context.reply.error(kSyntaxError), Outcome::kDone;
  std::vector<int64_t> ids;
  for (size_t i = 3; i < context.argc(); i++) {
    const auto id = integer_argument(context.arg(i));
    if (!id) return context.reply.error("ERR Invalid client ID"), Outcome::kDone;
    ids.push_back(*id);
  }
  return reply_lines(context, [ids](std::vector<ClientInfo> all) {
    std::vector<ClientInfo> chosen;
    for (int64_t id : ids) {
      for (const ClientInfo& client : all) {
        if (client.id == static_cast<uint64_t>(id)) chosen.push_back(client);
      }
    }
    return chosen;
  });
}

// The old form names an address and may kill the caller; the new form takes filters and skips the caller unless told.
Outcome client_kill(CommandContext& context) {
  const bool old_form = context.argc() == 3;
  KillFilter filter;
  if (old_form) {
    filter.address = context.arg(2);
    filter.skip_me = false;
  } else {
    if (context.argc() % 2 != 0) return context.reply.error(kSyntaxError), Outcome::kDone;
    for (size_t i = 2; i < context.argc(); i += 2) {
      const std::string error = parse_kill_option(context.arg(i), context.arg(i + 1), filter);
      if (!error.empty()) return context.reply.error(error), Outcome::kDone;
    }
  }
  std::shared_ptr<Completion> completion = context.suspend();
  ServerControl* server = context.services.server;
  server->clients([completion, server, filter, old_form, self = context.session.id](std::vector<ClientInfo> all) {
    int64_t killed = 0;
    bool kill_self = false;
    for (const ClientInfo& client : all) {
      if (!filter.holds(client, self)) continue;
      if (client.id == self) {
        kill_self = true, killed++;
      } else {
        killed += server->kill_client(client.id) ? 1 : 0;
      }
    }
    // Asking every thread again tells when they are gone: they run nothing more once this is answered.
    server->clients([completion, server, old_form, killed, kill_self, self](std::vector<ClientInfo>) {
      completion->complete(
          [old_form, killed](ReplyWriter& reply) {
            if (!old_form) return reply.integer(killed);
            if (killed > 0) return reply.ok();
            reply.error("ERR No such client");
          },
          0);
      if (kill_self) server->kill_client(self);  // after the answer is in its output
    });
  });
  return Outcome::kSuspended;
}

// CLIENT PAUSE timeout [WRITE|ALL]
Outcome client_pause(CommandContext& context) {
  if (context.argc() > 4) return bad_subcommand(context, "CLIENT");
  bool only_writes = false;
  if (context.argc() == 4) {
    only_writes = same_word(context.arg(3), "write");
    if (!only_writes && !same_word(context.arg(3), "all")) {
      return context.reply.error("ERR CLIENT PAUSE mode must be WRITE or ALL"), Outcome::kDone;
    }
  }
  const auto duration_ms = integer_argument(context.arg(2));
  if (!duration_ms) return context.reply.error("ERR timeout is not an integer or out of range"), Outcome::kDone;
  if (*duration_ms < 0) return context.reply.error("ERR timeout is negative"), Outcome::kDone;
  context.services.server->pause_clients(*duration_ms, only_writes);
  context.reply.ok();
  return Outcome::kDone;
}

Outcome client_unpause(CommandContext& context) {
  context.services.server->unpause_clients();
  context.reply.ok();
  return Outcome::kDone;
}

// CLIENT UNBLOCK id [TIMEOUT|ERROR]
Outcome client_unblock(CommandContext& context) {
  if (context.argc() > 4) return bad_subcommand(context, "CLIENT");
  const bool with_error = context.argc() == 4 && same_word(context.arg(3), "error");
  if (context.argc() == 4 && !with_error && !same_word(context.arg(3), "timeout")) {
    return context.reply.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"), Outcome::kDone;
  }
  const auto id = integer_argument(context.arg(2));
  if (!id) return context.reply.error(kNotAnInteger), Outcome::kDone;
  std::shared_ptr<Completion> completion = context.suspend();
  context.services.server->unblock_client(static_cast<uint64_t>(*id), with_error, [completion](bool unblocked) {
    completion->complete([unblocked](ReplyWriter& reply) { reply.integer(unblocked ? 1 : 0); }, 0);
  });
  return Outcome::kSuspended;
}

Outcome client_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "GETREDIR",
      "    Return the client ID we are redirecting to when tracking is enabled.",
      "GETNAME",
      "    Return the name of the current connection.",
      "ID",
      "    Return the ID of the current connection.",
      "INFO",
      "    Return information about the current client connection.",
      "KILL <ip:port>",
      "    Kill connection made from <ip:port>.",
      "KILL <option> <value> [<option> <value> [...]]",
      "    Kill connections. Options are:",
      "    * ADDR (<ip:port>|<unixsocket>:0)",
      "      Kill connections made from the specified address",
      "    * LADDR (<ip:port>|<unixsocket>:0)",
      "      Kill connections made to specified local address",
      "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
      "      Kill connections by type.",
      "    * USER <username>",
      "      Kill connections authenticated by <username>.",
      "    * SKIPME (YES|NO)",
      "      Skip killing current connection (default: yes).",
      "    * ID <client-id>",
      "      Kill connections by client id.",
      "    * MAXAGE <maxage>",
      "      Kill connections older than the specified age.",
      "LIST [options ...]",
      "    Return information about client connections. Options:",
      "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
      "      Return clients of specified type.",
      "UNPAUSE",
      "    Stop the current client pause, resuming traffic.",
      "PAUSE <timeout> [WRITE|ALL]",
      "    Suspend all, or just write, clients for <timeout> milliseconds.",
      "REPLY (ON|OFF|SKIP)",
      "    Control the replies sent to the current connection.",
      "SETNAME <name>",
      "    Assign the name <name> to the current connection.",
      "SETINFO <option> <value>",
      "    Set client meta attr. Options are:",
      "    * LIB-NAME: the client lib name.",
      "    * LIB-VER: the client lib version.",
      "UNBLOCK <clientid> [TIMEOUT|ERROR]",
      "    Unblock the specified blocked client.",
      "TRACKINGINFO",
      "    Report tracking status for the current connection.",
      "NO-EVICT (ON|OFF)",
      "    Protect current client connection from eviction.",
      "NO-TOUCH (ON|OFF)",
      "    Will not touch LRU/LFU stats when this mode is on.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(context, kLines);
}

}  // namespace pion
