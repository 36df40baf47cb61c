// What is perturbed stands among the assumptions, so that no reader takes a disturbed step for a healthy one.
#include <algorithm>
#include <string>

#include "scenarios/scenario.h"
#include "tests/catch.h"

using namespace orrery;

namespace {

constexpr const char* kToy =
    "name: toy\n"
    "cluster: {device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}\n"
    "model: {kind: gpt, layers: 4, hidden: 1024, heads: 16, vocab: 51200, seq: 2048}\n"
    "parallelism: {tensor: 2, data: 16}\n"
    "batch: {global: 32, micro: 1}\n";

std::vector<std::string> assumptions(const std::string& more) {
  return scenarios::load_scenario(scenarios::parse_yaml(kToy + more, "toy.yaml")).job.assumptions;
}

bool says(const std::vector<std::string>& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

}  // namespace

TEST_CASE("every perturbation is named among the assumptions") {
  const auto lines = assumptions(
      "perturb:\n"
      "  slow_gpus: [{gpu: 3, slowdown: 1.5}, {gpu: 4, slowdown: 2}]\n"
      "  slow_nics: [{node: 1, nic: 2, rate: 0.5}]\n"
      "  background: {leaf: 0.25}\n"
      "  jitter: {sigma: 0.1, seed: 7}\n"
      "  message_jitter: {sigma: 0.2, seed: 8}\n");
  CHECK(says(lines, "perturb.slow_gpus: GPU 3 computes 1.5 times as long, GPU 4 computes 2 times as long."));
  CHECK(says(lines, "perturb.slow_nics: NIC 2 of node 1 at 0.5 of its rate."));
  CHECK(says(lines, "perturb.background: others' traffic takes 0.25 of every leaf link."));
  CHECK(says(lines, "perturb.jitter: compute times vary by a lognormal of sigma 0.1, seed 7."));
  CHECK(says(lines, "perturb.message_jitter: latencies of transfers vary by a lognormal of sigma 0.2, seed 8."));
}

TEST_CASE("of many slow GPUs the first are named and the others counted") {
  std::string list;
  for (int gpu = 0; gpu < 20; ++gpu) list += (gpu > 0 ? ", {gpu: " : "{gpu: ") + std::to_string(gpu) + ", slowdown: 2}";
  const auto lines = assumptions("perturb: {slow_gpus: [" + list + "]}\n");
  const auto line =
      std::find_if(lines.begin(), lines.end(), [](const std::string& l) { return l.starts_with("perturb"); });
  REQUIRE(line != lines.end());
  CHECK(line->ends_with("and 14 more."));
  CHECK(line->size() < 300);
}

TEST_CASE("a placement out of order is named, and nothing is where nothing is disturbed") {
  CHECK(says(assumptions("placement: {random_seed: 5}\n"), "placement: GPUs are dealt out at random, seed 5."));
  for (const std::string& line : assumptions("")) {
    CHECK_FALSE(line.starts_with("perturb"));
    CHECK_FALSE(line.starts_with("placement"));
  }
}
