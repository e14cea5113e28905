// Parameters of Redis that tools read and set, and that steer nothing here: those with one value, which is the truth about this server
// (another one is refused), and those whose value is kept because what they tune is not here or needs no tuning.
#include "server/options_table.h"

namespace pion {
namespace {

using K = OptionKind;

constexpr std::string_view kFixedGroup = "Parameters of Redis with one value here";
constexpr std::string_view kKeptGroup = "Parameters of Redis that are kept and change nothing";

constexpr std::string_view kLoadChoices[] = {"disabled", "on-empty-db", "swapdb"};
constexpr std::string_view kOomChoices[] = {"no", "yes", "relative", "absolute"};
constexpr std::string_view kSuperviseChoices[] = {"no", "upstart", "systemd", "auto"};
constexpr std::string_view kWhoChoices[] = {"no", "yes", "local"};

constexpr OptionSpec fixed(std::string_view name, OptionKind kind, std::string_view value, std::string_view why,
                           std::span<const std::string_view> choices = {}) {
  return {.name = name, .group = kFixedGroup, .kind = kind, .doc = why, .min = 0, .max = INT64_MAX, .choices = choices,
          .changeable = Changeable::kAtRunTime, .origin = "differs: one value", .holding = Holding::kFixed, .initial = value};
}

// Not even that value can be set, as in Redis.
constexpr OptionSpec immutable(OptionSpec spec) {
  spec.changeable = Changeable::kAtStart;
  return spec;
}

// Not shown by a pattern, as in Redis.
constexpr OptionSpec hidden(OptionSpec spec) {
  spec.hidden = true;
  return spec;
}

constexpr OptionSpec also(std::string_view alias, OptionSpec spec) {
  spec.alias = alias;
  return spec;
}

constexpr OptionSpec kept(std::string_view name, OptionKind kind, std::string_view value, std::string_view why, int64_t max = INT32_MAX,
                          std::span<const std::string_view> choices = {}) {
  return {.name = name, .group = kKeptGroup, .kind = kind, .doc = why, .min = 0, .max = max, .choices = choices,
          .changeable = Changeable::kAtRunTime, .origin = "differs: changes nothing", .holding = Holding::kKept, .initial = value};
}

constexpr std::string_view kNoReplicas = "there are no replicas";
constexpr std::string_view kAlwaysLazy = "large values are always freed in the background";

constexpr OptionSpec kHeld[] = {
    immutable(fixed("daemonize", K::kYesNo, "no", "the server stays in the foreground; a supervisor puts it elsewhere")),
    immutable(fixed("supervised", K::kChoice, "no", "it tells no supervisor when it is ready", kSuperviseChoices)),
    immutable(fixed("pidfile", K::kText, "", "it writes no file with its process id; INFO tells it")),
    immutable(fixed("always-show-logo", K::kYesNo, "no", "there is none")),
    immutable(fixed("set-proc-title", K::kYesNo, "no", "the process keeps its name")),
    immutable(fixed("syslog-enabled", K::kYesNo, "no", "the log goes to logfile or standard error")),
    immutable(fixed("disable-thp", K::kYesNo, "no", "huge pages are asked for where they help, and nowhere else")),
    immutable(fixed("enable-module-command", K::kChoice, "no", "there are no modules", kWhoChoices)),
    immutable(fixed("enable-protected-configs", K::kChoice, "no", "dir is fixed at start", kWhoChoices)),
    immutable(fixed("appenddirname", K::kText, "journal", "where the journal lies in dir")),
    immutable(fixed("rdbchecksum", K::kYesNo, "yes", "checkpoints carry checksums")),
    immutable(fixed("cluster-enabled", K::kYesNo, "no", "one server stands alone")),
    also("slaveof", immutable(fixed("replicaof", K::kText, "", kNoReplicas))),
    fixed("rdbcompression", K::kYesNo, "no", "checkpoints are not compressed"),
    fixed("stop-writes-on-bgsave-error", K::kYesNo, "no", "a failed checkpoint loses nothing: the journal keeps it all"),
    fixed("aof-load-truncated", K::kYesNo, "yes", "a torn tail of the journal is cut off and put aside at the start"),
    fixed("no-appendfsync-on-rewrite", K::kYesNo, "no", "the journal is synced while a checkpoint is written, too"),
    fixed("activedefrag", K::kYesNo, "no", "memory is not defragmented while it is in use"),
    fixed("oom-score-adj", K::kChoice, "no", "whoever starts the server sets its score", kOomChoices),
    fixed("maxmemory-clients", K::kPercent, "0", "clients are limited one by one: client-output-buffer-limit, client-query-buffer-limit"),
    also("min-slaves-to-write", fixed("min-replicas-to-write", K::kInteger, "0", "there are no replicas: every write would be refused")),
    fixed("tls-port", K::kInteger, "0", "there is no TLS in this release"),
    hidden(fixed("key-load-delay", K::kInteger, "0", "recovery is never slowed down")),
    hidden(fixed("rdb-key-save-delay", K::kInteger, "0", "checkpoints are never slowed down")),

    kept("lazyfree-lazy-eviction", K::kYesNo, "yes", kAlwaysLazy),
    kept("lazyfree-lazy-expire", K::kYesNo, "yes", kAlwaysLazy),
    kept("lazyfree-lazy-server-del", K::kYesNo, "yes", kAlwaysLazy),
    kept("lazyfree-lazy-user-del", K::kYesNo, "yes", kAlwaysLazy),
    kept("lazyfree-lazy-user-flush", K::kYesNo, "yes", kAlwaysLazy),
    kept("activerehashing", K::kYesNo, "yes", "tables grow and shrink in steps, always"),
    kept("dynamic-hz", K::kYesNo, "yes", "upkeep comes back sooner by itself while there is work left"),
    kept("list-compress-depth", K::kInteger, "0", "lists are not compressed"),
    kept("repl-backlog-size", K::kBytes, "1048576", kNoReplicas, INT64_MAX),
    kept("repl-backlog-ttl", K::kInteger, "3600", kNoReplicas),
    kept("repl-timeout", K::kInteger, "60", kNoReplicas),
    also("repl-ping-slave-period", kept("repl-ping-replica-period", K::kInteger, "10", kNoReplicas)),
    kept("repl-diskless-sync", K::kYesNo, "yes", kNoReplicas),
    kept("repl-diskless-sync-delay", K::kInteger, "5", kNoReplicas),
    kept("repl-diskless-sync-max-replicas", K::kInteger, "0", kNoReplicas),
    kept("repl-diskless-load", K::kChoice, "disabled", kNoReplicas, INT32_MAX, kLoadChoices),
    kept("repl-disable-tcp-nodelay", K::kYesNo, "no", kNoReplicas),
    also("slave-priority", kept("replica-priority", K::kInteger, "100", kNoReplicas)),
    also("slave-read-only", kept("replica-read-only", K::kYesNo, "yes", kNoReplicas)),
    also("slave-serve-stale-data", kept("replica-serve-stale-data", K::kYesNo, "yes", kNoReplicas)),
    also("slave-ignore-maxmemory", kept("replica-ignore-maxmemory", K::kYesNo, "yes", kNoReplicas)),
    also("slave-lazy-flush", kept("replica-lazy-flush", K::kYesNo, "yes", kNoReplicas)),
    kept("replica-announced", K::kYesNo, "yes", kNoReplicas),
    also("min-slaves-max-lag", kept("min-replicas-max-lag", K::kInteger, "10", kNoReplicas)),
    kept("masteruser", K::kText, "", kNoReplicas),
    kept("masterauth", K::kText, "", kNoReplicas),
};

}  // namespace

std::span<const OptionSpec> held_options() { return kHeld; }

}  // namespace pion
