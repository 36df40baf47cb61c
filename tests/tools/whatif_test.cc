// Does the engine behind the what-if page answer as `orrery run` does, and survive whatever it is asked?
#include <nlohmann/json.hpp>

#include "scenarios/rl.h"
#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "sim/text_file.h"
#include "tests/catch.h"
#include "tools/report/report.h"
#include "tools/study/rl.h"
#include "tools/study/serving.h"
#include "tools/whatif/engine.h"
#include "tools/whatif/page_text.h"

using namespace orrery;
using nlohmann::json;
using tools::WhatIfEngine;

namespace {

const std::string kJob =
    "name: small\n"
    "cluster: {device: h100-sxm-80gb, gpus: 64, fabric: ndr-rail}\n"
    "model: gpt3-6.7b\n"
    "parallelism: {tensor: 2, pipeline: 4}\n"
    "batch: {global: 256, micro: 2}\n";

json ask(WhatIfEngine& engine, const json& request) { return json::parse(engine.answer(request.dump())); }

json run(WhatIfEngine& engine, const std::string& text, const std::vector<std::string>& sets = {}) {
  return ask(engine, {{"do", "run"}, {"text", text}, {"sets", sets}});
}

/// The same step without the engine of the page.
json plain_run(const std::string& text, const std::vector<std::string>& sets) {
  sim::Settings document = scenarios::parse_yaml(text, "scenario.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  const scenarios::Scenario scenario = scenarios::load_scenario(document);
  workloads::Question options;
  options.counts_memory = true;
  return json::parse(tools::report_json(scenario, workloads::simulate_step(scenario.job, options)).dump());
}

}  // namespace

TEST_CASE("the page's engine reports what run reports, whatever it was asked before") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  std::vector<double> seconds;
  for (const std::vector<std::string>& sets : std::vector<std::vector<std::string>>{
           {}, {"batch.micro=1"}, {"parallelism.tensor=4"}, {"cluster.gpus=128"}, {}}) {
    json got = run(engine, kJob, sets)["result"], expected = plain_run(kJob, sets);
    got.erase("wall_s");
    expected.erase("wall_s");
    CHECK(got == expected);
    seconds.push_back(got["iteration_time_s"]);
  }
  CHECK(seconds.front() == seconds.back());
  CHECK(seconds[1] != seconds[0]);
}

TEST_CASE("the page is told what the keys resolve to") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const json layout = run(engine, kJob, {"parallelism.tensor=4"})["layout"];
  CHECK(layout["parallelism.data"] == 64 / (4 * 4));
  CHECK(layout["microbatches"] == 256 / (4 * 2));
  CHECK(layout["parallelism.schedule"] == "1f1b");
  CHECK(layout["cluster.device"] == "h100-sxm-80gb");
  const json text = run(engine, kJob, {"parallelism.tensor=4"})["yaml"];  // and the whole as a scenario of its own
  CHECK(run(engine, text.get<std::string>())["layout"] == layout);
}

TEST_CASE("points of the page's sweep are those of a step each") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const json sets = {{"batch.micro=1"}, {"batch.micro=4"}, {"parallelism.tensor=3"}};
  const json points = ask(engine, {{"do", "points"}, {"text", kJob}, {"points", sets}})["points"];
  REQUIRE(points.size() == 3);
  CHECK(points[0]["iteration_s"] == run(engine, kJob, {"batch.micro=1"})["result"]["iteration_time_s"]);
  CHECK(points[1]["iteration_s"] == run(engine, kJob, {"batch.micro=4"})["result"]["iteration_time_s"]);
  CHECK(points[2]["status"] == "infeasible");
}

TEST_CASE("what would fit is found where a step does not fit, and is not searched for where nobody asks") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const std::vector<std::string> sets{"parallelism={tensor: 1, pipeline: 1}", "batch.global=512", "batch.micro=8",
                                      "recompute=none"};
  json request{{"do", "run"}, {"text", kJob}, {"sets", sets}, {"remedies", false}};
  const json brief = ask(engine, request)["result"]["memory"];
  REQUIRE_FALSE(brief["fits"].get<bool>());
  CHECK(brief["would_fit"].empty());
  request["do"] = "remedies";
  const json remedies = ask(engine, request)["would_fit"];
  REQUIRE_FALSE(remedies.empty());
  CHECK(remedies == run(engine, kJob, sets)["result"]["memory"]["would_fit"]);
  std::vector<std::string> changed = sets;
  for (const json& set : remedies[0]["set"]) changed.push_back(set);
  CHECK(run(engine, kJob, changed)["result"]["memory"]["fits"] == true);
}

