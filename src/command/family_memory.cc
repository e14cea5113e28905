// MEMORY: what the keyspace and the process take.
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/limits.h"
#include "command/arguments.h"
#include "command/families.h"
#include "command/server_control.h"
#include "keyspace/keyspace.h"
#include "keyspace/value_types.h"

namespace pion {
namespace {

// What the key takes here, its part of the table of keys included. There is nothing to sample: memory is counted as it is taken.
Outcome memory_usage(CommandContext& ctx) {
  for (size_t i = 3; i < ctx.argc(); ++i) {
    if (!same_word(ctx.arg(i), "SAMPLES") || i + 1 == ctx.argc()) return ctx.reply.error(kSyntaxError), Outcome::kDone;
    const auto samples = integer_argument(ctx.arg(++i));
    if (!samples || *samples < 0) return ctx.reply.error(samples ? kSyntaxError : kNotAnInteger), Outcome::kDone;
  }
  const Key key = ctx.services.keyspace->key(ctx.arg(2));
  KeyAccess access(*ctx.services.keyspace, key);
  const Found found = access.find(ctx.session.database, key, KeyAccess::Lookup::kPeek);
  found ? ctx.reply.integer(static_cast<int64_t>(key_memory_bytes(*found.entry))) : ctx.reply.nil();
  ctx.require_lsn(access.finish());
  return Outcome::kDone;
}

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double ratio(uint64_t a, uint64_t b) { return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0; }

uint64_t keys_of(const KeyspaceStats& stats) {
  uint64_t keys = 0;
  for (const DatabaseStats& database : stats.databases) keys += database.keys;
  return keys;
}

class StatsMap {
 public:
  void add(std::string_view name, uint64_t value) {
    pairs_++;
    writer_.bulk(name);
    writer_.integer(static_cast<int64_t>(value));
  }
  void add_real(std::string_view name, double value) {
    pairs_++;
    writer_.bulk(name);
    writer_.real(value);
  }
  explicit StatsMap(ReplyWriter& reply) : reply_(reply), writer_(body_, reply.protocol()) {}
  ~StatsMap() {
    reply_.map(pairs_);
    reply_.out().splice(std::move(body_));
  }

