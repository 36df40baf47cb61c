// Does a folded run say what a run of every rank says? Random jobs over devices, fabrics, schedules, shardings,
// placements, generations and faults; what is refused is drawn again. Of as many as ORRERY_FOLD_JOBS says (300).
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/laws/draw.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::Draw;

namespace {

std::string perturbation(Draw& draw, std::int64_t gpus) {
  std::string text;
  const auto add = [&](std::int64_t percent, const std::string& what) {
    if (draw.chance(percent)) text += (text.empty() ? "" : ", ") + what;
  };
  add(40, fmt::format("slow_gpus: [{{gpu: {}, slowdown: {}}}]", draw.below(gpus),
                      draw.of(std::vector<double>{0.5, 1.1, 1.5, 3.0})));
  add(40, fmt::format("slow_nics: [{{node: 0, nic: {}, rate: 0.{}}}]", draw.below(4), 1 + draw.below(9)));
  add(40, fmt::format("background: {{{}: 0.{}}}", draw.text({"leaf", "spine", "core"}), 1 + draw.below(8)));
  add(30, fmt::format("jitter: {{sigma: 0.{}, seed: {}}}", 1 + draw.below(4), draw.below(99)));
  add(30, fmt::format("message_jitter: {{sigma: 0.{}, seed: {}}}", 1 + draw.below(4), draw.below(99)));
  return text.empty() ? "" : fmt::format("perturb: {{{}}}\n", text);
}

std::string placement(Draw& draw) {
  if (draw.chance(80)) return "";
  if (draw.chance(50)) return fmt::format("placement: {{random_seed: {}}}\n", draw.below(9));
  return fmt::format("placement: {{order: [{}]}}\n",
                     draw.text({"pipeline, tensor, data, context", "data, tensor, pipeline, context",
                                "context, tensor, data, pipeline", "tensor, pipeline, context, data"}));
}

/// A job of at most 256 GPUs and a few layers.
std::string job(Draw& draw) {
  const std::int64_t tensor = draw.of<std::int64_t>({1, 1, 2, 2, 4, 8, 16}),
                     pipeline = draw.of<std::int64_t>({1, 2, 3, 4});
  const std::int64_t data = draw.of<std::int64_t>({1, 2, 3, 4, 8}), context = draw.of<std::int64_t>({1, 1, 1, 1, 2});
  const std::int64_t gpus = tensor * pipeline * data * context, micro = draw.of<std::int64_t>({1, 1, 2, 4});
  const std::int64_t rounds = draw.of<std::int64_t>({1, 2, 4, 8, 16, 2 * pipeline, 3 * pipeline, 48});
  const std::string schedule =
      draw.text({"1f1b", "1f1b", "gpipe", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "v_half", "dualpipe"});
  const std::int64_t heads = draw.of<std::int64_t>({8, 16, 32});
  std::string text =
      fmt::format("name: random\ncluster: {{device: {}, gpus: {}, fabric: {}}}\n",
                  draw.text({"a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb", "mi300x"}), gpus,
                  draw.text({"ndr-rail", "tomahawk4-200g", "selene-hdr", "slingshot11", "azure-ndv5", "roce-4x200g"}));
  text += fmt::format(
      "model: {{kind: gpt, layers: {}, hidden: {}, heads: {}, vocab: {}, seq: {}, gated_mlp: {}, parallel_block: {}, "
      "tied_embeddings: {}}}\n",
      draw.of<std::int64_t>({4, 6, 8, 12, 24}), heads * draw.of<std::int64_t>({64, 128}), heads,
      draw.of<std::int64_t>({32000, 51200}), draw.of<std::int64_t>({128, 512, 2048, 4096}), draw.flag(), draw.flag(),
      draw.flag());
  text += fmt::format(
      "parallelism: {{tensor: {}, pipeline: {}, data: {}, context: {}, virtual_pipeline: {}, schedule: {}, sharding: "
      "{}, sequence_parallel: {}, optimizer_post_validation: {}}}\n",
      tensor, pipeline, data, context, schedule == "interleaved_1f1b" || draw.chance(20) ? 2 : 1, schedule,
      draw.text({"none", "optimizer", "gradients", "parameters"}), draw.flag(), draw.chance(10));
  text += fmt::format("batch: {{global: {}, micro: {}}}\n", data * micro * rounds, micro);
  text += fmt::format("overlap: {{tensor: {}, pipeline: {}, gradients: {}, parameters: {}}}\n", draw.flag(),
                      draw.flag(), draw.flag(), draw.flag());
  text += fmt::format("recompute: {}\nattention: {}\nsoftware: {}\n", draw.text({"none", "selective", "full"}),
                      draw.text({"flash", "unfused"}), draw.of(scenarios::shipped("software")));
  if (draw.chance(30)) text += perturbation(draw, gpus);
  return text + placement(draw);
}

void check_alike(const std::string& text, const workloads::Job& job) {
  INFO(text);
  try {
    workloads::Question options;
    options.counts_memory = true;
    const workloads::StepReport folded = workloads::simulate_step(job, options);
    options.ranks = workloads::Question::Ranks::every;
    const workloads::StepReport full = workloads::simulate_step(job, options);
    CHECK(tests::comparable(folded) == tests::comparable(full));
    CHECK(folded.busiest_stage == full.busiest_stage);
    options.ranks = workloads::Question::Ranks::every_by_passes;
    const workloads::StepReport whole = workloads::simulate_step(job, options);
    CHECK(tests::comparable(whole) == tests::comparable(full));
    CHECK(whole.effort.ranks == full.effort.ranks);
    CHECK(whole.effort.events <= full.effort.events);
    workloads::Question brief;  // with stretches for passes that others can disturb, and jumps
    brief.parts = workloads::Question::Parts::times;
    CHECK(workloads::simulate_step(job, brief).iteration == folded.iteration);
    double parts = 0;
    for (const double part : folded.breakdown_s) {
      CHECK(part > -1e-9 * sim::to_seconds(folded.iteration));
      parts += part;
    }
    CHECK(parts == Approx(sim::to_seconds(folded.iteration)).epsilon(1e-9));
    for (std::size_t s = 0; s < full.memory.stages.size(); ++s)
      CHECK(folded.memory.stages[s].peak.at_s == full.memory.stages[s].peak.at_s);
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what());
  }
}

}  // namespace

