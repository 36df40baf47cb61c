// Tables of engines whose rows are several kernels, or parts of one: each is what a run would ask for in its place.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "calibration/measure/serving_samples.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::sim::UserError;

ServingSamples rows_of_table(const std::string& csv) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("orrery_engine_table_" + std::to_string(std::hash<std::string>{}(csv)) + ".csv");
  std::ofstream(file) << csv;
  CHECK(is_serving_table(file.string()));
  try {
    ServingSamples out = read_serving_samples(file.string());
    std::filesystem::remove(file);
    return out;
  } catch (...) {
    std::filesystem::remove(file);
    throw;
  }
}

ServingKernels vllm_kernels() {
  namespace scenarios = orrery::scenarios;
  const orrery::sim::Settings document =
      scenarios::resolve(scenarios::shelf_of("serving"), orrery::sim::Settings::scalar("h100-sxm-80gb", {"test", 1, 1}))
          .document;
  return ServingKernels(profile("h100-sxm-80gb").isolated(), Engine::vllm, &document);
}

double predicted(const WholeSample& sample) { return seconds_of(sample, vllm_kernels()).value(); }

/// Of Llama 3.1 8B on two ranks: 16 heads, 4 of keys.
double decodes(double sequences, double visible, double longest) {
  return vllm_kernels().seconds(DecodeAttention{sequences, visible, longest, 16, 4, 128});
}
double chunk_of(double fresh, double cached) {
  const PromptPiece piece{1, fresh, cached};
  PrefillAttention a;
  a.pieces = {&piece, 1};
  a.heads = 16;
  a.kv_heads = 4;
  return vllm_kernels().seconds(a);
}

}  // namespace

TEST_CASE("a chunk beside decodes is both, one after the other") {
  const ServingSamples read = rows_of_table(
      "model,tp,prefill_chunk,prefill_kv,decodes,decode_kv,us\n"
      "Llama-3.1-8B,2,512,1024,8,2048,90\nLlama-3.1-8B,2,0,0,8,2048,40\nLlama-3.1-8B,2,512,0,0,0,30\n"
      "Falcon-7B,2,512,0,0,0,30\n");
  REQUIRE(read.whole.size() == 3);
  CHECK(read.rows.empty());
  CHECK(predicted(read.whole[0]) == Approx(chunk_of(512, 1024) + decodes(8, 8 * 2048, 2048)));
  CHECK(predicted(read.whole[1]) == Approx(decodes(8, 8 * 2048, 2048)));
  CHECK(predicted(read.whole[2]) == Approx(chunk_of(512, 0)));
  CHECK(read.whole[0].seconds == Approx(90e-6));
  CHECK(read.whole[0].name != read.whole[1].name);
  CHECK(read.unread.empty());
  CHECK(read.left_out.at("models whose widths are not known") == 1);
}

TEST_CASE("a row of uneven lengths is three: the mean, the longest, and as they are") {
  const std::string head =
      "model,tp,regime,n,n_big,ratio,skew,prefill_chunk,prefill_kv,kv_small,kv_big,kv_mean,mean_us,max_us,skewed_us\n";
  const ServingSamples read = rows_of_table(head + "Llama-3.1-8B,2,pure,4,1,0.25,4.0,0,0,512,2048,896,20,40,25\n");
  REQUIRE(read.whole.size() == 3);
  CHECK(predicted(read.whole[0]) == Approx(decodes(4, 4 * 896, 896)));
  CHECK(predicted(read.whole[1]) == Approx(decodes(4, 4 * 2048, 2048)));
  CHECK(predicted(read.whole[2]) == Approx(decodes(4, 3 * 512 + 2048, 2048)));
  CHECK(read.whole[2].seconds == Approx(25e-6));
  CHECK(read.unread == std::vector<std::string>{"ratio", "regime", "skew"});
  CHECK_THROWS_AS(rows_of_table(head + "Llama-3.1-8B,2,pure,4,1,0.25,4.0,0,0,512,2048,1280,20,40,25\n"), UserError);
  CHECK_THROWS_AS(rows_of_table(head + "Llama-3.1-8B,2,pure,4,5,0.25,4.0,0,0,512,2048,896,20,40,25\n"), UserError);
}

TEST_CASE("layers of an engine are its products, or what they move") {
  const ServingSamples read = rows_of_table(
      "model,tp,layer,tokens_or_sequences,us\nLlama-3.1-8B,2,gate_up_proj,64,30\nLlama-3.1-8B,2,qkv_proj,64,30\n"
      "Llama-3.1-8B,2,act_fn,4096,30\nLlama-3.1-8B,2,lm_head,8,30\nLlama-3.1-8B,2,teleport,8,30\n");
  REQUIRE(read.whole.size() == 4);
  const ServingKernels kernels = vllm_kernels();
  CHECK(predicted(read.whole[0]) == Approx(kernels.seconds(ServedProduct{WeightType::bf16, 64, 14336, 4096})));
  CHECK(predicted(read.whole[1]) == Approx(kernels.seconds(ServedProduct{WeightType::bf16, 64, 24 * 128, 4096})));
  // Two inputs and an output of 7168 channels each, of two bytes.
  CHECK(predicted(read.whole[2]) ==
        Approx(orrery::sim::to_seconds(kernels.device().streaming(Streaming::copy, 2.0 * 3 * 7168 * 4096))));
  CHECK(predicted(read.whole[3]) == Approx(kernels.seconds(ServedProduct{WeightType::bf16, 8, 64128, 4096})));
  CHECK(read.left_out.at("layer teleport, which no kernel of the model is") == 1);
}

