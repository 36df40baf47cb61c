// Nodes of two kinds in one job: is each stage on its kind what it is on a cluster of that kind, does a folded run say
// what a full one does, and do both counts of traffic agree?
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "tools/study/layouts.h"
#include "workloads/memory/memory.h"
#include "workloads/step/balanced_layers.h"
#include "workloads/step/step_bound.h"
#include "workloads/step/step_cache.h"

using namespace orrery;

namespace {

/// 64 GPUs in eight nodes, tensor 2, so many stages. `other`: of cluster.others, as YAML; empty: one kind.
std::vector<std::string> sets_of(std::int64_t pipeline, const std::string& other, const std::string& device) {
  std::vector<std::string> sets{"cluster.gpus=64",
                                "cluster.fabric=ndr-rail",
                                "cluster.device=" + device,
                                "model.layers=16",
                                fmt::format("parallelism.pipeline={}", pipeline),
                                fmt::format("parallelism.data={}", 32 / pipeline),
                                "batch.global=128"};
  if (!other.empty()) sets.push_back("cluster.others=[" + other + "]");
  return sets;
}

workloads::Job job_of(std::int64_t pipeline, const std::string& other, const std::string& device = "h100-sxm-80gb",
                      std::vector<std::string> more = {}) {
  std::vector<std::string> sets = sets_of(pipeline, other, device);
  sets.insert(sets.end(), more.begin(), more.end());
  return tests::small_job(sets);
}

workloads::StepReport run(const workloads::Job& job, bool full = false) {
  workloads::Question options;
  if (full) options.ranks = workloads::Question::Ranks::every;
  return workloads::simulate_step(job, options);
}

/// Picoseconds of the kernels of every stage's program.
std::vector<std::int64_t> kernels_ps(const workloads::Job& job) {
  const workloads::PlannedStep planned = workloads::plan_step(job);
  std::vector<std::int64_t> sums;
  for (const sim::Program& program : planned.plan.stages.programs) {
    sums.push_back(0);
    for (std::uint32_t op = 0; op < program.size(); ++op)
      if (program.kind[op] == sim::OpKind::compute) sums.back() += program.duration[op];
  }
  return sums;
}

constexpr const char* kHalfA100 = "{device: a100-sxm-80gb, gpus: 32}";

}  // namespace

TEST_CASE("two copies of a model from both ends of stages on two kinds of node agree on what their calls cost") {
  for (const std::string more : {"model.layers=1", "model.layers=2", "precision=bf16"}) {
    INFO(more);
    const workloads::Job job =
        job_of(2, kHalfA100, "h100-sxm-80gb",
               {"parallelism.schedule=dualpipe", "software=nanotron-2025", "parallelism.sharding=optimizer", more});
    const workloads::StepReport folded = run(job), full = run(job, true);
    CHECK(folded.iteration.value() > 0);
    CHECK(folded.iteration == full.iteration);
  }
}

TEST_CASE("other nodes that are of the same device change nothing") {
  for (const std::string schedule : {"1f1b", "zb_h1", "gpipe"}) {
    const std::vector<std::string> more{"parallelism.schedule=" + schedule};
    auto mixed = run(job_of(4, "{device: h100-sxm-80gb, gpus: 32}", "h100-sxm-80gb", more)),
         plain = run(job_of(4, "", "h100-sxm-80gb", more));
    mixed.assumptions.clear();
    plain.assumptions.clear();
    INFO(schedule);
    CHECK(tests::comparable(mixed) == tests::comparable(plain));
    CHECK(mixed.energy.total_j() == Approx(plain.energy.total_j()).epsilon(1e-12));
  }
}

