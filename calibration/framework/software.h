// A generation of training software (a framework and its era), read from calibration/software/<name>.yaml: what it
// fuses, what it overlaps, what its host code costs. Facts come from the frameworks' repositories and papers, numbers
// from fits; rows that share a name share every number. generation.h resolves what is written there (features, a
// collective library, fitted numbers, older generations) to the flat keys that are read here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/device/kernel.h"
#include "calibration/device/keys.h"
#include "calibration/framework/collective_algorithms.h"
#include "calibration/framework/layer_style.h"
#include "calibration/framework/recipe.h"
#include "sim/settings.h"
#include "sim/units.h"

namespace orrery::calibration {

/// What data-parallel ranks share out instead of repeating: ZeRO stages 0 to 3.
enum class Sharding : std::uint8_t { none, optimizer, gradients, parameters };
/// How layers are shared out: where stages do not divide them evenly, or stage by stage up to the most that any has to
/// hold; or always by the sizes of their products, the head's among them.
enum class LayerSharing : std::uint8_t { even, fill, weigh };
/// Jobs whose ranks compare every call ahead of it: those whose stages lie on several nodes, all or none.
enum class ChecksCalls : std::uint8_t { between_nodes, always, never };
/// What of a chunk is cut into buckets of a given size: every chunk, by layers or, those of gradients, by the weight
/// that fills one; the first of a pipeline, others being one; or none, buckets being chunks, or where there is one
/// chunk its layers.
enum class BucketCut : std::uint8_t { every_chunk, by_weight, first_chunk, as_model };
/// With sharding: optimizer, gradients are scattered; or all-reduced, in the type of the activations; or in their own,
/// behind the last backward pass.
enum class ShardReduction : std::uint8_t { scatter, all_reduce, all_reduce_last };
/// With sharding: gradients, they are reduced once a step, in every backward pass, or then weight by weight to their
/// owners.
enum class GradientPasses : std::uint8_t { once, every_pass, to_owners };
/// The largest magnitudes that scales of fp8 follow: of a rank's own tensors, or all-reduced over tensor and data ranks
/// at the end of every pass of a chunk.
enum class AmaxReduction : std::uint8_t { none, every_pass };
/// 16-bit gradients of a backward pass that are added up in fp32: dropped, held from its end on, or kept beside those.
enum class TrainingGradients : std::uint8_t { dropped, held, kept };
/// Sharded parameters are gathered layer by layer; weight by weight; or so with the host waiting around each call.
enum class Fetches : std::uint8_t { by_unit, by_weight, by_weight_drained };
/// With sharding: parameters, gradients are reduced in every pass; between groups of parallelism.shard_group once a
/// step; or all of them in its last backward pass alone.
enum class UnitReduction : std::uint8_t { every_pass, groups_once, last_pass };
/// Messages between stages that tensor ranks share out.
enum class ScatteredMessages : std::uint8_t { none, activations, both };
/// What a stage holds of what it received: what passes still need; that of each chunk until it receives again, with its
/// gradient; or a buffer for every micro-batch of a step.
enum class ReceivedBuffers : std::uint8_t { as_needed, last_held, every_micro_batch };
/// Where messages between stages overlap, all of them do, or those where a forward pass follows a backward one alone;
/// or interleaved 1F1B runs slot by slot, at the end of each of which stages wait for what neighbours send them in it.
enum class MessagePhases : std::uint8_t { all, steady, slots };
/// Units of sharded parameters that stay gathered from their forward to their backward pass: embedding and head; the
/// last block too; or none, the former being gathered again behind the loss.
enum class KeptUnits : std::uint8_t { ends, ends_and_last, none };
/// As what sharded parameters travel that are gathered in every pass: in their type, or in blocks of int8; and their
/// gradients: in theirs, or in blocks of int4.
enum class FetchedAs : std::uint8_t { own_type, int8 };
enum class ReducedAs : std::uint8_t { own_type, int4 };
/// Messages between stages overlap by default: never, where stages have several chunks, or always.
enum class PipelineOverlap : std::uint8_t { never, of_chunks, always };
std::string_view name_of(BucketCut cut);
std::string_view name_of(ShardReduction reduction);
std::string_view name_of(GradientPasses passes);
std::string_view name_of(AmaxReduction reduction);
std::string_view name_of(TrainingGradients gradients);
std::string_view name_of(Fetches fetches);
std::string_view name_of(UnitReduction reduction);
std::string_view name_of(ScatteredMessages messages);
std::string_view name_of(PipelineOverlap overlap);
std::string_view name_of(ReceivedBuffers buffers);
std::string_view name_of(MessagePhases phases);
std::string_view name_of(KeptUnits units);
std::string_view name_of(FetchedAs type);
std::string_view name_of(ReducedAs type);
std::string_view name_of(Sharding sharding);
std::string_view name_of(LayerSharing sharing);
std::string_view name_of(ChecksCalls jobs);

/// What the host spends, in time, and where it waits for the device.
struct HostCosts {
  sim::Duration kernel_issue{};       // host time to launch one kernel (framework and driver)
  sim::Duration operation_host{};     // beyond that, of an operation of the framework, once for all of its launches
  double backward_issue_share = 1.0;  // of either in the backward pass, over that in the forward pass
  Graphs graphs = Graphs::none;
  sim::Duration microbatch_host{};    // per forward pass: a batch fetched and sent, masks and positions made
  bool host_waits_for_batch = false;  // the host synchronises with the device when it has fetched a micro-batch
  sim::Duration transfer_issue{};     // host time to launch one collective or send/receive
  /// Beyond that, around a collective of a tensor group; and ahead of one whose ranks compare it first, for each rank
  /// of its group, and for each node of a group that lies over several.
  struct GroupCalls {
    sim::Duration tensor{};
    ChecksCalls checked = ChecksCalls::between_nodes;
    sim::Duration per_rank{}, per_node{};
    bool operator==(const GroupCalls&) const = default;
  } calls;
  /// Around a layer of experts, beyond its launches, in each direction: ahead of the counts of tokens; between these
  /// and the experts, where sizes are new; again for each expert of the rank, and for each whose operands are put into
  /// 8 bits or fewer; and where its exchanges hide behind another micro-batch.
  sim::Duration expert_layer_host{}, expert_dispatch_host{}, expert_host{}, expert_quantisers_host{},
      expert_overlap_host{};
  sim::Duration step_begin_host{};  // ahead of a step's first pass, the device idle: batch, logging, trainer's loop
  sim::Duration step_host{};        // per step, outside kernels: data loader, logging, Python
  sim::Duration evaluation_host{};  // per evaluation, beyond its passes: iterators, losses gathered, a slow step after
  bool blocking_launches = false;   // the host waits for every kernel before it issues the next
  bool operator==(const HostCosts&) const = default;
};

/// What a scenario that leaves a key out is taken to mean.
struct ScenarioDefaults {
  AttentionKind attention = AttentionKind::flash;
  Recompute recompute = Recompute::none;
  Sharding sharding = Sharding::none;
  std::string schedule = "1f1b";  // by its name: schedules belong to the room of workloads
  LayerSharing layer_split = LayerSharing::even;
  bool experts_follow_tensor = false;  // experts are cut over the tensor group, whatever a scenario says
  bool sequence_parallel = false;
  bool overlap_tensor = false, overlap_gradients = false, overlap_parameters = false;
  bool fused_permutation = true;
  PipelineOverlap overlap_pipeline = PipelineOverlap::never;
  bool operator==(const ScenarioDefaults&) const = default;
};

/// How gradients and parameters are cut into the buckets of data-parallel collectives, and when these begin.
struct BucketPolicy {
  sim::Bytes gradient_bucket{};        // 0: one bucket per chunk
  sim::Bytes first_gradient_bucket{};  // of a chunk, in the order in which gradients are ready; 0: as the others
  sim::Bytes parameter_bucket{};
  bool data_collectives_in_step = false;  // a chunk's collectives begin on all pipeline stages at a time
  double bucket_elements_per_rank = 0;    // a bucket of given size holds at least this for each data-parallel rank
  BucketCut cut = BucketCut::every_chunk;
  bool closes_by_weight() const { return cut == BucketCut::by_weight; }
  bool one_launch_queue = false;  // what is launched behind a reduction of gradients begins no earlier than it does
  bool operator==(const BucketPolicy&) const = default;
};

/// In which types, and by which collectives, gradients are added up and parameters handed out.
struct GradientReduction {
  DataType gradient_dtype = DataType::fp32;  // of the gradient buffers and their reduction, but in fp16 training
  DataType parameter_gather_dtype = DataType::bf16;  // of the parameter all-gather
  AmaxReduction amax = AmaxReduction::none;
  ShardReduction of_shards = ShardReduction::scatter;
  GradientPasses passes = GradientPasses::every_pass;
  bool reduces_every_pass() const { return passes != GradientPasses::once; }
  DataType fp16_accumulation = DataType::fp32;  // of the gradient buffers, and their reduction, in fp16 training
  TrainingGradients of_training = TrainingGradients::dropped;
  bool operator==(const GradientReduction&) const = default;
};

/// How parameters that are shared out come together for a pass (ZeRO 3, FSDP), and what calls of their ranks cost.
struct FetchStyle {
  Fetches fetches = Fetches::by_unit;
  bool by_weight() const { return fetches != Fetches::by_unit; }
  bool collectives_by_list = false;     // a call takes a list of its ranks' parts, which lie in a buffer beside it
  sim::Duration fetch_call_per_rank{};  // host time of a call for each rank's part
  double live_parameters = 0;           // elements at hand from which nothing is fetched ahead; 0: no limit
  double reuse_distance = 0;            // elements of other weights until its next use up to which a weight stays
  FetchedAs fetched_as = FetchedAs::own_type;
  ReducedAs reduced_as = ReducedAs::own_type;
  bool quantised_fetches() const { return fetched_as == FetchedAs::int8; }
  bool quantised_reductions() const { return reduced_as == ReducedAs::int4; }
  UnitReduction reduction = UnitReduction::every_pass;
  bool reduces_last_pass() const { return reduction == UnitReduction::last_pass; }
  bool reduces_groups_once() const { return reduction == UnitReduction::groups_once; }
  bool operator==(const FetchStyle&) const = default;
};

/// How activations and gradients go from stage to stage.
struct MessagePolicy {
  bool host_waits_for_pipeline = false;  // the host synchronises with the device after every pipeline send/receive
  MessagePhases phases = MessagePhases::all;
  /// An interleaved pipeline with as many micro-batches as stages runs all forward passes before any backward one.
  bool runs_one_group_forward = true;
  ScatteredMessages scattered = ScatteredMessages::none;  // split over the tensor group, gathered by NVLink
  /// Host time on either side ahead of a message, in which its stages agree on the shapes of its tensors.
  sim::Duration activation_shapes_host{}, gradient_shapes_host{};
  bool operator==(const MessagePolicy&) const = default;
};

/// How far a host is ahead of its device, for what is reserved meanwhile. In launches, as which events that are
/// recorded or waited for count too.
struct HostLaunches {
  double ahead = 0;            // at most; 0: what waits for other streams is not counted
  bool past_messages = false;  // messages between stages do not hold the host back
  // Of a block's pass as the framework launches them, where one kernel stands for several in what is priced; 0: as
  // there.
  double forward_block = 0, backward_block = 0;
  bool operator==(const HostLaunches&) const = default;
};

/// What stays allocated that the computation does not need.
struct MemoryHabits {
  bool keeps_pipeline_outputs = false;  // a stage's output stays allocated until its backward pass
  ReceivedBuffers received = ReceivedBuffers::as_needed;
  double allocator_overhead = 0;     // held by the caching allocator beyond what is allocated, over the latter
  sim::Bytes context_memory{};       // CUDA context with the libraries' kernels and workspaces
  sim::Bytes communicator_memory{};  // buffers of one NCCL communicator
  KeptUnits units_kept = KeptUnits::ends;
  HostLaunches launches;
  bool walks_allocator = false;         // reserved memory is walked tensor by tensor through the caching allocator
  bool gathers_into_gradients = false;  // mxfp8 weights alone are kept; what is gathered lies in the gradients' buffer
  bool operator==(const MemoryHabits&) const = default;
};

/// What running beside something else costs. Factors on time, but for collective_processors.
struct OverlapCosts {
  double compute_slowdown_under_collective =
      1.0;                               // kernels beside a data-parallel collective: SMs and bandwidth shared
  double tensor_overlap_slowdown = 1.0;  // a GEMM split to overlap with its collective
  double collective_processors = 0;      // that a collective inside a node takes from the GEMM that it runs beside
  double pipeline_slowdown = 1.0;        // kernels of a pipeline's stages: the slowest GPU sets its pace
  double kernel_slowdown = 1.0;          // of every kernel, over the kernels that the device's profile was fitted to
  bool operator==(const OverlapCosts&) const = default;
};

/// Collectives between nodes: the library (NCCL, RCCL) and its transport. The fabric's own path latency comes on top of
/// each step across the network.
struct CollectiveLibrary {
  sim::Duration collective_base{};       // fixed cost of one inter-node collective or send/receive
  sim::Duration collective_step_ring{};  // protocol cost per ring step across the network, Simple protocol
  sim::Duration collective_step_node{};  // per ring step inside a node
  sim::Duration collective_step_tree{};  // protocol cost per tree level across the network
  double exchange_share = 1;             // of a NIC's rate that the messages of an all-to-all reach between nodes
  /// What the library chooses from between nodes; a ring or a pairwise exchange where none of these can do a call.
  CollectiveAlgorithms collective_algorithms{0b0100'0111};  // ring, tree, nvls_tree, pairwise
  bool operator==(const CollectiveLibrary&) const = default;
};

struct Software {
  std::string name;
  std::string provenance;
  HostCosts host;
  ScenarioDefaults defaults;
  LayerStyle layers;
  AttentionStyle attention_style;
  BucketPolicy buckets;
  GradientReduction gradients;
  FetchStyle fetches;
  MessagePolicy messages;
  OptimizerStyle optimizer;
  MemoryHabits memory;
  OverlapCosts overlap;
  CollectiveLibrary library;
  bool operator==(const Software&) const = default;

