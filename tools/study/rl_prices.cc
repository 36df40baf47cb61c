// Prices of a step of reinforcement learning. See rl_prices.h.
//
// A model's weights lie with a group of the trainer's GPUs: tensor, expert and pipeline ranks, or those that share them
// out. `gather`: each of these gets every tensor whole, a bucket a call, and copies its engine's share. `broadcast`:
// the same, then the first sends the buckets to all GPUs of the engine. `point_to_point`: each GPU of the engine is
// sent the part of the weights that it holds by those of a copy in the trainer that hold it, copies in turn; all flows
// begin at once, and the busiest link of the fabric says when the last is over (max-min sharing ends no sooner, and no
// later where that link's flows are bound by nothing else). Experts are taken to be cut as other weights are.
#include "tools/study/rl_prices.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "workloads/collectives/collective.h"
#include "workloads/step/step.h"

namespace orrery::tools {

using scenarios::RlScenario;
using workloads::CollectiveOp;

namespace {

constexpr double kPricePicoseconds = 1e12;

rl::Time rl_picoseconds(double seconds) { return static_cast<rl::Time>(std::llround(seconds * kPricePicoseconds)); }

/// Tensors of a checkpoint as models are published: each expert's projections are tensors of their own.
double published_tensors(const workloads::Model& model) {
  const double layers = static_cast<double>(model.layers), attention = 6, mlp = 3;  // with their norms
  if (!model.experts.any()) return layers * (attention + mlp) + 3;
  return layers * (attention + 1 + mlp * static_cast<double>(model.experts.count)) + 3;
}

/// Of the whole model, as the engine has it.
double moved_bytes(const RlScenario& s) {
  const workloads::ServedReplica& replica = s.rollout.replica;
  return workloads::weight_bytes(workloads::served_pass(replica.model, {}, replica.precision, replica.gpus_per_node));
}

/// GPUs of the trainer that hold a model's weights together, in each of its stages so many neighbours.
struct Holders {
  std::int64_t width = 1, stages = 1, stage_gpus = 1;
  std::vector<std::int64_t> gpus() const {
    std::vector<std::int64_t> all;
    for (std::int64_t stage = 0; stage < stages; ++stage)
      for (std::int64_t i = 0; i < width; ++i) all.push_back(stage * stage_gpus + i);
    return all;
  }
  std::int64_t copies() const { return stage_gpus / width; }
};

Holders holders_of(const workloads::Parallelism& layout, std::int64_t gpus, std::int64_t shard_ranks) {
  Holders holders;
  holders.stages = layout.pipeline;
  holders.stage_gpus = gpus / layout.pipeline;
  holders.width = std::max(layout.tensor, layout.expert * layout.expert_tensor);
  if (layout.sharding == calibration::Sharding::parameters)
    holders.width = std::max(holders.width, layout.tensor * layout.context * shard_ranks);
  holders.width = std::min(holders.width, holders.stage_gpus);
  return holders;
}

double seconds_of_calls(CollectiveOp op, const std::vector<std::int64_t>& gpus, double bytes, double bucket,
                        const topology::Cluster& cluster, const workloads::Machine& machine,
                        const calibration::Software& software) {
  if (gpus.size() < 2) return 0;
  const double calls = std::max(1.0, std::ceil(bytes / bucket));
  const std::array<double, 1> size{bytes / calls};
  return calls *
         sim::to_seconds(workloads::time_collective(op, size, gpus, cluster, machine.device, software).front().time);
}

/// Flows from holders to the engine's GPUs, by the busiest link.
double seconds_of_flows(const RlScenario& s, const Holders& holders, double bytes, const topology::Cluster& cluster) {
  const workloads::ServedLayout& engine = s.rollout.replica.layout;
  const std::int64_t first = s.spec.placement == rl::Placement::colocated ? 0 : s.training_gpus;
  std::vector<double> load;
  sim::Duration latency{};
  const auto overlap = [](std::int64_t a, std::int64_t of_a, std::int64_t b, std::int64_t of_b) {
    const double from = std::max(static_cast<double>(a) / static_cast<double>(of_a),
                                 static_cast<double>(b) / static_cast<double>(of_b));
    const double until = std::min(static_cast<double>(a + 1) / static_cast<double>(of_a),
                                  static_cast<double>(b + 1) / static_cast<double>(of_b));
    return std::max(0.0, until - from);
  };
  const std::int64_t copies = std::max<std::int64_t>(1, holders.copies());
  std::size_t flow = 0;
  for (std::int64_t to = 0; to < s.rollout.replicas * engine.gpus(); ++to) {
    const std::int64_t replica = to / engine.gpus(), stage = to % engine.gpus() / engine.stage_gpus(),
                       rank = to % engine.stage_gpus() % engine.tensor;
    for (std::int64_t p = 0; p < holders.stages; ++p) {
      const double layers = overlap(stage, engine.pipeline, p, holders.stages);
      if (!(layers > 0)) continue;
      for (std::int64_t w = 0; w < holders.width; ++w) {
        const double share = layers * overlap(rank, engine.tensor, w, holders.width);
        const std::int64_t from = p * holders.stage_gpus + (replica % copies) * holders.width + w;
        if (!(share > 0) || from == first + to) continue;
        const topology::Path path = cluster.path(from, first + to, flow++);
        for (const sim::WeightedLink& link : path.links) {
          const std::size_t at = sim::index(link.link);
          if (load.size() <= at) load.resize(at + 1, 0);
          load[at] += share * bytes * link.weight;
        }
        latency = std::max(latency, path.latency);
      }
    }
  }
  double seconds = 0;
  std::size_t at = 0;
  for (const auto& link : cluster.links()) {
    if (at < load.size()) seconds = std::max(seconds, load[at] / link.capacity.value());
    ++at;
  }
  return seconds + sim::to_seconds(latency);
}

WeightTransfer weight_transfer_of(const RlScenario& s, const workloads::IterationTimes& times) {
  WeightTransfer transfer;
  const calibration::RlFramework::Weights& how = s.framework.weights;
  transfer.bytes = moved_bytes(s);
  transfer.tensors = published_tensors(s.rollout.replica.model);
  transfer.receivers = s.rollout.replicas * s.rollout.replica.layout.gpus();
  const Holders holders = holders_of(s.update.parallelism, s.training_gpus, s.update.shard_ranks());
  transfer.holders = holders.width * holders.stages;
  workloads::Site site = workloads::site_of(s.update);
  site.gpus = s.gpus;
  site.gpus_per_node = std::max(site.gpus_per_node, s.rollout.machine.gpus_per_node);
  if (s.gpus > site.gpus_per_node && s.update.machine.fabric.kind == &topology::fabrics::none)
    site.fabric = s.rollout.machine.fabric;
  const topology::Cluster cluster = workloads::cluster_of(site);
  const double bucket = how.bucket > 0 ? how.bucket : transfer.bytes / transfer.tensors;
  transfer.beside = how.buffers == calibration::Buffers::two;
  transfer.host_s = how.tensor * transfer.tensors;
  // Each GPU reads and writes what it keeps once more, from the call's buffer to where its engine has it.
  transfer.copy_s = 2 * workloads::weight_bytes(times.pass()) / s.update.machine.device.memory_bandwidth().value();
  if (s.route == calibration::WeightRoute::point_to_point) {
    transfer.send_s = seconds_of_flows(s, holders, transfer.bytes, cluster);
    return transfer;
  }
  transfer.gather_s = seconds_of_calls(CollectiveOp::all_gather, holders.gpus(), transfer.bytes, bucket, cluster,
                                       s.update.machine, s.update.software);
  if (s.route == calibration::WeightRoute::broadcast && s.spec.placement != rl::Placement::colocated) {
    std::vector<std::int64_t> gpus(static_cast<std::size_t>(transfer.receivers) + 1, 0);
    std::iota(gpus.begin() + 1, gpus.end(), s.training_gpus);
    transfer.send_s = seconds_of_calls(CollectiveOp::broadcast, gpus, transfer.bytes, bucket, cluster, s.update.machine,
                                       s.update.software);
  }
  return transfer;
}

}  // namespace

RlPrices rl_prices(const RlScenario& s, workloads::IterationTimes& times) {
  RlPrices prices;
  const workloads::StepReport update = workloads::simulate_step(s.update);
  prices.update = update.iteration;
  prices.fits = update.memory.fits;
  prices.peak_bytes = update.memory.peak_bytes;
  prices.capacity_bytes = update.memory.capacity_bytes;
  rl::Prices& t = prices.times;
  const rl::Time one = update.iteration.value();
  t.training = s.updates() * one;
  prices.transfer = weight_transfer_of(s, times);
  t.weight_transfer = rl_picoseconds(prices.transfer.seconds());
  const workloads::StageMemory& stage = update.memory.stages.at(update.memory.tightest);
  const topology::NodeSpec::Host& host = s.update.machine.node.host;
  const double rate = host.link.value() * static_cast<double>(host.links) /
                      static_cast<double>(s.update.machine.node.gpus) * s.framework.swap.efficiency;
  const bool answers = s.spec.batch.answer.mean > 0 || !s.spec.batch.answer.percentiles.empty();
  if (s.spec.placement == rl::Placement::colocated && answers) {
    const calibration::Offloaded offloads = s.framework.swap.offloads;
    if (offloads != calibration::Offloaded::nothing) prices.swapped_bytes = stage.optimizer;
    if (offloads == calibration::Offloaded::everything) prices.swapped_bytes += stage.parameters;
    t.to_engine = t.to_trainer = rl_picoseconds(prices.swapped_bytes / rate + s.framework.swap.seconds);
  }
  if (!answers) return prices;  // nothing is written, so that nothing is judged or scored
  workloads::Question brief;
  brief.parts = workloads::Question::Parts::times;
  prices.score_s = workloads::simulate_step(s.score, brief).evaluation.seconds -
                   sim::to_seconds(s.score.software.host.evaluation_host);
  const rl::Time score = rl_picoseconds(prices.score_s);
  if (s.old_logprobs == calibration::OldLogprobs::trainer) t.logprob = score;
  if (s.reference) {
    t.reference = score;
    if (s.framework.reference == calibration::ReferencePlace::swapped)
      t.reference += rl_picoseconds(2 * stage.parameters / rate);
  }
  if (s.critic) t.critic = score + t.training;
  t.reward = rl_picoseconds(s.reward_seconds) + (s.reward == scenarios::RlReward::model ? score : 0);
  t.host = rl_picoseconds(s.framework.host.step + s.framework.host.sample * static_cast<double>(s.spec.batch.count()));
  constexpr std::int64_t kChunk = 8192;
  const std::array<serving::Piece, 1> piece{{{kChunk, 0}}};
  t.per_cached_token = times.mixed({0, 0, piece, 1}) / kChunk;
  return prices;
}

}  // namespace orrery::tools