TEST_CASE("experts by load have the load of their row") {
  const ServingSamples read = rows_of_table(
      "model,tp,tokens,activated_experts,us\nQwen3-30B-A3B-Instruct-2507,1,16,128,800\n"
      "Qwen3-30B-A3B-Instruct-2507,1,16,32,230\n");
  REQUIRE(read.whole.size() == 2);
  // Weights are all that counts of few tokens: four times the experts, three to four times as long.
  const double ratio = predicted(read.whole[0]) / predicted(read.whole[1]);
  CHECK(ratio > 2.5);
  CHECK(ratio < 4.2);
  const std::string head = "model,tp,tokens,activated_experts,us\n";
  CHECK_THROWS_AS(rows_of_table(head + "Qwen3-30B-A3B-Instruct-2507,1,1,16,50\n"), UserError);  // 8 choices
  const ServingSamples loaded = rows_of_table(
      "tokens,routed_tokens,experts,experts_on_gpu,ep,tp,top_k,hidden,expert_ffn,distribution,experts_used,load_cv,"
      "max_over_mean_load,gini,timer,us\n16,128,128,128,1,1,8,2048,768,uniform,0.25,1,2,0.5,CUDA_EVENT,200\n");
  REQUIRE(loaded.whole.size() == 1);
  CHECK(predicted(loaded.whole[0]) == Approx(predicted(read.whole[1])));  // a quarter of 128 experts, 128 choices
}

TEST_CASE("experts with copies on one rank are all of them, and more ranks have less to do") {
  const std::string head =
      "engine,version,op,kernel,dtype,tokens,rank_tokens,hidden,expert_ffn,top_k,experts,slots,moe_tp,moe_ep,"
      "distribution,us\n";
  const auto row = [&](const char* op, int tokens, int rank_tokens, int ranks) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "vllm,1,%s,wideep_compute_cutlass,bfloat16,%d,%d,2048,1024,8,64,64,1,%d,power_law_1.2%s,100\n", op,
                  tokens, rank_tokens, ranks, std::string_view(op) == "wideep_moe" ? "" : "_eplb");
    const ServingSamples read = rows_of_table(head + text);
    REQUIRE(read.whole.size() == 1);
    CHECK(read.unread == std::vector<std::string>{"version"});
    return predicted(read.whole[0]);
  };
  ServedMixture all{WeightType::bf16, 512, 2048, 1024, 8, 64, 1, 0, 1.2};
  CHECK(row("wideep_moe", 512, 512, 1) == Approx(vllm_kernels().seconds(all)));
  CHECK(row("wideep_moe", 512, 400, 8) < row("wideep_moe", 512, 512, 1));
  // Of many tokens the products decide, and the balancer gives every rank an eighth of them, where the fullest had
  // more.
  CHECK(row("wideep_moe_eplb", 32768, 20000, 8) < 0.95 * row("wideep_moe", 32768, 25000, 8));
  CHECK_THROWS_AS(row("wideep_dream", 512, 300, 8), UserError);
}

TEST_CASE("absorbed products are batches of the device's own") {
  const std::string head = "engine,version,op,kernel,dtype,tokens,heads,us\n";
  const ServingSamples read = rows_of_table(head +
                                            "vllm,1,mla_gen_pre,vllm_torch_bmm,bfloat16,256,16,9\n"
                                            "vllm,1,mla_gen_post,vllm_torch_bmm,bfloat16,256,16,9\n"
                                            "vllm,1,mla_gen_post,some_bmm_fp8,fp8,256,16,9\n");
  REQUIRE(read.whole.size() == 3);
  const DeviceProfile device = profile("h100-sxm-80gb").isolated();
  Gemm g;
  g.m = 256;
  g.n = 512;
  g.k = 128;
  g.batch = 16;
  CHECK(predicted(read.whole[0]) == Approx(orrery::sim::to_seconds(device.gemm(g))));
  std::swap(g.n, g.k);
  CHECK(predicted(read.whole[1]) == Approx(orrery::sim::to_seconds(device.gemm(g))));
  g.dtype = DataType::fp8;
  g.cast_input = true;
  CHECK(predicted(read.whole[2]) == Approx(orrery::sim::to_seconds(device.gemm(g))));
  // An A100 multiplies no fp8.
  CHECK(!seconds_of(read.whole[2], ServingKernels(profile("a100-sxm-80gb"), Engine::vllm)).has_value());
  CHECK_THROWS_AS(rows_of_table(head + "vllm,1,mla_dream,vllm_torch_bmm,bfloat16,256,16,9\n"), UserError);
}
