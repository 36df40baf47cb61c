// Does an encoder of images ahead of a decoder compute, hold and exchange what its sizes say?
#include <fmt/format.h>

#include <string>
#include <vector>

#include "scenarios/library.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/model/causal_flops.h"
#include "workloads/model/families/families.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

Job seeing_job(const std::string& encoder, const std::string& layout, const std::vector<std::string>& sets = {}) {
  const std::string text = fmt::format(R"(
name: seeing
cluster: {{device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}}
model: {{layers: 8, hidden: 1024, heads: 8, kv_heads: 4, ffn_hidden: 4096, vocab: 2560, seq: 1024, gated_mlp: true,
        tied_embeddings: false, positions: rotary, norm: rms_norm, biases: none{}}}
parallelism: {{{}}}
batch: {{global: 32, micro: 1}}
precision: bf16
software: megatron-core-0.16
)",
                                       encoder, layout);
  sim::Settings document = scenarios::parse_yaml(text, "seeing.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

const std::string kEncoder =
    ", encoder: {layers: 6, hidden: 512, heads: 8, ffn_hidden: 2048, patch: 768, positions: 1024, merge: 4, mergers: "
    "2, "
    "images: 2, image_patches: 1024}";
const std::string kGated =
    ", encoder: {layers: 6, hidden: 512, heads: 8, ffn_hidden: 1536, patch: 768, merge: 4, gated_mlp: true, images: 1, "
    "image_patches: 2048}";

std::string seeing_refusal(const std::string& encoder, const std::string& layout = "tensor: 1") {
  try {
    seeing_job(encoder, layout);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an encoder weighs and computes what its sizes say") {
  const Model text = seeing_job("", "tensor: 1").model, images = seeing_job(kEncoder, "tensor: 1").model;
  const double h = 512, f = 2048, wide = 4 * h, out = 1024, patches = 2 * 1024, tokens = patches / 4;
  const double block = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h;
  const double merger = wide * wide + wide + wide * out + out;
  CHECK(parameter_count(images) - parameter_count(text) ==
        Approx(768 * h + h + 1024 * h + 6 * block + 2 * merger + 2 * h + 2 * wide));
  // Every image attends to itself, all of it.
  const double products =
      2 * patches * (768 * h + 6 * (4 * h * h + 2 * h * f)) + 2 * 2 * tokens * (wide * wide + wide * out);
  const double pairs = 2.0 * 1024 * 1024;
  CHECK(model_flops(images, 1) - model_flops(text, 1) == Approx(3 * (products + 6 * 4 * pairs * h)));
  CHECK(causal_model_flops(images, 1) - causal_model_flops(text, 1) == Approx(3 * (products + 6 * 4 * pairs * h)));
}

TEST_CASE("Qwen3-VL-8B weighs what its files do") {
  const auto shipped = scenarios::load_scenario(scenarios::parse_yaml(
      "cluster: {device: h100-sxm-80gb, gpus: 8}\nmodel: qwen3-vl-8b\nbatch: {global: 8}\n", "qwen3-vl"));
  CHECK(parameter_count(shipped.job.model) + 4096 == 8767123696);  // with the final norm
}

TEST_CASE("models with an encoder are folded, counted twice, and hold what their formulas say") {
  for (const std::string& encoder : {kEncoder, kGated}) {
    for (const char* layout : {"tensor: 1, sharding: optimizer", "tensor: 1, pipeline: 4",
                               "tensor: 1, sharding: parameters", "tensor: 1, pipeline: 2, virtual_pipeline: 2"}) {
      for (const char* more : {"recompute=none", "recompute=full", "recompute=selective", "precision=fp8"}) {
        INFO(encoder << ", " << layout << ", " << more);
        const Job job = seeing_job(encoder, layout, {more});
        const StepReport folded = simulate_step(job);
        CHECK(tests::contradiction(folded) == "");
        Question full;
        full.ranks = Question::Ranks::every;
        CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
      }
    }
  }
}

TEST_CASE("more of an encoder takes longer") {
  // So small an encoder's kernels hide behind a host that costs anything.
  const auto step = [](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"software.kernel_issue='0 us'", "software.operation_host='0 us'"});
    return simulate_step(seeing_job(kEncoder, "tensor: 1, pipeline: 2", sets)).iteration;
  };
  const sim::Duration base = step({});
  for (const char* more : {"layers=12", "hidden=1024", "ffn_hidden=4096", "patch=8192", "images=3", "mergers=6"}) {
    INFO(more);
    CHECK(step({std::string("model.encoder.") + more}) > base);
  }
  // The same patches as one image attend to more of each other; fewer tokens are merged of more patches.
  CHECK(step({"model.encoder.images=1", "model.encoder.image_patches=2048"}) > base);
  CHECK(step({"model.encoder.merge=16"}) != base);
  CHECK(step({"model.encoder.positions=0"}) < base);
  CHECK(simulate_step(seeing_job(kGated, "tensor: 1")).iteration >
        simulate_step(seeing_job("", "tensor: 1")).iteration);
}

TEST_CASE("encoders that cannot be are refused in a line") {
  CHECK(seeing_refusal(kEncoder, "tensor: 2").find("whole on every rank") != std::string::npos);
  CHECK(seeing_refusal(kEncoder, "tensor: 1, context: 2").find("whole on every rank") != std::string::npos);
  const auto with = [](const std::string& more) {
    return ", encoder: {layers: 2, hidden: 512, ffn_hidden: 2048, patch: 768, merge: 4, " + more + "}";
  };
  CHECK(seeing_refusal(with("heads: 7, images: 1, image_patches: 64")).find("a divisor") != std::string::npos);
  CHECK(seeing_refusal(with("heads: 8, images: 1, image_patches: 63")).find("a multiple of merge") !=
        std::string::npos);
  CHECK(seeing_refusal(with("heads: 8, images: 64, image_patches: 64")).find("fewer than model.seq") !=
        std::string::npos);
  CHECK(seeing_refusal(with("heads: 8, images: 64")).find("image_patches") != std::string::npos);
}