TEST_CASE("a stage computes as long as on a cluster of its own device, and has that device's memory") {
  // Nothing beside the kernels, which would slow them down for as long as the network of all stages needs.
  const std::vector<std::string> alone{"overlap={gradients: false, parameters: false}"};
  const workloads::Job job = job_of(4, kHalfA100, "h100-sxm-80gb", alone),
                       all_fast = job_of(4, "", "h100-sxm-80gb", alone),
                       all_slow = job_of(4, "", "a100-sxm-80gb", alone);
  const std::vector<std::int64_t> kernels = kernels_ps(job), fast_kernels = kernels_ps(all_fast),
                                  slow_kernels = kernels_ps(all_slow);
  for (const std::size_t stage : {0u, 1u}) CHECK(kernels[stage] == fast_kernels[stage]);
  for (const std::size_t stage : {2u, 3u}) CHECK(kernels[stage] == slow_kernels[stage]);
  REQUIRE(2 * slow_kernels[2] > 3 * fast_kernels[2]);
  const auto mixed = run(job), fast = run(all_fast), slow = run(all_slow);
  REQUIRE(mixed.rates.stages.size() == 4);
  // The slow half is the bottleneck: at least as long as it computes, no shorter than all fast, no longer than all
  // slow.
  CHECK(sim::to_seconds(mixed.iteration) >= mixed.rates.stages[2].computing_s);
  CHECK(mixed.iteration > fast.iteration);
  CHECK(mixed.iteration < slow.iteration);
  // Utilisation is of what both kinds could do: the mean of their peaks.
  CHECK(mixed.rates.mfu_pct == Approx(100 * mixed.rates.model_tflops_per_gpu / ((989.4 + 312) / 2)).epsilon(2e-3));
  const workloads::Job small = job_of(4, "{device: a100-sxm-40gb, gpus: 32}");
  const workloads::MemoryNeed need =
      workloads::memory_need(workloads::stage_memory(small, workloads::split_layers(small)), small.machine);
  CHECK(need.capacity == static_cast<double>(small.machine.mixture.others[0].device.memory().value()));
  CHECK(need.stage >= 2);
}

TEST_CASE("folded and full runs of mixed nodes agree to the picosecond, and both counts of their traffic") {
  const std::vector<std::string> others{kHalfA100,
                                        "{device: a100-sxm-80gb, gpus: 16}",
                                        "{device: a100-sxm-80gb, gpus: 32, stages: [0, 1]}",
                                        "{device: a100-sxm-80gb, gpus: 32, stages: [1, 3]}",
                                        "{device: a100-sxm-80gb, gpus: 16}, {device: h200-sxm-141gb, gpus: 16}",
                                        "{device: b200-sxm-180gb, gpus: 48, stages: [1, 2, 3]}"};
  const std::vector<std::vector<std::string>> settings{
      {},
      {"parallelism.sharding=optimizer", "parallelism.sequence_parallel=true"},
      {"parallelism.sharding=parameters", "software=pytorch-fsdp2-2026"},
      {"parallelism.schedule=interleaved_1f1b", "parallelism.virtual_pipeline=2", "batch.global=128"},
      {"parallelism.schedule=zb_h2"},
      {"parallelism.stage_layers=balanced"},
      {"cluster.fabric={inherits: gt-roce-400, nic_rate: {h100: 400 Gb/s, a100: 200 Gb/s, h200: 400 Gb/s, b200: 400 "
       "Gb/s}}"},
      {"perturb={slow_gpus: [{gpu: 40, slowdown: 1.3}]}"}};
  int checked = 0;
  for (const std::string& other : others) {
    for (const auto& more : settings) {
      std::optional<workloads::Job> job;
      INFO(other << "; " << fmt::format("{}", fmt::join(more, "; ")));
      try {
        job = job_of(4, other, "h100-sxm-80gb", more);
      } catch (const sim::UserError& error) {
        FAIL(error.what());
      }
      const auto folded = run(*job), full = run(*job, true);
      CHECK(tests::comparable(folded) == tests::comparable(full));
      CHECK(tests::contradiction(folded).empty());
      workloads::StepBound bound;
      CHECK(bound.of(*job) <= folded.iteration);
      ++checked;
    }
  }
  CHECK(checked == static_cast<int>(others.size() * settings.size()));
}

