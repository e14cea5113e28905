#include "command/latency_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace pion {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kRows = 4;
constexpr std::string_view kTips = "_o#";

// 3s, 5m, 2h, 9d: at most three signs.
std::string age_text(int64_t age_s) {
  if (age_s < 60) return std::to_string(age_s) + "s";
  if (age_s < 3600) return std::to_string(age_s / 60) + "m";
  if (age_s < 86400) return std::to_string(age_s / 3600) + "h";
  return std::to_string(std::min<int64_t>(age_s / 86400, 99)) + "d";
}

struct Figures {
  double average_ms = 0, deviation_ms = 0, period_s = 0;
};

Figures figures_of(const LatencyMonitor::Event& event) {
  Figures figures;
  const auto count = static_cast<double>(event.samples.size());
  for (const auto& sample : event.samples) figures.average_ms += sample.ms / count;
  for (const auto& sample : event.samples) figures.deviation_ms += std::fabs(sample.ms - figures.average_ms) / count;
  if (count > 1) figures.period_s = static_cast<double>(event.samples.back().wall_s - event.samples.front().wall_s) / (count - 1);
  return figures;
}

// What is known to cause an event, and what helps. Each event of ours has its line.
std::string_view advice(std::string_view event) {
  if (event == "command" || event == "fast-command") {
    return "SLOWLOG GET names the commands; LATENCY HISTOGRAM shows how often they are slow.";
  }
  if (event == "expire-cycle") return "Many keys expire at the same moment: spread their expiry.";
  if (event == "eviction-cycle") return "Keys are evicted for new ones: raise maxmemory, or write less at a time.";
  if (event == "aof-write") return "Writing the journal waits for the disk: look for other writers on it, or for a full page cache.";
  if (event.starts_with("aof-fsync")) return "The disk syncs slowly: with appendfsync everysec no reply waits for it, with always each one does.";
  if (event == "checkpoint-stripe") return "A checkpoint copies one stripe of the keys at a time: huge values make it long.";
  return "";
}

}  // namespace

std::string latency_graph_text(std::string_view name, const LatencyMonitor::Event& event, int64_t now_s) {
  const size_t shown = std::min(event.samples.size(), kColumns);
  const std::vector<LatencyMonitor::Sample> samples(event.samples.end() - static_cast<std::ptrdiff_t>(shown), event.samples.end());
  uint32_t high = 0, low = UINT32_MAX;
  for (const auto& sample : samples) high = std::max(high, sample.ms), low = std::min(low, sample.ms);
  std::string text(name);
  text.append(" - high " + std::to_string(high) + " ms, low " + std::to_string(low) + " ms (all time high " + std::to_string(event.worst_ms) + " ms)\n");
  text.append(kColumns, '-').push_back('\n');
  // The lowest sample is a line on the ground, the highest a full column; three tips to a row.
  for (size_t row = kRows; row-- > 0;) {
    for (const auto& sample : samples) {
      const double part = high > low ? static_cast<double>(sample.ms - low) / (high - low) : 0;
      const auto height = static_cast<size_t>(std::lround(part * (kRows * kTips.size() - 1)));
      text.push_back(height / kTips.size() > row ? '|' : height / kTips.size() == row ? kTips[height % kTips.size()] : ' ');
    }
    text.push_back('\n');
  }
  text.append(shown, ' ').push_back('\n');
  std::vector<std::string> ages;
  for (const auto& sample : samples) ages.push_back(age_text(std::max<int64_t>(now_s - sample.wall_s, 0)));
  for (size_t line = 0; line < 3; ++line) {
    std::string signs;
    for (const std::string& age : ages) signs.push_back(line < age.size() ? age[line] : ' ');
    if (signs.find_first_not_of(' ') != std::string::npos) text.append(signs).push_back('\n');
  }
  return text;
}

std::string latency_doctor_text(const std::map<std::string, LatencyMonitor::Event, std::less<>>& events, int64_t threshold_ms) {
  if (threshold_ms <= 0 && events.empty()) {
    return "The latency monitor is off. CONFIG SET latency-monitor-threshold <milliseconds> turns it on.\n";
  }
  if (events.empty()) return "No event took " + std::to_string(threshold_ms) + " ms or longer.\n";
  std::string text = "Events that took long (threshold " + std::to_string(threshold_ms) + " ms):\n\n";
  size_t number = 0;
  for (const auto& [name, event] : events) {
    const Figures figures = figures_of(event);
    char line[200];
    std::snprintf(line, sizeof line, ": %zu seconds with such an event, average %.0f ms, mean deviation %.0f ms, one every %.1f s, worst %u ms.",
                  event.samples.size(), figures.average_ms, figures.deviation_ms, figures.period_s, event.worst_ms);
    text.append(std::to_string(++number)).append(". ").append(name).append(line).push_back('\n');
    if (const std::string_view help = advice(name); !help.empty()) text.append("   ").append(help).push_back('\n');
  }
  return text;
}

}  // namespace pion
