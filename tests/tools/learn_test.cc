// Is a generation that nobody wrote down found again from one traced layout, so well that it predicts others?
#include "tools/learn/learn.h"

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <sstream>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/learn/difference.h"
#include "tools/learn/learn_kernels.h"
#include "tools/learn/predicted.h"

using namespace orrery;
using tests::Folder;

namespace {

/// Large enough that products, copies and collectives are of the sizes that people train with; both nodes and both
/// stages take part, and everything that a generation may overlap is overlapped.
constexpr const char* kTraced = R"(name: traced
cluster: {device: h100-sxm-80gb, gpus: 32, gpus_per_node: 8, fabric: ndr-rail}
model: {kind: gpt, layers: 8, hidden: 6144, heads: 48, kv_heads: 48, ffn_hidden: 24576, vocab: 51200, seq: 4096}
parallelism: {tensor: 4, pipeline: 2, data: 4, sequence_parallel: true, sharding: optimizer}
batch: {global: 32, micro: 1}
precision: bf16
overlap: {tensor: true, pipeline: false, gradients: true, parameters: true}
software: nanotron-2025
)";

/// Interleaved stages of tensor groups as large as a node, on the device before.
constexpr const char* kInterleaved = R"(name: interleaved
cluster: {device: a100-sxm-80gb, gpus: 64, gpus_per_node: 8, fabric: selene-hdr}
model: {kind: gpt, layers: 16, hidden: 6144, heads: 48, kv_heads: 48, ffn_hidden: 24576, vocab: 51200, seq: 2048}
parallelism: {tensor: 8, pipeline: 2, virtual_pipeline: 2, data: 4, sequence_parallel: true, sharding: optimizer}
batch: {global: 64, micro: 1}
precision: bf16
software: megatron-core-0.8
)";

/// Sharded data parallelism alone.
constexpr const char* kSharded = R"(name: sharded
cluster: {device: a100-sxm-80gb, gpus: 16, gpus_per_node: 8, fabric: selene-hdr}
model:
  {kind: gpt, layers: 16, hidden: 4096, heads: 32, kv_heads: 8, ffn_hidden: 14336, vocab: 128256, seq: 4096,
   gated_mlp: true, positions: rotary, norm: rms_norm, biases: none, tied_embeddings: false}
parallelism: {data: 16, sharding: parameters}
batch: {global: 32, micro: 2}
precision: bf16
software: accelerate-2026
)";

/// Experts over two nodes, whose exchanges cross the network; stages of tensor groups, and buckets of both kinds.
constexpr const char* kMixture = R"(name: mixture
cluster: {device: h100-sxm-80gb, gpus: 64, gpus_per_node: 8, fabric: ndr-rail}
model:
  {kind: moe, layers: 8, hidden: 4096, heads: 32, kv_heads: 8, head_dim: 128, vocab: 151936, seq: 4096, experts: 64,
   top_k: 8, expert_ffn_hidden: 1536, gated_mlp: true, positions: rotary, norm: rms_norm, biases: none,
   tied_embeddings: false}
parallelism: {tensor: 2, pipeline: 2, data: 16, expert: 16, sequence_parallel: true, sharding: optimizer}
batch: {global: 128, micro: 1}
precision: bf16
software: nemo-25.11
)";

