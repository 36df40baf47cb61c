// Values from a job. See job_values.h.
#include "workloads/job/job_values.h"

#include <algorithm>
#include <cmath>

#include "workloads/groups/slowest.h"
#include "workloads/model/adapters.h"
#include "workloads/model/carried.h"

namespace orrery::workloads {

LayerSplit split_layers(const Job& job) {
  return split_network(network_of(job), job.parallelism.chunk_map(), job.software.defaults.layer_split,
                       job.parallelism.stage_layers);
}

namespace {
/// Where each linear layer is one product, or several of one input, that all ranks hold alike.
bool tells_weights_apart(const Model& model, const Method& method) {
  const bool in_part = method.recomputed_layers > 0 ||
                       (method.recompute == Recompute::selective && method.recomputed.every_second_product);
  return !model.experts.any() && !model.pattern.any() && !model.parallel_block && !in_part;
}
/// What hangs on how many ranks hold the same weights: states of one holder have nobody to be gathered from or reduced
/// with.
void settle_for_holders(const calibration::Software& software, const Parallelism& layout, const Precision& precision,
                        std::int64_t microbatches, DataParallelism& data) {
  const calibration::GradientReduction& style = software.gradients;
  const Sharding sharding = layout.sharding;
  const bool made_for_units = software.defaults.sharding == Sharding::parameters;
  const bool every = style.reduces_every_pass() || (made_for_units && layout.pipeline == 1);
  const bool gradients = sharding == Sharding::gradients && every;
  data.by_unit = data.replicas > 1 && (sharding == Sharding::parameters || gradients);
  data.gathers_every_pass = data.by_unit && (sharding == Sharding::parameters || made_for_units);
  data.to_owners =
      data.by_unit && sharding == Sharding::gradients && style.passes == calibration::GradientPasses::to_owners;
  const bool cast =
      data.shards() && !data.shares_gradients() && style.of_shards == calibration::ShardReduction::all_reduce;
  const double activation = calibration::bytes_of(precision.activations);
  data.bytes.reduced = cast ? std::min(data.bytes.gradient, activation) : data.bytes.gradient;
  data.fetches = software.fetches;
  if (sharding != Sharding::parameters) {  // ZeRO++ is of stage 3 (arXiv 2306.10209, section 3)
    data.fetches.fetched_as = calibration::FetchedAs::own_type;
    data.fetches.reduced_as = calibration::ReducedAs::own_type;
  }
  calibration::UnitReduction& reduction = data.fetches.reduction;
  if (reduction == calibration::UnitReduction::last_pass && (!data.shards_parameters() || microbatches == 1))
    reduction = calibration::UnitReduction::every_pass;
}
}  // namespace

DataParallelism data_parallelism_of(const Job& job) {
  const calibration::GradientReduction& style = job.software.gradients;
  const Sharding sharding = job.parallelism.sharding;
  DataParallelism data;
  if (job.method.adapters.any()) data.held = HeldPart::trained;
  data.replicas = job.replicas();
  data.owners = job.shard_ranks();
  data.sharding = sharding;
  data.bytes.gradient = calibration::bytes_of(job.method.precision.gradients);
  settle_for_holders(job.software, job.parallelism, job.method.precision, job.microbatches(), data);
  data.all_reduces_shards =
      style.of_shards == calibration::ShardReduction::all_reduce ||
      (style.of_shards == calibration::ShardReduction::all_reduce_last && sharding == Sharding::optimizer);
  data.overlaps_gradients = job.overlap.gradients;
  data.overlaps_parameters = job.overlap.parameters;
  data.bytes.parameter = calibration::bytes_of(job.method.precision.parameters);
  data.among.ranks = {job.weight_ranks(), job.gradient_ranks(), 0};
  if (sharding == Sharding::parameters) {
    data.among.ranks.secondary = job.parallelism.inside.secondary;
    if (data.among.ranks.weights < data.owners) data.among.forward = data.among.backward = CommGroup::weights;
    if (data.among.ranks.gradients < data.owners) data.among.reduced = CommGroup::partial_gradients;
    if (data.among.ranks.secondary > 0) data.among.backward = CommGroup::secondary_weights;
  }
  constexpr double kScale = 4.0 / 2048;  // of a block of so many elements (DeepSpeed, csrc/quantization)
  data.bytes.fetched = data.fetches.quantised_fetches() ? 1 + kScale : data.bytes.parameter;
  data.bytes.exchanged = data.fetches.quantised_reductions() ? 0.5 + kScale : data.bytes.gradient;
  data.buckets = job.software.buckets;
  const bool apart = tells_weights_apart(job.model, job.method);
  data.by_weight.on =
      data.shards_parameters() && !data.goes_apart() && data.fetches.by_weight() && apart && !job.method.adapters.any();
  const bool closes_by_weight =
      data.replicas > 1 && data.overlaps_gradients && !data.by_unit && !job.method.adapters.any() && apart;
  if (data.buckets.closes_by_weight() && !closes_by_weight) data.buckets.cut = calibration::BucketCut::every_chunk;
  data.by_weight.call = job.software.host.transfer_issue + data.fetches.fetch_call_per_rank * data.owners;
  return data;
}

HostCopies host_copies_of(const Method& method, const calibration::OptimizerStyle& style, const Machine& machine) {
  HostCopies host;
  host.states = method.host_states;
  if (!host.any()) return host;
  host.in_backward = style.leaves_in_passes();
  host.adds_up = style.host_adds();
  host.bytes = host_widths(method.optimizer, method.precision, style, host.states.parameters);
  const topology::NodeSpec& node = machine.node;
  const std::int64_t ranks = std::min(machine.gpus, machine.gpus_per_node);
  const std::int64_t on_link = std::min(ranks, (node.gpus + node.host.links - 1) / node.host.links);
  host.rates.link = node.host.link.value() / static_cast<double>(on_link);
  const double memory = node.host.memory_rate.value() > 0 ? node.host.memory_rate.value() : kHostMemoryRate;
  host.rates.memory = style.host_update_share * memory / static_cast<double>(ranks);
  return host;
}

namespace {
/// `data` among the ranks that hold the same experts.
DataParallelism among_holders_of_experts(DataParallelism data, std::int64_t replicas, std::int64_t owners) {
  data.among.owners = CommGroup::expert_data;
  data.among.repeats = CommGroup::expert_replicate;
  data.among.forward = data.among.backward = data.among.reduced = CommGroup::expert_data;
  data.replicas = replicas;
  data.owners = owners;
  data.among.ranks = {owners, owners, 0};
  return data;
}
}  // namespace

DataApart data_apart_of(const DataParallelism& data, const Job& job) {
  const Method& method = job.method;
  std::optional<DataParallelism> experts;
  if (job.model.experts.any()) {
    experts = among_holders_of_experts(data, job.expert_replicas(), job.expert_shard_ranks());
    experts->held = HeldPart::experts;
    // Beside one replica of the rest those of experts may be several.
    settle_for_holders(job.software, job.parallelism, method.precision, job.microbatches(), *experts);
  }
  if (!method.adapters.any()) return {experts, {}, {}};
  const FrozenBytes bytes = frozen_bytes(method.adapters, method.precision);
  const auto frozen = [&](DataParallelism of, HeldPart which) -> std::optional<DataParallelism> {
    if (!of.shards_parameters()) return {};
    of.held = which;
    of.bytes.parameter = of.bytes.fetched = bytes.blocks;
    of.bytes.ends = bytes.ends / bytes.blocks;
    // They are held in few bits, or meant to be read as they are.
    of.fetches.fetched_as = calibration::FetchedAs::own_type;
    return of;
  };
  if (!experts || job.parallelism.expert == 1) return {{}, frozen(data, HeldPart::frozen), {}};
  return {{}, frozen(data, HeldPart::frozen_but_experts), frozen(*experts, HeldPart::frozen_experts)};
}

namespace {
/// `tokens`: that a rank of a stage has of a micro-batch.
ExpertLayout expert_layout_of(const Experts& experts, const Parallelism& layout, const ExpertStyle& style,
                              std::int64_t shard_ranks, std::int64_t tokens) {
  ExpertLayout out;
  out.any = experts.any();
  if (!out.any) return out;
  out.expert = layout.expert;
  out.tensor = layout.expert_tensor;
  out.shard_ranks = shard_ranks;
  out.gathers = style.dispatcher == Dispatcher::allgather;
  out.exchange = {sends_once(style.dispatcher), experts.choice(), style.library,
                  static_cast<double>(layout.sequence_parallel ? tokens / layout.tensor : tokens)};
  return out;
}
}  // namespace

namespace {
/// Of all tensor ranks, by the block that a stage begins with, `element` bytes of all tokens of a micro-batch for each
/// element of one; behind the last block there is nothing.
std::vector<double> carried_bytes(const Model& model, double element) {
  std::vector<double> bytes;
  for (std::int64_t block = 0; block < model.layers; ++block) bytes.push_back(element * carried_into(model, block));
  bytes.resize(static_cast<std::size_t>(model.layers + 2 + model.experts.mtp_layers), 0);
  return bytes;
}
}  // namespace

MessageStyle message_style_of(const Job& job) {
  const calibration::MessagePolicy& policy = job.software.messages;
  MessageStyle style;
  style.whole_bytes = static_cast<double>(job.batch.micro * job.rank_seq()) *
                      static_cast<double>(job.model.handed_on()) *
                      calibration::bytes_of(job.method.precision.activations);
  if (job.parallelism.pipeline > 1 && carries(job.model))
    style.carried_bytes = carried_bytes(job.model, style.whole_bytes / static_cast<double>(job.model.handed_on()));
  style.tensor = job.parallelism.tensor;
  style.sequence_parallel = job.parallelism.sequence_parallel;
  style.scatters_activations = policy.scattered != calibration::ScatteredMessages::none;
  style.scatters_gradients = policy.scattered == calibration::ScatteredMessages::both;
  style.overlaps = job.overlap.pipeline;
  style.exposes_alike = job.parallelism.schedule->runtimes.wait_in_warm_up && job.overlap.pipeline &&
                        policy.phases == calibration::MessagePhases::steady;
  style.activation_issue = job.software.host.transfer_issue + policy.activation_shapes_host;
  style.gradient_issue = job.software.host.transfer_issue + policy.gradient_shapes_host;
  style.host_waits =
      policy.host_waits_for_pipeline && !job.overlap.pipeline && !job.parallelism.schedule->runtimes.post_ahead;
  const bool in_slots = job.parallelism.schedule->slots != nullptr && job.parallelism.virtual_pipeline > 1;
  const bool ends_slots = policy.phases == calibration::MessagePhases::slots;
  if (ends_slots && in_slots && !job.overlap.pipeline) style.ends_slots_of = job.parallelism.schedule;
  style.one_launch_queue = job.software.buckets.one_launch_queue;
  // Hosts wait inside passes for the counts of experts. The interleaved schedule exchanges the messages of a forward
  // and a backward pass at once, behind the two (Megatron's send_forward_backward_recv_forward_backward); what runtimes
  // post ahead is sent at most as early as micro-batches are under way, two for each stage.
  // Where documents are rotated or exchanged one by one, they wait for their lengths.
  const bool blocks = !job.overlap.pipeline && (job.model.experts.any() || job.model.attention.document > 0);
  const std::int64_t chunks = job.parallelism.virtual_pipeline;
  if (blocks && job.parallelism.schedule->runtimes.post_ahead)
    style.posts_ahead = static_cast<std::size_t>(2 * job.parallelism.pipeline * chunks);
  else if (blocks && chunks > 1)
    style.posts_ahead = 2;
  // Then not where they are posted, but with the counts of the pass that the message is for.
  if (style.posts_ahead > 0) style.host_waits = false;
  return style;
}

double pace_spread_of(const Machine& machine, const PowerTerms& power) {
  return std::hypot(machine.fabric.gpus.spread, power.pace_spread);
}

double slowest_of(double spread, const Parallelism& parallelism, std::int64_t microbatches) {
  const Dims dims = parallelism.dims();
  return expected_slowdown(spread, {dims.size(Dim::tensor) * dims.size(Dim::context), dims.size(Dim::pipeline),
                                    dims.size(Dim::data), microbatches, parallelism.virtual_pipeline});
}

bool reduces_scales(const calibration::GradientReduction& reduction, DataType matmul, std::int64_t replicas) {
  return reduction.amax == calibration::AmaxReduction::every_pass && matmul == DataType::fp8 && replicas > 1;
}

ProgramInputs program_inputs_of(const Job& job, const Workload& workload) {
  const calibration::Software& software = job.software;
  const Schedule& schedule = *job.parallelism.schedule;
  ProgramInputs inputs{
      workload, job.parallelism.chunk_map(), {}, data_parallelism_of(job), {}, {}, message_style_of(job), {}, 0};
  inputs.passes = {software.host,
                   software.overlap,
                   software.layers.linear.rates,
                   job.overlap.tensor,
                   schedule.splits_backward(),
                   false,
                   inputs.data.by_weight.on || inputs.data.buckets.closes_by_weight(),
                   job.method.experts.library.processors,
                   job.method.experts.busiest / job.method.experts.imbalance};
  // A host that does nothing ahead of the counts, but something behind them, replays what lies there.
  calibration::HostCosts& host = inputs.passes.host;
  const bool says_nothing = host.graphs == calibration::Graphs::none && host.expert_layer_host == sim::Duration{};
  if (says_nothing && host.expert_dispatch_host > sim::Duration{}) host.graphs = calibration::Graphs::ahead_of_counts;
  if (host.graphs != calibration::Graphs::none) host.expert_layer_host = sim::Duration{};
  if (job.overlap.experts) inputs.passes.host.expert_layer_host += software.host.expert_overlap_host;
  if (calibration::is_quantised(job.method.precision.matmul))
    inputs.passes.host.expert_host += software.host.expert_quantisers_host;
  // Not where stages hold several chunks or the schedule posts its messages ahead: with sends that block, such
  // schedules would lock up.
  inputs.passes.waits_for_batch =
      software.host.host_waits_for_batch && job.parallelism.virtual_pipeline == 1 && !schedule.runtimes.post_ahead;
  inputs.update = {job.method.optimizer,  job.method.precision,
                   software.optimizer,    !job.parallelism.optimizer_post_validation,
                   job.ties_embeddings(), host_copies_of(job.method, software.optimizer, job.machine)};
  const DataApart apart = data_apart_of(inputs.data, job);
  inputs.data_apart = job.method.adapters.any() ? apart.frozen : apart.experts;
  inputs.frozen_experts = apart.frozen_experts;
  inputs.slowest = slowest_of(pace_spread_of(job.machine, job.power), job.parallelism, job.microbatches());
  const bool by_unit = inputs.data.by_unit || (inputs.data_apart && inputs.data_apart->by_unit);
  inputs.takes_turns = job.overlap.experts && job.model.experts.any() && !by_unit;
  constexpr double kScales = 12;  // of a block: four products, three fp8 tensors each
  if (reduces_scales(job.software.gradients, job.method.precision.matmul, job.replicas()))
    inputs.scale_bytes = kScales * calibration::bytes_of(DataType::fp32);
  return inputs;
}

GroupLayout group_layout_of(const Job& job) {
  const ChunkMap map = job.parallelism.chunk_map();
  const Sharding sharding = job.parallelism.sharding;
  GroupLayout layout;
  layout.dims = job.parallelism.dims();
  layout.mirrored = map.order() == ChunkOrder::both_ways;
  layout.around = map.order() == ChunkOrder::loop && map.chunks() > 1;
  layout.returns = map.order() != ChunkOrder::loop;
  layout.ties_ends = job.ties_embeddings();
  layout.shards = sharding != Sharding::none;
  layout.reduces_scales = reduces_scales(job.software.gradients, job.method.precision.matmul, job.replicas());
  layout.all_reduces_gradients = data_parallelism_of(job).reduction() == CollectiveOp::all_reduce;
  layout.shard_ranks = job.shard_ranks();
  layout.tensor_in = job.parallelism.inside.tensor_in;
  layout.weight_ranks = job.weight_ranks();
  layout.gradient_ranks = job.gradient_ranks();
  layout.secondary_ranks = data_parallelism_of(job).among.ranks.secondary;
  layout.experts = expert_layout_of(job.model.experts, job.parallelism, job.method.experts, job.expert_shard_ranks(),
                                    job.batch.micro * job.rank_seq());
  if (const TablePlan& plan = job.model.recommender.plan; plan.ranks * plan.node_ranks > 1) {
    layout.experts.tables = true;
    layout.experts.expert = plan.ranks;
    layout.experts.tensor = plan.node_ranks;
  }
  layout.offloads = job.method.host_states.any();
  layout.own_routes = with_own_routes(job.software.library.collective_algorithms);
  return layout;
}

GroupInputs group_inputs_of(const Job& job) { return {group_layout_of(job), job.placement, job.perturbation}; }

}  // namespace orrery::workloads
