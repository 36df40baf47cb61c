// Published tables of engines' kernels (CSV, gzipped or not), told by their columns:
//   engine,kernel,dtype,kv_dtype,batch,kv_tokens,heads,kv_heads,head_dim,window,us             decode attention
//   engine,kernel,dtype,kv_dtype,batch,new_tokens,cached_tokens,heads,kv_heads,...,us          prompts
//   the same with `tp` and without kv_heads: latent attention; with `gemm_dtype`: its whole block
//   engine,kernel,dtype,m,n,k,us; engine,kernel,dtype,tokens,hidden,expert_ffn,...,us          products, experts
//   engine,kernel,dtype,gpus,elements,us; nodes,hidden,tokens,top_k,experts,dispatch_us,...    collectives
//   heads,kv_heads,head_dim,batch,chunk_tokens,cached_tokens,mode,lengths,...,us               chunks on a prefix
//   engine,kernel,phase,batch,seq,d_state,heads,... or k_heads,head_k,v_heads,head_v,...,us      mixers with a state
// and of what has no kernel of its own in a fit (engine_tables.cc):
//   engine,op,kernel,dtype,tokens,heads,us                                      absorbed products of latent attention
//   engine,kernel,dtype,tokens,rank_tokens,hidden,...,slots,...,us              experts with copies, on many ranks
//   model,tp,prefill_chunk,prefill_kv,decodes,decode_kv,us                      a chunk together with decodes
//   model,tp,n,n_big,prefill_chunk,prefill_kv,kv_small,kv_big,kv_mean,mean_us,max_us,skewed_us   uneven lengths
//   model,tp,layer,tokens_or_sequences,us                                       every other layer, with its launch
//   model,tp,tokens,activated_experts,us; tokens,routed_tokens,experts_on_gpu,...,experts_used,us    experts by load
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "calibration/device/serving_model.h"

namespace orrery::calibration {

struct ServingSample {
  Engine engine = Engine::vllm;
  Asked asked;
  double seconds = 0;
  /// Of the shape alone: rows of one shape, by whatever engine, are held out together.
  std::uint64_t shape = 0;
};

/// What a kernel moves that goes by rows alone.
struct LayerBytes {
  double bytes = 0;
};
/// What an iteration asks of an engine's kernels, or of the device's own.
struct DecodesBeside {
  Asked decodes;  // in one launch with the prompts ahead of it, if any
};
using ServedPart = std::variant<Asked, DecodesBeside, ServedProduct, Gemm, LayerBytes>;

/// A row of which a fit learns nothing: several kernels one after another, or one that is a part of another's table.
struct WholeSample {
  Engine engine = Engine::vllm;
  std::string name;
  std::vector<ServedPart> parts;
  double seconds = 0;
};
/// What a run takes for it; none: the device multiplies no such type.
std::optional<double> seconds_of(const WholeSample& sample, const ServingKernels& kernels);

struct ServingSamples {
  std::vector<ServingSample> rows;
  std::vector<WholeSample> whole;
  std::map<std::string, std::size_t> left_out;  // rows, by the reason
  std::vector<std::string> unread;              // columns that no row was asked for
};

/// Whether the header is one of these.
bool is_serving_table(const std::string& file);
/// Throws sim::UserError naming the place of what cannot be read.
ServingSamples read_serving_samples(const std::string& file);

}  // namespace orrery::calibration
