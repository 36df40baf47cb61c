// What users have reported, from question to answer: measured memory and times beside what comes out, each with its
// tolerance. The figures are those of the reports; inputs hold what decides them and no more.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/import/import.h"
#include "tools/import/launch_ways.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::Folder;

namespace {

workloads::StepReport step_of(const std::string& yaml) {
  const Folder folder;
  return workloads::simulate_step(scenarios::load_scenario(scenarios::read_yaml(folder.write("s.yaml", yaml))).job);
}

std::string scenario(const std::string& device, int gpus, const std::string& model, const std::string& sharding,
                     int global, int micro, const std::string& more) {
  return fmt::format(
      "name: x\ncluster: {{device: {}, gpus: {}, fabric: single-node}}\nmodel: {{{}}}\nparallelism: {{sharding: {}}}\n"
      "batch: {{global: {}, micro: {}}}\n"
      "precision: {{matmul: bf16, activations: bf16, gradients: bf16, parameters: bf16}}\nsoftware: "
      "accelerate-2026\n{}",
      device, gpus, model, sharding, global, micro, more);
}

}  // namespace

TEST_CASE("weights and states in bf16 without an fp32 copy take what was measured") {
  const auto peak = [](const std::string& yaml) { return step_of(yaml).memory.peak_bytes / 1e9; };
  const std::string h100 = "h100-sxm-80gb", thirteen = "inherits: llama2-13b, seq: 4096, layers: ";
  const std::string keeps = "recompute: none\n";
  CHECK(peak(scenario("a100-sxm-80gb", 1, "inherits: llama2-7b, seq: 512", "none", 1, 1,
                      "optimizer: sgd\nrecompute: full\n")) == Approx(27.83).epsilon(0.15));
  CHECK(peak(scenario(h100, 8, thirteen + "20", "parameters", 16, 2, keeps)) == Approx(39.4).epsilon(0.12));
  CHECK(peak(scenario(h100, 8, thirteen + "10", "parameters", 16, 2, keeps)) == Approx(21.0).epsilon(0.12));
  CHECK(peak(scenario(h100, 1, thirteen + "4", "none", 2, 2, keeps)) == Approx(18.35).epsilon(0.15));
  CHECK(peak(scenario(h100, 8, "inherits: llama3-8b, seq: 8192", "gradients", 8, 1, keeps)) ==
        Approx(72.6).epsilon(0.12));
}

// AnswerDotAI/fsdp_qlora, benchmarks_03_2024.md: peaks that PyTorch had reserved on each of two RTX 3090, one sequence
// at a time, ranks of 64 beside all linear layers with dropout, blocks made again, all in bf16.
TEST_CASE("adapters beside weights of 4 and of 16 bits take what two consumer GPUs were seen to take") {
  const auto peak = [](const char* kind, int seq) {
    return step_of(fmt::format("name: x\ncluster: {{device: rtx-3090-24gb, gpus: 2, fabric: single-node}}\n"
                               "model: {{inherits: llama2-7b, seq: {}}}\nparallelism: {{sharding: parameters}}\n"
                               "batch: {{global: 2, micro: 1}}\nrecompute: full\nsoftware: transformers-2026\n"
                               "finetune: {{kind: {}, rank: 64, modules: all, dropout: 0.1}}\n"
                               "precision: {{matmul: bf16, activations: bf16, gradients: bf16, parameters: bf16}}\n",
                               seq, kind))
               .memory.peak_bytes /
           (1 << 30);
  };
  CHECK(peak("qlora", 512) == Approx(4.98).epsilon(0.15));
  CHECK(peak("qlora", 2048) == Approx(5.21).epsilon(0.15));
  CHECK(peak("lora", 512) == Approx(10.24).epsilon(0.15));
  CHECK(peak("lora", 2048) == Approx(10.22).epsilon(0.15));
}

TEST_CASE("offload of 33 billion parameters needs 750 to 800 GB of pinned host memory") {
  const auto report = [](int host) {
    return step_of(fmt::format(
        "name: x\ncluster: {{device: {{inherits: a100-sxm-40gb, node: {{host_memory: {} GB}}}}, gpus: 8, fabric: "
        "single-node}}\nmodel: {{kind: gpt, layers: 60, hidden: 6656, heads: 52, kv_heads: 52, ffn_hidden: 17920, "
        "vocab: 32000, seq: 2048, gated_mlp: true, positions: rotary, norm: rms_norm, biases: none, tied_embeddings: "
        "false}}\nparallelism: {{sharding: parameters}}\nbatch: {{global: 8, micro: 1}}\n"
        "offload: {{optimizer: true, parameters: true}}\nrecompute: full\nsoftware: deepspeed-2026\n",
        host));
  };
  const workloads::StepReport lacks = report(600);
  CHECK_FALSE(lacks.memory.fits);
  CHECK(lacks.memory.host.peak_bytes > 750e9);
  CHECK(lacks.memory.host.peak_bytes < 800e9);
  CHECK(report(1000).memory.fits);
}