TEST_CASE("a folded run reports what a run of every rank reports") {
  const char* asked = std::getenv("ORRERY_FOLD_JOBS");
  const int jobs = asked != nullptr ? std::atoi(asked) : 300;
  const std::clock_t begin = std::clock();
  Draw draw(20);
  int run = 0, refused = 0;
  while (run < jobs && refused < 20 * jobs) {
    const std::string text = job(draw);
    std::optional<workloads::Job> drawn;
    try {
      drawn = scenarios::load_scenario(scenarios::parse_yaml(text, "random.yaml")).job;
    } catch (const sim::UserError&) {
      ++refused;
      continue;
    }
    ++run;
    check_alike(text, *drawn);
  }
  std::cout << fmt::format("folded beside full: {} random jobs, {} refused, {:.1f} s\n", run, refused,
                           static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  CHECK(run == jobs);
}

TEST_CASE("scales of fp8 tensors are reduced alike where replicas run their chunks in different orders") {
  // Both copies of a stage reduce scales after each pass, and gradients at other moments of their programs.
  for (const char* schedule : {"dualpipe", "zb_v", "1f1b"}) {
    for (const char* gradients : {"true", "false"}) {
      const std::string text = fmt::format(
          "cluster: {{device: b200-sxm-180gb, gpus: 16, fabric: tomahawk4-200g}}\n"
          "model: {{kind: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 32000, seq: 2048, tied_embeddings: true}}\n"
          "parallelism: {{tensor: 2, pipeline: 4, data: 2, schedule: {}, sharding: optimizer}}\n"
          "batch: {{global: 32, micro: 1}}\nprecision: fp8\nsoftware: nemo-23.04\noverlap: {{gradients: {}}}\n",
          schedule, gradients);
      INFO(text);
      check_alike(text, scenarios::load_scenario(scenarios::parse_yaml(text, "scales.yaml")).job);
    }
  }
}

TEST_CASE("domains of NVLink that are filled one after the other fold, and are told of as they are") {
  for (const char* domain : {"24", "40", "72"}) {
    const std::string text = fmt::format(
        "name: filled\ncluster: {{device: gb200, gpus: 128, gpus_per_domain: {}, fabric: nvl72-ndr}}\n"
        "model: {{kind: moe, layers: 4, hidden: 1024, heads: 8, vocab: 32000, seq: 512, experts: 64, top_k: 4, "
        "expert_ffn_hidden: 512}}\n"
        "parallelism: {{tensor: 2, pipeline: 2, data: 32, expert: 32, sequence_parallel: true, sharding: optimizer}}\n"
        "batch: {{global: 128, micro: 1}}\nsoftware: nemo-25.04\n",
        domain);
    const workloads::Job filled = scenarios::load_scenario(scenarios::parse_yaml(text, "filled.yaml")).job;
    check_alike(text, filled);
    CHECK(tests::contradiction(workloads::simulate_step(filled)).empty());
  }
}