namespace {

std::string shipped_text(const std::string& name) {
  return sim::read_text(scenarios::data_directory() + "/scenarios/" + name + ".yaml", "a YAML file");
}

}  // namespace

TEST_CASE("the page answers what is served and post-trained as the commands do") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const std::string served = shipped_text("serving/llama3.1-70b-serving-h100");
  const std::vector<std::string> sets{"serving.pools[0].parallelism.tensor=2", "serving.pools[0].replicas=4",
                                      "precision.weights=fp8", "traffic.duration=60 s"};
  sim::Settings document = scenarios::parse_yaml(served, "scenario.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  const auto study = tools::study_serving(scenarios::load_serving(document));
  const json answer = run(engine, served, sets);
  CHECK(answer["kind"] == "serve");
  CHECK(answer["result"] == json::parse(tools::serving_json(study).dump()));
  CHECK(answer["layout"]["serving.pools[0].parallelism.tensor"] == 2);
  CHECK(answer["layout"]["traffic"] == "open loop");
  CHECK(answer["layout"]["serving.slo.ttft"] == "500 ms");
  CHECK(run(engine, answer["yaml"].get<std::string>())["result"] == answer["result"]);

  const std::string trained = shipped_text("rl/qwen3-32b-grpo-256h100-separate");
  const json step = run(engine, trained, {"rl.prompts=64", "rl.mini_batch=1024"});
  sim::Settings rl = scenarios::parse_yaml(trained, "scenario.yaml");
  scenarios::apply_set(rl, "rl.prompts=64");
  scenarios::apply_set(rl, "rl.mini_batch=1024");
  CHECK(step["kind"] == "rl");
  CHECK(step["result"] == json::parse(tools::rl_json(tools::study_rl(scenarios::load_rl(rl))).dump()));
  CHECK(step["layout"]["rl.placement"] == "separate");
}

TEST_CASE("points of served scenarios, loads that a browser may not ask for, and files of requests") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const std::string served = shipped_text("serving/llama3.1-70b-serving-h100");
  const json sets = {{"traffic.rate=1/s", "traffic.duration=60 s"}, {"serving.pools[0].parallelism.tensor=3"}};
  const json points = ask(engine, {{"do", "points"}, {"text", served}, {"points", sets}})["points"];
  REQUIRE(points.size() == 2);
  CHECK(points[0]["output_throughput"] ==
        run(engine, served, {"traffic.rate=1/s", "traffic.duration=60 s"})["result"]["output_throughput"]);
  CHECK(points[1]["status"] == "infeasible");
  const std::string many = run(engine, served, {"traffic.rate=1000000/s"})["error"];
  CHECK(many.find("expected at most") != std::string::npos);
  const std::string trace = run(engine, served, {"traffic={trace: /etc/passwd}"})["error"];
  CHECK(trace.find("files are read on the command line alone") != std::string::npos);
}

TEST_CASE("an item of a list is set by its number, and only where there is one") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const std::string served = shipped_text("serving/llama3.1-70b-serving-h100");
  for (const auto& [set, said] : std::vector<std::pair<std::string, std::string>>{
           {"serving.pools[1].replicas=2", "an item of serving.pools from 0 to 0"},
           {"serving.pools[x].replicas=2", "an item of serving.pools"},
           {"serving.slo[0].ttft=2", "serving.slo to be a list"},
           {"serving.pools[0]replicas=2", "a key such as serving.pools[0].name"},
           {"serving.pools[0].=2", "a key such as"}}) {
    INFO(set);
    CHECK(run(engine, served, {set})["error"].get<std::string>().find(said) != std::string::npos);
  }
}

TEST_CASE("a mistake comes back as the line of the command line") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const json reply = ask(engine, {{"do", "run"}, {"file", "mine.yaml"}, {"text", "cluster: {gpus: many}\n"}});
  CHECK(reply["error"].get<std::string>().starts_with("mine.yaml:1:11: cluster.gpus: "));
}

