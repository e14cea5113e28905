// DEBUG: for tests. enable-debug-command says who may use it.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"
#include "command/arguments.h"
#include "command/family_server.h"
#include "command/server_control.h"
#include "keyspace/keyspace.h"
#include "storage/checkpoint_reader.h"
#include "storage/storage.h"

namespace pion {
namespace {

// Stops this connection only: a timer answers it, so no thread waits.
Outcome debug_sleep(CommandContext& context) {
  const double seconds = std::strtod(std::string(context.arg(2)).c_str(), nullptr);
  constexpr double kLongest_s = 24 * 3600;
  if (!(seconds > 0)) return context.reply.ok(), Outcome::kDone;
  const auto delay_ms = static_cast<int64_t>(std::ceil(std::min(seconds, kLongest_s) * 1000));
  std::shared_ptr<Completion> completion = context.suspend();
  completion->on_timeout(delay_ms, [completion] { completion->complete([](ReplyWriter& reply) { reply.ok(); }, 0); });
  return Outcome::kSuspended;
}

// Sections of one stripe stand together; a stripe is made anew when its last one was read.
class StripeReloader {
 public:
  explicit StripeReloader(Keyspace& keyspace) : keyspace_(keyspace) {}

  Status section(uint32_t number, Lsn lsn, std::string_view body) {
    if (number != number_) PION_TRY(finish());
    number_ = number;
    lsn_ = lsn;
    bodies_.emplace_back(body);
    return {};
  }
  Status finish() {
    if (bodies_.empty()) return {};
    const Result<bool> reloaded = keyspace_.reload_stripe(number_, lsn_, bodies_);
    bodies_.clear();
    if (!reloaded) return std::unexpected(reloaded.error());
    changed_ += *reloaded ? 0 : 1;
    return {};
  }
  unsigned changed() const { return changed_; }

 private:
  Keyspace& keyspace_;
  uint32_t number_ = 0;
  Lsn lsn_ = 0;
  std::vector<std::string> bodies_;
  unsigned changed_ = 0;  // stripes that were written to meanwhile, and keep what they have
};

// A checkpoint, then every key of the keyspace made anew from the file, while other connections go on.
Status reload(CommandContext& context) {
  Storage& storage = *context.services.storage;
  Keyspace& keyspace = *context.services.keyspace;
  PION_TRY(storage.checkpoint());
  StripeReloader stripes(keyspace);
  PION_TRY(read_newest_checkpoint(real_filesystem(), storage.dir(), storage.seed(), keyspace.name(),
                                  [&](uint32_t number, Lsn lsn, std::string_view body) { return stripes.section(number, lsn, body); }));
  PION_TRY(stripes.finish());
  log_notice("DEBUG RELOAD: the keyspace was read again from its checkpoint; stripes kept because they changed meanwhile: " +
             std::to_string(stripes.changed()));
  return {};
}

Outcome debug_reload(CommandContext& context) {
  if (!context.on_worker) return Outcome::kNeedsWorker;
  if (const Status status = reload(context); !status) {
    context.reply.error("ERR Error trying to load the checkpoint: " + status.error().message);
  } else {
    context.reply.ok();
  }
  return Outcome::kDone;
}

bool allowed(const CommandContext& context) {
  const Session& session = context.session;
  const std::vector<ConfigValue> option = context.services.server->config_get("enable-debug-command");
  if (option.size() != 1 || option[0].value == "no") return false;
  if (option[0].value == "yes") return true;
  const std::string& peer = session.peer_address;
  return session.unix_socket || peer.starts_with("127.") || peer.starts_with("[::1]") || peer.starts_with("::1:");
}

Outcome debug_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "ERROR <string>",
      "    Return a Redis protocol error with <string> as message. Useful for clients",
      "    unit tests to simulate Redis errors.",
      "PANIC",
      "    Crash the server simulating a panic.",
      "RELOAD",
      "    Write a checkpoint and make every key anew from it.",
      "SET-ACTIVE-EXPIRE <0|1>",
      "    Setting it to 0 disables expiring keys (and hash-fields) in background ",
      "    when they are not accessed (otherwise the Redis behavior). Setting it",
      "    to 1 reenables back the default.",
      "SLEEP <seconds>",
      "    Stop this connection for <seconds>. Decimals allowed. Others go on.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(context, kLines);
}

}  // namespace

Outcome debug(CommandContext& context) {
  if (!allowed(context)) {
    context.reply.error(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local "
        "connection, otherwise you need to set this option in the configuration file, and then restart the server.");
    return Outcome::kDone;
  }
  const std::string_view name = context.arg(1);
  const auto is = [&](std::string_view word, size_t count) { return same_word(name, word) && context.argc() == count; };
  if (is("help", 2)) return debug_help(context);
  if (is("reload", 2)) return debug_reload(context);
  if (is("sleep", 3)) return debug_sleep(context);
  if (is("set-active-expire", 3)) {
    const bool on = std::atoi(std::string(context.arg(2)).c_str()) != 0;
    const Status status = context.services.server->config_set({{"active-expire", on ? "yes" : "no"}});
    if (!status) return context.reply.error("ERR " + status.error().message), Outcome::kDone;
    return context.reply.ok(), Outcome::kDone;
  }
  if (is("error", 3)) return context.reply.error(context.arg(2)), Outcome::kDone;
  if (is("panic", 2)) {
    log_warning("DEBUG PANIC: the process ends at once, as asked");
    std::abort();
  }
  return bad_subcommand(context, "DEBUG");
}

}  // namespace pion
