// SAVE BGSAVE LASTSAVE SHUTDOWN WAIT WAITAOF TIME ROLE, and the table of CONFIG, DEBUG, INFO, MODULE and LOLWUT (files of their own).
#include "command/family_server.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "command/arguments.h"
#include "command/blocking.h"
#include "command/families.h"
#include "command/server_control.h"
#include "storage/storage.h"

namespace pion {
namespace {

Outcome refuse(CommandContext& context, std::string_view text) {
  context.reply.error(text);
  return Outcome::kDone;
}

Outcome time_command(CommandContext& context) {
  const int64_t now_us = wall_us();
  context.reply.array(2);
  context.reply.bulk(std::to_string(now_us / 1'000'000));
  context.reply.bulk(std::to_string(now_us % 1'000'000));
  return Outcome::kDone;
}

Outcome role(CommandContext& context) {
  context.reply.array(3);
  context.reply.bulk("master");
  context.reply.integer(0);
  context.reply.array(0);
  return Outcome::kDone;
}

Outcome save(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  if (const Status status = context.services.storage->checkpoint(); !status) {
    const bool busy = status.error().code == ErrorCode::kBusy;
    return refuse(context, busy ? "ERR Background save already in progress" : "ERR " + status.error().message);
  }
  context.reply.ok();
  return Outcome::kDone;
}

Outcome bgsave(CommandContext& context) {
  if (context.argc() > 2 || (context.argc() == 2 && !same_word(context.arg(1), "schedule"))) {
    return refuse(context, kSyntaxError);
  }
  if (!context.services.storage->request_checkpoint()) return refuse(context, "ERR Background save already in progress");
  context.reply.simple("Background saving started");
  return Outcome::kDone;
}

Outcome lastsave(CommandContext& context) {
  const int64_t checkpoint_s = context.services.storage->stats().last_checkpoint_wall_s;
  context.reply.integer(checkpoint_s > 0 ? checkpoint_s : context.services.server->stats().start_wall_ms / 1000);
  return Outcome::kDone;
}

// Without a journal only a checkpoint keeps the data, so then it is taken unless NOSAVE was said. NOW and FORCE: there are no
// replicas to wait for; FORCE goes on after a failed checkpoint.
Outcome shutdown(CommandContext& context) {
  bool nosave = false, save = false, force = false, now = false, abort = false;
  for (size_t i = 1; i < context.argc(); i++) {
    const std::string_view word = context.arg(i);
    bool* flag = same_word(word, "nosave")  ? &nosave
                 : same_word(word, "save")  ? &save
                 : same_word(word, "now")   ? &now
                 : same_word(word, "force") ? &force
                 : same_word(word, "abort") ? &abort
                                            : nullptr;
    if (!flag) return refuse(context, kSyntaxError);
    *flag = true;
  }
  if ((save && nosave) || (abort && (save || nosave || now || force))) return refuse(context, kSyntaxError);
  if (abort) return refuse(context, "ERR No shutdown in progress.");
  Storage& storage = *context.services.storage;
  if (save || (!nosave && !storage.journal().enabled())) {
    if (!context.on_worker) return Outcome::kNeedsWorker;
    if (const Status status = storage.checkpoint(); !status) {
      log_warning("SHUTDOWN: the checkpoint failed: " + status.error().message);
      if (!force) return refuse(context, "ERR Errors trying to SHUTDOWN. Check logs.");
    }
  }
  context.session.close_after_reply = true;
  context.services.server->shutdown(false);
  return Outcome::kDone;
}

// A time-out in milliseconds; the error's text otherwise.
std::string parse_timeout(std::string_view text, int64_t& timeout_ms) {
  const auto value = integer_argument(text);
  if (!value) return "ERR timeout is not an integer or out of range";
  if (*value < 0) return "ERR timeout is negative";
  timeout_ms = *value;
  return {};
}

// Answers after the time-out (0: never, as long as the connection lives): what waits for replicas, of which there are none.
Outcome answer_at_timeout(CommandContext& context, int64_t timeout_ms, std::function<void(ReplyWriter&)> write) {
  std::shared_ptr<Completion> completion = context.suspend();
  constexpr int64_t kForever = 365LL * 24 * 3600 * 1000;
  const int64_t delay_ms = timeout_ms == 0 ? kForever : std::min(timeout_ms, kForever);
  // Both on the connection's thread: whichever comes first answers. The timer keeps the completion.
  const auto answered = std::make_shared<bool>(false);
  completion->on_interrupt([answered, write, weak = std::weak_ptr<Completion>(completion)](Interrupt why) {
    const auto waiting = weak.lock();
    if (why == Interrupt::kGone || !waiting || std::exchange(*answered, true)) return false;
    waiting->complete(why == Interrupt::kTimeout ? write : [](ReplyWriter& reply) { reply.error(kUnblocked); }, 0);
    return true;
  });
  completion->on_timeout(delay_ms, [answered, completion, write] {
    if (!std::exchange(*answered, true)) completion->complete(write, 0);
  });
  return Outcome::kSuspended;
}

Outcome wait(CommandContext& context) {
  const auto replicas = integer_argument(context.arg(1));
  if (!replicas) return refuse(context, kNotAnInteger);
  int64_t timeout_ms = 0;
  if (const std::string error = parse_timeout(context.arg(2), timeout_ms); !error.empty()) return refuse(context, error);
  if (*replicas <= 0 || !context.may_block()) return context.reply.integer(0), Outcome::kDone;
  return answer_at_timeout(context, timeout_ms, [](ReplyWriter& reply) { reply.integer(0); });
}

void reply_waitaof(ReplyWriter& reply, bool synced) {
  reply.array(2);
  reply.integer(synced ? 1 : 0);
  reply.integer(0);
}

// WAITAOF numlocal numreplicas timeout: has the journal, up to everything written so far, been synced?
Outcome waitaof(CommandContext& context) {
  const auto local = integer_argument(context.arg(1));
  if (!local) return refuse(context, kNotAnInteger);
  if (*local < 0 || *local > 1) return refuse(context, "ERR value is out of range, value must between 0 and 1");
  const auto replicas = integer_argument(context.arg(2));
  if (!replicas || *replicas < 0) return refuse(context, "ERR value is out of range, must be positive");
  int64_t timeout_ms = 0;
  if (const std::string error = parse_timeout(context.arg(3), timeout_ms); !error.empty()) return refuse(context, error);
  Journal& journal = context.services.storage->journal();
  if (*local == 1 && !journal.enabled()) {
    return refuse(context, "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
  }
  const Lsn target = journal.appended_lsn();
  const auto synced = [&journal, target] { return journal.enabled() && journal.synced_lsn() >= target; };
  if (!context.may_block()) return reply_waitaof(context.reply, *local == 1 && synced()), Outcome::kDone;
  if (*replicas > 0) {
    if (*local == 1) journal.request_sync(target);
    return answer_at_timeout(context, timeout_ms, [synced](ReplyWriter& reply) { reply_waitaof(reply, synced()); });
  }
  if (*local == 0 || synced()) return reply_waitaof(context.reply, synced()), Outcome::kDone;
  if (timeout_ms == 0) {
    context.require_lsn(target);
    context.require_sync();  // the reply waits as long as it takes
    return reply_waitaof(context.reply, true), Outcome::kDone;
  }
  if (!context.on_worker) return Outcome::kNeedsWorker;
  journal.request_sync(target);
  const int64_t deadline_ms = monotonic_ms() + timeout_ms;
  while (!synced() && monotonic_ms() < deadline_ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    journal.request_sync(target);  // what was not written yet when it was asked first
  }
  reply_waitaof(context.reply, synced());
  return Outcome::kDone;
}

// Answers nothing to one who is a monitor already, as Redis.
Outcome monitor(CommandContext& context) {
  if (!context.may_block()) return refuse(context, "ERR MONITOR isn't allowed for DENY BLOCKING client");
  if (context.session.monitor) return Outcome::kDone;
  context.session.monitor = std::make_unique<MonitorMembership>(*context.services.monitors, context.make_subscriber());
  context.reply.ok();
  return Outcome::kDone;
}

constexpr CommandSpec kConfig[] = {
    {.name = "config|get", .handler = config_get},
    {.name = "config|help", .handler = config_help},
    {.name = "config|resetstat", .handler = config_resetstat},
    {.name = "config|rewrite", .handler = config_rewrite},
    {.name = "config|set", .handler = config_set},
};

constexpr CommandSpec kModule[] = {
    {.name = "module|help", .handler = module_help},
    {.name = "module|list", .handler = module_list},
    {.name = "module|load", .handler = module_refused},
    {.name = "module|loadex", .handler = module_refused},
    {.name = "module|unload", .handler = module_refused},
};

constexpr CommandSpec kServer[] = {
    {.name = "bgsave", .handler = bgsave, .status = "differs: a checkpoint in the background; there is no fork"},
    {.name = "config", .subcommands = kConfig, .status = "differs: the parameters of docs/configuration.md"},
    {.name = "debug", .handler = debug,
     .status = "differs: ERROR, HELP, PANIC, RELOAD (of the keyspace, from a checkpoint), SET-ACTIVE-EXPIRE, and SLEEP, which stops its "
               "own connection only"},
    {.name = "info", .handler = info, .status = "differs: a section pion; fields of what there is"},
    {.name = "lastsave", .handler = lastsave, .status = "differs: of the last checkpoint"},
    {.name = "lolwut", .handler = lolwut, .status = "differs: names the version and draws nothing"},
    {.name = "module", .subcommands = kModule, .status = "differs: there are no modules, and none can be loaded"},
    {.name = "monitor", .handler = monitor, .status = "differs: of a value that streams to disk its length; limits of subscribers hold"},
    {.name = "role", .handler = role},
    {.name = "save", .handler = save, .status = "differs: a checkpoint; other connections go on meanwhile"},
    {.name = "shutdown", .handler = shutdown, .status = "differs: saves only when told to, or when there is no journal"},
    {.name = "time", .handler = time_command},
    {.name = "wait", .handler = wait, .status = "differs: there are no replicas to wait for yet"},
    {.name = "waitaof", .handler = waitaof, .status = "differs: waits for all writes so far, not only this connection's"},
};

}  // namespace

std::span<const CommandSpec> server_commands() { return kServer; }

}  // namespace pion
