#include "server/options_table.h"

#include <algorithm>

#include "command/arguments.h"

namespace pion {
namespace {

using S = Settings;

constexpr std::string_view kNetwork = "Network";
constexpr std::string_view kSecurity = "Security";
constexpr std::string_view kData = "Data and durability";
constexpr std::string_view kMemory = "Memory";
constexpr std::string_view kObserving = "Observing";
constexpr std::string_view kEvents = "Events";
constexpr std::string_view kLogging = "Logging";
constexpr std::string_view kOriginal = "Accepted for users of the original";
constexpr std::string_view kGeneral = "General";

constexpr std::string_view kSyncChoices[] = {"everysec", "always", "no"};
constexpr std::string_view kPolicyChoices[] = {"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
                                               "allkeys-lru",  "allkeys-lfu",  "allkeys-random",  "noeviction"};
constexpr std::string_view kLevelChoices[] = {"debug", "verbose", "notice", "warning"};
constexpr std::string_view kProfileChoices[] = {"kv", "vector", "ai", "full"};
constexpr std::string_view kDebugChoices[] = {"no", "local", "yes"};

constexpr int64_t kMost = INT64_MAX;
constexpr auto kAtRunTime = Changeable::kAtRunTime;

constexpr OptionSpec kOptions[] = {
    // General.
    {.name = "help", .letter = 'h', .group = kGeneral, .kind = OptionKind::kAction, .doc = "this text"},
    {.name = "version", .letter = 'v', .group = kGeneral, .kind = OptionKind::kAction, .doc = "version and the Redis it speaks as"},
    {.name = "config", .group = kGeneral, .kind = OptionKind::kAction,
     .doc = "configuration file, in redis.conf's syntax; also as the first argument without a flag", .value = "PATH"},
    {.name = "dump-docs", .group = kGeneral, .kind = OptionKind::kAction,
     .doc = "print docs/commands.md or the table in docs/configuration.md: commands, configuration", .value = "PAGE"},
    {.name = "workers", .letter = 'w', .group = kGeneral, .kind = OptionKind::kInteger, .target = &S::workers,
     .doc = "threads that serve connections, all over one keyspace", .value = "N", .min = 0, .max = 1024,
     .default_text = "all cores", .origin = "Pion's own"},

    // Network.
    {.name = "port", .letter = 'p', .group = kNetwork, .kind = OptionKind::kInteger, .target = &S::port,
     .doc = "TCP port; 0 for none", .value = "N", .min = 0, .max = 65535, .changeable = kAtRunTime, .origin = "differs: the default is 1974"},
    {.name = "bind", .group = kNetwork, .kind = OptionKind::kWords, .target = &S::bind,
     .doc = "addresses to listen on, separated by blanks; a password does not open others by itself", .value = "ADDR",
     .changeable = kAtRunTime, .origin = "differs: the default is loopback"},
    {.name = "unixsocket", .group = kNetwork, .kind = OptionKind::kText, .target = &S::unixsocket,
     .doc = "path of the Unix socket, which carries the shared-memory lane; off for none", .value = "PATH",
     .default_text = "<dir>/pion.sock", .origin = "differs: there is one by default"},
    {.name = "unixsocketperm", .group = kNetwork, .kind = OptionKind::kOctal, .target = &S::unixsocketperm,
     .doc = "mode of the Unix socket, octal", .value = "MODE", .min = 0, .max = 0777, .origin = "differs: the default is 600"},
    {.name = "tcp-backlog", .group = kNetwork, .kind = OptionKind::kInteger, .target = &S::tcp_backlog,
     .doc = "connections that may wait to be accepted", .value = "N", .min = 1, .max = 65535},
    {.name = "tcp-keepalive", .group = kNetwork, .kind = OptionKind::kInteger, .target = &S::tcp_keepalive_s,
     .doc = "seconds of silence before TCP probes a connection; 0: never", .value = "SECONDS", .min = 0, .max = INT32_MAX,
     .changeable = kAtRunTime},
    {.name = "timeout", .group = kNetwork, .kind = OptionKind::kInteger, .target = &S::timeout_s,
     .doc = "close a connection idle for so many seconds; 0: never", .value = "SECONDS", .min = 0, .max = INT32_MAX,
     .changeable = kAtRunTime},
    {.name = "maxclients", .group = kNetwork, .kind = OptionKind::kInteger, .target = &S::maxclients,
     .doc = "connections at a time", .value = "N", .min = 1, .max = 1'000'000, .changeable = kAtRunTime},
    {.name = "proto-max-bulk-len", .group = kNetwork, .kind = OptionKind::kBytes, .target = &S::proto_max_bulk_bytes,
     .doc = "longest single argument", .value = "BYTES", .min = kMiB, .max = kMaxBulkBytes, .changeable = kAtRunTime,
     .origin = "differs: at most 512 MiB"},
    {.name = "client-query-buffer-limit", .group = kNetwork, .kind = OptionKind::kBytes, .target = &S::client_query_buffer_bytes,
     .doc = "memory that the arguments of one command may take (large values stream to disk and do not count)",
     .value = "BYTES", .min = kMiB, .max = kMost, .changeable = kAtRunTime},
    {.name = "client-output-buffer-limit", .group = kNetwork, .kind = OptionKind::kLimits, .target = &S::output_limits,
     .doc = "close a client that is owed more: at once above the hard limit, above the soft one after so many seconds; 0: no limit. "
            "Beside it, a client that is owed 4 MiB is not read from",
     .value = "LIMITS", .changeable = kAtRunTime},

    // Security.
    {.name = "requirepass", .group = kSecurity, .kind = OptionKind::kText, .target = &S::requirepass,
     .doc = "password of the user default; the environment variable PION_REQUIREPASS sets it too", .value = "PASSWORD",
     .changeable = kAtRunTime},
    {.name = "requirepass-file", .group = kSecurity, .kind = OptionKind::kAction,
     .doc = "file whose first line is the password", .value = "PATH"},
    {.name = "enable-debug-command", .group = kSecurity, .kind = OptionKind::kChoice, .target = &S::enable_debug_command,
     .doc = "who may use DEBUG: nobody, connections from this machine, everybody", .value = "WHO", .choices = kDebugChoices,
     .origin = "differs: the default is local"},

    // Data and durability.
    {.name = "dir", .group = kData, .kind = OptionKind::kText, .target = &S::dir,
     .doc = "data directory, made with mode 0700 if it is not there; one server a directory", .value = "PATH",
     .origin = "differs: not changeable at run time"},
    {.name = "appendonly", .group = kData, .kind = OptionKind::kYesNo, .target = &S::appendonly,
     .doc = "keep a journal; without it only checkpoints survive, and a clean stop takes one", .value = "yes|no",
     .origin = "differs: the default is yes, and it is fixed at start"},
    {.name = "appendfsync", .group = kData, .kind = OptionKind::kChoice, .target = &S::appendfsync,
     .doc = "when the journal is synced: each second, before each reply, or when the system likes. In every mode it is "
            "written before the reply, so that a killed server loses nothing",
     .value = "MODE", .choices = kSyncChoices, .changeable = kAtRunTime,
     .origin = "differs: replies never run ahead of the write"},
    {.name = "save", .group = kData, .kind = OptionKind::kSavePoints, .target = &S::save,
     .doc = "take a checkpoint when so many seconds passed and so many changes were made since the last one; empty: when the journal has "
            "grown, which is enough",
     .value = "'SECONDS CHANGES ...'", .changeable = kAtRunTime, .origin = "differs: empty by default; nothing depends on it but the time of a restart"},
    {.name = "databases", .group = kData, .kind = OptionKind::kInteger, .target = &S::databases,
     .doc = "databases that SELECT may choose", .value = "N", .min = kDatabases, .max = kDatabases,
     .origin = "differs: 16, fixed"},

    // Memory.
    {.name = "maxmemory", .group = kMemory, .kind = OptionKind::kPercent, .target = &S::maxmemory_bytes,
     .doc = "ceiling of the keyspace's memory: 100mb, 2g, or 50% of the machine's; 0: none", .value = "SIZE", .min = 0,
     .max = kMost, .changeable = kAtRunTime},
    {.name = "maxmemory-policy", .group = kMemory, .kind = OptionKind::kChoice, .target = &S::maxmemory_policy,
     .doc = "which keys go when the ceiling is reached", .value = "POLICY", .choices = kPolicyChoices,
     .changeable = kAtRunTime},
    {.name = "maxmemory-samples", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::maxmemory_samples,
     .doc = "keys looked at to choose one to evict", .value = "N", .min = 1, .max = 64, .changeable = kAtRunTime},
    {.name = "lfu-log-factor", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::lfu_log_factor,
     .doc = "how slowly the access counter of the LFU policies grows", .value = "N", .min = 0, .max = INT32_MAX,
     .changeable = kAtRunTime},
    {.name = "lfu-decay-time", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::lfu_decay_minutes,
     .doc = "minutes after which that counter loses one; 0: never", .value = "MINUTES", .min = 0, .max = INT32_MAX,
     .changeable = kAtRunTime},
    {.name = "active-expire", .group = kMemory, .kind = OptionKind::kYesNo, .target = &S::active_expire,
     .doc = "remove expired keys in the background, not only when they are asked for", .value = "yes|no",
     .changeable = kAtRunTime, .origin = "Pion's own (Redis: DEBUG SET-ACTIVE-EXPIRE)"},
    {.name = "active-expire-effort", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::active_expire_effort,
     .doc = "how much of its time the upkeep thread may spend on removing expired keys: that many ms, then a pause of 1 ms", .value = "N",
     .min = 1, .max = 10, .changeable = kAtRunTime, .origin = "as Redis; other times"},
    {.name = "maxmemory-eviction-tenacity", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::maxmemory_eviction_tenacity,
     .doc = "how long one command may evict before it goes on: up to 10, 50 us for each; above it 15 % more for each; 100: as long as it takes. "
            "The upkeep thread does the rest",
     .value = "N", .min = 0, .max = 100, .changeable = kAtRunTime},
    {.name = "hz", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::hz,
     .doc = "times a second that the upkeep thread looks for something to expire, evict or free; more often by itself while there is", .value = "N",
     .min = 1, .max = 500, .changeable = kAtRunTime, .origin = "as Redis; clients need no such looks", .clamps = true},
    {.name = "hash-max-listpack-entries", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::hash_max_listpack_entries,
     .doc = "fields above which a hash is called hashtable", .value = "N", .min = 0, .max = kMost, .changeable = kAtRunTime,
     .alias = "hash-max-ziplist-entries"},
    {.name = "hash-max-listpack-value", .group = kMemory, .kind = OptionKind::kBytes, .target = &S::hash_max_listpack_value,
     .doc = "longest field or value of a hash that is not called hashtable", .value = "BYTES", .min = 0, .max = kMost,
     .changeable = kAtRunTime, .alias = "hash-max-ziplist-value"},
    {.name = "list-max-listpack-size", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::list_max_listpack_size,
     .doc = "up to where a list is called listpack, and its chunks above it: elements, or -1 to -5 for 4 to 64 KiB", .value = "N",
     .min = INT32_MIN, .max = INT32_MAX, .changeable = kAtRunTime, .alias = "list-max-ziplist-size"},
    {.name = "set-max-intset-entries", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::set_max_intset_entries,
     .doc = "members above which a set of integers is no more called intset", .value = "N", .min = 0, .max = kMost, .changeable = kAtRunTime},
    {.name = "set-max-listpack-entries", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::set_max_listpack_entries,
     .doc = "members above which a set is called hashtable", .value = "N", .min = 0, .max = kMost, .changeable = kAtRunTime},
    {.name = "set-max-listpack-value", .group = kMemory, .kind = OptionKind::kBytes, .target = &S::set_max_listpack_value,
     .doc = "longest member of a set that is not called hashtable", .value = "BYTES", .min = 0, .max = kMost, .changeable = kAtRunTime},
    {.name = "hll-sparse-max-bytes", .group = kMemory, .kind = OptionKind::kBytes, .target = &S::hll_sparse_max_bytes,
     .doc = "longest HyperLogLog that is kept sparse, header included; a longer one becomes dense (12,304 bytes)", .value = "BYTES",
     .min = 0, .max = kMost, .changeable = kAtRunTime},
    {.name = "zset-max-listpack-entries", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::zset_max_listpack_entries,
     .doc = "members above which a sorted set is called skiplist", .value = "N", .min = 0, .max = kMost, .changeable = kAtRunTime,
     .alias = "zset-max-ziplist-entries"},
    {.name = "zset-max-listpack-value", .group = kMemory, .kind = OptionKind::kBytes, .target = &S::zset_max_listpack_value,
     .doc = "longest member of a sorted set that is not called skiplist", .value = "BYTES", .min = 0, .max = kMost,
     .changeable = kAtRunTime, .alias = "zset-max-ziplist-value"},
    {.name = "stream-node-max-bytes", .group = kMemory, .kind = OptionKind::kBytes, .target = &S::stream_node_max_bytes,
     .doc = "bytes at which a stream begins a new block of entries; 0: no such limit", .value = "BYTES", .min = 0, .max = kMost,
     .changeable = kAtRunTime},
    {.name = "stream-node-max-entries", .group = kMemory, .kind = OptionKind::kInteger, .target = &S::stream_node_max_entries,
     .doc = "entries at which a stream begins a new block; 0: no such limit", .value = "N", .min = 0, .max = kMost,
     .changeable = kAtRunTime},
    {.name = "prompt-budget", .group = kMemory, .kind = OptionKind::kBytes, .target = &S::prompt_budget_bytes,
     .doc = "bytes on disk that prompt memory may take; above it the least useful prompts go", .value = "BYTES", .min = 0,
     .max = kMost, .changeable = kAtRunTime, .default_text = "chosen from the free space of the data directory's disk",
     .origin = "Pion's own"},

    // Observing.
    {.name = "slowlog-log-slower-than", .group = kObserving, .kind = OptionKind::kInteger, .target = &S::slowlog_slower_than_us,
     .doc = "microseconds from which on a command is kept in the slow log; 0: every command, -1: none", .value = "USEC", .min = -1,
     .max = kMost, .changeable = kAtRunTime},
    {.name = "slowlog-max-len", .group = kObserving, .kind = OptionKind::kInteger, .target = &S::slowlog_max_len,
     .doc = "commands that the slow log keeps, in 64 MiB at most", .value = "N", .min = 0, .max = kMost, .changeable = kAtRunTime},
    {.name = "latency-monitor-threshold", .group = kObserving, .kind = OptionKind::kInteger, .target = &S::latency_monitor_threshold_ms,
     .doc = "milliseconds from which on LATENCY keeps an event; 0: none", .value = "MS", .min = 0, .max = kMost,
     .changeable = kAtRunTime},
    {.name = "latency-tracking", .group = kObserving, .kind = OptionKind::kYesNo, .target = &S::latency_tracking,
     .doc = "keep a histogram of the durations of each command", .value = "yes|no", .changeable = kAtRunTime},
    {.name = "latency-tracking-info-percentiles", .group = kObserving, .kind = OptionKind::kPercentiles, .target = &S::latency_percentiles,
     .doc = "percentiles that INFO latencystats prints", .value = "P ...", .changeable = kAtRunTime},
    // Events.
    {.name = "notify-keyspace-events", .group = kEvents, .kind = OptionKind::kEvents, .target = &S::notify_classes,
     .doc = "what keyspace notifications tell, by letters (docs/notifications.md); empty: nothing", .value = "LETTERS",
     .changeable = kAtRunTime},

    // Logging.
    {.name = "loglevel", .group = kLogging, .kind = OptionKind::kChoice, .target = &S::loglevel,
     .doc = "least weighty lines that are logged", .value = "LEVEL", .choices = kLevelChoices, .changeable = kAtRunTime,
     .origin = "differs: no level nothing"},
    {.name = "logfile", .group = kLogging, .kind = OptionKind::kText, .target = &S::logfile,
     .doc = "file of the log; empty: standard error", .value = "PATH"},

    // Of the original: accepted.
    {.name = "profile", .group = kOriginal, .kind = OptionKind::kChoice, .target = &S::profile,
     .doc = "kv, vector, ai or full. Every part of this release is always on and starts empty, so a profile changes nothing yet",
     .value = "PROFILE", .choices = kProfileChoices, .origin = "Pion's own"},
    {.name = "kvcache", .group = kOriginal, .kind = OptionKind::kNotice, .doc = "prompt memory is always on"},
    {.name = "metal-attention", .group = kOriginal, .kind = OptionKind::kNotice, .doc = "no Metal in this build"},
    {.name = "metal-attention-fp16", .group = kOriginal, .kind = OptionKind::kNotice, .doc = "no Metal in this build"},
    {.name = "cuda-attention", .group = kOriginal, .kind = OptionKind::kNotice, .doc = "no CUDA in this build"},
};

#define PION_REFUSED(flag, why) \
  OptionSpec { .name = flag, .kind = OptionKind::kRefused, .doc = why }

// Of the original, and not here: named, so that nobody believes that one took effect.
constexpr std::string_view kLater = "is not in this release";
constexpr OptionSpec kRefused[] = {
    PION_REFUSED("independent-workers", "is not needed: -w N threads serve one keyspace"),
    PION_REFUSED("io-threads", "is not in this release: -w N threads serve one keyspace"),
    PION_REFUSED("tenant", kLater),
    PION_REFUSED("ns-prefix", kLater),
    PION_REFUSED("lua-time-limit", "is not in this release: it has no scripts"),
    PION_REFUSED("lua-memory-limit", "is not in this release: it has no scripts"),
    PION_REFUSED("no-wal", "is not in this release: use --appendonly no"),
    PION_REFUSED("wal-size", "is not in this release: the journal sizes itself"),
    PION_REFUSED("wal-max-segments", "is not in this release: checkpoints cut the journal"),
    PION_REFUSED("wal-full-policy", "is not in this release: a full disk refuses writes until there is room again"),
    PION_REFUSED("blob-threshold", "is not in this release: values of 64 KiB and more lie in files"),
    PION_REFUSED("no-blob-tier", "is not in this release: values of 64 KiB and more lie in files"),
    PION_REFUSED("huge-pages", kLater),
    PION_REFUSED("no-huge-pages", kLater),
    PION_REFUSED("affinity", kLater),
    PION_REFUSED("no-affinity", kLater),
    PION_REFUSED("crash-log", kLater),
    PION_REFUSED("status-file", kLater),
    PION_REFUSED("no-crash-log", kLater),
    PION_REFUSED("rss-warn-pct", kLater),
    PION_REFUSED("epoll", "is not in this release: epoll is the only event loop"),
    PION_REFUSED("iouring", "is not in this release: epoll is the only event loop"),
    PION_REFUSED("sqpoll", "is not in this release: epoll is the only event loop"),
    PION_REFUSED("xdp", "is not in this release: epoll is the only event loop"),
    PION_REFUSED("xdp-iface", "is not in this release: epoll is the only event loop"),
    PION_REFUSED("fa-window", kLater),
    PION_REFUSED("moe-cache", kLater),
    PION_REFUSED("moe-cache-mib", kLater),
    PION_REFUSED("dim", "is not in this release: it has no vector index"),
    PION_REFUSED("max-elements", "is not in this release: it has no vector index"),
    PION_REFUSED("polarquant", "is not in this release: it has no vector index"),
    PION_REFUSED("turboquant", "is not in this release: it has no vector index"),
    PION_REFUSED("nanoquant", "is not in this release: it has no vector index"),
    PION_REFUSED("gpu", kLater),
    PION_REFUSED("ai-gateway", kLater),
    PION_REFUSED("max-engine", kLater),
    PION_REFUSED("flare", kLater),
    PION_REFUSED("emb-enabled", "is not in this release: it embeds no text"),
    PION_REFUSED("emb-model", "is not in this release: it embeds no text"),
    PION_REFUSED("emb-host", "is not in this release: it embeds no text"),
    PION_REFUSED("emb-port", "is not in this release: it embeds no text"),
    PION_REFUSED("emb-dim", "is not in this release: it embeds no text"),
    PION_REFUSED("emb-query-prefix", "is not in this release: it embeds no text"),
    PION_REFUSED("emb-doc-prefix", "is not in this release: it embeds no text"),
    PION_REFUSED("llm-enabled", "is not in this release: it calls no model"),
    PION_REFUSED("llm-port", "is not in this release: it calls no model"),
    PION_REFUSED("llm-model", "is not in this release: it calls no model"),
    PION_REFUSED("inference", "is not in this release: it calls no model"),
    PION_REFUSED("inference-socket", "is not in this release: it calls no model"),
    PION_REFUSED("inference-emb-model", "is not in this release: it calls no model"),
    PION_REFUSED("inference-llm-model", "is not in this release: it calls no model"),
    PION_REFUSED("auto-embed", "is not in this release: it embeds no text"),
    PION_REFUSED("no-auto-embed", "is not in this release: it embeds no text"),
    PION_REFUSED("no-auto-detect", "is not in this release: nothing is probed at start"),
    PION_REFUSED("nle-embed", "is not in this release: it embeds no text"),
    PION_REFUSED("cluster", "is not in this release: one server stands alone"),
    PION_REFUSED("cluster-host", "is not in this release: one server stands alone"),
    PION_REFUSED("cluster-nodes", "is not in this release: one server stands alone"),
    PION_REFUSED("cluster-replica", "is not in this release: one server stands alone"),
    PION_REFUSED("cluster-primary-host", "is not in this release: one server stands alone"),
    PION_REFUSED("cluster-primary-port", "is not in this release: one server stands alone"),
    PION_REFUSED("gossip-ping-ms", "is not in this release: one server stands alone"),
};
#undef PION_REFUSED

}  // namespace

std::span<const OptionSpec> option_table() {
  static const std::vector<OptionSpec> all = [] {
    std::vector<OptionSpec> specs(std::begin(kOptions), std::end(kOptions));
    // The flags of the original end the list.
    const auto end = std::find_if(specs.begin(), specs.end(), [](const OptionSpec& spec) { return spec.group == kOriginal; });
    specs.insert(end, held_options().begin(), held_options().end());
    return specs;
  }();
  return all;
}
std::span<const OptionSpec> refused_options() { return kRefused; }

const OptionSpec* find_option(std::string_view name) {
  for (const std::span<const OptionSpec> table : {option_table(), refused_options()}) {
    for (const OptionSpec& spec : table) {
      if (same_word(spec.name, name) || (!spec.alias.empty() && same_word(spec.alias, name))) return &spec;
    }
  }
  return nullptr;
}

const OptionSpec* find_option_letter(char letter) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.letter != 0 && spec.letter == letter) return &spec;
  }
  return nullptr;
}

namespace {

// Letters inserted, removed, changed or swapped with their neighbour.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) {
    for (size_t j = 0; j <= b.size(); j++) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + !same});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest_option(std::string_view name) {
  constexpr size_t kLongest = 64;  // nobody mistypes more; keeps the table of costs small
  if (name.size() > kLongest) return {};
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c == '_' ? '-' : c;
  const OptionSpec* best = nullptr;
  size_t best_distance = std::max<size_t>(2, lower.size() / 3) + 1;
  for (const std::span<const OptionSpec> table : {option_table(), refused_options()}) {
    for (const OptionSpec& spec : table) {
      const size_t distance = edit_distance(lower, spec.name);
      if (distance < best_distance) best = &spec, best_distance = distance;
    }
  }
  return best ? std::string(best->name) : std::string();
}

}  // namespace pion