TEST_CASE("slower NICs of the other nodes slow down their own stages' gradients alone") {
  const std::string fabric =
      "cluster.fabric={{inherits: ndr-rail, nic_rate: {{h100: 400 Gb/s, a100: {} Gb/s}}, uplink_rate: 400 Gb/s}}";
  const auto with = [&](int rate) {
    return run(job_of(2, kHalfA100, "h100-sxm-80gb", {fmt::format(fmt::runtime(fabric), rate)}));
  };
  const auto fast = with(400), slow = with(100);
  CHECK(slow.iteration > fast.iteration);
  // All of the first kind, no NIC of the slow kind is there.
  const auto only = [&](int rate) {
    return run(job_of(2, "", "h100-sxm-80gb", {fmt::format(fmt::runtime(fabric), rate)})).iteration;
  };
  CHECK(only(400) == only(100));
}

TEST_CASE("stages lie where they are asked to, in any order, and a run forwards is one backwards on the other kind") {
  const auto kinds = [](const std::string& stages) {
    return job_of(4, "{device: a100-sxm-80gb, gpus: 32, stages: " + stages + "}").machine.mixture.kind_of_stage;
  };
  CHECK(kinds("[0, 1]") == std::vector<std::uint8_t>{1, 1, 0, 0});
  CHECK(kinds("[3, 1]") == std::vector<std::uint8_t>{0, 1, 0, 1});
  // Ranks of a stage are on nodes of its kind, each GPU once.
  const workloads::Job job = job_of(4, "{device: a100-sxm-80gb, gpus: 32, stages: [3, 1]}");
  const workloads::RankMap ranks(job.parallelism.dims(), job.placement, 8);
  std::vector<int> taken(64, 0);
  for (std::int64_t rank = 0; rank < 64; ++rank) {
    const std::int64_t gpu = ranks.gpu_of(rank), stage = rank / 16;
    ++taken[static_cast<std::size_t>(gpu)];
    CHECK((gpu >= 32) == (stage == 1 || stage == 3));
  }
  CHECK(std::count(taken.begin(), taken.end(), 1) == 64);
}

TEST_CASE("layers are dealt so that the longest block is the shortest of all ways") {
  std::mt19937_64 random(7);
  for (int draw = 0; draw < 200; ++draw) {
    const std::size_t blocks = 2 + random() % 3;
    const auto layers = static_cast<std::int64_t>(1 + random() % 9);
    std::vector<double> seconds;
    for (std::size_t b = 0; b < blocks; ++b) seconds.push_back(1 + static_cast<double>(random() % 5));
    const double first = static_cast<double>(random() % 4), last = static_cast<double>(random() % 7);
    const auto longest = [&](const std::vector<std::int64_t>& shares) {
      double most = 0;
      for (std::size_t b = 0; b < blocks; ++b) {
        const double ends = (b == 0 ? first : 0) + (b + 1 == blocks ? last : 0);
        most = std::max(most, ends + seconds[b] * static_cast<double>(shares[b]));
      }
      return most;
    };
    double best = 1e300;
    std::vector<std::int64_t> shares(blocks, 0);
    const auto all = [&](auto&& self, std::size_t block, std::int64_t left) -> void {
      if (block + 1 == blocks) {
        shares[block] = left;
        best = std::min(best, longest(shares));
        return;
      }
      for (std::int64_t n = 0; n <= left; ++n) {
        shares[block] = n;
        self(self, block + 1, left - n);
      }
    };
    all(all, 0, layers);
    const auto dealt = workloads::deal_layers(layers, seconds, first, last);
    REQUIRE(std::accumulate(dealt.begin(), dealt.end(), std::int64_t{0}) == layers);
    REQUIRE(longest(dealt) == Approx(best));
  }
}

