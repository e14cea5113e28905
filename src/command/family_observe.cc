// SLOWLOG and LATENCY: what took long.
#include <algorithm>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/latency_monitor.h"
#include "command/arguments.h"
#include "command/command_statistics.h"
#include "command/families.h"
#include "command/latency_report.h"
#include "command/slow_log.h"

namespace pion {
namespace {

// SLOWLOG GET [count]: -1 for all.
Outcome slowlog_get(CommandContext& context) {
  if (context.argc() > 3) return bad_subcommand(context, "SLOWLOG");
  int64_t count = 10;
  if (context.argc() == 3) {
    const auto given = integer_argument(context.arg(2));
    if (!given || *given < -1) return context.reply.error("ERR count should be greater than or equal to -1"), Outcome::kDone;
    count = *given;
  }
  const std::vector<SlowLog::Entry> entries = context.services.slow_log->newest(count < 0 ? SIZE_MAX : static_cast<size_t>(count));
  ReplyWriter& reply = context.reply;
  reply.array(static_cast<int64_t>(entries.size()));
  for (const SlowLog::Entry& entry : entries) {
    reply.array(6);
    reply.integer(static_cast<int64_t>(entry.id));
    reply.integer(entry.wall_s);
    reply.integer(entry.duration_us);
    reply.array(static_cast<int64_t>(entry.arguments.size()));
    for (const std::string& argument : entry.arguments) reply.bulk(argument);
    reply.bulk(entry.peer);
    reply.bulk(entry.client_name);
  }
  return Outcome::kDone;
}

Outcome slowlog_len(CommandContext& context) {
  context.reply.integer(static_cast<int64_t>(context.services.slow_log->size()));
  return Outcome::kDone;
}

Outcome slowlog_reset(CommandContext& context) {
  context.services.slow_log->reset();
  context.reply.ok();
  return Outcome::kDone;
}

Outcome slowlog_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "GET [<count>]",
      "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
      "    Entries are made of:",
      "    id, timestamp, time in microseconds, arguments array, client IP and port,",
      "    client name",
      "LEN",
      "    Return the length of the slowlog.",
      "RESET",
      "    Reset the slowlog.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(context, kLines);
}

Outcome latency_latest(CommandContext& context) {
  const auto events = latency_monitor().events();
  ReplyWriter& reply = context.reply;
  reply.array(static_cast<int64_t>(events.size()));
  for (const auto& [name, event] : events) {
    reply.array(4);
    reply.bulk(name);
    reply.integer(event.samples.back().wall_s);
    reply.integer(event.samples.back().ms);
    reply.integer(event.worst_ms);
  }
  return Outcome::kDone;
}

Outcome latency_history(CommandContext& context) {
  const auto events = latency_monitor().events();
  const auto found = events.find(context.arg(2));
  const std::vector<LatencyMonitor::Sample> samples = found == events.end() ? std::vector<LatencyMonitor::Sample>{} : found->second.samples;
  context.reply.array(static_cast<int64_t>(samples.size()));
  for (const LatencyMonitor::Sample& sample : samples) {
    context.reply.array(2);
    context.reply.integer(sample.wall_s);
    context.reply.integer(sample.ms);
  }
  return Outcome::kDone;
}

Outcome latency_reset(CommandContext& context) {
  size_t forgotten = 0;
  if (context.argc() == 2) {
    forgotten = latency_monitor().forget_all();
  } else {
    for (size_t i = 2; i < context.argc(); i++) forgotten += latency_monitor().forget(context.arg(i)) ? 1 : 0;
  }
  context.reply.integer(static_cast<int64_t>(forgotten));
  return Outcome::kDone;
}

Outcome latency_graph(CommandContext& context) {
  const auto events = latency_monitor().events();
  const auto found = events.find(context.arg(2));
  if (found == events.end()) {
    context.reply.error("ERR No samples available for event '" + std::string(context.arg(2)) + "'");
  } else {
    context.reply.verbatim(latency_graph_text(found->first, found->second, wall_ms() / 1000));
  }
  return Outcome::kDone;
}

Outcome latency_doctor(CommandContext& context) {
  context.reply.verbatim(latency_doctor_text(latency_monitor().events(), latency_monitor().threshold_ms()));
  return Outcome::kDone;
}

// A command's distribution: how many calls took at most so many microseconds, at each power of two where the number grew.
void reply_histogram(ReplyWriter& reply, const LatencyHistogram::Counts& counts) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  uint64_t sum = 0, told = 0;
  unsigned slot = 0;
  for (uint64_t level_ns = 1024; slot < LatencyHistogram::kSlots; level_ns *= 2) {
    // Up to and with the slot that begins at the power of two; its end is the bound that is printed.
    const unsigned end = level_ns > LatencyHistogram::kMostNs ? LatencyHistogram::kSlots : histogram_slot(level_ns) + 1;
    while (slot < end) sum += counts[slot++];
    if (sum > told) steps.emplace_back(histogram_highest(slot - 1) / 1000, sum);
    told = sum;
  }
  reply.map(2);
  reply.bulk("calls");
  reply.integer(static_cast<int64_t>(sum));
  reply.bulk("histogram_usec");
  reply.map(static_cast<int64_t>(steps.size()));
  for (const auto& [us, calls] : steps) {
    reply.integer(us);
    reply.integer(calls);
  }
}

