// The law of importers for what is no file of keys: each flag of a launch line and each event of a log is taken, named
// as without effect or named as not taken over. Flags get another value, go, and are joined by one that nobody knows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "tools/import/megatron_flags.h"

using namespace orrery;
using tests::Folder;

namespace {

using Flags = std::vector<std::pair<std::string, std::string>>;  // a name and its value; empty: none

const Flags& launch_flags() {
  static const Flags kFlags{{"num-layers", "32"},
                            {"hidden-size", "4096"},
                            {"ffn-hidden-size", "14336"},
                            {"num-attention-heads", "32"},
                            {"group-query-attention", ""},
                            {"num-query-groups", "8"},
                            {"kv-channels", "128"},
                            {"seq-length", "4096"},
                            {"padded-vocab-size", "128256"},
                            {"swiglu", ""},
                            {"normalization", "RMSNorm"},
                            {"position-embedding-type", "rope"},
                            {"disable-bias-linear", ""},
                            {"untie-embeddings-and-output-weights", ""},
                            {"tensor-model-parallel-size", "2"},
                            {"pipeline-model-parallel-size", "2"},
                            {"sequence-parallel", ""},
                            {"context-parallel-size", "1"},
                            {"micro-batch-size", "1"},
                            {"global-batch-size", "128"},
                            {"use-distributed-optimizer", ""},
                            {"overlap-grad-reduce", ""},
                            {"overlap-param-gather", ""},
                            {"recompute-granularity", "full"},
                            {"recompute-method", "uniform"},
                            {"recompute-num-layers", "1"},
                            {"cross-entropy-loss-fusion", ""},
                            {"pipeline-model-parallel-layout", "\"Et*15|t*17L\""},
                            {"cuda-graph-impl", "local"},
                            {"cuda-graph-scope", "attn"},
                            {"mtp-num-layers", "1"},
                            {"main-grads-dtype", "bf16"},
                            {"inference-max-requests", "8"},
                            {"lr", "1e-4"},
                            {"save", "/ckpt"},
                            {"bf16", ""}};
  return kFlags;
}

/// Launches of other models and programs, whose flags are read by other hands.
struct Launched {
  const char* program;
  Flags flags;
};
const std::vector<Launched>& launches() {
  static const Flags kSizes{{"hidden-size", "768"},
                            {"num-attention-heads", "12"},
                            {"kv-channels", "64"},
                            {"ffn-hidden-size", "3072"},
                            {"micro-batch-size", "4"},
                            {"global-batch-size", "256"},
                            {"max-position-embeddings", "512"},
                            {"bf16", ""}};
  const auto with = [](Flags flags) {
    flags.insert(flags.end(), kSizes.begin(), kSizes.end());
    return flags;
  };
  const Flags mixture{{"num-experts", "8"},
                      {"moe-router-topk", "2"},
                      {"moe-ffn-hidden-size", "1024"},
                      {"expert-model-parallel-size", "4"},
                      {"moe-grouped-gemm", ""},
                      {"moe-permute-fusion", ""},
                      {"moe-token-dispatcher-type", "flex"},
                      {"moe-flex-dispatcher-num-sms", "24"},
                      {"moe-router-dtype", "fp32"},
                      {"moe-layer-freq", "2"},
                      {"moe-shared-expert-intermediate-size", "512"},
                      {"moe-shared-expert-overlap", ""},
                      {"moe-paged-stash", ""},
                      {"moe-layer-recompute", ""},
                      {"cuda-graph-impl", "local"},
                      {"cuda-graph-scope", "moe_router"},
                      {"num-layers", "8"},
                      {"seq-length", "512"},
                      {"padded-vocab-size", "32000"},
                      {"mtp-num-layers", "1"}};
  static const std::vector<Launched> kLaunches{
      {"pretrain_gpt.py", launch_flags()},
      {"pretrain_gpt.py", with(mixture)},
      {"pretrain_t5.py", with({{"encoder-num-layers", "12"},
                               {"decoder-num-layers", "6"},
                               {"encoder-seq-length", "512"},
                               {"decoder-seq-length", "128"},
                               {"tokenizer-type", "BertWordPieceCase"},
                               {"vocab-extra-ids", "100"}})},
      {"pretrain_bert.py",
       with({{"num-layers", "24"}, {"seq-length", "512"}, {"tokenizer-type", "BertWordPieceLowerCase"}})},
      {"pretrain_qwen3_next.py", with({{"num-layers", "4"},
                                       {"hybrid-override-pattern", "M-*-"},
                                       {"num-experts", "8"},
                                       {"moe-router-topk", "2"},
                                       {"moe-ffn-hidden-size", "512"},
                                       {"moe-shared-expert-intermediate-size", "512"},
                                       {"padded-vocab-size", "32000"},
                                       {"seq-length", "512"},
                                       {"swiglu", ""}})},
      {"pretrain_gpt.py", with({{"num-layers", "8"},
                                {"seq-length", "512"},
                                {"padded-vocab-size", "32000"},
                                {"linear-attention-freq", "4"},
                                {"experimental-attention-variant", "gated_delta_net"},
                                {"linear-num-value-heads", "8"},
                                {"linear-num-key-heads", "4"},
                                {"linear-key-head-dim", "64"},
                                {"linear-value-head-dim", "64"},
                                {"linear-conv-kernel-dim", "4"},
                                {"attention-output-gate", ""}})},
      {"pretrain_gpt.py", with({{"num-layers", "8"},
                                {"seq-length", "512"},
                                {"vocab-size", "32000"},
                                {"deepspeed", ""},
                                {"deepspeed_config", "ds.json"},
                                {"zero-stage", "1"},
                                {"num-experts", "8"},
                                {"topk", "2"},
                                {"moe-expert-parallel-size", "4"},
                                {"expert-interval", "2"},
                                {"moe-train-capacity-factor", "2"}})},
      {"pretrain_gpt.py", with({{"num-layers", "8"},
                                {"seq-length", "512"},
                                {"padded-vocab-size", "32000"},
                                {"moe-num-experts", "8"},
                                {"moe-top-k", "2"},
                                {"moe-capacity-factor", "1"},
                                {"moe-expert-model-parallelism", ""}})},
      {"pretrain_gpt.py", with({{"num-layers", "8"},
                                {"seq-length", "512"},
                                {"padded-vocab-size", "32000"},
                                {"pipeline-model-parallel-size", "4"},
                                {"enable-zero-bubble", ""},
                                {"zero-bubble-max-pending-backward", "4"},
                                {"enable-optimizer-post-validation", ""}})}};
  return kLaunches;
}

std::string told_by(const std::function<tools::Draft()>& read) {
  try {
    const tools::Draft draft = read();
    return fmt::format("{}\n{}\n{}", draft.values(), fmt::join(draft.ignored(), "\n"),
                       fmt::join(draft.assumed(), "\n"));
  } catch (const sim::UserError& error) {
    return fmt::format("refused: {}", error.what());
  }
}

std::string launch_of(const char* program, const Flags& flags, std::size_t changed, bool gone) {
  std::string line = fmt::format("torchrun --nproc_per_node 8 --nnodes 4 {}", program);
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (i == changed && gone) continue;
    const std::string& value = flags[i].second;
    const bool number = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
    const std::string other = number ? std::to_string(2 * std::stoll(value)) : "zzz-other";
    line += " --" + flags[i].first + (value.empty() ? "" : " " + (i == changed ? other : value));
  }
  return line;
}

}  // namespace

