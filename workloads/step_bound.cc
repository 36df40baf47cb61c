// Lower bound of a step, from the rules of a plan (sim/plan.h) and of its programs (workloads/stage_program.h).
//
// On one rank the operations of a stream run one after the other, each for at least its duration; a transfer takes at
// least its latency and its bytes at its rate cap, and across nodes at the rate of the NICs that its ring leaves a node
// through. Collectives that compute waits for lie between two operations of the compute stream: those of one stream in
// turn, the tensor's beside the context's. So a stage needs W, the sum over its passes, of every stream, whatever their
// order. Each pass counts as the schedule has it, its backward half whole or cut in two: neither is sure to be the
// shorter, since a reduction that runs beside the weight gradients of a whole pass stands alone in a cut one, where
// these gradients run at their full speed. DualPipe has both.
//
// Under nested schedules (Schedule::nested; 1F1B and its kin) the first pass of stage s is the forward pass of its
// first chunk, which waits for those of the stages before it; its last pass is the backward pass of the same chunk,
// which those stages wait for. With w the compute of these two, and nothing under any other schedule:
//   step >= max over s of (sum_{i<s} w_i + W_s) + the slowest stage's optimizer,
// since the optimizer's kernels wait for the gradient norm of all stages. The streams of tensor and data collectives
// and the host bound the step as well. Where stages step their optimizers apart, the step is the longest time that a
// stage is at work: neither other stages nor what a stage's host or data stream does ahead of its first pass count.
//
// Left out, each of which only makes a step longer: pipeline messages, the latency of routes, sharing of links, buckets
// (all of a stage's gradients count as one transfer without latency), slower kernels beside data collectives, the
// kernel that copies a micro-batch, and the host except as a whole: what it waits for (a message, a micro-batch that it
// reads back) holds it up. A chunk of no layers counts nothing: what it costs beside a layer is all that is worked out.
#include "workloads/step_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "workloads/collectives/collective.h"
#include "workloads/model/gpt.h"
#include "workloads/program_writer.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/step_plan.h"
#include "workloads/unit_overlap.h"

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

bool is_perturbed(const Perturbation& perturbation) {
  return !perturbation.slow_gpus.empty() || !perturbation.slow_nics.empty() || perturbation.jitter_sigma > 0 ||
         perturbation.message_sigma > 0 || !perturbation.faults.empty();
}

double optimizer_time(const Job& job, double parameters) {
  const double owners = job.parallelism.sharding != Sharding::none ? d(job.shard_ranks()) : 1.0;
  double ps = 0;
  for (const Kernel& kernel : optimizer_kernels(job.optimizer, job.precision, job.software.optimizer, job.device,
                                                parameters, parameters / owners))
    ps += d(kernel.time.value());
  return ps;
}

}  // namespace

StepBound::Load& StepBound::Load::operator+=(const Load& other) {
  compute += other.compute;
  tensor += other.tensor;
  issue += other.issue;
  return *this;
}
StepBound::Load StepBound::Load::operator*(double times) const {
  return {compute * times, tensor * times, issue * times};
}

StepBound::Load StepBound::LayerCosts::of(const Network& network, const LayerRange& range) const {
  Load load;
  if (kinds.empty() || count(network, range, LayerKind::block) == 0) return load;
  for (std::int64_t i = range.begin; i < range.end; ++i) load += kinds[network.layers[static_cast<std::size_t>(i)]];
  return load;
}

/// One pass. `by_unit`: collectives of data parallelism may run beside the tensor's first and last of a layer.
StepBound::Load StepBound::load_of(const std::vector<PassItem>& items, const Job& job, const GroupShape& group,
                                   double across_nodes, bool by_unit) {
  Load sum;
  double tensor = 0, context = 0;  // since the last operation of the compute stream
  bool at_edge = true;
  std::int32_t layer = -1;
  for (const PassItem& item : items) {
    at_edge = at_edge || item.layer != layer;
    layer = item.layer;
    if (item.comm) {
      const double time = item.context ? least_time(item.cost, {}, 0) : least_time(item.cost, group, across_nodes);
      if (item.passes_by == 0) (item.context ? context : tensor) += time;
      sum += {0, item.context ? 0 : time, d(job.software.host.transfer_issue.value())};
      continue;
    }
    if (!(by_unit && at_edge)) sum.compute += std::max(tensor, context);
    tensor = context = 0;
    at_edge = false;
    sum += {d(item.duration.value()), 0, d(item.issue.value())};
  }
  if (!by_unit) sum.compute += std::max(tensor, context);
  return sum;
}

