// Does what waits for a collective's stream follow from launches and tensors counted by hand?
#include "workloads/memory/waiting_blocks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/memory/memory.h"

using namespace orrery;
using namespace orrery::workloads;
using orrery::tests::small_job;

namespace {

using Sets = std::vector<std::string>;

Sets with(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

StageMemory fullest_of_first(const Sets& sets) {
  const Job job = small_job(sets);
  return stage_memory(job, split_layers(job)).front();
}

/// Of the whole of a forward pass over these layers.
std::int64_t forward_launches(const Job& job) {
  std::int64_t launches = 0;
  const LayerSplit split = split_layers(job);
  const Network& network = split.network;
  for (std::int64_t i = 0; i < network.size(); ++i) {
    for (const Piece& piece : passes_of(network.layer(i), {job.machine.device}, false).forward) {
      launches += piece.is_comm() ? 1 : 0;
      for (const Kernel& kernel : piece.kernels) launches += kernel.launches;
    }
  }
  return launches;
}

const Sets kWithoutStages{"parallelism.pipeline=1", "parallelism.data=8", "parallelism.sequence_parallel=true"};
const std::string kOneMicroBatch = "batch.global=8";

}  // namespace

TEST_CASE("behind one forward pass wait the inputs of its reduce-scatters, whole, in 16 bits") {
  // Two a layer, of attention and of the MLP, and one of the embedding: [1024, 2048] each.
  const double whole = 1024.0 * 2048 * 2;
  const StageMemory stage = fullest_of_first(with(kWithoutStages, {kOneMicroBatch, "software.launches_ahead=1e6"}));
  CHECK(stage.peak.during == StageMemory::During::backward);
  CHECK(stage.waiting == Approx((2 * 8 + 1) * whole));
  CHECK(stage.reserved() == Approx(stage.total - stage.parts.context + stage.waiting));
}

TEST_CASE("a host that is half a pass ahead has half of them behind it, and one that is not ahead has none") {
  const Sets sets = with(kWithoutStages, {kOneMicroBatch});
  const std::int64_t launches = forward_launches(small_job(sets));
  const auto ahead = [&](double share) {
    return fullest_of_first(
               with(sets, {"software.launches_ahead=" + std::to_string(share * static_cast<double>(launches))}))
        .waiting;
  };
  // The head stands between the last layer and the end of the pass, and frees none.
  CHECK(ahead(0.5) == Approx(0.5 * ahead(1)));
  CHECK(ahead(2) == Approx(ahead(1)));
  CHECK(ahead(0) == 0);
}

TEST_CASE("the backward pass of the micro-batch before waits too: two whole tensors a layer") {
  const double whole = 1024.0 * 2048 * 2;
  const StageMemory stage = fullest_of_first(with(kWithoutStages, {"batch.global=16", "software.launches_ahead=1e6"}));
  // Gradients of the inputs of both column-parallel layers, and of the head's.
  CHECK(stage.waiting == Approx((2 * (2 * 8 + 1) + 2 * 8 + 1) * whole));
}

TEST_CASE("nothing waits where tensors are summed where they lie, nor where the host waits for its messages") {
  const Sets ahead{"software.launches_ahead=1e6"};
  CHECK(fullest_of_first(with(ahead, {"parallelism.sequence_parallel=false"})).waiting == 0);
  CHECK(fullest_of_first(with(ahead, {"parallelism.tensor=1", "parallelism.data=8"})).waiting == 0);
  const Sets stages = with(ahead, {"parallelism.sequence_parallel=true", "overlap.pipeline=false"});
  CHECK(fullest_of_first(with(stages, {"software.host_waits_for_pipeline=true"})).waiting == 0);
  CHECK(fullest_of_first(with(stages, {"software.host_waits_for_pipeline=false"})).waiting > 0);
}

TEST_CASE(
    "a host that messages do not hold back is as far ahead as one that waits for none, and one that sleeps is not") {
  const Sets stages{"software.launches_ahead=1e6", "parallelism.sequence_parallel=true", "overlap.pipeline=false"};
  const double free = fullest_of_first(with(stages, {"software.host_waits_for_pipeline=false"})).waiting;
  const Sets past = with(stages, {"software.host_waits_for_pipeline=true", "software.ahead_past_messages=true"});
  CHECK(fullest_of_first(past).waiting == Approx(free));
  CHECK(fullest_of_first(with(past, {"software.activation_shapes_host='100 ms'"})).waiting == 0);
}

TEST_CASE("nothing waits on a stage that is slowest and whose host is slower than its device") {
  const Sets stages{"software.launches_ahead=1e6", "parallelism.sequence_parallel=true",
                    "software.ahead_past_messages=true"};
  const auto waiting = [&](const std::string& shares, const std::string& issue) {
    const Job job = small_job(with(stages, {"parallelism.stage_layers=" + shares, "software.kernel_issue=" + issue}));
    const StepReport report = simulate_step(job);
    const StageMemory& first = report.memory.stages.front();
    CHECK(report.memory.reserved_bytes >= first.reserved());
    return first.waiting;
  };
  CHECK(waiting("[6,2]", "1 us") > 0);
  CHECK(waiting("[6,2]", "1 ms") == 0);
  // Stages that are alike wait for each other, and hosts go on meanwhile.
  CHECK(waiting("[4,4]", "1 ms") > 0);
}

TEST_CASE("what waits fills the room that is left and ends no run") {
  const auto stage_of = [](double gigabytes) {
    return fullest_of_first(with(kWithoutStages, {"software.launches_ahead=1e6", "batch.global=64", "batch.micro=8",
                                                  "cluster.device.memory='" + std::to_string(gigabytes) + " GB'"}));
  };
  const StageMemory roomy = stage_of(80);
  CHECK(roomy.waiting == Approx((2 * 8 + 1) * 8 * 1024.0 * 2048 * 2));
  const StageMemory tight = stage_of(roomy.total / 1e9 + 0.25);
  CHECK(tight.total == Approx(roomy.total));
  CHECK(tight.waiting == Approx(0.25e9).epsilon(1e-3));
  CHECK(stage_of(roomy.total / 1e9 - 1).waiting == 0);
}
