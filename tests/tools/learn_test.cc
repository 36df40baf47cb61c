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

struct Moved {
  const char *key, *unit;
  double low, high;
};
/// Seventeen numbers and where each is moved to at random.
constexpr Moved kMoved[] = {{"kernel_issue", "us", 2, 12},
                            {"backward_issue_share", "", 0.5, 1.2},
                            {"microbatch_host", "us", 50, 1500},
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

std::string moved_software(unsigned seed) {
  std::mt19937 random(seed);
  std::string text = "name: moved\ninherits: nanotron-2025\n";
  for (const Moved& m : kMoved) {
    const double value = std::uniform_real_distribution<double>(m.low, m.high)(random);
    text += fmt::format("{}: {:.3f}{}{}\n", m.key, value, *m.unit != '\0' ? " " : "", m.unit);
  }
  return text;
}

sim::Settings scenario(const std::string& software, const std::vector<std::string>& sets = {}) {
  sim::Settings document = scenarios::parse_yaml(kTraced, "traced.yaml");
  scenarios::apply_set(document, "software=" + software);
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return document;
}

double step(const std::string& software, const std::vector<std::string>& sets) {
  const workloads::Job job = scenarios::load_scenario(scenario(software, sets)).job;
  return sim::to_seconds(workloads::simulate_step(job).iteration);
}

std::vector<tools::Trace> traces_of(const std::string& software) {
  return tools::predict(scenarios::load_scenario(scenario(software)).job, {0, 31});
}

}  // namespace

TEST_CASE("a generation moved at random is learnt from the trace of one layout and predicts eight others") {
  const std::vector<std::vector<std::string>> others = {
      {"parallelism.tensor=8", "parallelism.data=2"},
      {"parallelism.tensor=2", "parallelism.data=8"},
      {"parallelism.pipeline=4", "parallelism.data=2"},
      {"parallelism.pipeline=1", "parallelism.data=8"},
      {"batch.global=128", "batch.micro=2"},
      {"cluster.gpus=256", "parallelism.data=32", "batch.global=256"},
      {"model.seq=8192"},
      {"model.layers=32", "parallelism.pipeline=8", "cluster.gpus=128"}};
  double unlearnt = 0;
  for (const unsigned seed : {1U, 2U}) {
    INFO("seed " << seed);
    const Folder folder;
    const std::string moved = folder.write("moved.yaml", moved_software(seed));
    const sim::Settings traced = scenario("nanotron-2025");  // what the learner is told: another generation
    const tools::Learnt learnt = tools::learn(traced, traces_of(moved), 2);
    CHECK(learnt.features.empty());
    CHECK(learnt.without.empty());
    CHECK(learnt.misfit_after < 0.01);
    CHECK(learnt.misfit_before > 0.05);
    const std::string found = folder.write("learnt.yaml", tools::software_text(learnt, traced, "learnt", {"a trace"}));
    for (const std::vector<std::string>& sets : others) {
      INFO(fmt::format("{}", fmt::join(sets, " ")));
      const double truth = step(moved, sets);
      CHECK(step(found, sets) == Approx(truth).epsilon(0.01));
      unlearnt = std::max(unlearnt, std::abs(step("nanotron-2025", sets) / truth - 1));
    }
  }
  CHECK(unlearnt > 0.1);  // else nothing was there to be learnt
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

TEST_CASE("a trace beside the prediction of the same step differs nowhere, beside another where it should") {
  const workloads::Job job = scenarios::load_scenario(scenario("nanotron-2025")).job;
  const std::vector<tools::Trace> same = tools::predict(job, {0, 31});
  for (const tools::DifferenceRow& row : tools::difference_of(same, same, {0, 31}).rows) CHECK(row.difference_s() == 0);
  // Twice the copies of q, k and v: the copies are what differs most.
  const workloads::Job more = scenarios::load_scenario(scenario("nanotron-2025", {"software.qkv_copies=9"})).job;
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