const topology::Cluster& StepBound::cluster_of(const Job& job) {
  std::unique_ptr<topology::Cluster>& cluster = clusters_[job.gpus];
  if (!cluster) {
    cluster = std::make_unique<topology::Cluster>(workloads::cluster_of(job));
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
    const RankMap ranks(p.dims(), job.placement, job.gpus_per_node);
    places.shapes = group_shapes(comm_groups(group_layout_of(job)), ranks, cluster);
    places.tensor_rate = rate_across_nodes(places.shapes[CommGroup::tensor], cluster);
    places.data_rate = rate_across_nodes(places.shapes[CommGroup::data], cluster);
  }
  return found->second;
}

const StepBound::Costs& StepBound::costs_of(const Job& job, const Network& network) {
  const Places& places = places_of(job);
  const GroupShape& group = places.shapes[CommGroup::tensor];
  const Precision& precision = job.precision;
  const bool splits = job.parallelism.schedule->splits_backward(), by_unit = works_by_unit(job);
  const auto [found, fresh] = costs_.try_emplace(
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", job.gpus, job.parallelism.tensor,
                  group.nodes, group.per_node, group.rails, group.hop.value(), job.parallelism.context, job.batch.micro,
                  job.parallelism.sequence_parallel, static_cast<int>(job.recompute), static_cast<int>(job.attention),
                  static_cast<int>(precision.matmul), static_cast<int>(precision.activations),
                  static_cast<int>(precision.gradients), job.overlap.tensor,
                  static_cast<int>(job.parallelism.context_method), splits, by_unit));
  if (!fresh) return found->second;
  StagePrograms unused;
  TemplateLibrary library(job, network, places.shapes, cluster_of(job), unused);
  const auto layers = [&](std::initializer_list<PassKind> passes) {
    LayerCosts costs;
    for (std::size_t kind = 0; kind < network.kinds.size(); ++kind) {
      const TemplateLibrary::LayerItems& items = library.of_kind(static_cast<std::uint8_t>(kind));
      Load& sum = costs.kinds.emplace_back();
      for (const PassKind pass : passes)
        sum += load_of(items[static_cast<std::size_t>(pass)], job, group, places.tensor_rate, by_unit);
    }
    return costs;
  };
  Costs& costs = found->second;
  costs.whole = layers({PassKind::forward, PassKind::backward});
  if (splits) costs.split = layers({PassKind::forward, PassKind::input_gradient, PassKind::weight_gradient});
  if (job.software.host.microbatch_host > sim::Duration{})
    costs.batch.issue = d((job.software.host.microbatch_host + job.software.host.kernel_issue).value());
  return costs;
}

StepBound::Load StepBound::stage_load(const Job& job, const Costs& costs, const LayerSplit& split,
                                      std::int64_t stage) const {
  const Parallelism& p = job.parallelism;
  // How many backward passes of a chunk come whole and how many cut in two.
  struct Count {
    double whole = 0, split = 0;
  };
  const bool mixed = p.schedule->backward == BackwardPasses::mixed;
  const Count all = p.schedule->splits_backward() ? Count{0, d(job.microbatches())} : Count{d(job.microbatches()), 0};
  std::vector<Count> counts(static_cast<std::size_t>(p.virtual_pipeline), mixed ? Count{} : all);
  if (mixed) {
    for (const Pass& pass : p.schedule->passes(static_cast<std::int32_t>(stage), job.pipeline_shape())) {
      Count& count = counts[static_cast<std::size_t>(pass.chunk)];
      count.whole += pass.kind == PassKind::backward;
      count.split += pass.kind == PassKind::weight_gradient;
    }
  }
  Load load;
  for (std::int64_t chunk = 0; chunk < p.virtual_pipeline; ++chunk) {
    const LayerRange& range = split.of(chunk, stage, p.pipeline);
    const Count& passes = counts[static_cast<std::size_t>(chunk)];
    load += costs.whole.of(split.network, range) * passes.whole;
    load += costs.split.of(split.network, range) * passes.split;
    load += costs.batch * (passes.whole + passes.split);
  }
  return load;
}

