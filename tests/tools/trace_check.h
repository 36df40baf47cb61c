// Reads a trace the way Perfetto's importer does (times cut off to whole nanoseconds) and says what does not nest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace orrery::tests {

struct TraceCheck {
  std::vector<std::string> problems;
  std::size_t slices = 0;
  std::size_t deepest = 0;
};

inline TraceCheck check_trace(const nlohmann::json& trace) {
  struct Slice {
    std::int64_t from, to;
    std::string name;
  };
  TraceCheck result;
  std::map<std::pair<int, int>, std::vector<Slice>> tracks;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const auto from = static_cast<std::int64_t>(event.at("ts").get<double>() * 1000.0);
    const auto duration = static_cast<std::int64_t>(event.at("dur").get<double>() * 1000.0);
    tracks[{event.at("pid"), event.at("tid")}].push_back({from, from + duration, event.at("name")});
    ++result.slices;
    if (from < 0 || duration < 0) result.problems.push_back("negative time in " + event.at("name").get<std::string>());
    if (event.at("cat").get<std::string>().empty()) result.problems.push_back("no category");
  }
  for (auto& [track, slices] : tracks) {
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice& a, const Slice& b) { return a.from != b.from ? a.from < b.from : a.to > b.to; });
    std::vector<Slice> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back().to <= slice.from) open.pop_back();
      if (!open.empty() && slice.to > open.back().to) {
        result.problems.push_back("'" + slice.name + "' ends after '" + open.back().name + "', in which it begins");
      }
      open.push_back(slice);
      result.deepest = std::max(result.deepest, open.size());
    }
  }
  return result;
}

}  // namespace orrery::tests
