// LATENCY GRAPH and DOCTOR: events of the latency monitor for people to read.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/latency_monitor.h"

namespace pion {

// Columns of the last samples, newest at the right, with their ages below.
std::string latency_graph_text(std::string_view name, const LatencyMonitor::Event& event, int64_t now_s);
std::string latency_doctor_text(const std::map<std::string, LatencyMonitor::Event, std::less<>>& events, int64_t threshold_ms);

}  // namespace pion