 private:
  ReplyWriter& reply_;
  OutputChain body_;
  ReplyWriter writer_;
  int64_t pairs_ = 0;
};

// Names and order as Redis, for what there is; its own names for what has no counterpart there.
Outcome memory_stats(CommandContext& ctx) {
  const KeyspaceStats stats = ctx.services.keyspace->stats();
  const struct mallinfo2 heap = mallinfo2();
  const uint64_t resident = resident_bytes(), keys = keys_of(stats);
  // What malloc gave out, and the pages that the keyspace takes from the system itself.
  const uint64_t allocated = heap.uordblks + heap.hblkhd + stats.resident_bytes;
  const uint64_t active = heap.arena + heap.hblkhd + stats.resident_bytes;
  const uint64_t startup = ctx.services.server->stats().startup_memory_bytes;
  const uint64_t used = startup + stats.memory_bytes, peak = startup + stats.peak_bytes;
  StatsMap map(ctx.reply);
  map.add("peak.allocated", peak);
  map.add("total.allocated", used);
  map.add("startup.allocated", startup);
  map.add("replication.backlog", 0);
  map.add("clients.slaves", 0);
  map.add("cluster.links", 0);
  map.add("lazyfree.pending", stats.lazyfree_waiting);
  map.add("keys.count", keys);
  map.add("keys.bytes-per-key", keys > 0 ? stats.memory_bytes / keys : 0);
  map.add("dataset.bytes", stats.memory_bytes);
  map.add_real("dataset.percentage", stats.memory_bytes > 0 ? 100 : 0);
  map.add_real("peak.percentage", 100 * ratio(used, peak));
  map.add("keyspace.resident", stats.resident_bytes);
  map.add("allocator.allocated", allocated);
  map.add("allocator.active", active);
  map.add("allocator.resident", resident);
  map.add_real("allocator-fragmentation.ratio", ratio(active, allocated));
  map.add("allocator-fragmentation.bytes", active > allocated ? active - allocated : 0);
  map.add_real("fragmentation", ratio(resident, used));
  map.add("fragmentation.bytes", resident > used ? resident - used : 0);
  return Outcome::kDone;
}

Outcome memory_doctor(CommandContext& ctx) {
  constexpr uint64_t kSmallBytes = 5 * kMiB;
  const KeyspaceStats stats = ctx.services.keyspace->stats();
  const uint64_t resident = resident_bytes();
  const uint64_t limit = ctx.services.keyspace->settings.maxmemory.load();
  std::string text;
  const auto say = [&](const std::string& line) { text.append("- ").append(line).push_back('\n'); };
  if (stats.memory_bytes < kSmallBytes) return ctx.reply.verbatim("The keyspace holds less than 5 MiB: too little to judge it.\n"), Outcome::kDone;
  if (stats.peak_bytes > stats.memory_bytes / 2 * 3) {
    say("It held " + std::to_string(stats.peak_bytes / kMiB) + " MiB once and holds " + std::to_string(stats.memory_bytes / kMiB) +
        " MiB now: pages that are not empty stay with the process. New keys use them.");
  }
  if (resident > stats.memory_bytes / 2 * 3 && resident - stats.memory_bytes > 64 * kMiB) {
    say("The process takes " + std::to_string(resident / kMiB) + " MiB for " + std::to_string(stats.memory_bytes / kMiB) +
        " MiB of keys: MEMORY PURGE gives back what malloc keeps; the rest is buffers of clients, or pages with few keys.");
  }
  if (limit > 0 && stats.memory_bytes > limit / 10 * 9) {
    say("Of maxmemory, " + std::to_string(stats.memory_bytes * 100 / limit) + " % is in use: keys are evicted or writes refused above it.");
  }
  if (stats.lazyfree_waiting > 1000) say(std::to_string(stats.lazyfree_waiting) + " removed values and keys wait to be freed.");
  if (stats.corrupt_values > 0) say(std::to_string(stats.corrupt_values) + " reads met a value whose checksum does not hold: look at the disk.");
  ctx.reply.verbatim(text.empty() ? "Nothing stands out.\n" : text);
  return Outcome::kDone;
}

// The allocator's own report: glibc prints XML.
Outcome memory_malloc_stats(CommandContext& ctx) {
  if (!ctx.on_worker) return Outcome::kNeedsWorker;  // it takes the locks of all arenas
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const stream = open_memstream(&text, &size);
  if (!stream) return ctx.reply.error("ERR no memory for the report"), Outcome::kDone;
  malloc_info(0, stream);
  std::fclose(stream);
  ctx.reply.verbatim({text, size});
  std::free(text);
  return Outcome::kDone;
}

Outcome memory_purge(CommandContext& ctx) {
  if (!ctx.on_worker) return Outcome::kNeedsWorker;
  malloc_trim(0);
  ctx.reply.ok();
  return Outcome::kDone;
}

Outcome memory_help(CommandContext& ctx) {
  static constexpr std::string_view kLines[] = {
      "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "DOCTOR",
      "    Return memory problems reports.",
      "MALLOC-STATS",
      "    Return internal statistics report from the memory allocator.",
      "PURGE",
      "    Attempt to purge dirty pages for reclamation by the allocator.",
      "STATS",
      "    Return information about the memory usage of the server.",
      "USAGE <key> [SAMPLES <count>]",
      "    Return memory in bytes used by <key> and its value. Nested values are",
      "    sampled up to <count> times (default: 5, 0 means sample all).",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(ctx, kLines);
}

constexpr CommandSpec kSubcommands[] = {
    {.name = "memory|doctor", .handler = memory_doctor, .status = "differs: its own words"},
    {.name = "memory|help", .handler = memory_help},
    {.name = "memory|malloc-stats", .handler = memory_malloc_stats, .status = "differs: glibc's report"},
    {.name = "memory|purge", .handler = memory_purge},
    {.name = "memory|stats", .handler = memory_stats, .status = "differs: fields of what there is"},
    {.name = "memory|usage", .handler = memory_usage, .status = "differs: our own memory, nothing is sampled"},
};

constexpr CommandSpec kMemory[] = {
    {.name = "memory", .subcommands = kSubcommands},
};

}  // namespace

std::span<const CommandSpec> memory_commands() { return kMemory; }

}  // namespace pion
