// INFO commandstats, errorstats, latencystats.
#include <string>

#include "command/arguments.h"
#include "command/command_statistics.h"
#include "command/info_lines.h"
#include "command/server_control.h"

namespace pion {
namespace {

template <typename Visit>
void each_command(Visit visit) {
  for (const CommandSpec* spec : all_commands()) {
    visit(*spec);
    for (const CommandSpec& sub : spec->subcommands) visit(sub);
  }
}

// What so many percent of the calls did not exceed.
uint64_t percentile_ns(const LatencyHistogram::Counts& counts, uint64_t calls, double percentile) {
  const auto wanted = std::max<uint64_t>(1, static_cast<uint64_t>(percentile / 100 * static_cast<double>(calls) + 0.5));
  uint64_t sum = 0;
  for (unsigned slot = 0; slot < LatencyHistogram::kSlots; ++slot) {
    sum += counts[slot];
    if (sum >= wanted) return histogram_highest(slot);
  }
  return LatencyHistogram::kMostNs;
}

}  // namespace

void commandstats_section(CommandContext&, InfoLines& lines) {
  lines.section("Commandstats");
  const std::vector<CommandTotals> totals = command_statistics().totals();
  each_command([&](const CommandSpec& spec) {
    const CommandTotals& command = totals[spec.id];
    if (command.calls + command.rejected + command.failed == 0) return;
    const double us_per_call = command.calls > 0 ? static_cast<double>(command.ns) / 1000 / static_cast<double>(command.calls) : 0;
    char text[200];
    std::snprintf(text, sizeof text, "calls=%llu,usec=%llu,usec_per_call=%.2f,rejected_calls=%llu,failed_calls=%llu",
                  static_cast<unsigned long long>(command.calls), static_cast<unsigned long long>(command.ns / 1000), us_per_call,
                  static_cast<unsigned long long>(command.rejected), static_cast<unsigned long long>(command.failed));
    lines.add("cmdstat_" + std::string(spec.name), std::string_view(text));
  });
}

void errorstats_section(CommandContext&, InfoLines& lines) {
  lines.section("Errorstats");
  for (const auto& [code, count] : command_statistics().errors()) lines.add("errorstat_" + code, "count=" + std::to_string(count));
}

void latencystats_section(CommandContext& context, InfoLines& lines) {
  lines.section("Latencystats");
  const auto option = [&](const char* name) { return context.services.server->config_get(name).at(0).value; };
  if (option("latency-tracking") != "yes") return;
  std::vector<std::string> percentiles;
  const std::string words = option("latency-tracking-info-percentiles");
  for (size_t from = 0; from < words.size();) {
    const size_t end = std::min(words.find(' ', from), words.size());
    percentiles.push_back(words.substr(from, end - from));
    from = end + 1;
  }
  LatencyHistogram::Counts counts;
  each_command([&](const CommandSpec& spec) {
    if (!command_statistics().histogram(spec, counts)) return;
    uint64_t calls = 0;
    for (const uint64_t count : counts) calls += count;
    std::string text;
    for (const std::string& percentile : percentiles) {
      char value[48];
      std::snprintf(value, sizeof value, "=%.3f", static_cast<double>(percentile_ns(counts, calls, std::stod(percentile))) / 1000);
      text.append(text.empty() ? "p" : ",p").append(percentile).append(value);
    }
    lines.add("latency_percentiles_usec_" + std::string(spec.name), std::string_view(text));
  });
}

}  // namespace pion