TEST_CASE("no flag of a launch is dropped without a word") {
  const auto told = [](const std::string& line) {
    return told_by([&] { return tools::import_megatron(tools::read_launch_line(line, "launch.sh", {}), {}); });
  };
  for (const auto& [program, flags] : launches()) {
    const std::string whole = launch_of(program, flags, flags.size(), false), before = told(whole);
    INFO(whole << "\n" << before.substr(0, 200));
    REQUIRE_FALSE(before.starts_with("refused"));
    for (std::size_t i = 0; i < flags.size(); ++i) {
      const auto& [name, value] = flags[i];
      INFO(name);
      std::string after = value.empty() ? told(launch_of(program, flags, i, true))  // a flag: with it, and without
                                        : told(launch_of(program, flags, i, false));
      CHECK((after != before || after.find(name) != std::string::npos));
      CHECK_NOTHROW(told(launch_of(program, flags, i, true)));  // a default, or a complaint; nothing worse
    }
    for (const std::string added : {" --zzz-unheard 7", " --zzz-unheard", " --zzz-unheard=a,b"})
      CHECK(told(whole + added).find("zzz-unheard") != std::string::npos);
  }
}

TEST_CASE("a flag of the catalogue that a launch has not changes the scenario, is refused or named") {
  const auto told = [](const std::string& line) {
    try {
      const tools::Draft draft = tools::import_megatron(tools::read_launch_line(line, "launch.sh", {}), {});
      return std::pair(draft.values(),
                       fmt::format("{}\n{}", fmt::join(draft.ignored(), "\n"), fmt::join(draft.assumed(), "\n")));
    } catch (const sim::UserError& error) {
      return std::pair(std::string("refused"), std::string(error.what()));
    }
  };
  for (const std::size_t launch : {0, 1}) {
    const auto& [program, flags] = launches()[launch];
    const std::string whole = launch_of(program, flags, flags.size(), false);
    const std::string before = told(whole).first;
    for (const std::string& name : tools::taken_flags()) {
      const bool there = std::any_of(flags.begin(), flags.end(), [&](const auto& flag) { return flag.first == name; });
      for (const std::string value : {"", " 2", " zzz-word"}) {
        if (there) continue;
        const auto [values, remarks] = told(fmt::format("{} --{}{}", whole, name, value));
        INFO(program << " --" << name << value << "\n" << remarks);
        CHECK((values != before || remarks.find(name) != std::string::npos));
      }
    }
  }
}

