// What is moved is counted by formula and by operation. Corners where features meet: what runs again in modules, states
// that one rank holds or several groups share out, adapters beside them. What cannot be counted is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"
#include "workloads/model/kept.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;
using Sets = std::vector<std::string>;

namespace {

StepReport counted_step(const Sets& sets) {
  StepReport report = simulate_step(small_job(sets));
  CHECK(tests::contradiction(report) == "");
  return report;
}

Sets laid_over(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

/// Bytes of all ranks in rows of `dimension` whose name begins with `what`; `dimension` empty: of any.
double bytes_of(const StepReport& report, const std::string& dimension, const std::string& what) {
  double bytes = 0;
  for (const TrafficRow& row : report.traffic) {
    if (row.what.starts_with(what) && (dimension.empty() || row.dimension == dimension)) bytes += row.simulated_bytes;
  }
  return bytes;
}

/// Bytes of all ranks in rows of `dimension` that are moved once more for what is computed again.
double bytes_again(const StepReport& report, const std::string& dimension) {
  double bytes = 0;
  for (const TrafficRow& row : report.traffic) {
    if (row.dimension == dimension && row.what.find("(recomputed)") != std::string::npos) bytes += row.simulated_bytes;
  }
  return bytes;
}

/// A mixture on two ranks of a tensor group that hold every expert alike: one replica of the rest.
Sets lone_mixture(const Sets& more) {
  return laid_over({"cluster.gpus=2", "cluster.device=h100-sxm-80gb", "cluster.fabric=ndr-rail", "model.kind=moe",
                    "model.experts=8", "model.top_k=2", "model.expert_ffn_hidden=512", "model.layers=2",
                    "parallelism={tensor: 2, sequence_parallel: true}", "software=pytorch-fsdp2-2026"},
                   more);
}

std::string refused_with(const Sets& sets) {
  try {
    small_job(sets);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "(none)";
}

}  // namespace

TEST_CASE("keys and values are exchanged again with core attention alone") {
  const Sets split{"parallelism={tensor: 1, context: 2}", "cluster.gpus=16", "batch.global=16"};
  const auto exchanged_again = [&](const char* modules) {
    return bytes_again(counted_step(laid_over(split, {fmt::format("recompute={{modules: [{}]}}", modules)})),
                       "context");
  };
  CHECK(exchanged_again("attention_out") == 0);
  CHECK(exchanged_again("qkv, mlp") == 0);
  const double core = exchanged_again("core_attention");
  CHECK(core > 0);
  CHECK(exchanged_again("core_attention, attention_out") == core);
}

TEST_CASE(
    "parts of the first blocks of every stage run again: their share of "
    "bytes and FLOPs, and of what is saved") {
  // Two stages of four blocks.
  const Sets cut{"parallelism={tensor: 2, pipeline: 2, sequence_parallel: true}"};
  const Sets wide{"parallelism={tensor: 1, context: 2, pipeline: 2}"};
  for (const auto& [layout, dimension] : {std::pair(cut, "tensor"), {wide, "context"}}) {
    INFO(dimension);
    const auto with = [&, &layout = layout](const std::string& recompute) {
      return counted_step(laid_over(layout, {"recompute=" + recompute}));
    };
    const auto first = [&](int blocks) {
      return with(fmt::format("{{modules: [core_attention, qkv, mlp], layers: {}}}", blocks));
    };
    const StepReport none = with("none"), all = with("{modules: [core_attention, qkv, mlp]}");
    CHECK(bytes_again(all, dimension) > 0);
    const auto done = [](const StepReport& report) {
      return report.rates.hardware_tflops_per_gpu * sim::to_seconds(report.iteration);
    };
    for (const int blocks : {1, 3}) {
      INFO(blocks);
      const StepReport some = first(blocks);
      CHECK(bytes_again(some, dimension) == Approx(bytes_again(all, dimension) * blocks / 4));
      CHECK(done(some) - done(none) == Approx((done(all) - done(none)) * blocks / 4));
      CHECK(some.iteration > none.iteration);
      CHECK(some.iteration < all.iteration);
      CHECK(some.memory.peak_bytes < none.memory.peak_bytes);
      CHECK(some.memory.peak_bytes > all.memory.peak_bytes);
    }
    for (const int blocks : {4, 9}) CHECK(tests::comparable(first(blocks)) == tests::comparable(all));
    Question every;
    every.ranks = Question::Ranks::every;
    const Job job = small_job(laid_over(layout, {"recompute={modules: [core_attention, qkv, mlp], layers: 2}"}));
    CHECK(tests::comparable(simulate_step(job, every)) == tests::comparable(simulate_step(job)));
  }
}

TEST_CASE("adapters run again with the products that they stand beside") {
  for (const char* adapted : {"attention", "all"}) {
    const auto exchanged_again = [&](const std::string& modules) {
      return bytes_again(
          counted_step({"parallelism={tensor: 2, sequence_parallel: false}", "recompute={modules: [" + modules + "]}",
                        fmt::format("finetune={{kind: lora, rank: 16, modules: {}}}", adapted)}),
          "tensor");
    };
    INFO(adapted);
    CHECK(exchanged_again("core_attention") == 0);
    const double in = exchanged_again("qkv"), out = exchanged_again("attention_out");
    CHECK(in > 0);
    CHECK(out > 0);
    CHECK(exchanged_again("qkv, attention_out") == in + out);
    CHECK((exchanged_again("mlp") > 0) == (std::string(adapted) == "all"));
    CHECK(exchanged_again("every_second_product") > 0);
  }
}

TEST_CASE("modules of a block whose attention and MLP share their products are refused") {
  for (const char* module : {"qkv", "attention_out", "mlp", "mlp_down", "activation"}) {
    const std::string refused =
        refused_with({"model.parallel_block=true", fmt::format("recompute={{modules: [{}]}}", module)});
    INFO(refused);
    CHECK(refused.find(fmt::format("recompute.modules: got {} beside model.parallel_block", module)) !=
          std::string::npos);
    CHECK(refused.find('\n') == std::string::npos);
  }
  CHECK(refused_with({"model.parallel_block=true", "recompute={modules: [core_attention, norms]}"}) == "(none)");
}

TEST_CASE("experts that several ranks hold are exchanged with every micro-batch, also where one rank holds the rest") {
  const auto of_experts = [](const char* what, const char* sharding, int global) {
    const Sets sets{fmt::format("parallelism.sharding={}", sharding), fmt::format("batch.global={}", global)};
    return bytes_of(counted_step(lone_mixture(sets)), "expert_data", what);
  };
  const auto reduced = [&](const char* sharding, int global) {
    return of_experts("gradients, backward", sharding, global);
  };
  const auto gathered = [&](const char* sharding, int global) { return of_experts("parameters", sharding, global); };
  CHECK(reduced("gradients", 2) > 0);
  CHECK(reduced("gradients", 8) == Approx(4 * reduced("gradients", 2)));
  // Its own FSDP keeps whole gradients and reduces them behind the last micro-batch, as ZeRO 1 does.
  for (const char* once : {"optimizer", "parameters"}) {
    INFO(once);
    CHECK(reduced(once, 2) > 0);
    CHECK(reduced(once, 8) == Approx(reduced(once, 2)));
  }
  // Parameters come for every pass, forward and backward.
  CHECK(gathered("parameters", 8) == Approx(4 * gathered("parameters", 2)));
}

TEST_CASE("an embedding that every rank holds whole exchanges nothing beside adapters") {
  const Sets whole{"parallelism={tensor: 2, sequence_parallel: true, sharding: none}", "software=pytorch-fsdp2-2026"};
  CHECK(bytes_of(counted_step(whole), "tensor", "embedding") > 0);  // of its gradients
  CHECK(bytes_of(counted_step(laid_over(whole, {"finetune={kind: lora, rank: 16}"})), "tensor", "embedding") == 0);
}

TEST_CASE("experts that are made again as a whole are so with their activation named beside") {
  const auto report = [](const char* modules) {
    return counted_step(lone_mixture({"parallelism.expert=2", fmt::format("recompute={{modules: [{}]}}", modules)}));
  };
  CHECK(tests::comparable(report("moe, moe_act")) == tests::comparable(report("moe")));
  CHECK(bytes_again(report("moe"), "expert") > 0);
  CHECK(bytes_again(report("moe_act"), "expert") == 0);
}

TEST_CASE("a router that is made again keeps no scores, and moves nothing more") {
  const auto report = [](const std::string& modules) {
    return counted_step(lone_mixture({"parallelism.expert=2", "recompute={modules: [" + modules + "]}"}));
  };
  const StepReport none = report(""), router = report("router");
  CHECK(router.iteration > none.iteration);
  CHECK(bytes_again(router, "expert") == 0);
  // 512 tokens a rank with 8 scores each: what keeps them is made of whole numbers of these.
  const auto kept = [](const std::string& modules) {
    const LayerSplit split =
        split_layers(small_job(lone_mixture({"parallelism.expert=2", "recompute={modules: [" + modules + "]}"})));
    return workloads::bytes_of(split.block()).kept;
  };
  const double saved = kept("") - kept("router");
  CHECK(saved >= 512 * 8 * 2);
  CHECK(std::fmod(saved, 512 * 8) == 0);
  // With the whole half it is made again once.
  CHECK(tests::comparable(report("moe, router")) == tests::comparable(report("moe")));
}

TEST_CASE("gradients that no group of a pass reduces are reduced between shard groups all the same") {
  const Sets sharded{"cluster.gpus=12", "cluster.gpus_per_node=4", "batch.global=24",
                     "parallelism={tensor: 2, data: 6, sharding: parameters, shard_group: 3}"};
  const double usual = bytes_of(counted_step(sharded), "", "gradients, between shard groups");
  CHECK(usual > 0);
  CHECK(bytes_of(counted_step(laid_over(sharded, {"parallelism.gradient_group=1"})), "",
                 "gradients, between shard groups") == usual);
}

TEST_CASE("software that reduces between groups once a step does so with sharded gradients too") {
  const auto between = [](int global) {
    return bytes_of(
        counted_step({"cluster.gpus=8", "parallelism={tensor: 1, data: 8, sharding: gradients, shard_group: 2}",
                      "software=axonn-2024", fmt::format("batch.global={}", global)}),
        "", "gradients, between shard groups");
  };
  CHECK(between(8) > 0);
  CHECK(between(32) == Approx(between(8)));
}

TEST_CASE("weights with the host come for a pass also where each rank has a second copy of all") {
  const Sets away{"cluster.gpus=8", "batch.global=16", "offload={optimizer: true, parameters: true}",
                  "parallelism={tensor: 1, data: 8, sharding: parameters}"};
  const auto fetched = [&](int second) {
    return bytes_of(counted_step(laid_over(away, {fmt::format("parallelism.secondary_group={}", second)})), "",
                    "parameters, from the host");
  };
  // Two micro-batches, of P on 8 ranks: forward P / 8 each, backward P / s; all ranks: 2 (1 + 8 / s) P.
  CHECK(fetched(1) / fetched(2) == Approx((1 + 8.0) / (1 + 4.0)).epsilon(0.05));  // but for what is not gathered again
  const std::string refused =
      refused_with(lone_mixture({"parallelism={tensor: 2, data: 2, expert: 4, sequence_parallel: true, "
                                 "sharding: parameters}",
                                 "cluster.gpus=4", "offload={optimizer: true, parameters: true}"}));
  INFO(refused);
  CHECK(refused.find("offload.parameters: got true with experts that one rank alone holds") != std::string::npos);
}

TEST_CASE("norms of queries and keys are whole on every rank of a tensor grid") {
  const Sets grid{"cluster.gpus=8", "parallelism={tensor: 4, tensor_in: 2, data: 2}", "overlap.tensor=false"};
  const auto gradients = [&](const char* normed) {
    return bytes_of(counted_step(laid_over(grid, {fmt::format("model.qk_norm={}", normed)})), "data",
                    "gradients, backward");
  };
  // Two norms of a head's 128 in fp32 more in each of 8 layers; an all-reduce between two moves a buffer's bytes on
  // each of 8 GPUs.
  CHECK(gradients("true") - gradients("false") == Approx(2.0 * 128 * 4 * 8 * 8));
}

TEST_CASE("gradients leave for the host with every micro-batch where each is reduced, adapters' too") {
  const auto left = [](int global) {
    return bytes_of(counted_step({"cluster.gpus=8", "parallelism={tensor: 1, data: 8, sharding: gradients}",
                                  "software=pytorch-fsdp2-2026", "finetune={kind: lora, rank: 16}",
                                  "offload={optimizer: true}", fmt::format("batch.global={}", global)}),
                    "", "gradients, to the host");
  };
  CHECK(left(8) > 0);
  CHECK(left(32) > left(8));
}
