// Published tables of engines' kernels (CSV, gzipped or not), told by their columns:
//   engine,kernel,dtype,kv_dtype,batch,kv_tokens,heads,kv_heads,head_dim,window,us             decode attention
//   engine,kernel,dtype,kv_dtype,batch,new_tokens,cached_tokens,heads,kv_heads,...,us          prompts
//   the same with `tp` and without kv_heads: latent attention; with `gemm_dtype`: its whole block
//   engine,kernel,dtype,m,n,k,us; engine,kernel,dtype,tokens,hidden,expert_ffn,...,us          products, experts
//   engine,kernel,dtype,gpus,elements,us; nodes,hidden,tokens,top_k,experts,dispatch_us,...    collectives
//   heads,kv_heads,head_dim,batch,chunk_tokens,cached_tokens,mode,lengths,...,us               chunks on a prefix
//   engine,kernel,phase,batch,seq,d_state,heads,... or k_heads,head_k,v_heads,head_v,...,us      mixers with a state
#pragma once

#include <cstdint>
#include <string>
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

struct ServingSamples {
  std::vector<ServingSample> rows;
  std::size_t left_out = 0;  // of kernels that engines do not choose by themselves, and types without a model
};

/// Whether the header is one of these.
bool is_serving_table(const std::string& file);
/// Throws sim::UserError naming the place of what cannot be read.
ServingSamples read_serving_samples(const std::string& file);

}  // namespace orrery::calibration