TEST_CASE("a mixture under TorchTitan without a compiler takes the memory and the time that were measured") {
  const Folder folder;
  const std::string file = folder.write(
      "t.toml",
      "[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n[training]\nlocal_batch_size = 4\nseq_len = 4096\n"
      "[parallelism]\ndata_parallel_shard_degree = -1\nexpert_parallel_degree = 8\n"
      "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n"
      "[compile]\nenable = true\ncomponents = [\"loss\"]\n");
  const workloads::StepReport report =
      workloads::simulate_step(scenarios::load_scenario(tools::import_torchtitan(file, 8).document()).job);
  CHECK(report.memory.peak_bytes / 1e9 == Approx(78.7).epsilon(0.15));
  CHECK(report.memory.fits);
  CHECK(report.rates.tokens_per_s_per_gpu == Approx(11636).epsilon(0.25));
}

TEST_CASE("an all-reduce over 72 GPUs of a rack is reduced in its switches") {
  const Folder folder;
  const std::string head = "time   algbw   busbw #wrong",
                    log = folder.write(
                        "nccl.txt",
                        "#                                           out-of-place                       in-place\n"
                        "#       size         count      type   redop    root     " +
                            head + "     " + head +
                            "\n"
                            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
                            "(us)  (GB/s)  (GB/s)\n"
                            "  1073741824     268435456     float     sum      -1   3108.8  345.38  681.17      0   "
                            "2924.7  367.13  724.06   0\n"
                            "  8589934592    2147483648     float     sum      -1    20299  423.16  834.57      0    "
                            "20006  429.37  846.82   0\n");
  const tests::Outcome out = tests::orrery({"collective", "nvl72-ndr", "--device", "gb200", "--op", "all_reduce",
                                            "--gpus", "72", "--measured", log, "--json", "-"});
  INFO(out.err);
  REQUIRE(out.status == 0);
  int rows = 0;
  for (std::size_t at = out.out.find("error_pct"); at != std::string::npos; at = out.out.find("error_pct", at + 1)) {
    const double error = std::strtod(out.out.c_str() + out.out.find(':', at) + 1, nullptr);
    CHECK(std::abs(error) < 10);
    ++rows;
  }
  CHECK(rows >= 2);
}

TEST_CASE("experts of Hugging Face's models under DeepSpeed are said to run one by one") {
  const Folder folder;
  const std::string file = folder.write(
      "zero3.json",
      "{\"bf16\": {\"enabled\": true}, \"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 4, "
      "\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true}}");
  const auto said = [&](const std::string& model) {
    const std::string out = folder.file(model + ".yaml");
    REQUIRE(tests::orrery({"import", "deepspeed", file, "--gpus", "8", "--set", "model=" + model, "--set",
                           "model.seq=4096", "--set", "recompute=full", "--quiet", "--out", out})
                .status == 0);
    const workloads::Job job = scenarios::load_scenario(scenarios::read_yaml(out)).job;
    return std::any_of(job.assumptions.begin(), job.assumptions.end(), [](const std::string& each) {
      return each.find("loop over their experts, 128 in a layer") != std::string::npos;
    });
  };
  CHECK(said("qwen3-30b-a3b"));
  CHECK_FALSE(said("qwen3-32b"));
}

TEST_CASE("a launch of fewer GPUs than its layout needs is taken at what it needs, which is said first") {
  const std::string flags =
      "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --vocab-size "
      "32000 "
      "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 128 "
      "--bf16";
  const auto draft = [](const std::string& script, const std::vector<std::string>& sets = {}) {
    return tools::import_megatron(tools::read_launch_line(script, "launch.sh", {}), sets);
  };
  const tools::Draft few = draft("torchrun --nproc_per_node 8 --nnodes 1 " + flags);
  CHECK(few.document().find_path("cluster.gpus")->text() == "32");  // 8 x 4
  CHECK(few.ignored().at(0).find("cluster.gpus: 32") != std::string::npos);
  CHECK(draft("torchrun --nproc_per_node 8 --nnodes 8 " + flags).document().find_path("cluster.gpus")->text() == "64");
  // [[ $X -eq 0 ]] holds where nobody sets X.
  const tools::Draft unset = draft("if [[ $BATCH -eq 0 ]]; then torchrun --nproc_per_node 8 --nnodes 4 " + flags +
                                   "; else srun -N 8 " + flags + "; fi");
  CHECK(unset.document().find_path("cluster.gpus")->text() == "32");
  CHECK(unset.ignored().at(0).find("BATCH") != std::string::npos);
  const auto refusal = [&](const std::string& script) -> std::string {
    try {
      draft(script);
    } catch (const sim::UserError& error) {
      return error.what();
    }
    return "taken";
  };
  const std::string hybrid = "torchrun pretrain_mamba.py --hidden-size 4096 --hybrid-layer-pattern M-M*-";
  CHECK(refusal(hybrid).find("--num-attention-heads: is not given") != std::string::npos);
  const std::string unknown =
      "torchrun pretrain_mamba.py --hidden-size 4096 --num-attention-heads 32 --hybrid-layer-pattern M-MX-";
  CHECK(refusal(unknown).find("got the letter X") != std::string::npos);
  CHECK(refusal("python tools/convert.py --target x").find("no training of Megatron-LM's is started") !=
        std::string::npos);
}