// LATENCY HISTOGRAM [command ...]: of a container's name all its subcommands.
Outcome latency_histogram(CommandContext& context) {
  std::vector<const CommandSpec*> asked;
  const auto ask = [&](const CommandSpec& spec) {
    asked.push_back(&spec);
    for (const CommandSpec& sub : spec.subcommands) asked.push_back(&sub);
  };
  if (context.argc() == 2) {
    for (const CommandSpec* spec : all_commands()) ask(*spec);
  }
  for (size_t i = 2; i < context.argc(); i++) {
    if (const CommandSpec* spec = find_full_name(context.arg(i))) ask(*spec);
  }
  // Their number comes first, so they are written apart.
  OutputChain body;
  ReplyWriter writer(body, context.reply.protocol());
  int64_t called = 0;
  LatencyHistogram::Counts counts;
  for (const CommandSpec* spec : asked) {
    if (!command_statistics().histogram(*spec, counts)) continue;
    called++;
    writer.bulk(spec->name);
    reply_histogram(writer, counts);
  }
  context.reply.map(called);
  context.reply.out().splice(std::move(body));
  return Outcome::kDone;
}

Outcome latency_help(CommandContext& context) {
  static constexpr std::string_view kLines[] = {
      "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "DOCTOR",
      "    Return a human readable latency analysis report.",
      "GRAPH <event>",
      "    Return an ASCII latency graph for the <event> class.",
      "HISTORY <event>",
      "    Return time-latency samples for the <event> class.",
      "LATEST",
      "    Return the latest latency samples for all events.",
      "RESET [<event> ...]",
      "    Reset latency data of one or more <event> classes.",
      "    (default: reset all data for all event classes)",
      "HISTOGRAM [COMMAND ...]",
      "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
      "    If no commands are specified then all histograms are replied.",
      "HELP",
      "    Print this help.",
  };
  return answer_lines(context, kLines);
}

constexpr CommandSpec kSlowlog[] = {
    {.name = "slowlog|get", .handler = slowlog_get},
    {.name = "slowlog|help", .handler = slowlog_help},
    {.name = "slowlog|len", .handler = slowlog_len},
    {.name = "slowlog|reset", .handler = slowlog_reset},
};

constexpr CommandSpec kLatency[] = {
    {.name = "latency|doctor", .handler = latency_doctor, .status = "differs: its own words"},
    {.name = "latency|graph", .handler = latency_graph, .status = "differs: the last 80 samples"},
    {.name = "latency|help", .handler = latency_help},
    {.name = "latency|histogram", .handler = latency_histogram},
    {.name = "latency|history", .handler = latency_history},
    {.name = "latency|latest", .handler = latency_latest},
    {.name = "latency|reset", .handler = latency_reset},
};

constexpr CommandSpec kObserving[] = {
    {.name = "latency", .subcommands = kLatency, .status = "differs: the events of docs/observability.md"},
    {.name = "slowlog", .subcommands = kSlowlog},
};

}  // namespace

std::span<const CommandSpec> observing_commands() { return kObserving; }

}  // namespace pion
