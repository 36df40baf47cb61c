// Do messages reach stages when passes of known lengths, laid out by hand, send them?
#include "workloads/memory/pass_pace.h"

#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"

using namespace orrery;
using namespace orrery::workloads;
using orrery::tests::small_job;

TEST_CASE("one forward, one backward on two stages of four blocks each: when each pass has what it waits for") {
  const Job job = small_job({"batch.global=12", "parallelism.data=4"});  // 3 micro-batches
  const LayerSplit split = split_layers(job);
  const ChunkMap map = job.parallelism.chunk_map();
  const StageOrders orders = paper_orders(*job.parallelism.schedule, job.pipeline_shape());
  REQUIRE(text(orders[0]) == "F0 F1 B0 F2 B1 B2 ");
  // A block's forward pass takes its device 1 s, its backward pass its host 2 s; ends take nothing.
  std::vector<LayerPace> paces(split.network.kinds.size());
  for (std::size_t kind = 0; kind < paces.size(); ++kind) {
    if (split.network.kinds[kind].kind == LayerKind::block) paces[kind] = {{0.1, 1}, {2, 0.5}};
  }
  const auto arrivals = message_times(split, map, orders, paces);
  // Stage 1: F0 4-8, B0 8-16, F1 16-20, B1 20-28, F2 28-32, B2 32-40.
  CHECK(arrivals[0] == std::vector<double>{0, 0, 16, 0, 28, 40});
  CHECK(arrivals[1] == std::vector<double>{4, 0, 8, 0, 28, 0});
}
