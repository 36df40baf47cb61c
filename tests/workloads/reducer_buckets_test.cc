// How PyTorch's Reducer puts gradients into buckets, and what one queue for all streams of a GPU makes of reductions
// under a pipeline.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;
using Sets = std::vector<std::string>;

namespace {

constexpr double kMatrix = 1024 * 1024;  // elements of a square weight

/// Blocks of 4, 4, 1 and 3 square weights in the order of the backward pass, and two norms; an embedding and a head of
/// one, and a norm. `stages` of one block each.
Sets untied(const std::string& stages, const Sets& more) {
  Sets sets{
      "model={kind: gpt, layers: 2, hidden: 1024, heads: 8, ffn_hidden: 4096, vocab: 1024, seq: 64, "
      "tied_embeddings: false, positions: rotary, norm: rms_norm, biases: none}",
      "software.pads_vocabulary=false",
      "parallelism={tensor: 1, pipeline: " + stages + ", data: 2, sharding: none}",
      "batch={global: 2, micro: 1}",
      "overlap.gradients=true",
      "cluster.gpus=" + std::to_string(2 * std::stoi(stages)),
      "cluster.gpus_per_node=1"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::string bytes(double matrices) { return std::to_string(static_cast<long>(matrices * kMatrix * 4)) + " B"; }

/// compute_bucket_assignment_by_size of torch/csrc/distributed/c10d/reducer.cpp.
int buckets(const std::vector<double>& weights, double first, double others) {
  int closed = 0;
  double filled = 0, limit = first;
  for (const double weight : weights) {
    filled += weight;
    if (filled < limit) continue;
    ++closed;
    filled = 0;
    limit = others;
  }
  return closed + (filled > 0 ? 1 : 0);
}

}  // namespace

TEST_CASE("a bucket is closed by the weight that fills it, and the first of a stage by another size") {
  const double norm = 1024 / kMatrix;
  std::vector<double> weights{1, norm};
  for (int block = 0; block < 2; ++block)
    for (const double weight : {4.0, 4.0, 1.0, 3.0, norm, norm}) weights.push_back(weight);
  weights.push_back(1);
  for (const double first : {0.5, 4.5, 30.0}) {
    for (const double others : {0.5, 3.5, 4.5, 8.5, 30.0}) {
      INFO("first " << first << ", others " << others);
      const Job job = small_job(untied(
          "1", {"software.gradient_buckets_by_weight=true", "software.first_gradient_bucket='" + bytes(first) + "'",
                "software.gradient_bucket='" + bytes(others) + "'"}));
      double calls = 0, sent = 0;
      for (const TrafficRow& row : simulate_step(job).traffic) {
        if (row.what != "gradients, backward") continue;
        calls += row.calls;
        sent += row.calls * row.bytes_per_call;
      }
      CHECK(calls == buckets(weights, first, others));
      CHECK(sent == Approx(4 * kMatrix * (2 * 12 + 2 + 5 * norm)));
    }
  }
}

TEST_CASE(
    "with one queue for all streams a stage hands its last gradients on when its reductions are done but for one") {
  // A link so slow that nothing else matters. Both stages have as much to reduce, and the last bucket is two norms: one
  // stage after the other takes twice as long as both at a time.
  const auto seconds = [](const char* queue) {
    return sim::to_seconds(
        simulate_step(
            small_job(untied(
                "2", {"cluster.fabric={inherits: tomahawk4-200g, gpu_spread: 0, nic_rate: 1 Gb/s}",
                      "software.gradient_buckets_by_weight=true", "software.gradient_bucket='" + bytes(3.5) + "'",
                      std::string("software.one_launch_queue=") + queue})))
            .iteration);
  };
  CHECK(seconds("true") / seconds("false") == Approx(2).epsilon(0.03));
}
