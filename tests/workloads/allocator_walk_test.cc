// Is what a walk through the allocator ends with what PyTorch's allocator ended with where the same code ran?
#include "workloads/memory/allocator_walk.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using orrery::tests::small_job;

namespace {

using Sets = std::vector<std::string>;

/// nanotron's 1B model.
Sets llama_1b(std::int64_t tensor, std::int64_t data, std::int64_t micro, std::int64_t batches, bool sharded) {
  const auto text = [](std::int64_t n) { return std::to_string(n); };
  return {"cluster={device: h100-sxm-80gb, gpus: " + text(tensor * data) + ", fabric: aws-p5-efa}",
          "model={kind: gpt, layers: 16, hidden: 2048, heads: 32, kv_heads: 32, ffn_hidden: 8192, vocab: 131072, "
          "seq: 4096, gated_mlp: true, tied_embeddings: true, positions: rotary, norm: rms_norm, biases: none}",
          "parallelism={tensor: " + text(tensor) + ", pipeline: 1, data: " + text(data) + ", sequence_parallel: " +
              (tensor > 1 ? "true" : "false") + ", sharding: " + (sharded ? "optimizer" : "none") + ", schedule: 1f1b}",
          "batch={global: " + text(micro * data * batches) + ", micro: " + text(micro) + "}", "software=nanotron-2025"};
}

double reserved_gb(const Sets& sets) { return simulate_step(small_job(sets)).memory.stages.front().reserved() / 1e9; }

Sets with(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("reserved memory is what nanotron's code reserved on one H200, its collectives returning at once") {
  CHECK(reserved_gb(llama_1b(1, 64, 2, 2, true)) == Approx(37.378).epsilon(0.01));
  CHECK(reserved_gb(llama_1b(1, 8, 2, 16, false)) == Approx(53.857).epsilon(0.01));
  CHECK(reserved_gb(llama_1b(2, 4, 1, 64, true)) == Approx(13.466).epsilon(0.02));
}

TEST_CASE("the moments of the first step take segments of its passes, so that one step alone reserves less") {
  // 2 x 4 bytes a parameter, of which the workspaces and segments of logits that were split are the rest.
  const double states = 8 * 1.342e9 / 1e9;
  const double one = reserved_gb(llama_1b(1, 8, 2, 2, false)), sharded = reserved_gb(llama_1b(1, 8, 2, 2, true));
  CHECK(one - sharded > states * 7 / 8 * 0.8);
}

TEST_CASE("nothing waits where the host is not ahead; the farther it is, the more is reserved") {
  const Sets sets = llama_1b(8, 4, 16, 4, true);
  double before = 0;
  for (const char* const ahead : {"0", "128", "1024"}) {
    const double now = reserved_gb(with(sets, {std::string("software.launches_ahead=") + ahead}));
    CHECK(now >= before);
    before = now;
  }
  const double none = reserved_gb(with(sets, {"software.launches_ahead=0"}));
  CHECK(before > none + 20 * 2.0 * 16 * 4096 * 2048 / 1e9);
}

TEST_CASE("a host that launches for as long as the step takes gets ahead micro-batch by micro-batch") {
  // Whole tensors that wait, of one sequence: the 8 ranks' calls keep host and device alike, the head the device alone.
  const auto waiting = [](std::int64_t batches) {
    const Sets sets = llama_1b(8, 2, 1, batches, false);
    return (reserved_gb(sets) - reserved_gb(with(sets, {"software.launches_ahead=0"}))) / (2.0 * 4096 * 2048 / 1e9);
  };
  const double few = waiting(2), many = waiting(64);
  CHECK(few < 10);
  CHECK(many > few + 15);
  CHECK(many < 75);  // 1,024 launches of blocks that make 100 and free at most six
}

TEST_CASE("no more is reserved than the device has, and never less than lasts") {
  for (const std::int64_t micro : {1, 4, 16, 64}) {
    const StepReport report = simulate_step(small_job(llama_1b(8, 4, micro, 2, true)));
    const StageMemory& stage = report.memory.stages.front();
    CHECK(stage.walked > 0);
    CHECK(stage.walked + stage.parts.context <= report.memory.capacity_bytes * 1.001);
    CHECK(stage.walked > stage.parameters + stage.optimizer + stage.parts.accumulators);
  }
}

TEST_CASE("layers, schedules and states of another make are not walked") {
  const auto walked = [](const Sets& sets) {
    return simulate_step(small_job(with(llama_1b(2, 4, 1, 8, true), sets))).memory.stages.front().walked > 0;
  };
  CHECK(walked({}));
  CHECK(!walked({"software.walks_allocator=false"}));
  CHECK(!walked({"recompute=full"}));
  CHECK(!walked({"model.gated_mlp=false"}));
  CHECK(!walked({"parallelism.sequence_parallel=false"}));
  CHECK(!walked({"parallelism.sharding=parameters"}));
}
