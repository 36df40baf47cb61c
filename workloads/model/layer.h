// A model as data: a list of layers, embedding and head among them; a layer is a list of operations that one rank runs
// for one micro-batch, after the tensor, sequence and context split, with what it keeps for its backward pass and what
// it weighs. Values only: no job, no device, no time. All that is asked of a layer is a fold over these lists: kernels
// (passes.h), bytes kept (kept.h), parameters and FLOPs (below and counts.cc), text.
//
// Operations stand in forward order. A backward pass is derived: it runs the list from its end; a product becomes two,
// an exchange its adjoint; kernels bound by memory say in which direction they run, since theirs are not each other's
// mirror images. So a norm is one forward entry after its backward entries.
//
// Left out: the position of every view and reshape (LayerStyle::extra_kernels_per_layer stands for them), weight
// initialisation, dropout's random numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "calibration/device/kernel.h"
#include "calibration/device/profile.h"
#include "calibration/framework/layer_style.h"
#include "workloads/model/comm_group.h"
#include "workloads/model/model.h"

namespace orrery::workloads {

using calibration::DataType;

enum class Direction : std::uint8_t { forward, backward };

/// What an exchange does to a tensor in the forward pass. `copy` moves nothing: every rank reads the same tensor, so
/// that the gradients of the copies have to be added up (Megatron-LM's f, arXiv 1909.08053, figure 3).
enum class Exchange : std::uint8_t { copy, all_gather, reduce_scatter, all_reduce, all_to_all };
/// What it does to the gradient.
Exchange adjoint(Exchange exchange);
/// The collective that carries it out; nothing for a copy.
std::optional<calibration::CollectiveOp> collective_of(Exchange exchange);
/// The exchange that this collective carries out.
Exchange exchange_of(calibration::CollectiveOp op);

/// How a layer's exchange lies beside compute.
enum class CommOverlap : std::uint8_t {
  none,           // compute waits for it
  with_next,      // feeds the next run's first GEMM, which may be cut to overlap with it
  with_previous,  // drains the previous run's last GEMM, likewise
  behind,         // runs beside the next run in full; the run after that waits for it
};

/// A kernel bound by memory traffic: so many elements, so many bytes read or written for each.
struct StreamingOp {
  const char* name;
  calibration::Streaming kernel;
  double elements = 0, bytes_each = 0;
  Direction direction = Direction::forward;
  bool routed = false;                          // of tokens that routing gave to this rank
  const calibration::Recipe* recipe = nullptr;  // whose line it is, which lies in Network::recipes
  double launches = 1;                          // kernels of that size that it stands for
};

/// One product of a linear layer: weight [out, in], input [tokens, in]. Or one of each of `copies` weights of that
/// shape, which share the tokens out among them (experts).
struct MatMul {
  const char* name;
  std::int64_t out, in, tokens;
  DataType type;  // of the operands
  std::int64_t copies = 1;
  bool grouped = true;  // the products of all copies are one call
  /// Type of the accumulated gradients that the weight gradient's GEMM adds onto; nothing: it writes a 16-bit gradient
  /// of its own, which `after_gradient` adds up.
  std::optional<DataType> sum = {};
  std::vector<StreamingOp> after = {};           // forward: what has to follow at once, as a bias
  std::vector<StreamingOp> after_gradient = {};  // behind the weight gradient
  std::int64_t again = 0;                        // rows of `out` that Layer::recomputed_by_operation makes again
  bool frozen = false;                           // its weight is not trained: no gradient of it
  double spares = 0;                             // SMs that it and its data gradient leave free
};

/// The exchange that brings linear layers their input.
struct InputExchange {
  Exchange exchange;
  double elements, bytes_each;  // of the whole buffer
  CommOverlap overlap;          // of the forward pass
  bool async;                   // in the backward pass it runs beside the products that do not need it
  const char *what, *saved,
      *what_backward;  // labels: forward, of the input that is gathered once more, of its gradient
  CommGroup group = CommGroup::tensor;
  bool stays = false;        // what was gathered is kept for the gradients of weights, and not gathered once more
  double gathered_each = 0;  // bytes of an element of what is gathered, where it is cast ahead; 0: bytes_each
  /// Bytes that a kernel moves for each element, to put what was gathered in order; backward, what is to be scattered.
  double ordering = 0, ordering_backward = 0;
};

/// Linear layers that share one input. Backward: the gradients of the input, their exchange, beside it the gradients of
/// the weights. Products run in the order given, backward in the opposite one.
struct LinearOp {
  std::vector<MatMul> products;
  std::optional<InputExchange> input = {};
  bool reduces_apart = false;  // the input's gradient from each product is reduced by itself
  enum class Part : std::uint8_t {
    other,
    attention_in,
    attention_out,
    mlp_in,
    mlp_out,
    shared_in,
    shared_out,
    expert_in,
    expert_out,
    latent_down,  // on every tensor rank whole
    latent_up,
    latent_out
  } part = Part::other;
  std::vector<StreamingOp> sums = {};  // backward: gradients of the input added up
  bool detached = false;               // its input has no gradient
};

/// The keys that a query sees: of `keys` positions the last, or where it is `chunked` those of its chunk, at multiples
/// of `keys`, that are no later; 0: all.
struct Window {
  std::int64_t keys = 0;
  bool chunked = false;
};

/// Attention between the layer that makes queries, keys and values and the one that takes its output.
struct AttentionOp {
  std::int64_t batch, seq, context;        // sequences of a micro-batch, positions of one, ranks that it is cut over
  std::int64_t heads, kv_heads, head_dim;  // of this rank
  Window window;
  /// ring: blocks of keys and values go round the context group; by_heads: it exchanges positions for heads.
  bool fused, ring, by_heads;
  bool position_bias, dropout;
  bool recomputed;  // runs again ahead of its backward pass
  DataType type;
  calibration::AttentionStyle style;
  const calibration::Recipe* way = nullptr;  // what is moved on the way to its kernels, and back; null: nothing
  /// What puts packed documents in order around exchanges by heads, and how many there are in a sequence.
  const calibration::Recipe* order = nullptr;
  std::int64_t documents = 1;
  bool causal = true;  // else every position sees all of its sequence
  /// Positions of another sequence that it attends to, as a decoder does to an encoder's output; 0: its own.
  std::int64_t other_keys = 0;
  std::int64_t keys() const { return other_keys > 0 ? other_keys : seq; }
};

/// The kernels of a mixer between its products, as that mixer's own file counts them (scan_op.cc, chosen_keys.cc): what
/// is asked of a layer sees these alone, so that another mixer is one more file.
struct MixerOp {
  struct Kernel {
    const char* name;
    calibration::MixerKernel kernel;
    calibration::MixerWork work;
    DataType type;
    const calibration::ScanKind* scan = nullptr;  // of a scan: whose rates it may have
  };
  std::vector<Kernel> forward, backward;  // as they run
  /// Model FLOPs of the forward pass, whole squares of queries and keys counted, and what a causal mask leaves out.
  double flops = 0, masked = 0;
  std::string text = {};  // a line
};

/// A collective of its own.
struct CommOp {
  CommGroup group;
  Exchange exchange;
  double elements, bytes_each;  // of the whole buffer
  const char *what, *what_backward;
  CommOverlap overlap, overlap_backward;
  double bytes_each_backward = 0;  // of its adjoint; 0: the same
  /// In which passes it takes place: an exchange of nothing that has a gradient has no adjoint, and one that runs
  /// beside something else may stand at another place of the backward pass.
  enum class In : std::uint8_t { both, forward, backward };
  In in = In::both;
  /// As in InputExchange; beside a product, what came from each rank is added up.
  double ordering = 0, ordering_backward = 0;
};

/// Ends a run of kernels, in both directions, where no exchange does: what follows may have to wait for one that runs
/// beside it.
struct RunEnd {
  bool host_waits = false;  // forward, the host reads what the device has found, and launches nothing before it has
};

/// What the host does around a layer of experts beyond its launches: Python that deals tokens out, and for each expert.
struct HostOp {
  double experts = 0;      // on this rank
  bool new_sizes = false;  // how many rows there are hangs on what routing has just decided
};

/// Between two of them stand operations that run again ahead of their backward passes, since what they make is not
/// kept.
struct Recomputed {
  bool begins = true;
};

using LayerOp = std::variant<LinearOp, AttentionOp, MixerOp, StreamingOp, CommOp, RunEnd, Recomputed, HostOp>;

/// Whether a tensor stays for the backward pass.
enum class KeptAs : std::uint8_t {
  tensor,      // unless the whole layer is recomputed
  input,       // of the layer: stays then too
  recomputed,  // not kept, but made again for the backward pass of its half
};

/// A tensor that a layer keeps from its forward for its backward pass. A layer's halves (attention, MLP) run and free
/// what they keep one after the other.
struct Kept {
  const char* name;
  double elements, bytes_each;
  std::int32_t half;
  KeptAs as = KeptAs::tensor;
  bool for_weights = false;  // only the gradient of a weight needs it
  double bytes() const { return elements * bytes_each; }
};

/// A tensor that is alive beside those while a half's backward pass works.
struct Working {
  const char* name;
  double elements, bytes_each;
  std::int32_t half;
  bool for_weights = false;  // as in Kept
  double bytes() const { return elements * bytes_each; }
};

/// A tensor that the gradients of weights still need when those of the inputs are done (Qi et al., arXiv 2401.10241,
/// table 1): inputs and output gradients of the linear layers.
struct Between {
  const char* name;
  double elements, bytes_each;
  double bytes() const { return elements * bytes_each; }
};

/// Parameters that one rank holds.
struct Weights {
  const char* name;
  double elements;
  double columns = 0;        // of a linear layer's matrices; 0: of none
  bool final_norm = false;   // which the usual counts of parameters leave out
  bool expert = false;       // of routed experts: held and reduced by expert groups
  double active = 1;         // share that one token meets
  bool frozen = false;       // has neither gradient nor optimizer state
  std::int32_t tensors = 1;  // that these are: a layer norm has two
  double copies = 1;         // matrices of one size that these are: experts of this rank
  /// Reduced by itself where gradients go weight by weight.
  bool is_matrix() const { return columns > 0; }
  double rows() const { return elements / (columns * copies); }
};

enum class LayerKind : std::uint8_t { embedding, block, head };
std::string_view name_of(LayerKind kind);

struct Layer {
  LayerKind kind = LayerKind::block;
  bool recomputed = false;  // the whole forward pass runs again ahead of the backward pass
  /// Ahead of the backward pass run again: kernels bound by memory, what products have `again`, and the exchanges that
  /// bring them their inputs; attention and reductions do not.
  bool recomputed_by_operation = false;
  std::optional<std::size_t> needed_again;  // of `ops`, the first so many that a backward pass needs again; none: all
  std::vector<LayerOp> ops;
  std::vector<Kept> kept;
  std::vector<Working> working;
  std::vector<Between> between;
  std::vector<Weights> weights;
  double gap = 0;  // bytes that lie free between its tensors when it needs most, and fit none of them
};

/// Parameters of a layer on one rank, in elements.
double parameters(const Layer& layer);
/// Of these, those of routed experts, and those that are trained.
double expert_parameters(const Layer& layer);
double trained_parameters(const Layer& layer);
/// Keys that a query reaches in the mean, in positions, where whole squares are counted, causal or not: all of the
/// sequence, those of the window, or of chunks c_i of s positions sum c_i^2 / s.
double keys_reached(const AttentionOp& op);
/// FLOPs of the products of its forward pass for one micro-batch on one rank: of linear layers, and of attention, which
/// counts the whole square of queries and keys within the window, causal or not.
struct ForwardFlops {
  double linear = 0, attention = 0;
  double mixers = 0;  // of what mixers run between their products (MixerOp)
};
ForwardFlops forward_flops(const Layer& layer);
/// One operation a line, as golden tests keep it.
std::string text(const Layer& layer);

/// The layers of a model, in order. Layers that are alike share a row of `kinds`.
struct Network {
  std::vector<Layer> kinds;
  std::vector<std::uint8_t> layers;  // rows of `kinds`; the embedding first, the head last
  double hidden_elements = 0;        // of what layers hand on, one micro-batch on one rank, before any tensor split
  double residual_elements = 0;      // the same as it lies outside of tensor-parallel regions
  double kv_elements = 0;            // of keys and values of one layer, one micro-batch on one rank
  double query_elements = 0;         // of queries, likewise
  double tied_elements = 0;          // of the word embedding that the head shares on this rank; 0: not tied
  /// Where only the first blocks of each part of a pipeline are recomputed: how many, and the row of `kinds` from which
  /// all kinds stand once more, recomputed. 0: none.
  struct Again {
    std::int64_t blocks = 0;
    std::uint8_t kinds = 0;
  } again = {};
  calibration::Recipes recipes;  // that names of kernels and tensors lie in
  std::int64_t behind = 1;       // layers behind the last that a pipeline shares out: the head, and what it needs
  std::int64_t size() const { return static_cast<std::int64_t>(layers.size()); }
  const Layer& layer(std::int64_t i) const { return kinds[layers[static_cast<std::size_t>(i)]]; }
};

/// Layers `begin` up to but not `end` of a network.
struct LayerRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// Layers of this kind in a range.
std::int64_t count(const Network& network, const LayerRange& range, LayerKind kind);
/// Parameters of a range on one rank, in elements.
double parameters(const Network& network, const LayerRange& range);

}  // namespace orrery::workloads
