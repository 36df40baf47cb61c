// Flags of Megatron-Core's newer releases: layers of pieces by letters, graphs, linear attention, and the catalogue of
// what is taken, without effect or of weight and not taken over.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tools/import/import.h"
#include "tools/import/megatron_flags.h"
#include "workloads/model/model.h"

using namespace orrery;

namespace {

constexpr const char* kSmall =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
    "--seq-length 2048 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 128 --bf16 --disable-bias-linear ";
constexpr const char* kExperts =
    "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512 --expert-model-parallel-size 4 --moe-grouped-gemm "
    "--moe-token-dispatcher-type flex ";

tools::Draft line_with(const std::string& more) {
  return tools::import_megatron(tools::read_launch_line(kSmall + more, "launch.sh", {}), {});
}
std::string at(const tools::Draft& draft, const char* path) {
  const sim::Settings* value = draft.document().find_path(path);
  if (value == nullptr) return "(none)";
  if (!value->is_sequence()) return value->text();
  std::vector<std::string> items;
  for (const sim::Settings& item : value->items()) items.push_back(item.text());
  return fmt::format("{}", fmt::join(items, " "));
}
std::string said(const tools::Draft& draft) { return fmt::format("{}", fmt::join(draft.ignored(), "\n")); }

}  // namespace

TEST_CASE("letters say the layers of every piece, and how many pieces a stage has") {
  const tools::Draft two = line_with("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et*3|t*5L\"");
  CHECK(at(two, "parallelism.stage_layers") == "3 5");
  CHECK(at(two, "parallelism.virtual_pipeline") == "1");
  // E and a layer; (tt|) three times: three pieces of two; then one layer and the loss: 1 + 6 + 1 of 8, in 5 pieces.
  const std::string repeated = "--pipeline-model-parallel-layout \"Et|(tt|)*3,tL\"";
  CHECK_THROWS_WITH(line_with("--pipeline-model-parallel-size 2 " + repeated), ContainsSubstring("5 stages"));
  const tools::Draft four = line_with(
      "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et|(tt|)*3t|mL\" --mtp-num-layers 1");
  CHECK(at(four, "parallelism.stage_layers") == "1 2 2 2 1 0");
  CHECK(at(four, "parallelism.virtual_pipeline") == "3");
  CHECK(at(four, "model.mtp_layers") == "1");
  CHECK(scenarios::load_scenario(four.document()).job.parallelism.stage_layers ==
        std::vector<std::int64_t>{1, 2, 2, 2, 1, 0});
  CHECK_THROWS_WITH(line_with("--pipeline-model-parallel-layout Et*7L"), ContainsSubstring("7 layers"));
  for (const char* broken : {"Et*xL", "E(t|L", "Eq*8L", "E((tt)*4)*1L", "Et*99999999L"})
    CHECK_THROWS_AS(line_with(fmt::format("--pipeline-model-parallel-layout \"{}\"", broken)), sim::UserError);
}

TEST_CASE("layers of linear attention become blocks, with experts where the line has them") {
  const tools::Draft draft = line_with(
      std::string(kExperts) +
      "--experimental-attention-variant gated_delta_net --linear-attention-freq 4 --attention-output-gate "
      "--linear-num-value-heads 8 --linear-num-key-heads 4 --linear-key-head-dim 64 --linear-value-head-dim 128");
  CHECK(at(draft, "model.blocks") == "L+E L+E L+E A+E L+E L+E L+E A+E");  // the last of four has the usual kind
  CHECK(at(draft, "model.mixers.L.kind") == "gated_delta");
  CHECK(at(draft, "model.mixers.L.heads") == "8");
  CHECK(at(draft, "model.mixers.L.key_heads") == "4");
  CHECK(at(draft, "model.mixers.L.key_dim") == "64");
  CHECK(at(draft, "model.mixers.A.output_gate") == "true");
  CHECK_NOTHROW(scenarios::load_scenario(draft.document()));
  const tools::Draft listed =
      line_with("--experimental-attention-variant gdn --linear-attention-freq \"([1]*3+[0]*1+[1]*4)\"");
  CHECK(at(listed, "model.blocks") == "L+F L+F L+F A+F L+F L+F L+F L+F");
  CHECK(at(listed, "model.mixers.L.conv") == "4");  // TransformerConfig's
  CHECK_THROWS_WITH(line_with("--experimental-attention-variant gdn --linear-attention-freq \"([1]*3)\""),
                    ContainsSubstring("of 8 layers"));
  CHECK_THROWS_AS(line_with("--experimental-attention-variant gdn"), sim::UserError);
  CHECK(line_with("--experimental-attention-variant dsa").ignored().front().find("all keys") != std::string::npos);
}