  /// Reads the keys of a generation (see generation.h), whose recipes are those of the book. Throws sim::UserError.
  static Software load(const sim::Settings& written, const RecipeBook& book);
};

/// The blocks of keys that a generation's documents are written in.
enum class SoftwareBlock : std::uint8_t {
  all,          // every key that a feature or a generation may set
  host,         // what the host costs and where it waits
  fitted,       // numbers
  collectives,  // what a collective library decides
};
/// The names of a block's keys.
const std::vector<std::string>& keys_of(SoftwareBlock block);

/// `document` with every key where it stands now: one of a block that is written without it (kernel_issue is
/// host.kernel_issue), and keys of former releases (fused_cross_entropy: true is recipe.loss: fused). Throws
/// sim::UserError for one that has no such form, naming the key to set, and for one that is given twice.
sim::Settings with_present_keys(const sim::Settings& document);
/// Where a key stands whose value means what it did: host.kernel_issue for kernel_issue, defaults.parallelism.sharding
/// for sharding; `key` itself where it has no other place.
std::string present_key(const std::string& key);
/// Throws sim::UserError for a member that is none of `keys`, and names the nearest, with its block or without.
void refuse_other_keys(const sim::Settings& document, const std::vector<std::string>& keys);
/// The path of what means `key` in a generation's document, as it is written there ("fitted.kernel_issue"); empty: it
/// is not there.
std::string spelled_in(const sim::Settings& generation, const std::string& key);
/// Whether keys stand below `key`: "host", "defaults.overlap", "recipe".
bool is_block(std::string_view key);

}  // namespace orrery::calibration
