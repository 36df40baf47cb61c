// Lower bound of a step, from the rules of a plan (sim/plan.h) and of its programs (workloads/stage_program.h).
//
// On one rank the operations of a stream run one after the other, each for at least its duration; a transfer takes at
// least its latency and its bytes at its rate cap, and across nodes at the rate of the NICs that its ring leaves a node
// through. A collective that compute waits for lies between two operations of the compute stream. So a stage with m
// micro-batches needs W = m x (its passes) of every stream, whatever the schedule. Under GPipe, 1F1B and interleaved
// 1F1B the first pass of stage s is the forward pass of its first chunk, which waits for those of the stages before it;
// its last pass is the backward pass of the same chunk, which those stages wait for. With w the compute of these two:
//   step >= max over s of (sum_{i<s} w_i + W_s) + the slowest stage's optimizer,
// since the optimizer's kernels wait for the gradient norm of all stages. Under any other schedule the mean of W over
// the stages stands for the maximum. The streams of tensor and data collectives and the host bound the step as well.
//
// Left out, each of which only makes a step longer: pipeline messages, the latency of routes, sharing of links, buckets
// (all of a stage's gradients count as one transfer without latency), slower kernels beside data collectives, and the
// host except as a whole. A chunk of no layers counts nothing: what it costs beside a layer is all that is worked out.
#include "workloads/step_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "workloads/collectives/collective.h"
#include "workloads/models/gpt.h"
#include "workloads/pass_template.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/step_plan.h"

namespace orrery::workloads {

namespace {

// Rounding to whole picoseconds, several times over.
constexpr double kSafety = 1 - 1e-9;

double d(std::int64_t x) { return static_cast<double>(x); }

/// Picoseconds that a transfer takes at least.
double least_time(const CollectiveCost& cost, const GroupShape& shape, double across_nodes) {
  double rate = cost.rate_cap > 0 ? cost.rate_cap : std::numeric_limits<double>::infinity();
  if (shape.nodes > 1) rate = std::min(rate, across_nodes);
  return std::max(0.0, d(cost.latency.value()) + cost.work / rate * sim::kPicosecondsPerSecond);
}

/// A ring sends an equal share through each of the NICs of a node that it uses, at most one per member and all there
/// are.
double rate_across_nodes(const GroupShape& shape, const topology::Cluster& cluster) {
  if (shape.nodes <= 1) return std::numeric_limits<double>::infinity();
  double nic = 0;
  for (const sim::LinkId link : cluster.nic_links(0, 0)) nic = std::max(nic, cluster.links()[link].capacity.value());
  return nic * d(std::min(cluster.nics_per_node(), shape.per_node));
}

bool has_classic_order(ScheduleKind schedule) {
  return schedule == ScheduleKind::gpipe || schedule == ScheduleKind::one_f_one_b ||
         schedule == ScheduleKind::interleaved_1f1b;
}

bool is_perturbed(const Perturbation& perturbation) {
  return !perturbation.slow_gpus.empty() || !perturbation.slow_nics.empty() || perturbation.jitter_sigma > 0 ||
         perturbation.message_sigma > 0 || !perturbation.faults.empty();
}

double optimizer_time(const Job& job, double parameters) {
  const double owners = job.parallelism.sharding != Sharding::none ? d(job.shard_ranks()) : 1.0;
  double ps = 0;
  for (const Kernel& kernel : optimizer_kernels(job, parameters, parameters / owners)) ps += d(kernel.time.value());
  return ps;
}

}  // namespace

StepBound::Load& StepBound::Load::operator+=(const Load& other) {
  compute += other.compute, tensor += other.tensor, issue += other.issue;
  return *this;
}
StepBound::Load StepBound::Load::operator-(const Load& other) const {
  return {compute - other.compute, tensor - other.tensor, issue - other.issue};
}
StepBound::Load StepBound::Load::operator*(double times) const {
  return {compute * times, tensor * times, issue * times};
}

const topology::Cluster& StepBound::cluster_of(const Job& job) {
  std::unique_ptr<topology::Cluster>& cluster = clusters_[job.gpus];
  if (!cluster) {
    cluster = std::make_unique<topology::Cluster>(job.node, job.fabric, job.gpus, job.gpus_per_node, sim::Settings());
  }
  return *cluster;
}

const StepBound::Places& StepBound::places_of(const Job& job) {
  const Parallelism& p = job.parallelism;
  const auto [found, fresh] =
      places_.try_emplace(fmt::format("{} {} {} {} {} {} {}", job.gpus, p.tensor, p.pipeline, p.data, p.context,
                                      job.shard_ranks(), p.sharding != Sharding::none));
  if (fresh) {
    const topology::Cluster& cluster = cluster_of(job);
    Places& places = found->second;
    places.shapes = group_shapes(job, RankMap(job), cluster);
    places.tensor_rate = rate_across_nodes(places.shapes.tensor, cluster);
    places.data_rate = rate_across_nodes(places.shapes.data, cluster);
  }
  return found->second;
}

const StepBound::Costs& StepBound::costs_of(const Job& job) {
  const Places& places = places_of(job);
  const GroupShape& group = places.shapes.tensor;
  const Precision& precision = job.precision;
  const auto [found, fresh] = costs_.try_emplace(
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", job.gpus, job.parallelism.tensor, group.nodes,
                  group.per_node, group.rails, group.hop.value(), job.parallelism.context, job.batch.micro,
                  job.parallelism.sequence_parallel, static_cast<int>(job.recompute), static_cast<int>(job.attention),
                  static_cast<int>(precision.matmul), static_cast<int>(precision.activations),
                  static_cast<int>(precision.gradients), job.overlap.tensor,
                  static_cast<int>(job.parallelism.context_method), splits_backward(job.parallelism.schedule)));
  if (!fresh) return found->second;
  StagePrograms unused;
  TemplateLibrary library(job, places.shapes, cluster_of(job), unused);
  const std::vector<PassKind> kinds =
      splits_backward(job.parallelism.schedule)
          ? std::vector<PassKind>{PassKind::forward, PassKind::input_gradient, PassKind::weight_gradient}
          : std::vector<PassKind>{PassKind::forward, PassKind::backward};
  const auto load = [&](const ChunkShape& shape) {
    Load sum;
    const PassTemplate& passes = library.of(shape);
    for (const PassKind kind : kinds) {
      for (const PassItem& item : passes.of(kind)) {
        if (!item.comm) {
          sum += {d(item.duration.value()), 0, d(item.issue.value())};
          continue;
        }
        const double time =
            item.context ? least_time(item.cost, {}, 0) : least_time(item.cost, group, places.tensor_rate);
        sum += {item.passes_by == 0 ? time : 0, item.context ? 0 : time, d(job.software.transfer_issue.value())};
      }
    }
    return sum;
  };
  const Load layer = load({1, false, false});
  found->second = {layer, load({1, true, false}) - layer, load({1, false, true}) - layer};
  return found->second;
}

