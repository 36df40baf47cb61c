// The pipeline traces beside the source tree (../shared/measured/pipeline-trace-8gpu.csv): eight ranks, 16
// micro-batches, one and two chunks (AMD-AGI/Primus, MIT).
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace orrery::tests {

struct MeasuredSpan {
  double start = 0, end = 0;  // ms
};
/// The passes of one rank, by when they began.
struct MeasuredPasses {
  std::vector<MeasuredSpan> forward, backward;
};
using MeasuredPipeline = std::array<MeasuredPasses, 8>;

inline std::filesystem::path measured_pipelines() {
  return std::filesystem::path(tests::kSourceDir) / ".." / "shared" / "measured" / "pipeline-trace-8gpu.csv";
}

/// By variant and iteration. Rows: variant, iteration, rank, index, start and end of a forward pass, start and end of a
/// backward pass.
inline std::map<std::string, MeasuredPipeline> read_measured_pipelines() {
  std::map<std::string, MeasuredPipeline> traces;
  std::ifstream in(measured_pipelines());
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    std::array<std::string, 8> cell;
    for (std::string& text : cell) std::getline(cells, text, ',');
    MeasuredPasses& rank = traces[cell[0] + " iteration " + cell[1]][std::stoul(cell[2])];
    rank.forward.push_back({std::stod(cell[4]), std::stod(cell[5])});
    rank.backward.push_back({std::stod(cell[6]), std::stod(cell[7])});
  }
  const auto earlier = [](const MeasuredSpan& a, const MeasuredSpan& b) { return a.start < b.start; };
  for (auto& [name, trace] : traces) {
    for (MeasuredPasses& rank : trace) {
      std::sort(rank.forward.begin(), rank.forward.end(), earlier);
      std::sort(rank.backward.begin(), rank.backward.end(), earlier);
    }
  }
  return traces;
}

/// What a message takes in ms, from the trace itself: from the end of a rank's first forward pass to the start of the
/// next rank's, the median over ranks.
inline double message_ms(const MeasuredPipeline& trace) {
  std::vector<double> gaps;
  for (std::size_t r = 0; r + 1 < trace.size(); ++r)
    gaps.push_back(trace[r + 1].forward.front().start - trace[r].forward.front().end);
  std::sort(gaps.begin(), gaps.end());
  return gaps[gaps.size() / 2];
}

}  // namespace orrery::tests
