// Is a kernel known by its name, whichever library wrote it?
#include "tools/learn/kernel_names.h"

#include "tests/catch.h"
#include "tools/learn/observe.h"

using namespace orrery;
using tools::OpClass;

TEST_CASE("kernels of every library are known by their names") {
  struct Case {
    const char* name;
    OpClass what;
  };
  // Names as profilers write them, shortened where only parameters follow.
  const Case cases[] = {
      {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", OpClass::matmul},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", OpClass::matmul},
      {"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", OpClass::matmul},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>", OpClass::matmul},
      {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64", OpClass::matmul},
      {"void splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>", OpClass::matmul},
      {"_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1_swiglu", OpClass::grouped_matmul},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", OpClass::attention},
      {"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>", OpClass::attention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7_64x64x128", OpClass::attention},
      {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", OpClass::attention},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>", OpClass::norm},
      {"void transformer_engine::normalization::ln_fwd_tuned_kernel<...>", OpClass::norm},
      {"void (anonymous namespace)::cuApplyRMSNorm<float, float, float>", OpClass::norm},
      {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 11, false, false>", OpClass::softmax},
      {"void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, float, float>", OpClass::softmax},
      {"nll_loss_forward_reduce_cuda_kernel_2d", OpClass::softmax},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(...)>", OpClass::elementwise},
      {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::CUDAFunctor_add<float> >",
       OpClass::elementwise},
      {"void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>",
       OpClass::copy},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 3, 64, 64>", OpClass::copy},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", OpClass::copy},
      {"void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int>", OpClass::random},
      {"void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>", OpClass::look_up},
      {"void at::native::(anonymous namespace)::embedding_backward_feature_kernel<...>", OpClass::look_up},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::sum_functor>>",
       OpClass::reduction},
      {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>", OpClass::optimizer},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>", OpClass::optimizer},
      {"triton_poi_fused_add_mul_silu_3", OpClass::fused},
      {"triton_red_fused_native_layer_norm_0", OpClass::fused},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", OpClass::all_reduce},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", OpClass::all_gather},
      {"ncclKernel_ReduceScatter_RING_SIMPLE_Sum_float(ncclWorkElem)", OpClass::reduce_scatter},
      {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", OpClass::send_receive},
      {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", OpClass::collective},
      {"void deep_ep::internode::dispatch<false, 8>", OpClass::all_to_all},
      {"void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>", OpClass::norm},
      {"sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw", OpClass::convolution},
      {"_permute_kernel", OpClass::experts},
      {"chunk_gated_delta_rule_fwd_kernel_h_blockdim64", OpClass::scan},
      {"chunk_bwd_kernel_dqkwg", OpClass::scan},
      {"_chunk_scan_bwd_dx_kernel", OpClass::scan},
      {"chunk_dplr_fwd_A_kernel_intra_sub_intra", OpClass::scan},
      {"void deep_gemm::sm90_fp8_mqa_logits<32u, 64u, 128u, 128u, 256u, 3u, 3u, 128u, 512u>", OpClass::index_scores},
      {"void vllm::topKPerRowPrefill<512, false>(float const*, int const*, int const*, int*, int, int, int)",
       OpClass::key_choice},
      {"void at::native::mbtopk::radixFindKthValues<float, unsigned int, unsigned int, 2>", OpClass::key_choice},
      {"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", OpClass::look_up},
      {"void sm90::fwd::sparse_attn_fwd_kernel<KernelTemplate<576, false>>", OpClass::sparse_attention},
      {"parallel_nsa_bwd_kernel_dkv", OpClass::sparse_attention},
      {"void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true, c10::BFloat16>>",
       OpClass::convolution},
      {"my_own_kernel_of_nobody_knows_what", OpClass::unknown},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    CHECK(name_of(tools::class_of_kernel(c.name)) == name_of(c.what));
  }
}

TEST_CASE("operations of collectives and their groups are known by what frameworks call them") {
  CHECK(tools::class_of_operation("_allgather_base") == OpClass::all_gather);
  CHECK(tools::class_of_operation("reduce_scatter_tensor_coalesced") == OpClass::reduce_scatter);
  CHECK(tools::class_of_operation("allreduce_coalesced") == OpClass::all_reduce);
  CHECK(tools::class_of_operation("all_to_allv") == OpClass::all_to_all);
  CHECK(tools::class_of_operation("send") == OpClass::send_receive);
  CHECK(tools::class_of_operation("barrier_of_some_kind") == OpClass::unknown);
  CHECK(tools::role_of_group("TENSOR_MODEL_PARALLEL_GROUP", 8) == "tensor");
  CHECK(tools::role_of_group("mesh_tp", 8) == "tensor");
  CHECK(tools::role_of_group("DATA_PARALLEL_GROUP_WITH_CP", 8) == "data");
  CHECK(tools::role_of_group("mesh_dp_shard", 8) == "data");
  CHECK(tools::role_of_group("PIPELINE_MODEL_PARALLEL_GROUP", 4) == "pipeline");
  CHECK(tools::role_of_group("default_pg", 64) == "of 64 ranks");  // no "tp" within another word
  CHECK(tools::role_of_group("http_things", 2) == "of 2 ranks");
}
