// Does a question without a file get the answer that its scenario gives, and do words of the field mean what they mean?
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "scenarios/synonyms.h"
#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;

TEST_CASE("a question by flags is answered with a layout, a step, days and dollars, and kept as a scenario") {
  const Folder folder;
  const std::string file = (folder.path() / "kept.yaml").string();
  const Outcome asked = tests::orrery({"search", "--model", "llama3.1-8b", "--device", "h100", "--gpus", "16",
                                       "--tokens", "1e12", "--price", "2.5", "--out", file, "--jobs", "1"});
  INFO(asked.out << asked.err);
  REQUIRE(asked.status == 0);
  for (const char* part : {"16 x h100-sxm-80gb on ndr-rail", "days (", "USD (", "Assumed: ", "torchrun "})
    CHECK(asked.out.find(part) != std::string::npos);
  // The scenario that was kept takes as long to train, at as much, as its step says.
  const Outcome run = tests::orrery({"run", file, "--json", "-"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  const json result = json::parse(run.out);
  const double days = 1e12 / result["tokens_per_s"].get<double>() / 86'400;
  CHECK(asked.out.find(fmt::format(": {:.1f} days", days)) != std::string::npos);
  CHECK(result["gpus"] == 16);
  CHECK(result["memory"]["fits"] == true);
  const Outcome at_once = tests::orrery(
      {"run", "--model", "llama3.1-8b", "--device", "h100", "--gpus", "16", "--json", "-", "--jobs", "1"});
  REQUIRE(at_once.status == 0);
  CHECK(json::parse(at_once.out)["iteration_time_s"] == result["iteration_time_s"]);
}

TEST_CASE(
    "a question's search goes through fewer layouts than there are, finds their best, and goes on where none is") {
  const auto searched = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"search", "--model", "llama3.1-8b", "--device", "h100", "--gpus",
                                   "16",     "--json",  "-",           "--jobs",   "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out);
  };
  // What a key is varied over is tried whatever a question leaves out: all divisors of 16 GPUs and 512 sequences.
  const json first = searched({}),
             all = searched({"--vary", "parallelism.tensor=1:16:2", "--vary", "batch.micro=1:512:2", "--vary",
                             "parallelism.sequence_parallel=false,true"});
  CHECK(first["layouts"] < all["layouts"]);
  CHECK(first["rows"][0]["set"] == all["rows"][0]["set"]);
  CHECK(first["rows"][0]["iteration_s"] == all["rows"][0]["iteration_s"]);
  // One stage and one replica leave a tensor group of two nodes alone.
  const json lone = searched({"--vary", "parallelism.pipeline=1", "--vary", "parallelism.data=1"});
  CHECK(lone["rows"][0]["set"]["parallelism.tensor"] == "16");
}

TEST_CASE("a question is said to leave open only what neither a flag nor --set says") {
  const auto answer = [](const std::vector<std::string>& sets) {
    std::vector<std::string> words{"run", "--model", "llama3.1-8b", "--device", "h100", "--gpus", "16", "--jobs", "1"};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const std::size_t at = outcome.out.find("The question left open:");
    return at == std::string::npos ? std::string() : outcome.out.substr(at, outcome.out.find("Where the time") - at);
  };
  const std::string bare = answer({});
  for (const char* part : {"ndr-rail", "megatron-core", "--batch-tokens", "8192 tokens", "bf16"})
    CHECK(bare.find(part) != std::string::npos);
  const std::string batch = answer({"batch.global=256"});
  CHECK(batch.find("--batch-tokens") == std::string::npos);
  CHECK(batch.find("sequences of 8192 tokens (--seq)") != std::string::npos);
  CHECK(batch.find("bf16") != std::string::npos);
  // The sequences are those that run.
  CHECK(answer({"model.seq=4096"}).find("of 4096 tokens a step") != std::string::npos);
  CHECK(answer({"precision=fp8"}).find("bf16") == std::string::npos);
  CHECK(answer({"precision.matmul=fp8"}).find("bf16") == std::string::npos);
  CHECK(answer({"precision.gradients=bf16"}).find("bf16 (--set") != std::string::npos);
  CHECK(answer({"software=megatron-core-0.14"}).find("--software") == std::string::npos);
  CHECK(answer({"cluster.fabric=gt-roce-400", "software=megatron-core-0.14", "batch={global: 256, micro: 1}",
                "model.seq=2048", "precision=bf16"})
            .find(" (--") == std::string::npos);
}

TEST_CASE("a question takes what its device has: its arithmetic and the network that it is sold with") {
  const auto left_open = [](const char* device) {
    const Outcome outcome = tests::orrery({"run", "--model", "llama3.2-1b", "--device", device, "--gpus", "16",
                                           "--batch-tokens", "131072", "--jobs", "1"});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const std::size_t at = outcome.out.find("The question left open:");
    REQUIRE(at != std::string::npos);
    return outcome.out.substr(at, outcome.out.find("Where the time") - at);
  };
  const std::string volta = left_open("v100");  // no bf16; a DGX-1 has four ports of 100 Gb/s
  CHECK(volta.find("fp16") != std::string::npos);
  CHECK(volta.find("bf16") == std::string::npos);
  CHECK(volta.find("edr-4x100g") != std::string::npos);
  for (const auto& [device, fabric] : {std::pair("rtx-4090", "roce-1x100g"), std::pair("rtx-pro-6000", "roce-4x200g"),
                                       std::pair("l40s", "roce-4x200g"), std::pair("gb10", "roce-1x200g"),
                                       std::pair("a100-pcie", "roce-4x200g"), std::pair("a100", "selene-hdr")}) {
    INFO(device);
    const std::string said = left_open(device);
    CHECK(said.find(fabric) != std::string::npos);
    CHECK(said.find("bf16") != std::string::npos);
  }
}

TEST_CASE("flags of a question beside a scenario change it, and --out keeps what was run") {
  const Folder folder;
  const std::string file = (folder.path() / "kept.yaml").string();
  const Outcome flags = tests::orrery({"run", "gpt3-6.7b-h100", "--software", "nemo", "--price", "2.5", "--tokens",
                                       "1e12", "--out", file, "--json", "-"});
  INFO(flags.err);
  REQUIRE(flags.status == 0);
  const Outcome sets =
      tests::orrery({"run", "gpt3-6.7b-h100", "--set", "software=nemo-26.08", "--set",
                     "cost.price_per_gpu_hour_usd=2.5", "--set", "training.tokens=1e12", "--json", "-"});
  const Outcome kept = tests::orrery({"run", file, "--json", "-"});
  for (const char* key : {"iteration_time_s", "cost_usd", "time_to_train_s"}) {
    CHECK(json::parse(flags.out)[key] == json::parse(sets.out)[key]);
    CHECK(json::parse(flags.out)[key] == json::parse(kept.out)[key]);
  }
}

TEST_CASE("a question takes files of the user's own, whatever they are called") {
  const Folder folder;
  const std::string model = folder.write("my model: a.yaml", "inherits: llama3.1-8b\nlayers: 16\n");
  const auto step_of = [](const std::vector<std::string>& words) {
    std::vector<std::string> all{"run", "--device", "h100", "--gpus", "8", "--json", "-", "--jobs", "1", "--model"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = tests::orrery(all);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out)["iteration_time_s"].get<double>();
  };
  CHECK(step_of({model, "--set", "batch.micro=1"}) < step_of({"llama3.1-8b", "--set", "batch.micro=1"}));
  // As Hugging Face calls it.
  CHECK(step_of({"meta-llama/Llama-3.1-8B-Instruct"}) == step_of({"llama3.1-8b"}));
}

TEST_CASE("a question that lacks a part is refused with the part, and so are both a file and a question") {
  const auto refused = [](const std::vector<std::string>& words, const char* part) {
    const Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(part) != std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  };
  refused({"run"}, "got no scenario");
  refused({"search", "--model", "llama3.1-8b", "--gpus", "8"}, "without --device");
  refused({"search", "--model", "llama3.1-8", "--device", "h100", "--gpus", "8"}, "llama3.1-8b");
  refused({"run", "eos", "--model", "llama3.1-8b"}, "expected one of the two");
  refused({"run", "eos", "--tensor", "8"}, "--set parallelism.tensor=8");
  refused({"run", "eos", "--sett", "a=b"}, "--set");
  refused({"run", "eos", "--tokens", "many", "--model", "x"}, "expected one of the two");
}

TEST_CASE("words of the field are keys, values and names; of several meanings none is taken") {
  CHECK(scenarios::key_meant("tp") == "parallelism.tensor");
  CHECK(scenarios::key_meant("micro") == "batch.micro");
  CHECK(scenarios::key_meant("parallelism.tensor") == "parallelism.tensor");
  CHECK(scenarios::key_meant("nonsense") == "nonsense");
  CHECK(scenarios::value_meant("parallelism.sharding", "zero3") == "parameters");
  CHECK(scenarios::value_meant("precision.matmul", "float16") == "fp16");
  CHECK(scenarios::value_meant("precision", "fp4") == "nvfp4");
  CHECK(scenarios::value_meant("name", "fp4") == "fp4");
  for (const char* kind : {"devices", "fabrics", "software", "scenarios"}) {
    for (const char* word : {"h100", "a100", "megatron", "nemo", "fsdp", "ndr", "eos"}) {
      const std::string meant = scenarios::name_meant(kind, word, scenarios::shipped(kind));
      const auto names = scenarios::shipped(kind);
      CHECK((meant.empty() || std::find(names.begin(), names.end(), meant) != names.end()));
    }
  }
  // A file is read as it is written.
  sim::Settings document = scenarios::parse_yaml(tests::small_scenario(), "small.yaml");
  document.set_path("cluster.device", sim::Settings::scalar("h100", {"small.yaml", 1, 1}));
  CHECK_THROWS(scenarios::load_scenario(document));
  std::vector<std::string> several;
  CHECK(scenarios::name_meant("models", "b", {"a-b", "b-c"}, &several).empty());
  CHECK(several.size() == 2);
  // Names as others write them, with what a publisher adds; not what was cut off.
  const std::vector<std::string> devices{"rtx-4090-24gb", "rtx-3090-24gb"}, models{"llama3.1-8b", "llama3.1-70b"};
  CHECK(scenarios::name_meant("devices", "RTX4090", devices) == "rtx-4090-24gb");
  CHECK(scenarios::name_meant("models", "Llama-3.1-8B-Instruct", models) == "llama3.1-8b");
  CHECK(scenarios::name_meant("models", "llama3.1-8", models).empty());
  const auto step = [](const std::vector<std::string>& sets) {
    std::vector<std::string> words{"run", "gpt3-6.7b-h100", "--json", "-"};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out)["iteration_time_s"].get<double>();
  };
  CHECK(step({"tp=1", "dp=64", "precision=bfloat16", "device=a100", "zero=1"}) ==
        step({"parallelism.tensor=1", "parallelism.data=64", "precision=bf16", "cluster.device=a100-sxm-80gb",
              "parallelism.sharding=optimizer"}));
  CHECK(tests::orrery({"help", "tp"}).out.find("parallelism.tensor") == 0);
  CHECK(tests::orrery({"help", "zero3"}).out.find("zero3 is parameters of parallelism.sharding") == 0);
  CHECK(tests::orrery({"help", "mfu"}).out.find("mfu_pct (column)") != std::string::npos);
}

