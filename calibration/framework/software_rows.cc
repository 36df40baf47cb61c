// Every key of a software generation, a row each: its documentation and its reader, so that no key can be documented
// and ignored, or read and undocumented.
#include "calibration/framework/software_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "sim/error.h"

namespace orrery::calibration {
namespace {

using Row = SoftwareRow;

using sim::Settings;

using sim::Bounds;

// What the host does once for a kernel, a message or a step of a ring takes microseconds, once for a pass or a step at
// most some seconds.
constexpr Bounds kIssue{"0 s", "1 s"}, kHost{"0 s", "100 s"};
constexpr Bounds kMemory{"0 B", "1 TB"};
constexpr std::size_t kRows = 256;  // there are fewer

// Where in a generation the keys of a part of a part are set; those of a part take a pointer to it.
constexpr auto kLinear = [](auto&& s) -> auto& { return s.layers.linear; };
constexpr auto kQueries = [](auto&& s) -> auto& { return s.layers.linear.queries; };
constexpr auto kRates = [](auto&& s) -> auto& { return s.layers.linear.rates; };
constexpr auto kExperts = [](auto&& s) -> auto& { return s.layers.experts; };
constexpr auto kCalls = [](auto&& s) -> auto& { return s.host.calls; };
constexpr auto kLaunches = [](auto&& s) -> auto& { return s.memory.launches; };
constexpr auto kHead = [](auto&& s) -> auto& { return s.layers.head; };

template <class Of, class Group>
Row duration(std::string key, Of group, sim::Duration Group::*field, Bounds bounds, std::string meaning) {
  return {{std::move(key), "quantity", "s", "0 us", {}, std::move(meaning), bounds},
          [group, field](Software& out, const Settings& s) { std::invoke(group, out).*field = s.as_duration(); }};
}

template <class Of, class Group>
Row boolean(std::string key, Of group, bool Group::*field, std::string meaning) {
  return {
      {std::move(key), "boolean", "", std::invoke(group, Software{}).*field ? "true" : "false", {}, std::move(meaning)},
      [group, field](Software& out, const Settings& s) { std::invoke(group, out).*field = s.as_bool(); }};
}

/// One of `choices`, as name_of spells them.
template <class Of, class Group, class Enum>
Row choice(std::string key, Of group, Enum Group::*field, std::vector<Enum> choices, std::string meaning) {
  std::vector<std::string> names;
  for (const Enum one : choices) names.emplace_back(name_of(one));
  return {{std::move(key), "choice", "", std::string(name_of(std::invoke(group, Software{}).*field)), names,
           std::move(meaning)},
          [group, field, names, list = std::move(choices)](Software& out, const Settings& s) {
            const auto at = std::find(names.begin(), names.end(), s.as_choice(names)) - names.begin();
            std::invoke(group, out).*field = list[static_cast<std::size_t>(at)];
          }};
}

template <class Of, class Group>
Row data_type(std::string key, Of group, DataType Group::*field, std::string meaning) {
  return choice(std::move(key), group, field, {DataType::fp32, DataType::bf16, DataType::fp16, DataType::fp8},
                std::move(meaning));
}

Row text_row(std::string key, std::string Software::*field, std::string meaning) {
  return {{std::move(key), "text", "", "-", {}, std::move(meaning)},
          [field](Software& out, const Settings& s) { out.*field = s.text(); }};
}

template <class Of, class Group>
Row text_row(std::string key, Of group, std::string Group::*field, std::string meaning) {
  return {{std::move(key), "text", "", std::invoke(group, Software{}).*field, {}, std::move(meaning)},
          [group, field](Software& out, const Settings& s) { std::invoke(group, out).*field = s.text(); }};
}

template <class Of, class Group>
Row number(std::string key, Of group, double Group::*field, Bounds bounds, std::string meaning) {
  return {{std::move(key),
           "number",
           "",
           std::invoke(group, Software{}).*field == 0 ? "0" : "1",
           {},
           std::move(meaning),
           bounds},
          [group, field](Software& out, const Settings& s) { std::invoke(group, out).*field = s.as_number(); }};
}

template <class Of, class Group>
Row bytes(std::string key, Of group, sim::Bytes Group::*field, std::string meaning) {
  return {{std::move(key), "quantity", "bytes", "0 B", {}, std::move(meaning), kMemory},
          [group, field](Software& out, const Settings& s) { std::invoke(group, out).*field = s.as_bytes(); }};
}

Row block_row(std::string block, std::string meaning) {
  return {{std::move(block), "mapping", "", "-", {}, std::move(meaning)}, [](Software&, const Settings& s) {
            if (!s.is_mapping()) s.expected("a mapping of keys and values");
          }};
}

/// Rows of a block, whose keys a document may write without its name too.
std::vector<Row> in(const std::string& block, std::vector<Row> rows, std::string meaning) {
  for (Row& row : rows) row.doc.path = block + "." + row.doc.path;
  rows.insert(rows.begin(), block_row(block, std::move(meaning)));
  return rows;
}

/// A key that only the resolver understands: it says how other keys are set.
Row form(std::string key, std::string type, std::string meaning) {
  return {{std::move(key), std::move(type), "", "-", {}, std::move(meaning)},
          [](Software&, const Settings& s) { s.fail("was not resolved before loading"); }};
}

std::vector<Row> form_rows() {
  using S = Software;
  return {
      text_row("name", &S::name, "Name of the generation."),
      text_row("provenance", &S::provenance, "Where its facts and numbers come from."),
      {{"facts", "list", "", "-", {}, "What is known of the generation, in words, with sources; for the reader only."},
       [](S&, const Settings&) {}},
      {{"offers",
        "mapping",
        "",
        "-",
        {},
        "What its user may choose, which a search keeps to: names under `sharding`, `with_pipeline` (sharding beside "
        "stages), `recompute` and `schedule`; `tensor` and `pipeline`, false where it has none; and the `source`."},
       [](S&, const Settings&) {}},
      form("inherits", "name", "An older generation; every key that is left out is taken from it."),
      form("adapters", "name",
           "The generation in whose place fine-tuning by adapters takes this one's name; `none`: this one itself."),
      form("features", "list",
           "What it does beyond what it inherits: names of calibration/features, each of which sets the keys of one "
           "cause; later ones come on top."),
      form("without", "list", "Features that it inherits and drops, or that it is known to lack."),
      form("collectives", "name",
           "Its collective library between nodes: a file of calibration/collectives, or a path."),
      form("fitted", "mapping",
           "Numbers that measured steps or memory moved, written apart; they stand above every other key of the "
           "document."),
      form("fitted.*", "text", "Any key that is a number, as kernel_issue or pipeline_slowdown."),
  };
}

std::vector<Row> host_rows() {
  using S = Software;
  return {
      duration("kernel_issue", &S::host, &HostCosts::kernel_issue, kIssue,
               "Host time to launch one kernel (framework and driver)."),
      duration("operation_host", &S::host, &HostCosts::operation_host, kHost,
               "Host time of an operation of a layer beyond its launches, where no graph replays it: modules called in "
               "Python, arguments checked, results allocated, autograd's records."),
      number("backward_issue_share", &S::host, &HostCosts::backward_issue_share, {"0", "10"},
             "Host time of a kernel of the backward pass over that of one of the forward pass: autograd runs in C++."),
      choice(
          "graphs", &S::host, &HostCosts::graphs,
          {Graphs::none, Graphs::router, Graphs::ahead_of_counts, Graphs::mixers},
          "What is replayed as CUDA graphs, so that the host launches and does nothing else for it: of a layer of "
          "experts router, from the router's product to the counts of tokens (Megatron-Core's scopes moe_router and "
          "moe_preprocess), or ahead_of_counts, all that lies ahead of these (attn too); mixers, beside that attention "
          "and mixers with a state of layers without experts (mamba)."),
      duration(
          "microbatch_host", &S::host, &HostCosts::microbatch_host, kHost,
          "Host time per forward pass outside kernels: a batch is fetched and sent on, masks and positions are made."),
      boolean("host_waits_for_batch", &S::host, &HostCosts::host_waits_for_batch,
              "The host synchronises with the device at every forward pass, to learn how much data it has been sent."),
      duration("transfer_issue", &S::host, &HostCosts::transfer_issue, kIssue,
               "Host time to launch one collective or send/receive."),
      duration(
          "tensor_call", kCalls, &HostCosts::GroupCalls::tensor, kIssue,
          "Host time around a collective of a tensor group beyond its launch: products cut for it, views, events."),
      duration("checked_call_per_rank", kCalls, &HostCosts::GroupCalls::per_rank, kIssue,
               "Host time ahead of a collective whose ranks compare it first, for each rank of its group."),
      duration("checked_call_per_node", kCalls, &HostCosts::GroupCalls::per_node, kIssue,
               "Beyond that, for each node of a group that lies over several."),
      choice("checked_calls", kCalls, &HostCosts::GroupCalls::checked,
             {ChecksCalls::between_nodes, ChecksCalls::always, ChecksCalls::never},
             "Jobs whose ranks compare every collective ahead of it: between_nodes, those whose pipeline's messages "
             "pass between nodes; always or never, as a job is told to."),
      duration("expert_layer_host", &S::host, &HostCosts::expert_layer_host, kHost,
               "Host time around a layer of experts in each direction, beyond its launches and operations: routing, "
               "permutation and dispatch in Python. 0 where something is left behind the counts of tokens: what lies "
               "ahead of them is replayed (graphs: ahead_of_counts)."),
      duration(
          "expert_dispatch_host", &S::host, &HostCosts::expert_dispatch_host, kHost,
          "Beyond expert_layer_host, behind the counts of tokens that the host waits for, ahead of the experts' first "
          "kernel, where routing decides how many rows come: memory found and kernels chosen for sizes that were not "
          "there before, exchange and products set up while the device idles. Graphs of routing leave it, experts "
          "filled to a capacity have none of it."),
      duration("expert_host", &S::host, &HostCosts::expert_host, kHost,
               "Host time for each expert of the rank in each direction, beyond its launches: its weights and views."),
      duration(
          "expert_quantisers_host", &S::host, &HostCosts::expert_quantisers_host, kHost,
          "Beyond expert_host, for each expert whose operands are put into 8 bits or fewer: quantisers of its inputs, "
          "weights and gradients, set up one by one in Python, and its copy of the weights looked up."),
      duration("expert_overlap_host", &S::host, &HostCosts::expert_overlap_host, kHost,
               "Host time of a layer of experts in each direction where its exchanges hide behind another micro-batch: "
               "pieces of layers scheduled one by one, with events between streams."),
      duration(
          "fetch_call_per_rank", &S::fetches, &FetchStyle::fetch_call_per_rank, kIssue,
          "Host time of a collective of sharded parameters or of their gradients for each of its ranks, where these "
          "go weight by weight: a view of the rank's part is made, checked and copied."),
      duration("step_begin_host", &S::host, &HostCosts::step_begin_host, kHost,
               "Host time ahead of the first pass of a step while the device idles: the trainer's loop, logging, the "
               "next batch; where a step's time is taken from one step to the next."),
      duration("step_host", &S::host, &HostCosts::step_host, kHost,
               "Host time per step outside kernels: data loader, logging, optimizer loop."),
      duration(
          "evaluation_host", &S::host, &HostCosts::evaluation_host, kHost,
          "Time per evaluation beyond its forward passes: iterators begin and end, losses are gathered, the step after "
          "is slower."),
      duration("attention_reads_host", &S::attention_style, &AttentionStyle::host_reads, kIssue,
               "Time that the device idles in a forward pass of attention while the host reads numbers from it, as "
               "sequence lengths: transfer, wake-up of the host and launch of what follows, for all of them."),
      boolean("host_waits_for_pipeline", &S::messages, &MessagePolicy::host_waits_for_pipeline,
              "The host synchronises with the device after every pipeline send or receive."),
      duration("activation_shapes_host", &S::messages, &MessagePolicy::activation_shapes_host, kHost,
               "Host time of either stage ahead of a message of activations, in which it is told the shapes of its "
               "tensors or tells them."),
      duration("gradient_shapes_host", &S::messages, &MessagePolicy::gradient_shapes_host, kHost,
               "The same ahead of a message of gradients."),
      boolean("blocking_launches", &S::host, &HostCosts::blocking_launches,
              "The host waits for every kernel before it issues the next (CUDA_LAUNCH_BLOCKING), so that the device "
              "idles while it does."),
  };
}

/// Under the names that a scenario has them by.
std::vector<Row> default_rows() {
  using S = Software;
  return {
      block_row("parallelism", "Defaults of keys of the scenario's `parallelism`."),
      block_row("overlap", "Defaults of keys of the scenario's `overlap`."),
      block_row("precision", "Defaults of keys of the scenario's `precision`."),
      block_row("experts", "Defaults of keys of the scenario's `experts`."),
      choice("attention", &S::defaults, &ScenarioDefaults::attention, {AttentionKind::flash, AttentionKind::unfused},
             "Default of the scenario's `attention`."),
      choice("recompute", &S::defaults, &ScenarioDefaults::recompute,
             {Recompute::none, Recompute::selective, Recompute::full}, "Default of the scenario's `recompute`."),
      choice("parallelism.sharding", &S::defaults, &ScenarioDefaults::sharding,
             {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters},
             "Default of the scenario's `parallelism.sharding`."),
      text_row("parallelism.schedule", &S::defaults, &ScenarioDefaults::schedule,
               "Default of the scenario's `parallelism.schedule`."),
      boolean("parallelism.sequence_parallel", &S::defaults, &ScenarioDefaults::sequence_parallel,
              "Default of the scenario's `parallelism.sequence_parallel`."),
      boolean("overlap.tensor", &S::defaults, &ScenarioDefaults::overlap_tensor,
              "Default of the scenario's `overlap.tensor`."),
      choice("overlap.pipeline", &S::defaults, &ScenarioDefaults::overlap_pipeline,
             {PipelineOverlap::never, PipelineOverlap::of_chunks, PipelineOverlap::always},
             "Default of the scenario's `overlap.pipeline`; of_chunks, of interleaved schedules alone: elsewhere "
             "messages are waited for."),
      boolean("overlap.gradients", &S::defaults, &ScenarioDefaults::overlap_gradients,
              "Default of the scenario's `overlap.gradients`."),
      boolean("overlap.parameters", &S::defaults, &ScenarioDefaults::overlap_parameters,
              "Default of the scenario's `overlap.parameters`."),
      data_type("precision.gradients", &S::gradients, &GradientReduction::gradient_dtype,
                "Default of the scenario's `precision.gradients`, in which they are accumulated and reduced; but for "
                "fp16_accumulation."),
      data_type("precision.parameters", &S::gradients, &GradientReduction::parameter_gather_dtype,
                "Default of the scenario's `precision.parameters`, in which they are gathered."),
      boolean("experts.fused_permutation", &S::defaults, &ScenarioDefaults::fused_permutation,
              "Default of the scenario's `experts.fused_permutation`."),
  };
}

/// How layers, passes and messages of a pipeline's stages are ordered.
std::vector<Row> stage_rows() {
  using S = Software;
  return {
      boolean("experts_follow_tensor", &S::defaults, &ScenarioDefaults::experts_follow_tensor,
              "Experts are cut over the tensor group as other layers are: expert_tensor is tensor."),
      choice(
          "layer_split", &S::defaults, &ScenarioDefaults::layer_split,
          {LayerSharing::even, LayerSharing::fill, LayerSharing::weigh},
          "How layers that stages do not divide are shared out: evenly, embedding and head counting as a layer each, "
          "or stage by stage up to the most that any has to hold, which leaves the last stage the rest. weigh: by the "
          "sizes of products, the head's among them, whether stages divide the layers or not."),
      choice(
          "message_phases", &S::messages, &MessagePolicy::phases,
          {MessagePhases::all, MessagePhases::steady, MessagePhases::slots},
          "Where pipeline messages overlap, all do; or steady, those between two passes of a kind, as in warm-up and "
          "cool-down, do not: a pass that follows one of its kind waits for that one's messages, and its input is "
          "received when that one is done. slots: interleaved 1F1B runs in time slots of a pass each: when its pass "
          "is done, a stage sends what that made, takes what its neighbours send it in the slot, whenever that is "
          "needed, and waits for both, unless messages overlap."),
      boolean("runs_one_group_forward", &S::messages, &MessagePolicy::runs_one_group_forward,
              "An interleaved pipeline with as many micro-batches as stages runs all their forward passes before its "
              "first backward pass. If not, each stage begins backward as soon as its depth allows."),
  };
}

std::vector<Row> expert_rows() {
  return {
      number("expert_spare_processors", kExperts, &ExpertHabits::spare_processors, {"0", "64"},
             "SMs that products of `experts.fused_mlp` leave free all along, weight gradients excepted, where "
             "`overlap.experts` has exchanges run beside them."),
  };
}

std::vector<Row> kernel_rows() {
  using S = Software;
  return {
      choice(
          "weight_gradients", kLinear, &LinearStyle::weight_gradients,
          {WeightGradients::apart, WeightGradients::fused, WeightGradients::fused_16bit},
          "Gradients of weights: apart, a tensor of their own that is added up behind the GEMM; fused, the GEMM adds "
          "into the fp32 gradient; fused_16bit, into 16-bit ones too, where gradients are kept so and parameters are "
          "not sharded."),
      choice("amax_reduction", &S::gradients, &GradientReduction::amax,
             {AmaxReduction::none, AmaxReduction::every_pass},
             "Where the largest magnitudes that scales of fp8 follow are reduced: every_pass, by an all-reduce over "
             "tensor- and data-parallel ranks at the end of every pass of a chunk, which the device waits for."),
      choice(
          "casts", &S::layers, &LayerStyle::casts,
          {Casts::apart, Casts::fused, Casts::by_norms, Casts::by_norms_and_activations, Casts::scaled,
           Casts::scaled_by_makers},
          "Casts of operands to 8 bits or fewer: apart, kernels of their own; fused, to fp8 inside the kernel ahead; "
          "by_norms, by_norms_and_activations, inside these alone; scaled, in fp8 a scale of each tensor, whose "
          "largest magnitude is looked for in a pass ahead of a cast; scaled_by_makers, norms look for it and a cast "
          "of what they make reads it once. Other types are cast apart, since rows and columns have scales of their "
          "own."),
      choice("rotated_columns", &S::layers, &LayerStyle::rotated_columns,
             {RotatedColumns::with_rows, RotatedColumns::apart},
             "Of what nvfp4's weight gradients multiply, columns are rotated (a random Hadamard transform) and cast: "
             "with_rows, by the kernel that casts the rows; apart, by one that reads the tensor once more."),
      number("qkv_copies", &S::attention_style, &AttentionStyle::qkv_copies, {"0", "20"},
             "Times that queries, keys and values are copied between the linear layer that makes them and attention."),
      number("qkv_gradient_copies", &S::attention_style, &AttentionStyle::qkv_gradient_copies, {"0", "20"},
             "Times that the gradients of queries, keys and values are copied on the way back."),
      choice(
          "key_copies", &S::attention_style, &AttentionStyle::key_copies,
          {KeyCopies::none, KeyCopies::apart, KeyCopies::repeated},
          "Copies of keys and values ahead of attention: apart, out of a tensor that queries share with them, which "
          "queries keep whole for the backward pass, while those that share a key have tensors of their own; "
          "repeated, where several queries share a key, to as many heads as there are queries, and so exchanged over "
          "a context group, their gradients being summed."),
      boolean("async_tensor_backward", kLinear, &LinearStyle::async_tensor_backward,
              "Reductions of input gradients run beside the weight gradient GEMMs."),
      choice("scattered_messages", &S::messages, &MessagePolicy::scattered,
             {ScatteredMessages::none, ScatteredMessages::activations, ScatteredMessages::both},
             "Pipeline messages that are split over the tensor group and gathered inside the node: none, activations, "
             "or both, their gradients too."),
      choice("shard_reduction", &S::gradients, &GradientReduction::of_shards,
             {ShardReduction::scatter, ShardReduction::all_reduce, ShardReduction::all_reduce_last},
             "Gradients whose update is shared out: scatter, reduce-scattered; all_reduce, all-reduced in the type of "
             "the activations (DeepSpeed's engine without its own ZeRO stages); all_reduce_last, with sharding: "
             "optimizer as they were added up, at once and, unless the scenario says otherwise, behind the last "
             "backward pass."),
      choice("gradient_reduction", &S::gradients, &GradientReduction::passes,
             {GradientPasses::once, GradientPasses::every_pass, GradientPasses::to_owners},
             "With sharding: gradients, they are added up whole over the micro-batches and reduced once a step; in the "
             "backward pass of every micro-batch, as soon as their layer is done, so that a rank keeps its share of "
             "them alone; or then weight by weight, to_owners, the one rank that owns each."),
      number("fused_softmax_matrices", &S::attention_style, &AttentionStyle::fused_softmax_matrices, {"1", "1024"},
             "Unfused attention: the fused softmax takes score matrices (batch x heads) in multiples of this; other "
             "numbers are scaled, masked and normalised one operation at a time in fp32."),
      boolean(
          "fused_softmax_by_heads", &S::attention_style, &AttentionStyle::fused_softmax_by_heads,
          "Unfused attention: whether the fused softmax may run is judged as if a rank's heads were the length of a "
          "row, so that it takes score matrices in blocks of 256 over the heads of a rank (rounded up to a power of "
          "two, 32 at most)."),
      boolean("recomputes_needed_only", kLinear, &LinearStyle::recomputes_needed_only,
              "Of recomputed parts nothing runs again whose result no gradient needs: not the product at the end of a "
              "block, whether that is recomputed in part or as a whole."),
      number("extra_kernels_per_layer", &S::layers, &LayerStyle::extra_kernels_per_layer, {"0", "1000"},
             "Small kernels per layer and direction beyond those modelled (views, copies)."),
  };
}

std::vector<Row> bucket_rows() {
  using S = Software;
  return {
      bytes("gradient_bucket", &S::buckets, &BucketPolicy::gradient_bucket,
            "Size of a gradient bucket; 0: one bucket per chunk."),
      bytes("first_gradient_bucket", &S::buckets, &BucketPolicy::first_gradient_bucket,
            "Size of a chunk's first gradient bucket, so that reductions begin early; 0: as the others."),
      bytes("parameter_bucket", &S::buckets, &BucketPolicy::parameter_bucket,
            "Size of a parameter bucket; 0: one bucket per chunk."),
      number(
          "bucket_elements_per_rank", &S::buckets, &BucketPolicy::bucket_elements_per_rank, {"0", "1e9"},
          "A bucket of a given size holds at least this many elements for each data-parallel rank, so that rings stay "
          "busy."),
      choice(
          "bucket_cut", &S::buckets, &BucketPolicy::cut,
          {BucketCut::every_chunk, BucketCut::by_weight, BucketCut::first_chunk, BucketCut::as_model},
          "What is cut into buckets of the given size: every_chunk; by_weight, so too, those of gradients being "
          "closed by the weight that fills them and not by the layer that does; first_chunk, in a pipeline the first "
          "chunk of the first stage, every other being one bucket; as_model, none: each chunk of an interleaved "
          "pipeline is a bucket, each layer where there is one chunk."),
  };
}

std::vector<Row> slowdown_rows() {
  using S = Software;
  return {
      number("compute_slowdown_under_collective", &S::overlap, &OverlapCosts::compute_slowdown_under_collective,
             {"1", "10"},
             "Factor on kernels that run beside a data-parallel collective: SMs and memory bandwidth are shared."),
      number("tensor_overlap_slowdown", &S::overlap, &OverlapCosts::tensor_overlap_slowdown, {"1", "10"},
             "Factor on a GEMM that is split to overlap with its tensor-parallel collective."),
      number(
          "pipeline_slowdown", &S::overlap, &OverlapCosts::pipeline_slowdown, {"1", "2"},
          "Factor on the kernels of a pipeline's stages, of which the slowest GPU sets the pace; profiles are of one."),
      number("kernel_slowdown", &S::overlap, &OverlapCosts::kernel_slowdown, {"1", "10"},
             "Factor on every kernel of a training step, over those that the device's profile was fitted to: other "
             "kernels, other clocks, caches that something else has filled. No generation that ships has one."),
  };
}

/// When collectives begin, and what they take from what runs beside them.
std::vector<Row> launch_rows() {
  using S = Software;
  return {
      boolean(
          "data_collectives_in_step", &S::buckets, &BucketPolicy::data_collectives_in_step,
          "With interleaving, reductions and gathers of a chunk begin on all pipeline stages at a time, by stage 0's "
          "clock: later stages put reductions off and gather early, chunk by chunk."),
      boolean(
          "one_launch_queue", &S::buckets, &BucketPolicy::one_launch_queue,
          "All streams of a GPU are fed by one queue (CUDA_DEVICE_MAX_CONNECTIONS=1), so that what the host launches "
          "behind a reduction of gradients begins no earlier than that does, which waits for the one before."),
      number("collective_processors", &S::overlap, &OverlapCosts::collective_processors, {"0", "64"},
             "Processors that a collective inside a node holds (one for each of the library's channels), which a GEMM "
             "beside it (async_tensor_backward) goes without."),
  };
}

std::vector<Row> fetch_rows() {
  using S = Software;
  return {
      choice(
          "fetches", &S::fetches, &FetchStyle::fetches,
          {Fetches::by_unit, Fetches::by_weight, Fetches::by_weight_drained},
          "With sharding: parameters, parameters are gathered by_unit, layer by layer; by_weight, every weight matrix "
          "by "
          "a call of its own ahead of the product that reads it, in forward, recomputed and backward passes, one call "
          "ahead, and every tensor's gradient is reduced by a call of its own, while norms and biases stay whole and "
          "are gathered once a step; by_weight_drained, the host also waits for all that it has launched before every "
          "gather, and for the gathered weight before it launches what reads it. By unit for mixtures of experts, "
          "parallel blocks and recomputation by operation."),
      boolean(
          "collectives_by_list", &S::fetches, &FetchStyle::collectives_by_list,
          "With fetches by_weight, a call takes a list of its ranks' parts: a buffer is cleared for them, filled and "
          "copied once more, part by part. Where optimizer states alone are sharded, parameters are gathered behind "
          "the step through such lists, which take memory."),
      number(
          "live_parameters", &S::fetches, &FetchStyle::live_parameters, {"0", "1e15"},
          "With fetches by_weight, nothing is fetched ahead while at least so many elements are at hand; 0: no limit."),
      number("reuse_distance", &S::fetches, &FetchStyle::reuse_distance, {"0", "1e15"},
             "With fetches by_weight, a weight stays gathered if at most so many elements of others are used before it "
             "is used again in the same pass."),
      choice(
          "fetched_as", &S::fetches, &FetchStyle::fetched_as, {FetchedAs::own_type, FetchedAs::int8},
          "As what parameters travel that are gathered in every pass: their own type, or blocks of int8 with a scale "
          "each, which kernels bound by memory make and undo."),
      choice("reduced_as", &S::fetches, &FetchStyle::reduced_as, {ReducedAs::own_type, ReducedAs::int4},
             "As what gradients travel that are reduced in every pass: their own type, or blocks of int4 with a scale "
             "each, exchanged and added up once inside nodes and once between them."),
      choice("unit_reduction", &S::fetches, &FetchStyle::reduction,
             {UnitReduction::every_pass, UnitReduction::groups_once, UnitReduction::last_pass},
             "With sharding: parameters, gradients are reduced in every_pass; groups_once, with "
             "parallelism.shard_group between groups once a step; last_pass, they are added up whole over the "
             "micro-batches and reduced in the last backward pass alone."),
  };
}

std::vector<Row> attention_rows() {
  using S = Software;
  return {
      choice("output_copy", &S::attention_style, &AttentionStyle::output_copy,
             {OutputCopy::none, OutputCopy::kept, OutputCopy::made_again},
             "The output of attention is copied into another layout for the projection, where a micro-batch has more "
             "than one sequence: kept, both stay for the backward pass; made_again, the copy goes with the "
             "projection's product, and the backward pass makes another."),
      choice(
          "attention_kernel", &S::attention_style, &AttentionStyle::attention_kernel,
          {AttentionKernel::fused, AttentionKernel::flash_1, AttentionKernel::flash_2, AttentionKernel::fused_fp8,
           AttentionKernel::fused_2026},
          "Generation of the fused attention kernels: fused (those of the device profile's tables), flash_1 "
          "(FlashAttention 1, CUDA or Triton), flash_2 (FlashAttention 2, the library), fused_fp8 (the vendor's in "
          "fp8, where linear layers are in fp8 or nvfp4 and the profile knows its kernels; else fused) or fused_2026 "
          "(the vendor's of 2026, where the profile knows them; else fused)."),
      number("attention_score_operations", &S::attention_style, &AttentionStyle::score_operations, {"0", "1000"},
             "Operations in fp32 that fused attention takes for each score, in both passes, beyond those of the kernel "
             "that attention_kernel names; at the device's rate outside of its matrix units."),
      boolean(
          "gathered_in_blocks", &S::attention_style, &AttentionStyle::gathered_in_blocks,
          "With context_method: all_gather, attention takes one kernel for each rank's keys and values, whose outputs "
          "are put together in fp32; backward, gradients of keys and values go round the group in fp32, and nothing "
          "hides them."),
  };
}

std::vector<Row> trainer_rows() {
  using S = Software;
  return {
      boolean("dropout", &S::layers, &LayerStyle::dropout, "Dropout of hidden states and attention probabilities."),
      boolean("bias_in_gemm", kLinear, &LinearStyle::bias_in_gemm, "A linear layer's GEMM adds its bias (epilogue)."),
      boolean("shares_key_heads", kQueries, &LinearStyle::Queries::shares_heads,
              "A tensor group may have more ranks than the model has heads of keys: each makes its part of the "
              "queries, keys and values, which are gathered, and several take the same head of keys."),
      choice(
          "query_layers", kQueries, &LinearStyle::Queries::layers,
          {QueryLayers::joint, QueryLayers::parted, QueryLayers::separate},
          "Queries, keys and values: joint, one product; parted, where several queries share a key, queries, values "
          "and keys that have a norm are copied out of its tensor and their gradients joined; separate, three linear "
          "layers with three biases, whose gradients of the input are added up and, over a tensor group, reduced "
          "apart. A parallel block keeps one."),
      boolean("separate_gate", kLinear, &LinearStyle::separate_gate,
              "The two up projections of a gated MLP are two products, whose gradients of the input are added up."),
      boolean(
          "z_loss", kHead, &HeadStyle::z_loss,
          "The loss has a term in the logits' log-sum-exp, which is computed on an fp32 copy one operation at a time "
          "beside the cross-entropy; its softmax is kept."),
      boolean("pads_vocabulary", kHead, &HeadStyle::pads_vocabulary,
              "The vocabulary is padded to a multiple of 128 per tensor rank; else each rank takes its part as it is."),
      boolean(
          "keeps_gathered_inputs", kLinear, &LinearStyle::keeps_gathered_inputs,
          "With sequence parallelism, column-parallel layers keep their input as it was gathered until their backward "
          "pass; else each rank keeps its part, and the backward pass gathers it once more."),
      boolean("gathers_quantised", kLinear, &LinearStyle::gathers_quantised,
              "With sequence parallelism, operands of a type with scales travel cast where the tensor group gathers "
              "them, but for those with scales of rows (fp8-rowwise); else in 16 bit."),
      boolean("sequence_behind_batch", kLinear, &LinearStyle::sequence_behind_batch,
              "With sequence parallelism, sequences lie behind one another: what the tensor group gathers is copied "
              "into order, and what it scatters is copied out of it, where no kernel beside does so."),
      boolean("exchanges_fused", kLinear, &LinearStyle::exchanges_fused,
              "overlap.tensor fuses an exchange with the product that reads or makes the tensor: not with a cast, nor "
              "with a sum of gradients; parts of a sum are added up in a pass of their own."),
      number("training_metrics", kHead, &HeadStyle::training_metrics, {"0", "100"},
             "Cross entropies computed once more per micro-batch for the log: logits to fp32, then log-softmax."),
      boolean("gathers_logits", kHead, &HeadStyle::gathers_logits,
              "The tensor group gathers the logits of the whole vocabulary, and every rank computes the loss."),
      boolean("whole_embedding", kHead, &HeadStyle::whole_embedding,
              "Every tensor rank holds all of the embedding and looks up all tokens."),
      choice("optimizer_states", &S::optimizer, &OptimizerStyle::states,
             {OptimizerStates::fp32, OptimizerStates::moments_16bit, OptimizerStates::as_weights},
             "The optimizer's states: fp32; moments_16bit, its moments lie in 16 bits, weights that it updates and "
             "their gradients do not; as_weights, moments have the type of the weights, which are updated as they are, "
             "so that there is no copy in fp32."),
      choice("offloaded_gradients", &S::optimizer, &OptimizerStyle::offloaded_gradients,
             {OffloadedGradients::behind_passes, OffloadedGradients::in_passes, OffloadedGradients::added_by_host},
             "With offload.optimizer, gradients are copied to the host behind_passes, after the last backward one; "
             "in_passes, as the backward pass reduces them, those of several micro-batches coming back to the device, "
             "which adds; added_by_host, which also clips them."),
      number("host_update_share", &S::optimizer, &OptimizerStyle::host_update_share, {"0.001", "1"},
             "With offload.optimizer, share of the bandwidth of the host's memory that its update of the states "
             "reaches; the default is assumed, not fitted."),
  };
}

/// What products and casts reach, over those of the device's profile.
std::vector<Row> gemm_rows() {
  return {
      number(
          "column_cast_traffic", kLinear, &LinearStyle::column_cast_traffic, {"1", "20"},
          "Bytes that a cast with scales of columns (fp8-rowwise) moves, over those of one with scales of rows: what "
          "it writes column by column takes whole sectors of memory."),
      number("rows_scaled_rate", kRates, &GemmRates::rows_scaled, {"0.1", "2"},
             "Rate of a linear layer's forward GEMM with scales of rows (fp8-rowwise) that sums over 8192 elements or "
             "more, over that of one with one scale for each operand; up to 4096 both are taken to be as fast."),
      number("misaligned_gemm_rate", kRates, &GemmRates::misaligned, {"0.01", "1"},
             "Rate of a linear layer's 16-bit GEMM whose rows do not begin at multiples of 16 bytes, over that of one "
             "whose rows do (the matrix library falls back to kernels that load fewer bytes at a time)."),
      number("gemm_rate", kRates, &GemmRates::of_library, {"0.1", "2"},
             "Rate of a linear layer's 16-bit GEMM, over that with the release of the matrix library that the device's "
             "profile was measured with."),
  };
}

/// What a compiler makes of a block, and what PyTorch's own operations around it do.
std::vector<Row> compiler_rows() {
  using S = Software;
  return {
      boolean("compiled_blocks", &S::layers, &LayerStyle::compiled_blocks,
              "Blocks are compiled, each by itself: the backward kernel of a norm adds up the gradients that meet "
              "there, that of an activation makes its output again where that was not kept, and no output of a product "
              "stays that only the residual sum reads. The final norm lies outside, and runs one operation at a time."),
      choice(
          "unit_gathers", kLinear, &LinearStyle::unit_gathers,
          {UnitGathers::in_place, UnitGathers::copied, UnitGathers::own_pool},
          "With sharding: parameters, weights are used in the buffer that their unit was gathered in; copied out of it "
          "in both passes, and their gradients, cast, into that of the unit's reduction; own_pool: so too, the buffer "
          "being another stream's, whose pool stays reserved."),
      choice(
          "units_kept", &S::memory, &MemoryHabits::units_kept,
          {KeptUnits::ends, KeptUnits::ends_and_last, KeptUnits::none},
          "With sharding: parameters, what stays gathered from its forward to its backward pass: ends, embedding and "
          "head; ends_and_last, the last block too; none: embedding and head are let go behind the forward pass and "
          "gathered again behind the loss."),
      choice("gradient_buffers", &S::optimizer, &OptimizerStyle::gradient_buffers,
             {GradientBuffers::held, GradientBuffers::on_demand},
             "Buffers of gradients: held, a step begins with a pass that sets them to zero; on_demand, backward passes "
             "make new ones, and where gradients are sharded but added up whole, those of a chunk of layers are "
             "allocated by its first backward pass and dropped with its last, but for this rank's share."),
  };
}

std::vector<Row> memory_rows() {
  using S = Software;
  return {
      data_type("fp16_accumulation", &S::gradients, &GradientReduction::fp16_accumulation,
                "Type of the buffers that gradients are added up and reduced in where training is in fp16."),
      choice("training_gradients", &S::gradients, &GradientReduction::of_training,
             {TrainingGradients::dropped, TrainingGradients::held, TrainingGradients::kept},
             "16-bit gradients that are added up in fp32: dropped; held, those of all weights lie beside the fp32 ones "
             "from the end of a backward pass on, where they are added up, but no longer; kept, they stay allocated."),
      choice(
          "received_buffers", &S::memory, &MemoryHabits::received,
          {ReceivedBuffers::as_needed, ReceivedBuffers::last_held, ReceivedBuffers::every_micro_batch},
          "What a pipeline's stage holds of activations and gradients that it receives: what passes need; last_held, "
          "a chunk's last ones until it receives others: through the optimizer step; every_micro_batch, buffers for "
          "those of each, all step long."),
      boolean(
          "gathers_into_gradients", &S::memory, &MemoryHabits::gathers_into_gradients,
          "With the distributed optimizer and mxfp8, 16-bit weights are gathered into the gradients' buffer and cast "
          "from there, so that quantised ones alone stay."),
      boolean("keeps_pipeline_outputs", &S::memory, &MemoryHabits::keeps_pipeline_outputs,
              "A stage's output stays allocated until its backward pass, though only the message needs it."),
      boolean("fp8_activation_input", kLinear, &LinearStyle::fp8_activation_input,
              "What the activation of an MLP or an expert reads is kept in fp8 for the backward pass."),
      bytes("context_memory", &S::memory, &MemoryHabits::context_memory,
            "Device memory of a process outside of its allocator: CUDA context, kernels and library workspaces."),
  };
}

/// What the caching allocator holds beyond what is allocated.
std::vector<Row> allocator_rows() {
  using S = Software;
  return {
      number("allocator_overhead", &S::memory, &MemoryHabits::allocator_overhead, {"0", "1"},
             "What the caching allocator holds beyond what is allocated (fragmentation), over what is allocated, on a "
             "stage of several: blocks of one micro-batch come and go among those of others, where a lone stage frees "
             "them in reverse."),
      number("launches_ahead", kLaunches, &HostLaunches::ahead, {"0", "1e6"},
             "Launches that the host may be ahead of its device. Blocks that it frees meanwhile, and that a "
             "reduce-scatter on another stream was given, stay reserved until the device is there; 0: none do."),
      boolean("walks_allocator", &S::memory, &MemoryHabits::walks_allocator,
              "Reserved memory is walked through PyTorch's caching allocator, tensor by tensor as eager code makes and "
              "lets go of them, where layers are dense, gated and not recomputed and a stage holds one chunk; else it "
              "is what is allocated with allocator_overhead and what waits."),
      boolean("ahead_past_messages", kLaunches, &HostLaunches::past_messages,
              "For launches_ahead: messages between stages do not hold the host back, whatever time they take it."),
      number(
          "forward_block_launches", kLaunches, &HostLaunches::forward_block, {"0", "1e4"},
          "Launches of a block's forward pass, for launches_ahead; 0: those that are priced, some of which stand for "
          "several."),
      number("backward_block_launches", kLaunches, &HostLaunches::backward_block, {"0", "1e4"},
             "Likewise of its backward pass."),
  };
}

std::vector<std::string> algorithm_names() { return {kCollectiveAlgorithms.begin(), kCollectiveAlgorithms.end()}; }

Row algorithms() {
  return {{"collective_algorithms", "list", "", "[ring, tree, nvls_tree, pairwise]", algorithm_names(),
           "What the collective library chooses from between nodes; where none of them can do a call, ring or "
           "pairwise."},
          [names = algorithm_names()](Software& out, const Settings& s) {
            if (!s.is_sequence() || s.items().empty()) s.expected("a list, as in [ring, tree]");
            out.library.collective_algorithms = {};
            for (const Settings& item : s.items()) {
              const auto at = std::find(names.begin(), names.end(), item.as_choice(names)) - names.begin();
              out.library.collective_algorithms.add(static_cast<CollectiveAlgorithm>(at));
            }
          }};
}

std::vector<Row> collective_rows() {
  using S = Software;
  return {
      duration("collective_base", &S::library, &CollectiveLibrary::collective_base, kIssue,
               "Fixed cost of one collective between nodes."),
      duration("collective_step_ring", &S::library, &CollectiveLibrary::collective_step_ring, kIssue,
               "Per ring step across the network, Simple protocol."),
      duration("collective_step_node", &S::library, &CollectiveLibrary::collective_step_node, kIssue,
               "Per ring step inside a node."),
      duration("collective_step_tree", &S::library, &CollectiveLibrary::collective_step_tree, kIssue,
               "Per tree level across the network."),
      number("exchange_share", &S::library, &CollectiveLibrary::exchange_share, {"0.01", "1"},
             "Share of a NIC's rate that the messages of an all-to-all reach between nodes."),
      algorithms(),
      bytes("communicator_memory", &S::memory, &MemoryHabits::communicator_memory,
            "Device memory of the buffers of one communicator."),
  };
}

/// A row for each part; Software::load reads them.
std::vector<Row> recipe_rows() {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < kRecipeParts; ++i) {
    const auto part = static_cast<RecipePart>(i);
    rows.push_back({{fmt::format("recipe.{}", name_of(part)),
                     "name",
                     "",
                     "-",
                     {},
                     fmt::format("{} A variant of calibration/recipes/{}.yaml, or a mapping that is one.",
                                 meaning_of(part), name_of(part))},
                    [](Software&, const Settings&) {}});
  }
  return rows;
}

std::vector<Row> of_kind(Row::Kind kind, std::vector<Row> rows) {
  for (Row& row : rows) row.kind = kind;
  return rows;
}

}  // namespace

const std::vector<SoftwareRow>& software_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> out;
    out.reserve(kRows);
    const auto add = [&](std::vector<Row> part) { std::move(part.begin(), part.end(), std::back_inserter(out)); };
    add(of_kind(Row::Kind::form, form_rows()));
    add(in("host", host_rows(), "What its host costs, and where it waits."));
    add(in("defaults", default_rows(),
           "What a scenario that leaves keys of its own out is taken to mean, under their names there."));
    add(stage_rows());
    add(expert_rows());
    add(kernel_rows());
    add(in("buckets", bucket_rows(), "How gradients and parameters are cut for data-parallel collectives."));
    add(in("slowdowns", slowdown_rows(), "Factors on kernels for what runs beside them or paces them."));
    add(launch_rows());
    add(fetch_rows());
    add(attention_rows());
    add(trainer_rows());
    add(in("gemm", gemm_rows(), "What linear layers' products and casts reach, over those of the device's profile."));
    add(compiler_rows());
    add(memory_rows());
    add(in("allocator", allocator_rows(), "What the caching allocator reserves beyond what is allocated."));
    add(recipe_rows());
    add(of_kind(Row::Kind::library, collective_rows()));
    return out;
  }();
  return all;
}

}  // namespace orrery::calibration