TEST_CASE("no event of an MLPerf log is dropped without a word") {
  const Folder folder;
  const std::vector<std::pair<std::string, std::string>> events{{"submission_benchmark", "\"llama2_70b_lora\""},
                                                                {"submission_org", "\"ORG\""},
                                                                {"submission_platform", "\"1xNVIDIA DGX B200\""},
                                                                {"global_batch_size", "8"},
                                                                {"max_sequence_length", "8192"},
                                                                {"gradient_accumulation_steps", "1"},
                                                                {"lora_rank", "16"},
                                                                {"lora_alpha", "32"},
                                                                {"opt_base_learning_rate", "0.0004"}};
  const auto told = [&](const std::string& changed, const std::string& value, const std::string& added) {
    std::string log;
    for (const auto& [key, own] : events)
      log += fmt::format(":::MLLOG {{\"time_ms\": 1, \"key\": \"{}\", \"value\": {}, \"metadata\": {{}}}}\n", key,
                         key == changed ? value : own);
    log += ":::MLLOG {\"time_ms\": 2, \"key\": \"tracked_stats\", \"value\": {\"train_step_time\": 2}}\n" + added;
    return told_by([&] { return tools::import_mllog(folder.write("run.log", log), {}); });
  };
  const std::string before = told("", "", "");
  REQUIRE_FALSE(before.starts_with("refused"));
  for (const auto& [key, own] : events) {
    INFO(key);
    const bool number = own.find('"') == std::string::npos;
    const std::string after = told(key, number ? "3" : "\"zzz\"", "");
    CHECK((after != before || after.find(key) != std::string::npos));
  }
  const std::string unheard = ":::MLLOG {\"time_ms\": 1, \"key\": \"zzz_unheard\", \"value\": 3, \"metadata\": {}}\n";
  CHECK(told("", "", unheard).find("zzz_unheard") != std::string::npos);
}

TEST_CASE("no flag of a server's launch is dropped without a word") {
  const auto told = [](const std::string& more, const std::string& size = "2") {
    const tests::Outcome out = tests::orrery({"import", "vllm",
                                              "vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size " +
                                                  size + " --max-num-seqs 128 --port 8000" + more});
    return out.out + out.err;
  };
  CHECK(told("") != told("", "4"));
  CHECK(told("").find("port") != std::string::npos);
  CHECK(told(" --zzz-unheard 7").find("zzz-unheard") != std::string::npos);
}