TEST_CASE("habits that move the answer speak up: reductions in every pass, trays without a rack's NVLink") {
  const auto said = [](const std::vector<std::string>& sets, const char* part) {
    sim::Settings document = scenarios::read_scenario("gpt3-6.7b-h100", sets);
    const auto& all = scenarios::load_scenario(document).job.assumptions;
    return std::any_of(all.begin(), all.end(),
                       [&](const std::string& one) { return one.find(part) != std::string::npos; });
  };
  // 512 sequences over 32 replicas of micro-batches of 2: eight backward passes.
  CHECK(said({"parallelism.sharding=gradients"}, "reduced in each of 8 backward passes"));
  CHECK_FALSE(said({}, "backward passes"));
  CHECK_FALSE(said({"parallelism.sharding=gradients", "batch.global=64"}, "backward passes"));  // one pass
  CHECK(said({"parallelism.sharding=parameters"}, "in each of 8 micro-batches"));
  CHECK(said({"cluster.device=gb200", "cluster.gpus_per_node=4"}, "joins trays of 4 gb200"));
  CHECK_FALSE(said({"cluster.device=gb200", "cluster.gpus_per_node=4", "cluster.fabric=nvl72-ndr"}, "joins trays"));
  // 2048 tokens in documents of 512; two ranks share a sequence by exchanging heads.
  const std::vector<std::string> packed{"batch.document_tokens=512", "software=nemo-26.08", "model.positions=rotary"};
  auto shared = packed;
  shared.insert(shared.end(),
                {"parallelism.context=2", "parallelism.data=null", "parallelism.context_method=all_to_all"});
  auto newest = shared;
  newest.insert(newest.end(), {"software.recipe.rotary=fused", "software.recipe.head-exchange=at_once"});
  CHECK(said(packed, "rotates the 4 documents of a packed sequence one by one"));
  CHECK_FALSE(said(packed, "Transformer Engine"));
  CHECK(said(shared, "--set software.recipe.head-exchange=at_once (Transformer Engine v2.18)"));
  CHECK_FALSE(said(newest, "one by one"));
}