StepBound::Load StepBound::load_of(const Costs& costs, const ChunkShape& shape) const {
  if (shape.layers == 0) return {};
  Load load = costs.layer * d(shape.layers);
  if (shape.embedding) load += costs.embedding;
  if (shape.head) load += costs.head;
  return load;
}

StepBound::DataLoad StepBound::data_load(const Job& job, double layers, double parameters) {
  DataLoad load;
  const std::int64_t owners = job.shard_ranks();
  if (owners == 1) return load;
  const Places& places = places_of(job);
  const double gradient = calibration::bytes_of(job.precision.gradients);
  const double parameter = calibration::bytes_of(job.precision.parameters);
  if (job.parallelism.sharding == Sharding::parameters) {
    const auto time = [&](CollectiveOp op, double bytes) {
      const CollectiveCost cost =
          collective_cost(op, bytes, places.shapes.data, job.device, job.software, cluster_of(job));
      return least_time(cost, places.shapes.data, places.data_rate);
    };
    const double layer = shard_parameters(job).layer, passes = d(job.microbatches()) * layers;
    const double gathers = 2 * passes * time(CollectiveOp::all_gather, layer * parameter);
    const double scatters = passes * time(CollectiveOp::reduce_scatter, layer * gradient);
    load.beside = gathers + scatters;
    if (!job.overlap.parameters) load.within += gathers;
    return load;
  }
  if (places.shapes.data.nodes <= 1) return load;
  const bool sharded = job.parallelism.sharding != Sharding::none;
  const auto time = [&](CollectiveOp op, double bytes) {
    return least_bytes_between_nodes(op, bytes, places.shapes.data, job.software) / places.data_rate *
           sim::kPicosecondsPerSecond;
  };
  const double reduce =
      time(sharded && !job.software.all_reduces_shards ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce,
           parameters * gradient);
  const double gather = sharded ? time(CollectiveOp::all_gather, parameters * parameter) : 0;
  (job.overlap.gradients ? load.beside : load.reduce) += reduce;
  (job.overlap.parameters ? load.beside : load.gather) += gather;
  return load;
}

sim::Duration StepBound::of(const Job& job) {
  if (is_perturbed(job.perturbation)) return {};
  const Costs costs = costs_of(job);
  const std::int64_t stages = job.parallelism.pipeline, chunks = job.parallelism.virtual_pipeline;
  const double microbatches = d(job.microbatches());
  const LayerSplit split = split_layers(job);
  const bool classic = has_classic_order(job.parallelism.schedule);
  // All stages are done with their passes before any optimizer begins; one stage's gather follows its own optimizer.
  double passed = 0, optimizer = 0, gathered = 0, parameters = 0;
  const auto consider = [&](const Load& load, double before, double optimizing, const DataLoad& data) {
    const double passes = std::max({microbatches * load.compute + before + data.within, microbatches * load.tensor,
                                    microbatches * load.issue, data.beside}) +
                          data.reduce;
    passed = std::max(passed, passes);
    optimizer = std::max(optimizer, optimizing);
    gathered = std::max(gathered, passes + optimizing + data.gather);
  };
  Load all;
  double before = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    Load own;
    double layers = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      own += load_of(costs, split.of(chunk, stage, stages));
      layers += d(split.of(chunk, stage, stages).layers);
    }
    all += own;
    const double held = stage_parameters(job, split, stage);
    parameters += held;
    if (!classic) continue;
    consider(own, before, optimizer_time(job, held), data_load(job, layers, held));
    before += load_of(costs, split.of(0, stage, stages)).compute;
  }
  if (!classic) {  // the busiest stage does at least as much as the mean
    const double share = 1 / d(stages);
    // Two copies of the model share the micro-batches out; what their data parallelism costs is left out.
    const bool two_copies = ChunkMap(job).order() == ChunkOrder::both_ways;
    DataLoad data = two_copies ? DataLoad{} : data_load(job, d(job.model.layers) * share, parameters * share);
    data.gather = 0;
    consider(all * (two_copies ? share / 2 : share), 0, optimizer_time(job, parameters * share), data);
  }
  return sim::Duration(static_cast<std::int64_t>(std::max(passed + optimizer, gathered) * kSafety));
}

}  // namespace orrery::workloads
