// Does the pipeline alone, given real times of every pass, end when the real one ended? Replays traces of eight ranks
// (PP8, 16 micro-batches, one and two chunks; AMD-AGI/Primus, MIT) where they lie beside the source tree.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/catch.h"
#include "tests/skipped.h"
#include "tests/workloads/pipeline.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

struct Span {
  double start = 0, end = 0;  // ms
};
struct Rank {
  std::vector<Span> forward, backward;
};
using Trace = std::array<Rank, 8>;

/// Rows: variant, iteration, rank, index, start and end of a forward pass, start and end of a backward pass.
std::map<std::string, Trace> read_traces(const std::string& path) {
  std::map<std::string, Trace> traces;
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    std::array<std::string, 8> cell;
    for (std::string& text : cell) std::getline(cells, text, ',');
    Rank& rank = traces[cell[0] + " iteration " + cell[1]][std::stoul(cell[2])];
    rank.forward.push_back({std::stod(cell[4]), std::stod(cell[5])});
    rank.backward.push_back({std::stod(cell[6]), std::stod(cell[7])});
  }
  const auto earlier = [](const Span& a, const Span& b) { return a.start < b.start; };
  for (auto& [name, trace] : traces) {
    for (Rank& rank : trace) {
      std::sort(rank.forward.begin(), rank.forward.end(), earlier);
      std::sort(rank.backward.begin(), rank.backward.end(), earlier);
    }
  }
  return traces;
}

/// What a message takes, from the trace itself: from the end of a rank's first forward pass to the start of the next
/// rank's, the median over ranks.
double message_ms(const Trace& trace) {
  std::vector<double> gaps;
  for (std::size_t r = 0; r + 1 < trace.size(); ++r)
    gaps.push_back(trace[r + 1].forward.front().start - trace[r].forward.front().end);
  std::sort(gaps.begin(), gaps.end());
  return gaps[gaps.size() / 2];
}

}  // namespace

TEST_CASE("a real pipeline's trace, replayed from its own pass times, ends within 2 % of when it ended") {
  const auto path = std::filesystem::path(ORRERY_SOURCE_DIR) / ".." / "shared" / "measured" / "pipeline-trace-8gpu.csv";
  if (!std::filesystem::exists(path)) {
    tests::skipped("no measured pipeline trace beside the source tree");
    return;
  }
  const auto traces = read_traces(path.string());
  REQUIRE(traces.size() == 4);  // two variants, two iterations each
  for (const auto& [name, trace] : traces) {
    const auto passes = static_cast<std::int64_t>(trace[0].forward.size());
    const std::int64_t chunks = passes / 16;
    const Schedule& schedule = usual_schedule(chunks);
    const PipelineShape shape{8, static_cast<std::int32_t>(chunks), 16};
    std::array<std::size_t, 8> forwards{}, backwards{};
    const tests::Ran ran = tests::run_pipeline(
        paper_orders(schedule, shape), schedule.map(8, chunks),
        [&](std::size_t stage, std::size_t, const Pass& pass) {
          const bool forward = pass.kind == PassKind::forward;
          const Span& span =
              forward ? trace[stage].forward[forwards[stage]++] : trace[stage].backward[backwards[stage]++];
          return std::llround((span.end - span.start) * 1e9);
        },
        std::llround(message_ms(trace) * 1e9));
    REQUIRE(ran.finished);
    double end = 0;
    for (const Rank& rank : trace) end = std::max(end, rank.backward.back().end);
    const double measured = end - trace[0].forward.front().start, replayed = static_cast<double>(ran.makespan) / 1e9;
    INFO(name << ": measured " << measured << " ms, replayed " << replayed << " ms");
    CHECK(std::abs(replayed / measured - 1) < 0.02);
  }
}