struct Moved {
  const char *key, *unit;
  double low, high;
};
/// Numbers and where each is moved to at random.
constexpr Moved kMoved[] = {{"kernel_issue", "us", 2, 12},
                            {"backward_issue_share", "", 0.5, 1.2},
                            {"microbatch_host", "us", 50, 1500},
                            {"step_begin_host", "us", 100, 40'000},
                            {"transfer_issue", "us", 5, 40},
                            {"tensor_call", "us", 0, 300},
                            {"extra_kernels_per_layer", "", 0, 24},
                            {"qkv_copies", "", 0, 5},
                            {"qkv_gradient_copies", "", 0, 5},
                            {"training_metrics", "", 0, 3},
                            {"compute_slowdown_under_collective", "", 1, 1.3},
                            {"tensor_overlap_slowdown", "", 1, 1.3},
                            {"collective_base", "us", 5, 40},
                            {"collective_step_ring", "us", 5, 30},
                            {"collective_step_node", "us", 1, 8},
                            {"collective_step_tree", "us", 5, 30},
                            {"gradient_bucket", "MB", 50, 600},
                            {"parameter_bucket", "MB", 50, 400}};
/// And what mixtures of experts have.
constexpr Moved kMovedOfExperts[] = {
    {"expert_layer_host", "us", 200, 4000}, {"expert_dispatch_host", "us", 200, 4000}, {"exchange_share", "", 0.4, 1}};

/// A job that is traced at one layout under a generation that nobody wrote down, and others that it is to predict.
struct Job {
  const char *scenario, *base;
  std::vector<std::int64_t> ranks;  // traced
  std::vector<std::vector<std::string>> others;
};

std::string moved_software(unsigned seed, const std::string& base, bool experts) {
  std::mt19937 random(seed);
  std::string text = "name: moved\ninherits: " + base + "\n";
  const auto move = [&](const Moved& m) {
    const double value = std::uniform_real_distribution<double>(m.low, m.high)(random);
    text += fmt::format("{}: {:.3f}{}{}\n", m.key, value, *m.unit != '\0' ? " " : "", m.unit);
  };
  for (const Moved& m : kMoved) move(m);
  for (const Moved& m : kMovedOfExperts) {
    if (experts) move(m);
  }
  return text;
}

sim::Settings scenario(const std::string& software, const std::vector<std::string>& sets = {},
                       const char* text = kTraced) {
  sim::Settings document = scenarios::parse_yaml(text, "traced.yaml");
  scenarios::apply_set(document, "software=" + software);
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return document;
}

double step(const std::string& software, const std::vector<std::string>& sets, const char* text) {
  const workloads::Job job = scenarios::load_scenario(scenario(software, sets, text)).job;
  return sim::to_seconds(workloads::simulate_step(job).iteration);
}

std::vector<tools::Trace> traces_of(const std::string& software, const char* text = kTraced,
                                    const std::vector<std::int64_t>& ranks = {0, 31}) {
  return tools::predict(scenarios::load_scenario(scenario(software, {}, text)), ranks);
}

/// Learns from the job's trace under a generation moved by `seed`; the largest error of the others, and the largest
/// without having learnt.
std::pair<double, double> round_trip(const Job& job, unsigned seed) {
  const Folder folder;
  const std::string moved = folder.write("moved.yaml", moved_software(seed, job.base, job.scenario == kMixture));
  const sim::Settings traced = scenario(job.base, {}, job.scenario);  // what the learner is told: another generation
  const tools::Learnt learnt = tools::learn(traced, traces_of(moved, job.scenario, job.ranks), 2);
  CHECK(learnt.features.empty());
  CHECK(learnt.without.empty());
  CHECK(learnt.misfit_after < 0.01);
  CHECK(learnt.misfit_before > 0.05);
  const std::string found = folder.write("learnt.yaml", tools::software_text(learnt, traced, "learnt", {"a trace"}));
  double worst = 0, unlearnt = 0;
  for (const std::vector<std::string>& sets : job.others) {
    INFO(fmt::format("{}", fmt::join(sets, " ")));
    const double truth = step(moved, sets, job.scenario);
    const double error = std::abs(step(found, sets, job.scenario) / truth - 1);
    CHECK(error < 0.01);
    worst = std::max(worst, error);
    unlearnt = std::max(unlearnt, std::abs(step(job.base, sets, job.scenario) / truth - 1));
  }
  return {worst, unlearnt};
}

}  // namespace