TEST_CASE("Qwen3-Next by Megatron-Core's own flags has the parameters of its card") {
  const tools::Draft draft = tools::import_megatron(
      tools::read_launch_line(
          "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 48 --hidden-size 2048 --num-attention-heads 16 "
          "--group-query-attention --num-query-groups 2 --kv-channels 256 --ffn-hidden-size 5120 --num-experts 512 "
          "--moe-router-topk 10 --moe-ffn-hidden-size 512 --moe-shared-expert-intermediate-size 512 "
          "--moe-shared-expert-gate --expert-model-parallel-size 8 --padded-vocab-size 151936 --seq-length 4096 "
          "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope --qk-layernorm "
          "--untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 8 --bf16 "
          "--experimental-attention-variant gated_delta_net --linear-attention-freq 4 --attention-output-gate",
          "launch.sh", {}),
      {});
  // The card of Qwen3-Next-80B-A3B: 80B parameters, of which 3B are active; the config's own count is 79.67e9.
  CHECK(workloads::parameter_count(scenarios::load_scenario(draft.document()).job.model) ==
        Approx(79.67e9).epsilon(0.002));
}

TEST_CASE("graphs by Megatron-Core's words are what the host replays") {
  const std::string experts = kExperts;
  CHECK(at(line_with("--cuda-graph-impl local"), "software.features") == "cuda-graphs");  // every layer whole
  CHECK(at(line_with("--external-cuda-graph --cuda-graph-scope attn"), "software.host.graphs") == "mixers");
  CHECK(at(line_with(experts + "--cuda-graph-impl local --cuda-graph-modules \"[attn moe_router]\""),
           "software.host.graphs") == "ahead_of_counts");
  CHECK(at(line_with(experts + "--cuda-graph-impl transformer_engine --cuda-graph-scope moe_router"),
           "software.host.graphs") == "router");
  CHECK(at(line_with("--cuda-graph-impl none --cuda-graph-scope attn"), "software") == "(none)");
  CHECK(said(line_with(experts + "--enable-cuda-graph")).find("--enable-cuda-graph local of every layer") !=
        std::string::npos);
}

TEST_CASE("parts that one flag turns on are taken where they act, and said where they do not") {
  const tools::Draft experts = line_with(std::string(kExperts) +
                                         "--moe-flex-dispatcher-num-sms 24 --moe-paged-stash "
                                         "--moe-layer-recompute");
  CHECK(at(experts, "experts.dispatcher_sms") == "24");
  CHECK(at(experts, "experts.paged_stash") == "true");
  CHECK(at(experts, "recompute.modules") == "moe");
  const tools::Draft dense = line_with("--moe-flex-dispatcher-num-sms 24 --enable-mhc-connections");
  CHECK(at(dense, "experts.dispatcher_sms") == "(none)");
  CHECK(said(dense).find("--moe-flex-dispatcher-num-sms: without effect: no experts") != std::string::npos);
  CHECK(at(dense, "model.residual_streams") == "4");  // TransformerConfig's
  CHECK(at(line_with("--use-torch-fsdp2"), "parallelism.sharding") == "parameters");
  CHECK(at(line_with("--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward"), "parallelism.sharding") ==
        "gradients");  // ZeRO-2, as the flag's help says
  const std::string words = " --vocab-extra-ids 100";
  const auto vocabulary = [](const std::string& tokenizer) {
    return at(
        tools::import_megatron(tools::read_launch_line("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 "
                                                       "--hidden-size 1024 --num-attention-heads 16 --seq-length "
                                                       "2048 --micro-batch-size 1 --bf16 --tokenizer-type " +
                                                           tokenizer,
                                                       "launch.sh", {}),
                               {}),
        "model.vocab");
  };
  CHECK(vocabulary("BertWordPieceCase" + words) == std::to_string(28996 + 100));
  CHECK(vocabulary("GPT2BPETokenizer" + words) == "50257");
  CHECK(vocabulary("Llama2Tokenizer --tokenizer-model /models/tokenizer.model") == "32000");
  // A model file of another name has a size of its own, which the type does not say.
  const auto first_of = [](const std::string& file) {
    const std::string line =
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
        "--num-attention-heads 16 --seq-length 2048 --micro-batch-size 1 --bf16 "
        "--tokenizer-type Llama2Tokenizer --tokenizer-model ";
    const tools::Draft draft = tools::import_megatron(tools::read_launch_line(line + file, "launch.sh", {}), {});
    return draft.ignored().empty() ? std::string() : draft.ignored().front();
  };
  CHECK(first_of("models/own-100k.model").find("the size is that of own-100k.model") != std::string::npos);
  CHECK(first_of("models/tokenizer.model").find("model.vocab") == std::string::npos);
  const tools::Draft nodes = tools::import_megatron(
      tools::read_launch_line("mpirun -np 32 --npernode 4 python pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
                              "--num-attention-heads 16 --seq-length 2048 --vocab-size 32000 --bf16",
                              "launch.sh", {}),
      {});
  CHECK(at(nodes, "cluster.gpus_per_node") == "4");
  const tools::Draft tasks = tools::import_megatron(
      tools::read_launch_line(
          "#!/bin/bash\n#SBATCH -p x -t 00:20:00 --nodes=8 --exclusive --ntasks-per-node=8\nsrun -l sh "
          "-c \"python -u pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
          "--seq-length 2048 --vocab-size 32000 --bf16\"",
          "launch.sh", {}),
      {});
  CHECK(at(tasks, "cluster.gpus") == "64");
}

