// INFO: sections of "name:value" lines, with the names that Redis' clients and tools read, and a section of our own.
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "command/arguments.h"
#include "command/command_statistics.h"
#include "command/family_server.h"
#include "command/info_lines.h"
#include "command/server_control.h"
#include "command/version.h"
#include "keyspace/keyspace.h"
#include "prompt/store.h"
#include "storage/storage.h"

namespace pion {
namespace {

uint64_t resident_memory_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0, resident_pages = 0, of_files = 0;
  statm >> total_pages >> resident_pages >> of_files;
  // Payload is looked at where the page cache has it; those pages are the system's to take.
  return (resident_pages - of_files) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void server_section(CommandContext& context, InfoLines& lines) {
  const ServerStats stats = context.services.server->stats();
  utsname host{};
  uname(&host);
  const int64_t uptime_s = (wall_ms() - stats.start_wall_ms) / 1000;
  lines.section("Server")
      .add("redis_version", kRedisVersion)
      .add("pion_version", kPionVersion)
      .add("redis_mode", "standalone")
      .add("os", std::string(host.sysname) + " " + host.release + " " + host.machine)
      .add("arch_bits", sizeof(void*) * 8)
      .add("multiplexing_api", "epoll")
      .add("gcc_version", std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." + std::to_string(__GNUC_PATCHLEVEL__))
      .add("process_id", getpid())
      .add("run_id", stats.run_id)
      .add("tcp_port", stats.tcp_port)
      .add("unixsocket", stats.unix_socket)
      .add("server_time_usec", wall_us())
      .add("uptime_in_seconds", uptime_s)
      .add("uptime_in_days", uptime_s / 86400)
      .add("executable", stats.executable)
      .add("config_file", stats.config_file)
      .add("threads", stats.threads);
}

void clients_section(CommandContext& context, InfoLines& lines) {
  const ServerStats stats = context.services.server->stats();
  lines.section("Clients")
      .add("connected_clients", stats.connected_clients)
      .add("cluster_connections", 0)
      .add("maxclients", stats.max_clients)
      .add("blocked_clients", stats.blocked_clients);
}

void memory_section(CommandContext& context, InfoLines& lines) {
  const KeyspaceStats keyspace = context.services.keyspace->stats();
  const KeyspaceSettings& settings = context.services.keyspace->settings;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto machine_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t resident_bytes = resident_memory_bytes();
  const auto ratio = [](uint64_t a, uint64_t b) { return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0; };
  // As Redis counts: with what the server takes before there is any key. maxmemory is compared with the keys' memory alone.
  const uint64_t startup_bytes = context.services.server->stats().startup_memory_bytes;
  const uint64_t used_bytes = startup_bytes + keyspace.memory_bytes, peak_bytes = startup_bytes + keyspace.peak_bytes;
  char peak_share[32];
  std::snprintf(peak_share, sizeof peak_share, "%.2f%%", 100 * ratio(used_bytes, peak_bytes));
  lines.section("Memory")
      .size("used_memory", used_bytes)
      .size("used_memory_rss", resident_bytes)
      .add("used_memory_rss_peak", static_cast<uint64_t>(usage.ru_maxrss) * 1024)
      .size("used_memory_peak", peak_bytes)
      .add("used_memory_peak_perc", std::string_view(peak_share))
      .add("used_memory_startup", startup_bytes)
      .add("used_memory_dataset", keyspace.memory_bytes)
      .add("mem_not_counted_for_evict", startup_bytes)
      .add("used_memory_keyspace_resident", keyspace.resident_bytes)
      .size("total_system_memory", machine_bytes)
      .size("maxmemory", settings.maxmemory.load())
      .add("maxmemory_policy", eviction_policy_name(settings.policy.load()))
      .add("mem_fragmentation_ratio", ratio(resident_bytes, used_bytes))
      .add("mem_allocator", "glibc-" + std::string(gnu_get_libc_version()))
      .add("active_defrag_running", 0)
      .add("lazyfree_pending_objects", keyspace.lazyfree_waiting)
      .add("lazyfreed_objects", keyspace.lazyfreed);
}

const char* ok_or_err(bool ok) { return ok ? "ok" : "err"; }

void persistence_section(CommandContext& context, InfoLines& lines) {
  Storage& storage = *context.services.storage;
  const StorageStats stats = storage.stats();
  const int64_t saved_s = stats.last_checkpoint_wall_s > 0 ? stats.last_checkpoint_wall_s
                                                           : context.services.server->stats().start_wall_ms / 1000;
  lines.section("Persistence")
      .add("loading", 0)
      .add("async_loading", 0)
      .add("rdb_changes_since_last_save", stats.records_since_checkpoint)
      .add("rdb_bgsave_in_progress", stats.checkpoint_running ? 1 : 0)
      .add("rdb_last_save_time", saved_s)
      .add("rdb_last_bgsave_status", ok_or_err(stats.last_checkpoint_ok))
      .add("aof_enabled", storage.journal().enabled() ? 1 : 0)
      .add("aof_rewrite_in_progress", 0)
      .add("aof_rewrite_scheduled", 0)
      .add("aof_last_bgrewrite_status", "ok")
      .add("aof_last_write_status", ok_or_err(stats.accepting_writes));
}

uint64_t command_us() {
  uint64_t ns = 0;
  for (const CommandTotals& command : command_statistics().totals()) ns += command.ns;
  return ns / 1000;
}

void stats_section(CommandContext& context, InfoLines& lines) {
  const ServerStats stats = context.services.server->stats();
  const KeyspaceStats keyspace = context.services.keyspace->stats();
  const PubSub& pubsub = *context.services.pubsub;
  lines.section("Stats")
      .add("total_connections_received", stats.connections_received)
      .add("total_commands_processed", stats.commands_processed)
      .add("instantaneous_ops_per_sec", static_cast<uint64_t>(stats.commands_per_s + 0.5))
      .add("total_net_input_bytes", stats.net_input_bytes)
      .add("total_net_output_bytes", stats.net_output_bytes)
      .add("instantaneous_input_kbps", stats.input_kib_per_s)
      .add("instantaneous_output_kbps", stats.output_kib_per_s)
      .add("rejected_connections", stats.rejected_connections)
      .add("client_output_buffer_limit_disconnections", stats.output_limit_disconnections)
      .add("expired_keys", keyspace.expired)
      .add("evicted_keys", keyspace.evicted)
      .add("keyspace_hits", keyspace.hits)
      .add("keyspace_misses", keyspace.misses)
      .add("pubsub_channels", pubsub.count(SubscriptionKind::kChannel))
      .add("pubsub_patterns", pubsub.count(SubscriptionKind::kPattern))
      .add("pubsubshard_channels", pubsub.count(SubscriptionKind::kShard))
      .add("unexpected_error_replies", 0)
      .add("total_error_replies", command_statistics().error_replies())
      .add("eventloop_cycles", stats.ticks)
      .add("eventloop_duration_sum", stats.busy_us)
      .add("eventloop_duration_cmd_sum", command_us());
}

void replication_section(CommandContext&, InfoLines& lines) {
  lines.section("Replication").add("role", "master").add("connected_slaves", 0).add("master_repl_offset", 0);
}

double seconds(const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; }

void cpu_section(CommandContext&, InfoLines& lines) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  lines.section("CPU")
      .add("used_cpu_sys", seconds(usage.ru_stime), "%.6f")
      .add("used_cpu_user", seconds(usage.ru_utime), "%.6f")
      .add("used_cpu_sys_children", 0.0, "%.6f")
      .add("used_cpu_user_children", 0.0, "%.6f");
}

// Nothing is loaded into this server.
void modules_section(CommandContext&, InfoLines& lines) { lines.section("Modules"); }

void cluster_section(CommandContext&, InfoLines& lines) { lines.section("Cluster").add("cluster_enabled", 0); }

void keyspace_section(CommandContext& context, InfoLines& lines) {
  const KeyspaceStats stats = context.services.keyspace->stats();
  lines.section("Keyspace");
  for (size_t i = 0; i < stats.databases.size(); i++) {
    const DatabaseStats& database = stats.databases[i];
    if (database.keys == 0) continue;
    lines.add("db" + std::to_string(i), "keys=" + std::to_string(database.keys) + ",expires=" + std::to_string(database.volatile_keys) +
                                            ",avg_ttl=" + std::to_string(database.average_ttl_ms) + ",subexpiry=0");
  }
}

void journal_lines(CommandContext& context, InfoLines& lines) {
  Storage& storage = *context.services.storage;
  const Journal& journal = storage.journal();
  const StorageStats stats = storage.stats();
  const SyncMode mode = journal.mode();
  lines.add("data_dir", storage.dir())
      .add("journal_sync", mode == SyncMode::kAlways ? "always" : mode == SyncMode::kNo ? "no" : "everysec")
      .add("journal_bytes", stats.journal_bytes)
      .add("journal_appended_lsn", journal.appended_lsn())
      .add("journal_written_lsn", journal.written_lsn())
      .add("journal_synced_lsn", journal.synced_lsn())
      .add("journal_corrupt_records", stats.journal_corrupt_records)
      .add("journal_torn_bytes", stats.journal_torn_bytes)
      .add("journal_write_failures", stats.write_failures)
      .add("journal_sync_failures", stats.sync_failures)
      .add("writes_accepted", stats.accepting_writes ? 1 : 0)
      .add("writes_refused_full_disk", stats.writes_refused_full)
      .add("writes_refused_because", stats.refusal)
      .add("recovered_records", stats.recovered_records)
      .add("recovery_ms", stats.recovery_ms)
      .add("corrupt_values", context.services.keyspace->stats().corrupt_values)
      .add("payload_bytes_values", storage.extents().allocated_bytes(Space::kValues))
      .add("payload_bytes_prompt", storage.extents().allocated_bytes(Space::kPrompt))
      .add("longest_tick_us", context.services.server->stats().longest_tick_us)
      .add("longest_checkpoint_hold_us", context.services.keyspace->stats().longest_checkpoint_hold_us);
}

void pion_section(CommandContext& context, InfoLines& lines) {
  lines.section("Pion");
  journal_lines(context, lines);
  const PromptStats stats = context.services.prompt->stats();
  lines.add("prompt_budget_bytes", stats.budget_bytes)
      .add("prompt_bytes", stats.bytes)
      .add("prompt_models", stats.models)
      .add("prompt_segments", stats.segments)
      .add("prompt_tokens", stats.tokens)
      .add("prompt_leases", stats.leases)
      .add("prompt_claims", stats.claims)
      .add("prompt_waiting", stats.waiting)
      .add("prompt_hits", stats.hits)
      .add("prompt_misses", stats.misses)
      .add("prompt_tokens_served", stats.tokens_served)
      .add("prompt_bytes_served", stats.bytes_served)
      .add("prompt_seconds_avoided_measured", stats.seconds_avoided_measured, "%.3f")
      .add("prompt_seconds_avoided_estimated", stats.seconds_avoided_estimated, "%.3f")
      .add("prompt_puts", stats.puts)
      .add("prompt_bytes_stored", stats.bytes_stored)
      .add("prompt_corrupt_segments", stats.corrupt_segments)
      .add("prompt_evicted_segments", stats.evicted_segments);
}

struct Section {
  std::string_view name;
  void (*print)(CommandContext&, InfoLines&);
  bool by_default = true;  // else only when asked for, or for all
};

constexpr Section kSections[] = {
    {"server", server_section},
    {"clients", clients_section},
    {"memory", memory_section},
    {"persistence", persistence_section},
    {"stats", stats_section},
    {"replication", replication_section},
    {"cpu", cpu_section},
    {"modules", modules_section},
    {"commandstats", commandstats_section, false},
    {"errorstats", errorstats_section},
    {"latencystats", latencystats_section, false},
    {"cluster", cluster_section},
    {"keyspace", keyspace_section},
    {"pion", pion_section},
};

}  // namespace

Outcome info(CommandContext& context) {
  bool all = false, by_default = context.argc() == 1;
  for (size_t i = 1; i < context.argc(); i++) {
    all = all || same_word(context.arg(i), "all") || same_word(context.arg(i), "everything");
    by_default = by_default || same_word(context.arg(i), "default");
  }
  InfoLines lines;
  for (const Section& section : kSections) {
    bool wanted = all || (by_default && section.by_default);
    for (size_t i = 1; i < context.argc(); i++) wanted = wanted || same_word(context.arg(i), section.name);
    if (wanted) section.print(context, lines);
  }
  context.reply.verbatim(lines.text());
  return Outcome::kDone;
}

}  // namespace pion