TEST_CASE("a generation moved at random is learnt from the trace of one layout and predicts eight others",
          "[full-size]") {
  const Job job{kTraced,
                "nanotron-2025",
                {0, 31},
                {{"parallelism.tensor=8", "parallelism.data=2"},
                 {"parallelism.tensor=2", "parallelism.data=8"},
                 {"parallelism.pipeline=4", "parallelism.data=2"},
                 {"parallelism.pipeline=1", "parallelism.data=8"},
                 {"batch.global=128", "batch.micro=2"},
                 {"cluster.gpus=256", "parallelism.data=32", "batch.global=256"},
                 {"model.seq=8192"},
                 {"model.layers=32", "parallelism.pipeline=8", "cluster.gpus=128"}}};
  double unlearnt = 0;
  for (const unsigned seed : {1U, 2U, 8U}) {
    INFO("seed " << seed);
    unlearnt = std::max(unlearnt, round_trip(job, seed).second);
  }
  CHECK(unlearnt > 0.1);  // else nothing was there to be learnt
}

TEST_CASE("generations of other frameworks, on other devices and layouts, are learnt as well", "[full-size]") {
  const Job interleaved{kInterleaved,
                        "megatron-core-0.8",
                        {0, 63},
                        {{"parallelism.tensor=4", "parallelism.data=8"},
                         {"parallelism.virtual_pipeline=4"},
                         {"parallelism.pipeline=4", "parallelism.virtual_pipeline=2", "parallelism.data=2"},
                         {"cluster.gpus=256", "parallelism.data=16", "batch.global=256"},
                         {"model.seq=4096"}}};
  const Job sharded{kSharded,
                    "accelerate-2026",
                    {0},
                    {{"cluster.gpus=64", "parallelism.data=64", "batch.global=128"},
                     {"batch.micro=1"},
                     {"model.seq=8192"},
                     {"model.layers=32"},
                     {"recompute=full"},
                     {"cluster.gpus=128", "parallelism.data=128", "batch.global=256"}}};
  for (const Job& job : {interleaved, sharded}) {
    INFO(job.base);
    CHECK(round_trip(job, 1).second > 0.02);
  }
}

TEST_CASE("a generation for mixtures of experts, twenty-one numbers moved, is learnt and predicts eight others",
          "[full-size]") {
  const Job job{kMixture,
                "nemo-25.11",
                {0, 63},
                {{"parallelism.expert=8"},
                 {"parallelism.expert=4"},
                 {"parallelism.tensor=1", "parallelism.data=32"},
                 {"parallelism.pipeline=4", "parallelism.data=8"},
                 {"parallelism.pipeline=1", "parallelism.data=32"},
                 {"batch.micro=2"},
                 {"cluster.gpus=256", "parallelism.data=64", "parallelism.expert=32", "batch.global=512"},
                 {"model.layers=16", "model.experts=128"}}};
  double unlearnt = 0;
  for (const unsigned seed : {1U, 2U}) {
    INFO("seed " << seed);
    unlearnt = std::max(unlearnt, round_trip(job, seed).second);
  }
  CHECK(unlearnt > 0.1);
}

TEST_CASE("what one trace cannot tell is said and left as it was") {
  const Folder folder;
  const std::string moved =
      folder.write("moved.yaml", "name: moved\ninherits: nanotron-2025\ncollective_step_tree: 29 us\n");
  const sim::Settings traced = scenario("nanotron-2025");  // no all-reduce of this layout takes a tree
  const tools::Learnt learnt = tools::learn(traced, traces_of(moved), 2);
  bool named = false;
  for (const tools::LearntNumber& number : learnt.numbers) {
    if (number.key == "collective_step_tree") {
      named = true;
      CHECK_FALSE(number.determined);
    }
    if (number.determined) CHECK(number.value == Approx(number.inherited).epsilon(0.01).margin(1e-3));
  }
  CHECK(named);
  const std::string text = tools::software_text(learnt, traced, "learnt", {"a trace"});
  CHECK(text.find("collective_step_tree:") == std::string::npos);
  CHECK(text.find("collective_step_tree") != std::string::npos);
}

TEST_CASE("a feature that the trace shows and the generation lacks is found") {
  const Folder folder;
  const std::string other = folder.write(
      "other.yaml", "name: other\ninherits: nanotron-2025\nwithout: [fused-layer-norm, persistent-layer-norm]\n");
  const tools::Learnt learnt = tools::learn(scenario("nanotron-2025"), traces_of(other), 2);
  CHECK(std::find(learnt.without.begin(), learnt.without.end(), "fused-layer-norm") != learnt.without.end());
}

