// The table of kernel names. A row holds where its pattern is part of the name, letters compared without case; the
// first row that holds decides, so that the narrow ones come first.
//
// Sources of the names: cuBLAS and cuBLASLt (sgemm, xmma_gemm, cutlass_*gemm, nvjet, splitKreduce, gemv, bmm_), rocBLAS
// and hipBLASLt (Tensile's Cijk_), Composable Kernel and AITER (ck::, ck_tile::, aiter::), CUTLASS (cutlass::Kernel),
// FlashAttention (flash_fwd, flash_bwd), cuDNN (cudnn_generated_fort_native_sdpa, xmma_fprop, bn_fw), Transformer
// Engine, Apex (multi_tensor_apply, cuApplyLayerNorm, cuComputeGradInput), PyTorch's ATen/native/cuda, Inductor
// (triton_poi_, triton_red_, triton_per_), NCCL and RCCL (ncclKernel, ncclDevKernel), DeepEP, FBGEMM, vLLM, SGLang,
// TensorRT-LLM, Liger, MIOpen. Read in public traces: those of HolisticTraceAnalysis and TraceLens (both MIT).
#include "tools/learn/kernel_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace orrery::tools {

namespace {

struct Row {
  std::string_view pattern;
  OpClass what;
};

constexpr Row kCollectives[] = {
    {"reducescatter", OpClass::reduce_scatter},
    {"reduce_scatter", OpClass::reduce_scatter},
    {"allreduce", OpClass::all_reduce},
    {"all_reduce", OpClass::all_reduce},
    {"cross_device_reduce", OpClass::all_reduce},
    {"allgather", OpClass::all_gather},
    {"all_gather", OpClass::all_gather},
    {"alltoall", OpClass::all_to_all},
    {"all_to_all", OpClass::all_to_all},
    {"deep_ep", OpClass::all_to_all},
    {"intranode::dispatch", OpClass::all_to_all},
    {"intranode::combine", OpClass::all_to_all},
    {"internode::dispatch", OpClass::all_to_all},
    {"internode::combine", OpClass::all_to_all},
    {"internode_ll", OpClass::all_to_all},
    {"get_dispatch_layout", OpClass::all_to_all},
    {"sendrecv", OpClass::send_receive},
    {"send_recv", OpClass::send_receive},
    {"ncclsend", OpClass::send_receive},
    {"broadcast", OpClass::broadcast},
    {"nccl", OpClass::collective},
    {"rccl", OpClass::collective},
    {"userbuffers", OpClass::collective},
    {"nvshmem", OpClass::collective},
};

constexpr Row kKernels[] = {
    // Sparse attention: DeepGEMM's scores of an indexer (sm90_fp8_mqa_logits), vLLM's, SGLang's and PyTorch's choice of
    // the highest among many (its kernel of one block chooses experts too), FlashMLA, TileLang's examples and
    // flash-linear-attention.
    {"mqa_logits", OpClass::index_scores},
    {"lightning_indexer", OpClass::index_scores},
    {"topKPerRow", OpClass::key_choice},
    {"top_k_per_row", OpClass::key_choice},
    {"fast_topk", OpClass::key_choice},
    {"topk_transform", OpClass::key_choice},
    {"mbtopk", OpClass::key_choice},
    {"sparse_attn_fwd", OpClass::sparse_attention},
    {"sparse_mla_", OpClass::sparse_attention},
    {"mla_sparse", OpClass::sparse_attention},
    {"sparse_prefill", OpClass::sparse_attention},
    {"fp8_sparse", OpClass::sparse_attention},
    {"parallel_nsa", OpClass::sparse_attention},
    // Mixers with a state: mamba_ssm (ssd_combined.py), flash-linear-attention (fla/ops), causal-conv1d.
    {"causal_conv1d", OpClass::convolution},
    {"_chunk_scan_", OpClass::scan},
    {"_chunk_state_", OpClass::scan},
    {"_state_passing_", OpClass::scan},
    {"_chunk_cumsum_", OpClass::scan},
    {"chunk_local_cumsum", OpClass::scan},
    {"chunk_gated_delta_rule", OpClass::scan},
    {"chunk_kda", OpClass::scan},
    {"chunk_dplr", OpClass::scan},
    {"chunk_rwkv7", OpClass::scan},
    {"chunk_scaled_dot_kkt", OpClass::scan},
    {"chunk_fwd_kernel", OpClass::scan},
    {"chunk_bwd_kernel", OpClass::scan},
    {"recompute_w_u", OpClass::scan},
    {"prepare_wy_repr", OpClass::scan},
    {"solve_tril", OpClass::scan},
    {"merge_16x16_to", OpClass::scan},
    // Fused by a compiler: what they do stands behind the mark.
    {"triton_tem_", OpClass::matmul},
    {"triton_mm", OpClass::matmul},
    {"triton_bmm", OpClass::matmul},
    {"triton_poi_", OpClass::fused},
    {"triton_red_", OpClass::fused},
    {"triton_per_", OpClass::fused},
    {"triton_for_fused", OpClass::fused},
    {"triton_fused", OpClass::fused},
    {"triton_unk_", OpClass::fused},
    {"triton__", OpClass::fused},
    {"cudagraph", OpClass::fused},
    {"nvfuser", OpClass::fused},
    {"CudaCodeGen", OpClass::fused},
    // Attention.
    {"flash_attn", OpClass::attention},
    {"flash_fwd", OpClass::attention},
    {"flash_bwd", OpClass::attention},
    {"flashattn", OpClass::attention},
    {"fmha", OpClass::attention},
    {"_sdpa", OpClass::attention},
    {"attn_fwd", OpClass::attention},
    {"attn_bwd", OpClass::attention},
    {"attention", OpClass::attention},
    {"sage_fwd", OpClass::attention},
    {"sage_quant", OpClass::copy},
    {"FlashMLA", OpClass::attention},
    {"flash_splitkv", OpClass::attention},
    {"flash::", OpClass::attention},
    {"mha_fwd", OpClass::attention},
    {"mha_bwd", OpClass::attention},
    {"BatchPrefillWith", OpClass::attention},
    {"BatchDecodeWith", OpClass::attention},
    {"reshape_and_cache", OpClass::copy},
    {"store_kvcache", OpClass::copy},
    {"concat_and_cache", OpClass::copy},
    // Optimizers; multi_tensor_apply also scales, copies and takes norms.
    {"AdamFunctor", OpClass::optimizer},
    {"AdamCapturable", OpClass::optimizer},
    {"FusedAdam", OpClass::optimizer},
    {"LAMBStage", OpClass::optimizer},
    {"SGDFunctor", OpClass::optimizer},
    {"FusedSgd", OpClass::optimizer},
    {"adagrad", OpClass::optimizer},
    {"multi_tensor", OpClass::optimizer},
    {"adam_", OpClass::optimizer},
    {"L2NormFunctor", OpClass::optimizer},
    {"lpnorm_cleanup", OpClass::optimizer},
    {"MaxNormFunctor", OpClass::optimizer},
    {"FusedOptimizer", OpClass::optimizer},
    {"unscale", OpClass::optimizer},
    // Mixtures of experts, before products: their kernels' names hold both.
    {"moe_permut", OpClass::experts},
    {"moe_unpermut", OpClass::experts},
    {"_permute_kernel", OpClass::experts},
    {"_unpermute_kernel", OpClass::experts},
    {"_sort_chunks", OpClass::experts},
    {"_row_id_map", OpClass::experts},
    {"routing", OpClass::experts},
    {"moe_align", OpClass::experts},
    {"moe::dev::", OpClass::experts},
    {"topk_gating", OpClass::experts},
    {"topkGating", OpClass::experts},
    {"moe_sum", OpClass::experts},
    {"_topk_forward", OpClass::experts},
    {"_sum_bitmatrix", OpClass::experts},
    {"_finalize_matmul_scatter", OpClass::experts},
    {"expandInputRows", OpClass::experts},
    {"finalizeMoe", OpClass::experts},
    {"MoeSorting", OpClass::experts},
    {"fused_topk", OpClass::experts},
    {"grouped_topk", OpClass::experts},
    {"topk_softmax", OpClass::experts},
    {"grouped_gemm", OpClass::grouped_matmul},
    {"GroupedGemm", OpClass::grouped_matmul},
    {"GemmGrouped", OpClass::grouped_matmul},
    {"GroupProblemShape", OpClass::grouped_matmul},
    {"group_gemm", OpClass::grouped_matmul},
    {"_grouped_mm", OpClass::grouped_matmul},
    {"_matmul_ogs", OpClass::grouped_matmul},
    {"fused_moe_kernel", OpClass::grouped_matmul},
    {"m_grouped", OpClass::grouped_matmul},
    // Convolutions, of which many are products inside.
    {"implicit_gemm", OpClass::convolution},
    {"ImplicitGemm", OpClass::convolution},
    {"scudnn", OpClass::convolution},
    {"hcudnn", OpClass::convolution},
    {"fprop", OpClass::convolution},
    {"dgrad", OpClass::convolution},
    {"wgrad_alg", OpClass::convolution},
    {"wgrad_engine", OpClass::convolution},
    {"wgrad_opt", OpClass::convolution},
    {"reduce_wgrad", OpClass::convolution},
    {"grouped_conv", OpClass::convolution},
    {"conv2d", OpClass::convolution},
    {"conv3d", OpClass::convolution},
    {"conv_depthwise", OpClass::convolution},
    {"convolve", OpClass::convolution},
    {"igemm_", OpClass::convolution},
    {"winograd", OpClass::convolution},
    {"miopenSp3", OpClass::convolution},
    {"SubTensorOp", OpClass::convolution},
    {"Im2Col", OpClass::convolution},
    {"Im2d2Col", OpClass::convolution},
    {"Col2Im", OpClass::convolution},
    {"fft2d", OpClass::convolution},
    {"gcgemm", OpClass::convolution},
    {"batched_gemm_xdlops_bwd", OpClass::convolution},
    {"nchwToNhwc", OpClass::copy},
    {"nhwcToNchw", OpClass::copy},
    {"batched_transpose", OpClass::copy},
    {"convertTensor", OpClass::copy},
    {"conv", OpClass::convolution},
    // Matrix products.
    {"Cijk_", OpClass::matmul},
    {"nvjet", OpClass::matmul},
    {"gemm", OpClass::matmul},
    {"gemv", OpClass::matmul},
    {"gemmk1", OpClass::matmul},
    {"splitKreduce", OpClass::matmul},
    {"cublasLt", OpClass::matmul},
    {"bmm_", OpClass::matmul},
    {"matmul", OpClass::matmul},
    {"_mm_kernel", OpClass::matmul},
    {"wvSplitK", OpClass::matmul},
    {"dot_kernel", OpClass::matmul},
    {"reduce_1Block_kernel", OpClass::matmul},
    {"wgrad_gemm", OpClass::matmul},
    {"cutlass::device_kernel", OpClass::matmul},
    {"marlin", OpClass::matmul},
    {"LLGemm", OpClass::matmul},
    {"PostGSU", OpClass::matmul},
    {"trsm", OpClass::matmul},
    {"cutlass_", OpClass::matmul},
    {"w8a8", OpClass::matmul},
    // Norms.
    {"layer_norm", OpClass::norm},
    {"layernorm", OpClass::norm},
    {"LayerNorm", OpClass::norm},
    {"rmsnorm", OpClass::norm},
    {"rms_norm", OpClass::norm},
    {"ln_fwd", OpClass::norm},
    {"ln_bwd", OpClass::norm},
    {"GammaBeta", OpClass::norm},
    {"RowwiseMoments", OpClass::norm},
    {"ComputeGradInput", OpClass::norm},
    {"ComputeInternalGradients", OpClass::norm},
    {"ComputeFusedParams", OpClass::norm},
    {"ComputeBackwardFusedParams", OpClass::norm},
    {"batch_norm", OpClass::norm},
    {"BatchNorm", OpClass::norm},
    {"bn_fw", OpClass::norm},
    {"bn_bw", OpClass::norm},
    {"groupnorm", OpClass::norm},
    {"group_norm", OpClass::norm},
    {"GroupNorm", OpClass::norm},
    {"_norm_fwd", OpClass::norm},
    {"_norm_bwd", OpClass::norm},
    // Softmax and losses.
    {"softmax", OpClass::softmax},
    {"cross_entropy", OpClass::softmax},
    {"nll_loss", OpClass::softmax},
    {"mse_", OpClass::softmax},
    {"BCE", OpClass::softmax},
    {"binary_cross", OpClass::softmax},
    {"smooth_l1", OpClass::softmax},
    {"logsumexp", OpClass::softmax},
    {"masked_softmax", OpClass::softmax},
    // Look-ups, scatters, sorts.
    {"embedding", OpClass::look_up},
    {"indexSelect", OpClass::look_up},
    {"index_select", OpClass::look_up},
    {"index_elementwise", OpClass::look_up},
    {"indexing_backward", OpClass::look_up},
    {"index_put", OpClass::look_up},
    {"gather", OpClass::look_up},
    {"scatter", OpClass::look_up},
    {"pooled_embs", OpClass::look_up},
    {"permute_1D", OpClass::look_up},
    {"permute_2D", OpClass::look_up},
    {"permute_indices", OpClass::look_up},
    {"linearize_index", OpClass::look_up},
    {"bounds_check_indices", OpClass::look_up},
    {"lxu_cache", OpClass::look_up},
    {"lru_cache", OpClass::look_up},
    {"delinearize", OpClass::look_up},
    {"block_bucketize", OpClass::look_up},
    {"offsets_range", OpClass::look_up},
    {"jagged", OpClass::look_up},
    {"indexFunc", OpClass::look_up},
    {"bincount", OpClass::look_up},
    {"histogram", OpClass::look_up},
    {"RadixSort", OpClass::look_up},
    {"radix", OpClass::look_up},
    {"DeviceMergeSort", OpClass::look_up},
    {"bitonicSort", OpClass::look_up},
    {"sort", OpClass::look_up},
    {"topk", OpClass::look_up},
    {"DeviceScan", OpClass::look_up},
    {"DeviceSelect", OpClass::look_up},
    {"DeviceRunLength", OpClass::look_up},
    {"ReduceByKey", OpClass::look_up},
    {"cub::", OpClass::reduction},
    {"scan_", OpClass::look_up},
    {"cumsum", OpClass::look_up},
    {"unique", OpClass::look_up},
    {"nonzero", OpClass::look_up},
    {"write_indices", OpClass::look_up},
    {"krn_partial", OpClass::look_up},
    {"compute_num_of_partial", OpClass::look_up},
    {"sum_and_scatter", OpClass::look_up},
    {"compute_grad_weight", OpClass::look_up},
    {"thrust::", OpClass::look_up},
    {"rocprim", OpClass::look_up},
    {"cunn_", OpClass::softmax},
    // Random numbers.
    {"dropout", OpClass::random},
    {"distribution_", OpClass::random},
    {"bernoulli", OpClass::random},
    {"philox", OpClass::random},
    {"curand", OpClass::random},
    // Copies, casts and layouts.
    {"copy", OpClass::copy},
    {"CatArray", OpClass::copy},
    {"transpose", OpClass::copy},
    {"FillFunctor", OpClass::copy},
    {"fillBuffer", OpClass::copy},
    {"memset", OpClass::copy},
    {"memcpy", OpClass::copy},
    {"cast", OpClass::copy},
    {"quantize", OpClass::copy},
    {"quant_", OpClass::copy},
    {"_to_float", OpClass::copy},
    {"float_to_", OpClass::copy},
    {"Fp8", OpClass::copy},
    {"amax", OpClass::copy},
    {"_to_dense", OpClass::copy},
    {"fill_", OpClass::copy},
    {"arange", OpClass::copy},
    {"triu_tril", OpClass::copy},
    {"flip", OpClass::copy},
    {"roll_", OpClass::copy},
    {"split_with_sizes", OpClass::copy},
    {"chunk_cat", OpClass::copy},
    {"pad", OpClass::copy},
    {"recat", OpClass::copy},
    {"scale_update", OpClass::copy},
    {"compute_scale", OpClass::copy},
    // Reductions.
    {"reduce_kernel", OpClass::reduction},
    {"reduction", OpClass::reduction},
    {"reduce", OpClass::reduction},
    {"pool", OpClass::reduction},
    // What is computed element by element.
    {"elementwise", OpClass::elementwise},
    {"rotary", OpClass::elementwise},
    {"rope", OpClass::elementwise},
    {"act_and_mul", OpClass::elementwise},
    {"activation", OpClass::elementwise},
    {"gelu", OpClass::elementwise},
    {"silu", OpClass::elementwise},
    {"swiglu", OpClass::elementwise},
    {"relu", OpClass::elementwise},
    {"bias", OpClass::elementwise},
    {"Functor", OpClass::elementwise},
    {"upsample", OpClass::elementwise},
    {"Prelu", OpClass::elementwise},
    {"OpTensor", OpClass::elementwise},
    {"add_kernel", OpClass::elementwise},
    {"mul_kernel", OpClass::elementwise},
    {"epilogue::impl", OpClass::elementwise},
    {"scalePackedTensor", OpClass::elementwise},
    {"spin_kernel", OpClass::elementwise},
    {"at::native", OpClass::elementwise},
    {"at::cuda", OpClass::elementwise},
    {"fbgemm", OpClass::look_up},
    {"caffe2", OpClass::elementwise},
    {"transformer_engine", OpClass::copy},
    {"vllm::", OpClass::elementwise},
    {"aiter::", OpClass::elementwise},
    {"sgl_", OpClass::elementwise},
    {"apex", OpClass::elementwise},
    {"ck_tile", OpClass::matmul},
    {"ck::", OpClass::matmul},
    {"_ZN2ck", OpClass::matmul},
    {"cutlass", OpClass::matmul},
    {"_triton_kernel", OpClass::fused},
};

// What the compiler of this program calls kernels that are bound by memory (workloads/model).
constexpr Row kOwn[] = {
    {"view", OpClass::copy},
    {"embedding", OpClass::look_up},
    {"softmax", OpClass::softmax},
    {"cross entropy", OpClass::softmax},
    {"logit", OpClass::softmax},
    {"loss", OpClass::softmax},
    {"exponentials", OpClass::softmax},
    {"gradient norm", OpClass::optimizer},
    {"adam", OpClass::optimizer},
    {"lamb", OpClass::optimizer},
    {"sgd", OpClass::optimizer},
    {"unscale", OpClass::optimizer},
    {"scale gradients", OpClass::optimizer},
    {"weights to 16 bit", OpClass::optimizer},
    {"norm", OpClass::norm},
    {"layout", OpClass::copy},
    {"copies", OpClass::copy},
    {"copy", OpClass::copy},
    {"cast", OpClass::copy},
    {"to 16 bit", OpClass::copy},
    {"to fp32", OpClass::copy},
    {"in fp32", OpClass::copy},
    {"transpose", OpClass::copy},
    {"together", OpClass::copy},
    {"apart", OpClass::copy},
    {"dropout mask", OpClass::random},
    {"permute", OpClass::experts},
    {"sort by", OpClass::experts},
    {"rout", OpClass::experts},
    {"of every expert", OpClass::experts},
    {"by index", OpClass::look_up},
    {"", OpClass::elementwise},
};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool contains(std::string_view lowered, std::string_view pattern) {
  return std::search(lowered.begin(), lowered.end(), pattern.begin(), pattern.end(),
                     [](char a, char b) { return a == lower(b); }) != lowered.end();
}

template <std::size_t n>
OpClass first_of(const Row (&rows)[n], const std::string& lowered) {
  for (const Row& row : rows) {
    if (contains(lowered, row.pattern)) return row.what;
  }
  return OpClass::unknown;
}

std::string lowered(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

}  // namespace

std::string_view name_of(OpClass what) {
  static constexpr std::array<std::string_view, kOpClasses> kNames{"matrix products",
                                                                   "grouped products",
                                                                   "attention",
                                                                   "convolution",
                                                                   "norms",
                                                                   "softmax and loss",
                                                                   "elementwise",
                                                                   "copies and casts",
                                                                   "random",
                                                                   "look-ups",
                                                                   "reductions",
                                                                   "routing of experts",
                                                                   "optimizer",
                                                                   "fused",
                                                                   "all-reduce",
                                                                   "all-gather",
                                                                   "reduce-scatter",
                                                                   "all-to-all",
                                                                   "send/receive",
                                                                   "broadcast",
                                                                   "collectives",
                                                                   "memcpy",
                                                                   "memset",
                                                                   "scans",
                                                                   "index scores",
                                                                   "choice of keys",
                                                                   "sparse attention",
                                                                   "unknown"};
  return kNames[static_cast<std::size_t>(what)];
}

OpClass class_of_kernel(std::string_view name) {
  const std::string text = lowered(name);
  // FBGEMM's and CUB's kernels are no library's of collectives, whatever their templates are called.
  const OpClass collective =
      text.find("at::native") == std::string::npos ? first_of(kCollectives, text) : OpClass::unknown;
  return collective != OpClass::unknown ? collective : first_of(kKernels, text);
}

OpClass class_of_operation(std::string_view operation) {
  const std::string text = lowered(operation);
  if (text == "send" || text == "recv" || text == "send_receive" || text == "batch_isend_irecv" || text == "coalesced")
    return OpClass::send_receive;
  return first_of(kCollectives, text);
}

OpClass class_of_own_kernel(std::string_view name, std::string_view kind) {
  if (name.ends_with("scan") || name.ends_with("scan backward")) return OpClass::scan;
  if (name.starts_with("index scores")) return OpClass::index_scores;
  if (name == "choice of keys") return OpClass::key_choice;
  if (name.starts_with("sparse attention") || name == "target of the indexer") return OpClass::sparse_attention;
  if (name.find("convolution") != std::string_view::npos) return OpClass::convolution;
  if (kind == "matmul") return OpClass::matmul;
  if (kind == "attention") return OpClass::attention;
  return first_of(kOwn, lowered(name));
}

}  // namespace orrery::tools
