// What a mixture of experts says beyond a dense decoder, as its paper does: sizes of the experts, which layers have
// them, and attention through compressed keys and values.
#pragma once

#include <cstdint>
#include <string_view>

#include "calibration/device/dispatcher.h"
#include "calibration/device/routing.h"

namespace orrery::workloads {

/// Feed-forward halves of which every token sees a few: routed experts, chosen by a router, and shared ones, which
/// every token goes through (Shazeer et al., arXiv 1701.06538; DeepSeekMoE, arXiv 2401.06066).
struct Experts {
  std::int64_t count = 0;       // routed experts of a layer; 0: the model has none
  std::int64_t top_k = 1;       // of them, those that a token goes to
  std::int64_t groups = 1;      // that they are dealt into, in order
  std::int64_t top_groups = 1;  // of these, those whose experts a token may go to
  std::int64_t ffn_hidden = 0;  // elements inside one
  /// Of what routed experts read and write, behind a product down to it and ahead of one up (LatentMoE, Nemotron 3,
  /// arXiv 2512.20856): 0: the hidden state itself.
  std::int64_t latent = 0;
  std::int64_t shared = 0;             // experts that every token goes through
  std::int64_t shared_ffn_hidden = 0;  // elements inside one of these
  bool shared_gate = false;            // their output is scaled by a sigmoid of the token (Qwen 2 MoE)
  std::int64_t dense_layers = 0;       // the first layers, which have a dense MLP instead
  std::int64_t every = 1;              // of the layers behind these, the last of every so many has experts

  double activation_clamp = 0;  // limit that what enters the gated activation is cut to (gpt-oss: 7); 0: none

  std::int64_t mtp_layers = 0;  // blocks behind the last that predict further tokens (arXiv 2412.19437, section 2.2)

  bool any() const { return count > 0; }
  /// Elements of a token that goes to routed experts.
  std::int64_t width(std::int64_t hidden) const { return latent > 0 ? latent : hidden; }
  calibration::TokenChoice choice() const { return {top_k, count, groups, top_groups}; }
  /// Whether layer `i` of the model, from 0, has experts.
  bool in_layer(std::int64_t i) const { return any() && i >= dense_layers && (i - dense_layers) % every == every - 1; }
  /// Elements inside all shared experts, which run as one MLP.
  std::int64_t shared_width() const { return shared * shared_ffn_hidden; }
  bool operator==(const Experts&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values are made from one
/// compressed vector a token, and so are queries where `q_rank` is given; positions have a part of every head of their
/// own, which all heads' keys share.
struct LatentAttention {
  std::int64_t kv_rank = 0;   // elements of the compressed keys and values; 0: attention is of the usual kind
  std::int64_t q_rank = 0;    // likewise of queries; 0: these are made from the hidden state
  std::int64_t nope_dim = 0;  // of a head's query and key: the part without positions
  std::int64_t rope_dim = 0;  // and the part that is rotated
  std::int64_t v_dim = 0;     // of a head's value

  bool any() const { return kv_rank > 0; }
  std::int64_t qk_dim() const { return nope_dim + rope_dim; }
  bool operator==(const LatentAttention&) const = default;
};

/// How tokens come to the experts of other ranks.
enum class Dispatcher : std::uint8_t {
  alltoall,   // every rank sends each copy of a token to the rank of its expert (NCCL)
  allgather,  // every rank gathers all tokens and adds up what its experts made of them
  deepep,    // one copy for each node and each rank, forwarded by NVLink (DeepSeek-V3, arXiv 2412.19437, section 3.2.2)
  hybridep,  // the same on fewer SMs, by TMA and in NVLink domains of any size (deepseek-ai/DeepEP, branch hybrid-ep)
};
inline constexpr std::size_t kDispatchers = 4;
std::string_view name_of(Dispatcher dispatcher);
/// Whether a token is sent once to a rank, however many of that rank's experts it goes to.
constexpr bool sends_once(Dispatcher d) { return d == Dispatcher::deepep || d == Dispatcher::hybridep; }

/// How a mixture's layers are computed, as far as neither model nor split says.
struct ExpertStyle {
  Dispatcher dispatcher = Dispatcher::alltoall;
  calibration::ExchangeLibrary library;  // of deepep and hybridep: what its kernels take
  bool grouped = true;                   // the products of a rank's experts are one call, else one after the other
  bool fused_permutation = true;         // one kernel picks tokens by expert, else PyTorch's index operations
  bool fused_mlp = false;        // products, activation, its casts and biases of all experts are one module of kernels
  double spare_processors = 0;   // SMs that products with an activation in them, and their kin, leave to exchanges
  bool paged_stash = false;      // buffers have room for more than come, so that the host need not know how many; what
                                 // is kept goes through pages of another buffer
  bool fused_router = false;     // scores, top-k and map in one kernel, else operation by operation
  bool router_fp32 = true;       // scores are kept, and where tokens are gathered outputs added up, in fp32
  bool overlaps_shared = false;  // shared experts run beside the exchanges
  bool fp8_dispatch = false;     // tokens are cast before they are sent
  /// Tokens of an expert's share that it has room for, over the mean; 0: all that come (dropless).
  double capacity_factor = 0;
  bool pads_to_capacity = false;  // an expert computes as many tokens as it has room for
  /// Tokens that a rank computes, over the mean of its expert group: the busiest rank's, or 1 where routing is balanced
  /// or every rank draws its own (Perturbation::routing). And those that come to the busiest one, which exchanges wait
  /// for in either case.
  double imbalance = 1, busiest = 1;
  bool operator==(const ExpertStyle&) const = default;
};

/// Of the weights that come to experts with their tokens: DeepEP and HybridEP take them in fp32 alone, whatever the
/// router works in (Megatron-LM core_v0.16.0, megatron/core/transformer/moe/token_dispatcher.py, dispatch).
constexpr bool weights_in_fp32(const ExpertStyle& style) { return style.router_fp32 || sends_once(style.dispatcher); }

}  // namespace orrery::workloads