StepBound::DataLoad StepBound::data_load(const Job& job, double layers, double layer, double parameters) {
  DataLoad load;
  const std::int64_t owners = job.shard_ranks();
  if (owners == 1) return load;
  const Places& places = places_of(job);
  const double gradient = reduced_gradient_bytes(job);
  const double parameter = calibration::bytes_of(job.precision.parameters);
  if (job.parallelism.sharding == Sharding::parameters) {
    const auto time = [&](CollectiveOp op, double bytes) {
      const CollectiveCost cost =
          collective_cost(op, bytes, places.shapes[CommGroup::data], job.device, job.software, cluster_of(job));
      return least_time(cost, places.shapes[CommGroup::data], places.data_rate);
    };
    const double passes = d(job.microbatches()) * layers;
    const double gathers = 2 * passes * time(CollectiveOp::all_gather, layer * parameter);
    const double scatters = passes * time(CollectiveOp::reduce_scatter, layer * gradient);
    load.beside = gathers + scatters;
    if (!job.overlap.parameters) load.within += gathers;
    if (!job.overlap.gradients) load.within += scatters;
    return load;
  }
  if (places.shapes[CommGroup::data].nodes <= 1) return load;
  const bool sharded = job.parallelism.sharding != Sharding::none;
  const auto time = [&](CollectiveOp op, double bytes) {
    return least_bytes_between_nodes(op, bytes, places.shapes[CommGroup::data], job.software) / places.data_rate *
           sim::kPicosecondsPerSecond;
  };
  const double reduce =
      time(all_reduces_gradients(job) ? CollectiveOp::all_reduce : CollectiveOp::reduce_scatter, parameters * gradient);
  const double gather = sharded ? time(CollectiveOp::all_gather, parameters * parameter) : 0;
  if (works_by_unit(job)) {  // before the first use and after the last, between passes
    load.beside = reduce + gather;
    load.within = (job.overlap.gradients ? 0 : reduce) + (job.overlap.parameters ? 0 : gather);
    return load;
  }
  (job.overlap.gradients ? load.beside : load.reduce) += reduce;
  if (!job.overlap.parameters) load.gather += gather;
  // Gathers for the first passes, of which a stage that steps apart may have had some before it is at work.
  if (job.overlap.parameters && !job.parallelism.optimizer_post_validation) load.beside += gather;
  return load;
}

sim::Duration StepBound::of(const Job& job) {
  if (is_perturbed(job.perturbation)) return {};
  const std::int64_t stages = job.parallelism.pipeline, chunks = job.parallelism.virtual_pipeline;
  const LayerSplit split = split_layers(job);
  const Costs& costs = costs_of(job, split.network);
  const bool apart = job.parallelism.optimizer_post_validation;
  const bool fills = job.parallelism.schedule->nested && !apart;
  // Two copies of the model share the micro-batches out; what their data parallelism costs is left out.
  const bool two_copies = job.parallelism.schedule->copies() > 1;
  // All stages are done with their passes before any optimizer begins, or each is alone with its own; one stage's
  // gather follows its own optimizer.
  double passed = 0, optimizer = 0, alone = 0, before = 0;
  const bool awaits = job.overlap.parameters && job.replicas() > 1;  // gathers, to begin the first pass
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const Load load = stage_load(job, costs, split, stage);
    double layers = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      layers += d(count(split.network, split.of(chunk, stage, stages), LayerKind::block));
    const double held = stage_parameters(job, split, stage);
    const DataLoad data = two_copies ? DataLoad{} : data_load(job, layers, parameters(split.block()), held);
    const LayerRange& first = split.of(0, stage, stages);
    const Load first_pass = costs.whole.of(split.network, first);
    double host = load.issue;
    // What is launched before a stage is at work: on the first, which waits for no message, part of its first pass.
    if (apart) host -= stage == 0 && first_pass.issue > 0 && !awaits ? first_pass.issue + costs.batch.issue : host;
    const double passes = std::max({load.compute + before + data.within, load.tensor, host, data.beside}) + data.reduce;
    const double optimizing = optimizer_time(job, held);
    passed = std::max(passed, passes);
    optimizer = std::max(optimizer, optimizing);
    alone = std::max(alone, passes + optimizing + data.gather);
    if (fills) before += first_pass.compute;
  }
  const double step = apart ? alone : std::max(passed + optimizer, alone);
  return sim::Duration(static_cast<std::int64_t>(step * kSafety));
}

}  // namespace orrery::workloads
