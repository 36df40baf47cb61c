// Is what requests ask of each token counted as the engine's release does it, and told where they leave it open?
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using nlohmann::json;
using tests::Outcome;

namespace {

/// Seconds of the sampler in an iteration of 64 sequences, and what is assumed.
struct Sampler {
  double seconds = 0;
  std::string assumptions;
};

Sampler sampler(std::vector<std::string> sets) {
  std::vector<std::string> words{"run", "llama3.1-70b-serving-h100", "--json", "-"};
  sets.insert(sets.end(), {"workload.kind=decode", "workload.sequences=64"});
  for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
  const Outcome outcome = tests::orrery(words);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const json result = json::parse(outcome.out);
  Sampler out{0, result.at("assumptions").dump()};
  for (const json& kernel : result.at("kernels"))
    if (kernel.at("kernel") == "sampler") out.seconds += kernel.at("seconds").get<double>();
  return out;
}

}  // namespace

TEST_CASE("what requests leave open is the model's, as the engine takes it") {
  const Sampler open = sampler({}), model = sampler({"traffic.sampling=model"}),
                said = sampler({"traffic.sampling={temperature: 0.6, top_p: 0.9}"});
  CHECK(open.seconds == model.seconds);
  CHECK(open.seconds == said.seconds);
  CHECK(open.assumptions.find("temperature 0.6, top_p 0.9") != std::string::npos);
  CHECK(said.assumptions.find("traffic.sampling") == std::string::npos);
  // A key of requests takes the place of the model's, and leaves the others.
  CHECK(sampler({"traffic.sampling={top_p: 1}"}).seconds < open.seconds);
  CHECK(sampler({"traffic.sampling={logprobs: 5}"}).seconds > open.seconds);
  CHECK(sampler({"traffic.sampling={presence_penalty: 0.5}"}).seconds > open.seconds);
}

TEST_CASE("releases sort all logits, look for a threshold, draw again, or take the greatest") {
  const auto of = [](const char* software, const char* sampling) {
    return sampler({std::string("software=") + software, std::string("traffic.sampling=") + sampling}).seconds;
  };
  CHECK(of("vllm-0.15", "greedy") == of("vllm-0.17", "greedy"));
  CHECK(of("vllm-0.15", "model") > of("vllm-0.17", "model"));
  CHECK(of("vllm-0.17", "model") > of("vllm-0.21", "model"));
  CHECK(of("vllm-0.21", "model") > of("vllm-0.21", "greedy"));
  CHECK(of("trtllm-1.0", "{top_p: 0.5}") == of("trtllm-1.0", "greedy"));
  CHECK(sampler({"software=trtllm-1.0", "traffic.sampling={top_p: 0.5}"}).assumptions.find("is not looked at") !=
        std::string::npos);
}

TEST_CASE("what no token can be drawn by is refused") {
  for (const char* set : {"traffic.sampling={top_p: 0}", "traffic.sampling={temperature: -1}",
                          "traffic.sampling={top_k: -1}", "traffic.sampling=hot", "traffic.sampling=[1]"}) {
    INFO(set);
    const Outcome outcome = tests::orrery({"serving", "llama3.1-70b-serving-h100", "--set", set});
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find("traffic.sampling") != std::string::npos);
    CHECK(outcome.err.find("expected") != std::string::npos);
  }
}

TEST_CASE("a benchmark behind a server's launch says what comes, and how tokens are drawn") {
  const tests::Folder folder;
  const auto imported = [&](const char* engine, const std::string& script) {
    const Outcome outcome = tests::orrery({"import", engine, folder.write("launch.sh", script)});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return outcome.out;
  };
  const auto holds = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string serve = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 64 &\n";
  const std::string bench =
      imported("vllm", serve +
                           "vllm bench serve --dataset-name random --random-input-len 1000 "
                           "--random-output-len 200 --random-range-ratio 0.1 "
                           "--max-concurrency 16 --ignore-eos --unheard 7 --num-prompts 160 --switched\n");
  CHECK(holds(bench, "--unheard 7"));
  CHECK(holds(bench, "--switched"));
  CHECK(holds(bench, "--ignore-eos: the scenario is the same without"));  // answers are as long as they are asked for
  CHECK(holds(bench, "concurrency: 16"));
  CHECK(holds(bench, "requests: 160"));
  CHECK(holds(bench, "sampling: greedy"));
  CHECK(holds(bench, "min: 900"));
  CHECK(holds(bench, "max: 1100"));
  CHECK_FALSE(holds(bench, "does not say what comes"));
  const std::string older =
      imported("sglang",
               "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct &\n"
               "python3 -m sglang.bench_serving --dataset-name random --random-input 1000 --random-output 200 "
               "--random-range-ratio 0.5 --request-rate 4 --num-prompts 100 --temperature 0.7 --top-p 0.9\n");
  CHECK(holds(older, "rate: 4/s"));
  CHECK(holds(older, "min: 500"));
  CHECK(holds(older, "top_p: 0.9"));
  // Without a benchmark the server's own flags say what requests leave open.
  const std::string own = imported("vllm", "vllm serve meta-llama/Llama-3.1-8B-Instruct --generation-config vllm\n");
  CHECK(holds(own, "temperature: 1"));
  CHECK(holds(imported("vllm",
                       "vllm serve meta-llama/Llama-3.1-8B-Instruct --override-generation-config "
                       "'{\"top_p\": 0.5, \"eos_token_id\": 3}'\n"),
              "top_p: 0.5"));
}
