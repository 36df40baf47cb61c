// Do diffusion transformers, which ship as operators, weigh and compute what is published of them?
#include <fmt/format.h>

#include <string>
#include <vector>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "workloads/model/model.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

Job diffusion_job(const std::string& model, const std::string& layout, const std::vector<std::string>& sets = {}) {
  sim::Settings document = scenarios::parse_yaml(
      fmt::format("{{name: diffusion, cluster: {{device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}}, model: {}, "
                  "parallelism: {{sharding: optimizer, {}}}, batch: {{global: 64, micro: 2}}, precision: bf16, "
                  "software: megatron-core-0.16}}",
                  model, layout),
      "diffusion.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

}  // namespace

TEST_CASE("DiT-XL/2 has its paper's parameters and multiply-adds") {
  const Model model = diffusion_job("dit-xl-2", "tensor: 1").model;
  CHECK(parameter_count(model) == Approx(675.1e6).epsilon(0.001));  // arXiv 2212.09748, table 1: 675M
  CHECK(model_flops(model, 1) / 3 / 2 ==
        Approx(118.64e9).epsilon(0.001));  // there, table 4: 118.6 Gflops, multiply-adds
}

TEST_CASE("FLUX.1 has its checkpoint's parameters, and the FLOPs of its products and attention") {
  const Model model = diffusion_job("flux.1-dev", "tensor: 1").model;
  CHECK(parameter_count(model) == Approx(11'901'408'320).epsilon(0.0001));
  // Multiply-adds of a token: 12 h^2 of both kinds of blocks, 2 s h of attention; what runs once an image is little.
  const double h = 3072, s = 4608, blocks = 19 + 38;
  const double token = blocks * (12 * h * h + 2 * s * h), once = 19 * 12 * h * h + 38 * 3 * h * h;
  CHECK(model_flops(model, 1) == Approx(6 * (s * token + once)).epsilon(0.001));
  // NVIDIA-NeMo/NeMo, nemo/utils/flops_formulas.py, flux, leading terms: 14 h^2 a token in blocks of two streams.
  const double nemo = 6 * (19 * 14 * h * h * s + 38 * s * (12 * h * h + 2 * s * h));
  CHECK(model_flops(model, 1) == Approx(nemo).epsilon(0.03));
}

TEST_CASE("diffusion transformers are folded, and counted twice") {
  for (const char* model : {"dit-xl-2", "flux.1-dev"}) {
    for (const std::string layout : {"tensor: 1", "tensor: 2, sequence_parallel: true",
                                     "tensor: 4, pipeline: 2, sequence_parallel: false", "tensor: 1, pipeline: 4"}) {
      if (std::string(model) == "dit-xl-2" && layout.find("pipeline") != std::string::npos) continue;  // 29 blocks
      const bool pipeline = layout.find("pipeline") != std::string::npos;
      for (const char* more : {"recompute=none", "recompute=full", "precision=fp8"}) {
        INFO(model << ", " << layout << ", " << more);
        const std::vector<std::string> sets{more, pipeline && layout.find("pipeline: 4") != std::string::npos
                                                      ? "parallelism.stage_layers=[15,15,14,14]"
                                                      : "name=diffusion"};
        const Job job = diffusion_job(model, layout, sets);
        const StepReport folded = simulate_step(job);
        CHECK(tests::contradiction(folded) == "");
        Question full;
        full.ranks = Question::Ranks::every;
        CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
      }
    }
  }
}
