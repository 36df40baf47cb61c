// Lower bound of a step, from the rules of a plan (sim/plan.h) and of its programs (workloads/compile/stage_program.h).
//
// On one rank the operations of a stream run one after the other, each for at least its duration; a transfer takes at
// least its latency and its bytes at its rate cap, and across nodes at the rate of the NICs that its ring leaves a node
// through. Collectives that compute waits for lie between two operations of the compute stream: those of one stream in
// turn, the tensor's beside the context's; one that is to be hidden behind kernels holds up the next kernel after them
// where it takes longer. So a stage needs W, the sum over its passes, of every stream, whatever their order. Each pass
// counts as the schedule has it, its backward half whole or cut in two: neither is sure to be the shorter, since a
// reduction that runs beside the weight gradients of a whole pass stands alone in a cut one, where these gradients run
// at their full speed. DualPipe has both.
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
#include "workloads/step/step_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "sim/hash.h"
#include "sim/real.h"
#include "workloads/job/step_plan.h"
#include "workloads/model/families/families.h"
#include "workloads/step/made_cluster.h"

namespace orrery::workloads {

namespace {

// Rounding to whole picoseconds, several times over.
constexpr double kSafety = 1 - 1e-9;

using sim::real;

/// Picoseconds that a transfer takes at least.
double least_time(const CollectiveCost& cost, const GroupShape& shape, double across_nodes) {
  double rate = cost.rate_cap > 0 ? cost.rate_cap : std::numeric_limits<double>::infinity();
  if (shape.nodes > 1) rate = std::min(rate, across_nodes);
  return std::max(0.0, real(cost.latency.value()) + cost.work / rate * sim::kPicosecondsPerSecond);
}

/// Bytes/s of the cluster's fastest NIC.
double fastest_nic(const topology::Cluster& cluster) {
  double nic = 0;
  for (std::int64_t node = 0; node < cluster.nodes(); ++node) {
    if (node > 0 && cluster.nic_rate(node) == cluster.nic_rate(node - 1)) continue;  // nodes of a kind
    for (const sim::LinkId link : cluster.nic_links(node, 0))
      nic = std::max(nic, cluster.links()[link].capacity.value());
  }
  return nic;
}

/// A ring sends an equal share through each of the NICs of a node that it uses, at most one per member and all there
/// are.
double rate_across_nodes(const GroupShape& shape, const topology::Cluster& cluster) {
  if (shape.nodes <= 1) return std::numeric_limits<double>::infinity();
  return fastest_nic(cluster) * real(std::min(cluster.nics_per_node(), shape.per_node));
}

/// In an exchange each member sends what leaves its node through its own NIC, or NICs where it has several.
double exchange_rate(const GroupShape& shape, const topology::Cluster& cluster) {
  if (shape.nodes <= 1) return std::numeric_limits<double>::infinity();
  const ExchangeLoad load = exchange_load(shape);
  const std::int64_t gpus = cluster.gpus_per_node();
  return fastest_nic(cluster) * real((cluster.nics_per_node() + gpus - 1) / gpus) * load.sum() / load.between;
}

bool is_perturbed(const Perturbation& perturbation) {
  return !perturbation.slow_gpus.empty() || !perturbation.slow_nics.empty() || perturbation.jitter_sigma > 0 ||
         perturbation.message_sigma > 0 || perturbation.routing.skew > 0 || !perturbation.faults.empty();
}

/// States of routed experts are shared out over ranks of their own.
UpdatedWeights weights_of(const ProgramInputs& inputs, const StageLayout& stage) {
  UpdatedWeights weights;
  add_weights(stage, inputs.data, inputs.update.optimizer, weights);
  if (inputs.data_apart && !inputs.data_apart->is_frozen())
    add_weights(stage, *inputs.data_apart, inputs.update.optimizer, weights);
  if (inputs.update.host.in_backward) weights.held = 0;
  return weights;
}

double optimizer_time(const UpdateStyle& style, const calibration::DeviceProfile& device, UpdatedWeights weights) {
  const double updated = weights.updated;
  double ps = 0;
  for (const Kernel& kernel :
       device_update(style.optimizer, style.precision, style.kernels, style.host, device, std::move(weights)))
    ps += real(kernel.time.value());
  return std::max(ps, style.host.least_seconds(updated) * sim::kPicosecondsPerSecond);
}

/// Picoseconds of the data stream of a stage.
struct DataLoad {
  double beside = 0;  // beside the passes
  double within = 0;  // between passes, which wait
  double reduce = 0;  // after the passes, before the optimizer
  double gather = 0;  // after the optimizer
};

/// What a stage holds: parameters in elements, `layer` of them in each of its layers.
struct Held {
  double layers = 0, layer = 0, parameters = 0;
};

/// Weights shared out: every layer gathered and reduced in every pass.
DataLoad load_by_layer(const DataParallelism& data, const Held& held, double microbatches,
                       const CollectivePrices& prices, double data_rate) {
  // Beside adapters what is gathered is of another width than what is reduced: left out, which makes no bound longer.
  if (data.goes_apart() || data.by_weight.on || data.held == HeldPart::trained) return {};
  const auto time = [&](CollectiveOp op, double bytes) {
    return least_time(prices.of(op, bytes, CommGroup::data), prices.shapes[CommGroup::data], data_rate);
  };
  const double passes = microbatches * held.layers;
  const double gathers = 2 * passes * time(CollectiveOp::all_gather, held.layer * data.bytes.parameter);
  const double scatters = (data.fetches.reduces_last_pass() ? held.layers : passes) *
                          time(CollectiveOp::reduce_scatter, held.layer * data.bytes.reduced);
  DataLoad load;
  load.beside = gathers + scatters;
  if (!data.overlaps_parameters) load.within += gathers;
  if (!data.overlaps_gradients) load.within += scatters;
  return load;
}

/// `apart`: stages step their optimizers apart.
DataLoad load_by_step(const DataParallelism& data, double parameters, bool apart, const CollectivePrices& prices,
                      double data_rate) {
  DataLoad load;
  const GroupShape& group = prices.shapes[CommGroup::data];
  if (group.nodes <= 1) return load;
  const auto time = [&](CollectiveOp op, double bytes) {
    return least_bytes_between_nodes(op, bytes, group, prices.software) / data_rate * sim::kPicosecondsPerSecond;
  };
  const double reduce = time(data.reduction(), parameters * data.bytes.reduced);
  const double gather = data.shards() ? time(CollectiveOp::all_gather, parameters * data.bytes.parameter) : 0;
  if (data.by_unit) {  // before the first use and after the last, between passes
    load.beside = reduce + gather;
    load.within = (data.overlaps_gradients ? 0 : reduce) + (data.overlaps_parameters ? 0 : gather);
    return load;
  }
  (data.overlaps_gradients ? load.beside : load.reduce) += reduce;
  if (!data.overlaps_parameters) load.gather += gather;
  // Gathers for the first passes, of which a stage that steps apart may have had some before it is at work.
  if (data.overlaps_parameters && !apart) load.beside += gather;
  return load;
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

namespace {

/// The compute stream on its way through the items of a layer, with what it has to wait for: begun with idle streams
/// and nothing under way, whatever the layer before left, which makes it no longer than it is.
class LayerWalk {
 public:
  /// `by_unit`: collectives of data parallelism may run beside the tensor's first and last of a layer, which then count
  /// nothing.
  explicit LayerWalk(bool by_unit) : by_unit_(by_unit) {}

  enum Stream { tensor, expert, others, kStreams };
  /// A collective, which starts behind the last kernel run and the last collective of its stream; so many kernel runs
  /// pass by before one waits.
  void transfer(Stream of, double time, std::int32_t passes_by) {
    double& stream = streams_[of];
    stream = std::max(stream, compute_) + time;
    pending_.push_back({stream, passes_by});
  }
  void run(double duration) {
    if (by_unit_ && at_edge_) {
      pending_.clear();
      streams_.fill(compute_);
    }
    at_edge_ = false;
    await();
    compute_ += duration;
  }
  /// Picoseconds.
  double end() {
    if (!by_unit_) await();
    return compute_;
  }

 private:
  struct Pending {
    double finish = 0;
    std::int32_t passes_by = 0;
  };

  void await() {
    double ready = compute_;
    std::erase_if(pending_, [&](Pending& p) {
      if (p.passes_by-- > 0) return false;
      ready = std::max(ready, p.finish);
      return true;
    });
    compute_ = ready;
  }

  bool by_unit_, at_edge_ = true;
  double compute_ = 0;  // when it is done, ps, and the other streams
  std::array<double, kStreams> streams_{};
  std::vector<Pending> pending_;
};

}  // namespace

/// One pass over one layer.
StepBound::Load StepBound::load_of(const std::vector<PassItem>& items, const Places& places, bool by_unit,
                                   bool takes_turns) {
  // Exchanges of experts may run beside another micro-batch, and its kernels beside what this one lets pass by.
  const bool in_turn = std::any_of(items.begin(), items.end(),
                                   [](const PassItem& item) { return item.comm && item.group == CommGroup::expert; });
  Load sum;
  LayerWalk walk(by_unit);
  for (const PassItem& item : items) {
    sum.issue += real(item.issue.value());
    if (!item.comm) {
      walk.run(real(item.duration.value()));
      continue;
    }
    const bool of_tensor = item.group == CommGroup::tensor, of_experts = item.group == CommGroup::expert;
    double time = 0;
    if (of_tensor)
      time = least_time(item.cost, places.shapes[item.group], places.tensor_rate);
    else
      time = of_experts ? least_time(item.cost, places.shapes[item.group], places.expert_rate)
                        : least_time(item.cost, {}, 0);
    sum.tensor += of_tensor ? time : 0;
    const bool counts = item.passes_by == 0 || (of_tensor && !by_unit && !in_turn);
    if (!counts || (takes_turns && of_experts)) continue;
    walk.transfer(of_tensor    ? LayerWalk::tensor
                  : of_experts ? LayerWalk::expert
                               : LayerWalk::others,
                  time, item.passes_by);
  }
  sum.compute = walk.end();
  return sum;
}

namespace {
/// Of whole numbers.
class Number {
 public:
  Number& with(std::int64_t value) {
    hash_.add(static_cast<std::uint64_t>(value));
    return *this;
  }
  std::size_t value() const { return hash_.value(); }

 private:
  sim::Fnv1a hash_;
};

/// The value of a key, made where it is not known yet. `number`: of the key's, what tells most keys apart.
template <class Known, class Key, class Make>
const auto& remember(Known& known, const Key& key, const Number& number, const Make& make) {
  const auto same = [&](const auto& entry) { return entry.first == key; };
  if (const auto bucket = known.find(number.value()); bucket != known.end()) {
    const auto found = std::find_if(bucket->second.begin(), bucket->second.end(), same);
    if (found != bucket->second.end()) return found->second;
  }
  auto made = make();  // which may remember on the way
  auto& entries = known[number.value()];
  entries.emplace_back(key, std::move(made));
  return entries.back().second;
}

Number number_of(const GroupLayout& layout) {
  Number number;
  for (const Dim dim : kDims) number.with(layout.dims.size(dim));
  return number.with(layout.experts.expert).with(layout.shard_ranks);
}
}  // namespace

std::shared_ptr<const topology::Cluster> StepBound::cluster_of(const Site& site) {
  return remember(clusters_, site, Number().with(site.gpus_per_node), [&] { return made_cluster(site); });
}

const StepBound::Places& StepBound::places_of(const PlacesKey& key) {
  return remember(places_, key, number_of(key.layout), [&] {
    Places places;
    places.cluster = cluster_of(key.site);
    const RankMap ranks(key.layout.dims, key.placement, key.site.gpus_per_node);
    const std::int64_t alike = tensor_ranks_alike({key.layout, key.placement, {}}, *places.cluster);
    const std::vector<JobGroup> groups = comm_groups(key.layout);
    const AlikeReplicas replicas = alike_replicas(key.layout, key.placement, groups, *places.cluster, alike);
    places.shapes = group_shapes(groups, ranks, *places.cluster, alike, replicas);
    places.tensor_rate = rate_across_nodes(places.shapes[CommGroup::tensor], *places.cluster);
    places.data_rate = rate_across_nodes(places.shapes[CommGroup::data], *places.cluster);
    const GroupShape& experts = places.shapes[CommGroup::expert];
    places.expert_rate = key.layout.experts.gathers ? rate_across_nodes(experts, *places.cluster)
                                                    : exchange_rate(experts, *places.cluster);
    return places;
  });
}

const StepBound::Costs& StepBound::costs_of(const CostsKey& key) {
  const Number number = number_of(key.places.layout)
                            .with(key.split.micro_batch)
                            .with(key.split.sequence_parallel ? 1 : 0)
                            .with(static_cast<std::int64_t>(key.computation.recompute));
  return remember(costs_, key, number, [&] {
    const Places& places = places_of(key.places);
    const CollectivePrices prices{key.device, key.software, *places.cluster, places.shapes};
    const Network& network = network_of({key.split, key.computation, key.model});
    StagePrograms unused;
    TemplateLibrary library(network, prices, key.passes, unused);
    const auto layers = [&](std::initializer_list<PassKind> passes) {
      LayerCosts costs;
      for (std::size_t kind = 0; kind < network.kinds.size(); ++kind) {
        const TemplateLibrary::LayerItems& items = library.of_kind(static_cast<std::uint8_t>(kind));
        Load& sum = costs.kinds.emplace_back();
        for (const PassKind pass : passes) {
          sum += load_of(items[static_cast<std::size_t>(pass)], places, key.by_unit, key.takes_turns);
        }
      }
      return costs;
    };
    Costs costs;
    costs.whole = layers({PassKind::forward, PassKind::backward});
    if (key.passes.splits_backward)
      costs.split = layers({PassKind::forward, PassKind::input_gradient, PassKind::weight_gradient});
    const calibration::HostCosts& host = key.passes.host;
    if (host.microbatch_host > sim::Duration{})
      costs.batch.issue = real((host.microbatch_host + host.kernel_issue).value());
    return costs;
  });
}

/// All passes of a stage.
StepBound::Load StepBound::stage_load(const Schedule& schedule, const PipelineShape& shape, const StageLayout& stage,
                                      const Costs& costs) {
  // How many backward passes of a chunk come whole and how many cut in two.
  struct Count {
    double whole = 0, split = 0;
  };
  const bool mixed = schedule.backward == BackwardPasses::mixed;
  const double microbatches = real(shape.microbatches);
  const Count all = schedule.splits_backward() ? Count{0, microbatches} : Count{microbatches, 0};
  std::vector<Count> counts(static_cast<std::size_t>(stage.chunks()), mixed ? Count{} : all);
  if (mixed) {
    for (const Pass& pass : schedule.passes(static_cast<std::int32_t>(stage.stage), shape)) {
      Count& count = counts[static_cast<std::size_t>(pass.chunk)];
      count.whole += pass.kind == PassKind::backward;
      count.split += pass.kind == PassKind::weight_gradient;
    }
  }
  Load load;
  const Network& network = stage.split.network;
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    const LayerRange& range = stage.range(chunk);
    const Count& passes = counts[static_cast<std::size_t>(chunk)];
    load += costs.whole.of(network, range) * passes.whole;
    load += costs.split.of(network, range) * passes.split;
    load += costs.batch * (passes.whole + passes.split);
  }
  return load;
}

const Network& StepBound::network_of(const NetworkKey& key) {
  const Number number = Number()
                            .with(key.split.tensor)
                            .with(key.split.micro_batch)
                            .with(key.split.sequence_parallel ? 1 : 0)
                            .with(static_cast<std::int64_t>(key.computation.recompute));
  return remember(networks_, key, number, [&] { return workloads::network(key.model, key.split, key.computation); });
}

const LayerSplit& StepBound::split_at(const SplitKey& key) {
  constexpr std::size_t kNeighbours = 8;  // a search goes through what splits alike in a row, but for recomputation
  const auto known = std::find_if(splits_.begin(), splits_.end(), [&](const auto& s) { return s.first == key; });
  if (known != splits_.end()) {
    splits_.splice(splits_.begin(), splits_, known);
  } else {
    splits_.emplace_front(
        key, split_network(network_of(key.layers), {key.order, key.stages, key.chunks}, key.sharing, key.stage_layers));
    if (splits_.size() > kNeighbours) splits_.pop_back();
  }
  return splits_.front().second;
}

namespace {
/// What decides how the groups lie that carry collectives: not who else passes messages or signals, nor what is
/// reduced. Layouts that differ in these alone share their places.
GroupLayout lie_of(GroupLayout layout) {
  layout.around = layout.returns = layout.ties_ends = layout.shards = false;
  layout.all_reduces_gradients = true;
  return layout;
}
}  // namespace

sim::Duration StepBound::of(const Job& job) {
  // Tables are updated where rows were met, not as the optimizer's kernels count.
  if (is_perturbed(job.perturbation) || job.model.recommender.any()) return {};
  const ProgramInputs inputs = program_inputs_of(job, Workload::training_step);
  const DataParallelism& data = inputs.data;
  const LayerSplit& split = split_at({{split_of(job), computation_of(job), job.model},
                                      inputs.map.order(),
                                      inputs.map.stages(),
                                      inputs.map.chunks(),
                                      job.software.defaults.layer_split,
                                      job.parallelism.stage_layers});
  const PlacesKey where{lie_of(group_layout_of(job)), job.placement, site_of(job)};
  const Places& places = places_of(where);
  const Schedule& schedule = *job.parallelism.schedule;
  const bool apart = job.parallelism.optimizer_post_validation;
  const bool fills = schedule.nested && !apart;
  // Two copies of the model share the micro-batches out; what their data parallelism costs is left out.
  const bool by_unit = data.by_unit || (inputs.data_apart && inputs.data_apart->by_unit);
  const bool unit_by_unit = job.model.experts.any() && by_unit;
  const bool alone_with_data = schedule.copies() > 1 || data.owners == 1 || unit_by_unit;
  // All stages are done with their passes before any optimizer begins, or each is alone with its own; one stage's
  // gather follows its own optimizer.
  double passed = 0, optimizer = 0, alone = 0, before = 0;
  const bool awaits = data.overlaps_parameters && data.replicas > 1;  // gathers, to begin the first pass
  const Costs* known = nullptr;  // of the device of the stage before, mostly the same
  const calibration::DeviceProfile* of_known = nullptr;
  UpdatedWeights updated;  // of the stage before, likewise
  double optimizing = 0;
  for (std::int64_t at = 0; at < inputs.map.stages(); ++at) {
    const StageLayout stage{split, inputs.map, at};
    const calibration::DeviceProfile& device = job.machine.device_of(at);
    const bool another = known == nullptr || &device != of_known;
    if (another) {
      known = &costs_of({split_of(job), computation_of(job), inputs.passes, by_unit, inputs.takes_turns, where,
                         job.model, device, job.software});
    }
    of_known = &device;
    const Costs& costs = *known;
    const CollectivePrices prices{device, job.software, *places.cluster, places.shapes};
    const Load load = stage_load(schedule, job.pipeline_shape(), stage, costs);
    // States of routed experts travel among fewer ranks, beside those of the rest.
    const Held held{real(stage.blocks()), parameters(split.block()), stage.parameters(data.held)};
    DataLoad moved;
    if (!alone_with_data && data.sharding == Sharding::parameters)
      moved = load_by_layer(data, held, real(job.microbatches()), prices, places.data_rate);
    else if (!alone_with_data)
      moved = load_by_step(data, held.parameters, apart, prices, places.data_rate);
    const Load first_pass = costs.whole.of(split.network, stage.range(0));
    double host = load.issue;
    // What is launched before a stage is at work: on the first, which waits for no message, part of its first pass.
    if (apart) host -= at == 0 && first_pass.issue > 0 && !awaits ? first_pass.issue + costs.batch.issue : host;
    const double passes =
        std::max({load.compute + before + moved.within, load.tensor, host, moved.beside}) + moved.reduce;
    if (UpdatedWeights weights = weights_of(inputs, stage); another || !(weights == updated)) {
      optimizing = optimizer_time(inputs.update, device, weights);
      updated = std::move(weights);
    }
    passed = std::max(passed, passes);
    optimizer = std::max(optimizer, optimizing);
    alone = std::max(alone, passes + optimizing + moved.gather);
    if (fills) before += first_pass.compute;
  }
  const double step = apart ? alone : std::max(passed + optimizer, alone);
  return sim::Duration(static_cast<std::int64_t>(step * kSafety));
}

}  // namespace orrery::workloads