TEST_CASE("flags of forks: experts of Megablocks, zero bubbles, trainers under Ray, evaluation of a whole set") {
  const std::string experts = "--moe-num-experts=64 --moe-loss-weight=0.1 --moe-top-k=2 ";
  const tools::Draft mixture = line_with(experts + "--moe-expert-model-parallelism --optimizer adafactor");
  CHECK(at(mixture, "model.experts") == "64");
  CHECK(at(mixture, "model.top_k") == "2");
  CHECK(at(mixture, "parallelism.expert") == "8");  // of the eight data ranks
  CHECK(at(mixture, "experts.capacity_factor") == "(none)");
  CHECK(at(mixture, "optimizer") == "adafactor");
  CHECK_NOTHROW(scenarios::load_scenario(mixture.document()));
  CHECK(at(line_with(experts + "--moe-capacity-factor=1"), "experts.capacity_factor") == "1");
  CHECK(at(line_with(experts), "parallelism.expert") == "1");

  const std::string stages = "--pipeline-model-parallel-size 4 ", split = stages + "--enable-zero-bubble ";
  CHECK(at(line_with(split + "--zero-bubble-max-pending-backward 4"), "parallelism.schedule") == "zb_h1");
  CHECK(at(line_with(split + "--zero-bubble-max-pending-backward 8"), "parallelism.schedule") == "zb_h2");
  const tools::Draft v = line_with(split + "--zero-bubble-v-schedule --enable-optimizer-post-validation");
  CHECK(at(v, "parallelism.schedule") == "zb_v");
  CHECK(at(v, "parallelism.virtual_pipeline") == "2");
  CHECK(at(v, "parallelism.optimizer_post_validation") == "true");
  CHECK_NOTHROW(scenarios::load_scenario(v.document()));
  CHECK(at(line_with(stages + "--zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup half"),
           "parallelism.schedule") == "v_half");

  const tools::Draft ray = tools::import_megatron(
      tools::read_launch_line(
          "ray job submit -- python3 train_async.py --actor-num-nodes 4 --actor-num-gpus-per-node 8 "
          "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
          "--vocab-size 32000 --use-dynamic-batch-size --max-tokens-per-gpu 9216",
          "launch.sh", {}),
      {});
  CHECK(at(ray, "cluster.gpus") == "32");
  CHECK(at(ray, "precision.matmul") == "bf16");  // slime's own defaults
  CHECK(at(ray, "parallelism.sharding") == "optimizer");
  CHECK(ray.ignored().front().find("--max-tokens-per-gpu") != std::string::npos);

  const tools::Draft whole = line_with("--eval-interval 10 --eval-iters -1");
  CHECK(at(whole, "evaluation.every_steps") == "(none)");
  CHECK(said(whole).find("--eval-iters -1: the whole of a validation set") != std::string::npos);
  // A fork's own name of experts is no detail.
  CHECK(line_with("--num-local-experts 8").ignored().front().find("without experts") != std::string::npos);
  CHECK(line_with("--optimizer zzz").ignored().front().find("simulated as adam") != std::string::npos);
}

TEST_CASE("a size that a line leaves out is the user's to say, and the complaint says how") {
  const std::string line =
      "torchrun --nproc_per_node 8 train.py --num-layers 8 --hidden-size 1024 "
      "--num-attention-heads 16 --vocab-size 32000 --micro-batch-size 1 --bf16";
  const auto read = [&](const std::vector<std::string>& sets) {
    return tools::import_megatron(tools::read_launch_line(line, "launch.sh", {}), sets);
  };
  CHECK_THROWS_WITH(read({}), ContainsSubstring("--set model.seq=N"));
  CHECK(at(read({"model.seq=4096"}), "model.seq") == "4096");
}

TEST_CASE("every flag of the catalogue is taken, without effect or of weight, and none is two of these") {
  std::set<std::string> seen = tools::taken_flags();
  std::string line;
  const auto add = [&](const auto& groups) {
    for (const auto& [why, flags] : groups) {
      for (std::string flag : flags) {
        INFO(flag);
        CHECK(seen.insert(flag).second);
        if (flag.ends_with('*')) flag = flag.substr(0, flag.size() - 1) + "zzz";
        const bool counts = flag == "nodes" || flag == "gpus-per-node" || flag == "ntasks-per-node";
        line += " --" + flag + (counts ? " 1" : "");
      }
    }
  };
  add(tools::unmodelled_flags());
  add(tools::skipped_flags());
  const tools::Draft draft = line_with(line);
  const std::string all = said(draft);
  CHECK(all.find("not known to orrery") == std::string::npos);
  const auto first = [&](const std::string& flag) {
    const auto& lines = draft.ignored();
    return std::find_if(lines.begin(), lines.end(),
                        [&](const std::string& each) { return each.find("--" + flag) != std::string::npos; }) -
           lines.begin();
  };
  // What changes a step's work or memory stands ahead of what does not.
  CHECK(first("fp32-residual-connection") < first("ckpt-zzz"));
  CHECK(first("main-params-dtype") < first("lr-decay-style"));
  CHECK(said(line_with("--recompute-nonsense")).find("not known to orrery") != std::string::npos);
}