TEST_CASE("who asks over HTTP has no file read") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped), own(WhatIfEngine::Names::files);
  for (const char* name : {"/dev/null", "./a.yaml", "b.yaml"}) {
    const std::string set = std::string("model=") + name;
    INFO(set);
    const std::string refusal = run(engine, kJob, {set})["error"];
    CHECK(refusal.find("files are read on the command line alone") != std::string::npos);
    const std::string other = run(own, kJob, {set})["error"];
    CHECK(other.find("files are read on the command line alone") == std::string::npos);
  }
  // Whatever key names a document, and however deep: the library opens none.
  for (const char* set : {"cluster.device=/etc/os-release", "cluster.fabric=./a.yaml", "software=a.yaml",
                          "model={inherits: /dev/null}", "software={inherits: nemo-25.09, without: [/etc/os-release]}",
                          "software={inherits: nemo-25.09, without: [a.yml]}",
                          "software={inherits: nemo-25.09, features: [./secret.yaml]}",
                          "software={inherits: nemo-25.09, collectives: ../secret.yaml}"}) {
    INFO(set);
    const std::string refusal = run(engine, kJob, {set})["error"];
    CHECK(refusal.find("files are read on the command line alone") != std::string::npos);
  }
  const std::string adapters = run(
      engine, kJob,
      {"software={inherits: nemo-25.09, adapters: CMakePresets.json/x}", "finetune={kind: lora, rank: 4}"})["error"];
  CHECK(adapters.find("files are read on the command line alone") != std::string::npos);
  CHECK(run(engine, kJob).contains("result"));
}

TEST_CASE("points that nobody waits for any more are dropped") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const json request{{"do", "points"}, {"text", kJob}, {"points", std::vector<std::vector<std::string>>(100)}};
  int asked = 0;
  const json reply = json::parse(engine.answer(request.dump(), [&] { return ++asked < 3; }));
  CHECK(reply["error"] == "request: nobody waits for its answer");
  CHECK(asked == 3);
}

TEST_CASE("no request ends the page's engine") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  for (const char* request :
       {"", "{", "null", "[]", "\"run\"", "{}", "{\"do\": 1}", "{\"do\": \"dance\"}", "{\"do\": \"run\"}",
        "{\"do\": \"run\", \"text\": []}", "{\"do\": \"run\", \"text\": \"a: [\"}",
        "{\"do\": \"run\", \"text\": \"- {}\\n- {}\\n\"}", "{\"do\": \"run\", \"text\": \"a: 1\", \"sets\": 7}",
        "{\"do\": \"points\", \"text\": \"a: 1\"}", "{\"do\": \"points\", \"text\": \"a: 1\", \"points\": [7]}",
        "{\"do\": \"import\", \"form\": \"doc\", \"text\": \"\"}",
        "{\"do\": \"import\", \"form\": \"hf\", \"text\": \"{\", \"file\": \"../../x\"}"}) {
    INFO(request);
    const json reply = json::parse(engine.answer(request));
    if (reply.contains("points")) {
      CHECK(reply["points"][0]["status"] == "infeasible");
    } else {
      REQUIRE(reply.contains("error"));
      CHECK(reply["error"].get<std::string>().find('\n') == std::string::npos);
    }
  }
  for (const std::size_t depth : {80'000, 2'000'000}) {
    const std::string request = "{\"do\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
    CHECK(json::parse(engine.answer(request))["error"] ==
          "request:1:71: got more than 64 levels of nesting, expected a request");
  }
  CHECK(run(engine, kJob).contains("result"));
}

TEST_CASE("a launch line becomes a scenario that runs") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  const std::string line =
      "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --tensor-model-parallel-size 4 "
      "--pipeline-model-parallel-size 2 --micro-batch-size 2 --global-batch-size 64 --bf16";
  const json draft = ask(engine, {{"do", "import"}, {"form", "megatron"}, {"text", line}, {"file", "launch.sh"}});
  REQUIRE(draft.contains("yaml"));
  CHECK(run(engine, draft["yaml"])["layout"]["parallelism.tensor"] == 4);
}

TEST_CASE("the served page has every part and no engine of its own") {
  const std::string page = tools::whatif_page();
  CHECK(page.find("<!-- insert:") == std::string::npos);
  CHECK(page.find("id=\"engine-wasm\"") == std::string::npos);
  for (const char* part : {"function new_engine()", "function build_controls(", "function start_sweep()", "Chart.js v"})
    CHECK(page.find(part) != std::string::npos);
}