TEST_CASE("how fast a device's kernels are is learnt with the software that launches them") {
  // A board whose products and attention are slower than its profile's, and some of its streaming kernels.
  const std::vector<std::string> slower = {
      "cluster.device.sustained.matmul=0.88", "cluster.device.attention_kernels.flash_2.forward=0.3",
      "cluster.device.streaming.efficiency.layer_norm=0.5", "cluster.device.streaming.efficiency.gelu_backward=0.6",
      "cluster.device.streaming.efficiency.accumulate=0.62"};
  const Folder folder;
  const std::string moved = folder.write(
      "moved.yaml", "name: moved\ninherits: nanotron-2025\ntensor_overlap_slowdown: 1.12\nkernel_issue: 3 us\n");
  const std::vector<tools::Trace> traces = tools::predict(scenarios::load_scenario(scenario(moved, slower)), {0, 31});
  const sim::Settings traced = scenario("nanotron-2025");
  const tools::Learnt learnt = tools::learn(traced, traces, 2);
  const auto kernels = tools::learn_kernels(tools::with_software(traced, learnt), traces);
  const std::string device = folder.write("device.yaml", tools::device_text(kernels, traced, {"a trace"}));
  const std::string found = folder.write("learnt.yaml", tools::software_text(learnt, traced, "learnt", {"a trace"}));
  for (const tools::LearntKernels& row : kernels) {
    if (row.what == std::string("matrix products")) CHECK(row.values.front() == Approx(0.88).epsilon(0.01));
    if (row.what == std::string("attention")) CHECK(row.values.front() == Approx(0.3).epsilon(0.01));
    if (row.what == std::string("norms")) CHECK(row.values.front() == Approx(0.5).epsilon(0.01));
    CHECK_FALSE(row.at_bound);
  }
  CHECK(kernels.size() >= 6);
  double without = 0;  // the device's document
  for (const std::vector<std::string>& sets :
       std::vector<std::vector<std::string>>{{},
                                             {"parallelism.tensor=2", "parallelism.data=8"},
                                             {"batch.global=128", "batch.micro=2"},
                                             {"model.seq=8192"}}) {
    INFO(fmt::format("{}", fmt::join(sets, " ")));
    std::vector<std::string> true_sets = slower, found_sets{"cluster.device=" + device};
    true_sets.insert(true_sets.end(), sets.begin(), sets.end());
    found_sets.insert(found_sets.end(), sets.begin(), sets.end());
    const double truth = step(moved, true_sets, kTraced);
    CHECK(step(found, found_sets, kTraced) == Approx(truth).epsilon(0.01));
    without = std::max(without, 1 - step(found, sets, kTraced) / truth);
  }
  CHECK(without > 0.01);
}

TEST_CASE("a trace beside the prediction of the same step differs nowhere, beside another where it should") {
  const scenarios::Scenario job = scenarios::load_scenario(scenario("nanotron-2025"));
  const std::vector<tools::Trace> same = tools::predict(job, {0, 31});
  for (const tools::DifferenceRow& row : tools::difference_of(same, same, {0, 31}).rows) CHECK(row.difference_s() == 0);
  // Twice the copies of q, k and v: the copies are what differs most.
  const scenarios::Scenario more = scenarios::load_scenario(scenario("nanotron-2025", {"software.qkv_copies=9"}));
  const tools::Difference d = tools::difference_of(same, tools::predict(more, {0, 31}), {0, 31});
  double sum = 0;
  const tools::DifferenceRow* most = nullptr;
  for (const tools::DifferenceRow& row : d.rows) {
    sum += row.difference_s();
    if (most == nullptr && !row.part.idle) most = &row;
  }
  CHECK(sum == Approx(d.predicted.step_s - d.measured.step_s).margin(1e-9));
  REQUIRE(most != nullptr);
  CHECK(tools::text(most->part) == "forward: copies and casts");
}