TEST_CASE("balanced layers are quicker than equal ones on unequal devices, and fewer on the slow one") {
  const auto even = job_of(4, kHalfA100),
             balanced = job_of(4, kHalfA100, "h100-sxm-80gb", {"parallelism.stage_layers=balanced"});
  const auto& layers = balanced.parallelism.stage_layers;
  REQUIRE(layers.size() == 4);
  CHECK(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == 16);
  CHECK(layers[1] > layers[2]);
  CHECK(run(balanced).iteration < run(even).iteration);
}

TEST_CASE("a search over mixed nodes leaves out the layouts whose stages would lie on both, and finds a best one") {
  sim::Settings document = scenarios::parse_yaml(R"(
name: mixed
cluster: {device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail, others: [{device: a100-sxm-80gb, gpus: 16}]}
model: {kind: gpt, layers: 8, hidden: 2048, heads: 16, ffn_hidden: 8192, vocab: 51200, seq: 1024}
parallelism: {tensor: 2, pipeline: 2, stage_layers: balanced}
batch: {global: 32, micro: 1}
software: megatron-2023
)",
                                                 "mixed.yaml");
  tools::LayoutSpace space(document, {});
  int loaded = 0, refused = 0;
  for (const tools::Layout& layout : space.layouts()) {
    if (layout.recompute != "none" || layout.sharding != "none" || layout.micro > 1) continue;
    INFO(layout.tensor << " " << layout.pipeline << " " << layout.data << " x " << layout.chunks);
    try {
      const workloads::Job job = space.load(layout).job;
      CHECK(layout.pipeline % 2 == 0);
      const auto& kinds = job.machine.mixture.kind_of_stage;
      REQUIRE(static_cast<std::int64_t>(kinds.size()) == layout.pipeline);
      for (std::size_t stage = 0; stage < kinds.size(); ++stage) CHECK(kinds[stage] == (2 * stage >= kinds.size()));
      ++loaded;
    } catch (const sim::UserError& error) {
      if (layout.pipeline % 2 == 0) continue;
      CHECK(std::string(error.what()).find("on nodes of h100-sxm-80gb and of a100-sxm-80gb") != std::string::npos);
      ++refused;
    }
  }
  CHECK(loaded > 3);
  CHECK(refused > 0);
}

TEST_CASE("what cannot be mixed is refused in one line") {
  const auto error = [](const std::string& other, std::vector<std::string> more = {}) {
    try {
      job_of(4, other, "h100-sxm-80gb", std::move(more));
    } catch (const sim::UserError& refused) {
      return std::string(refused.what());
    }
    return std::string("(no error)");
  };
  const auto says = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
  };
  says(error("{device: mi300x, gpus: 32}"), "wired otherwise");
  says(error("{device: a100-sxm-80gb, gpus: 12}"), "multiple of 8");
  says(error("{device: a100-sxm-80gb, gpus: 64}"), "fewer than the 64");
  says(error("{device: a100-sxm-80gb, gpus: 8}"), "expected nodes of one kind");
  says(error("{device: a100-sxm-80gb, gpus: 32, stages: [1]}"), "expected as many");
  says(error("{device: a100-sxm-80gb, gpus: 32, stages: [3, 4]}"), "stages 0 to 3");
  says(error("{device: a100-sxm-80gb, gpus: 32, stages: [3, 3]}"), "once at most");
  says(error(kHalfA100, {"precision=fp8"}), "a100-sxm-80gb has no arithmetic");
  says(error("{device: a100-sxm-80gb, gpus: 32, stages: [0, 2, 4, 6]}",
             {"parallelism.pipeline=16", "parallelism.data=2"}),
       "share nodes");
  says(error("{device: a100-sxm-80gb, gpus: 32, stages: [0, 1]}", {"placement.random_seed=3"}), "placement of its own");
  says(error(kHalfA100, {"cluster.device=gb200", "cluster.fabric=nvl72-ndr", "cluster.gpus=72"}), "NVLink");
}
