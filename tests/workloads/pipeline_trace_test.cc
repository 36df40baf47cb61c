// Does the pipeline alone, given real times of every pass, end when the real one ended? Replays traces of eight ranks
// (PP8, 16 micro-batches, one and two chunks; AMD-AGI/Primus, MIT) where they lie beside the source tree.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "tests/catch.h"
#include "tests/measured_pipelines.h"
#include "tests/skipped.h"
#include "tests/workloads/pipeline.h"

using namespace orrery;
using namespace orrery::workloads;

TEST_CASE("a real pipeline's trace, replayed from its own pass times, ends within 2 % of when it ended") {
  if (!std::filesystem::exists(tests::measured_pipelines())) {
    tests::skipped("no measured pipeline trace beside the source tree");
    return;
  }
  const auto traces = tests::read_measured_pipelines();
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
          const tests::MeasuredSpan& span =
              forward ? trace[stage].forward[forwards[stage]++] : trace[stage].backward[backwards[stage]++];
          return std::llround((span.end - span.start) * 1e9);
        },
        std::llround(tests::message_ms(trace) * 1e9));
    REQUIRE(ran.finished);
    double end = 0;
    for (const tests::MeasuredPasses& rank : trace) end = std::max(end, rank.backward.back().end);
    const double measured = end - trace[0].forward.front().start, replayed = static_cast<double>(ran.makespan) / 1e9;
    INFO(name << ": measured " << measured << " ms, replayed " << replayed << " ms");
    CHECK(std::abs(replayed / measured - 1) < 0.02);
  }
}
