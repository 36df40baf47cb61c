// Served scenarios through the commands: two pools, launch lines of servers, searches, requests of a measured run.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/serving_flags.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;

namespace {

constexpr const char* kApart = R"(name: apart
cluster: {device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}
model: llama3.1-8b
precision: {weights: bf16, kv_cache: bf16}
software: vllm-0.15
serving:
  pools:
  - {role: prefill, replicas: 2, parallelism: {tensor: 2}}
  - {role: decode, replicas: 1, parallelism: {tensor: 4}}
  slo: {ttft: 400 ms, tpot: 20 ms, percentile: 95}
traffic: {rate: 12/s, input: 700, output: 60, duration: 15 s}
)";

json answer_of(const std::vector<std::string>& words) {
  const Outcome outcome = tests::orrery(words);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

TEST_CASE("what is handed over between pools is every prompt's cache, and its time is part of a request's") {
  const Folder folder;
  const std::string file = folder.write("apart.yaml", kApart);
  const json result = answer_of({"serving", file, "--json", "-"});
  REQUIRE(result.at("pools").size() == 2);
  CHECK(result.at("pools")[0].at("role") == "prefill");
  CHECK(result.at("gpus") == 8);
  // Llama 3.1 8B: 32 layers of 8 heads of 128 channels, keys and values of two bytes.
  const double bytes = 32 * 8 * 128 * 2 * 2.0;
  CHECK(result.at("kv_bytes_handed_over").get<double>() ==
        Approx(bytes * result.at("total_input_tokens").get<double>()));
  double sum = 0;
  for (const auto& [name, seconds] : result.at("time_s").items()) sum += seconds.get<double>();
  CHECK(sum == Approx(result.at("mean_e2el_ms").get<double>() / 1e3).epsilon(1e-6));
  // A rank of the first pool sends what two of the second take, over NVLink: both pools lie in one node.
  const double transfer = result.at("time_s").at("transfer").get<double>();
  CHECK(transfer > 700 * bytes / 2 / 450e9);
  CHECK(transfer < 0.001);
  // Each a node: every rank sends an eighth by its NIC.
  const json far = answer_of({"serving", file, "--json", "-", "--set",
                              "serving.pools=[{role: prefill, parallelism: {tensor: 8}}, {role: decode, parallelism: "
                              "{tensor: 8}}]"});
  CHECK(far.at("time_s").at("transfer").get<double>() > 700 * bytes / 8 / 50e9);
  CHECK(far.at("time_s").at("transfer").get<double>() < 3 * 700 * bytes / 8 / 50e9);
  const json slower = answer_of({"serving", file, "--json", "-", "--set", "serving.kv_transfer={latency: 30 ms}"});
  CHECK(slower.at("time_s").at("transfer").get<double>() == Approx(transfer + 0.03).epsilon(0.05));
  const json layered =
      answer_of({"serving", file, "--json", "-", "--set", "serving.kv_transfer={mode: layer_by_layer}"});
  CHECK(layered.at("time_s").at("transfer").get<double>() < transfer);
}

TEST_CASE("drafts and copies of experts, halves that overlap: each moves a mixture's answer as it should") {
  const Folder folder;
  const std::string file = folder.write("moe.yaml", R"(name: moe
cluster: {device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}
model: deepseek-v3
precision: {weights: fp8-block, kv_cache: bf16}
software: sglang-0.5
serving: {pools: [{parallelism: {attention_data: 16, expert: 16}, max_sequences: 128}]}
traffic: {concurrency: 512, requests: 600, input: 256, output: 128}
)");
  const auto pool = [](const std::string& more) {
    return "serving.pools=[{parallelism: {attention_data: 16, expert: 16}, max_sequences: 128" + more + "}]";
  };
  const json plain = answer_of({"serving", file, "--json", "-"});
  const json drafted =
      answer_of({"serving", file, "--json", "-", "--set", pool(", speculative: {tokens: 1, accepted: 0.8}")});
  const json in_vain =
      answer_of({"serving", file, "--json", "-", "--set", pool(", speculative: {tokens: 1, accepted: 0}")});
  const json copies = answer_of({"serving", file, "--json", "-", "--set", pool(", redundant_experts: 16")});
  const double tpot = plain.at("mean_tpot_ms").get<double>();
  CHECK(drafted.at("mean_tpot_ms").get<double>() < tpot);
  CHECK(in_vain.at("mean_tpot_ms").get<double>() > tpot);
  CHECK(copies.at("kv_cache").at("blocks").get<double>() < plain.at("kv_cache").at("blocks").get<double>());
  const json overlapped = answer_of({"serving", file, "--json", "-", "--set",
                                     "software={inherits: sglang-0.5, kernels: {micro_batches: overlapped}}"});
  CHECK(overlapped.at("mean_e2el_ms").get<double>() <= plain.at("mean_e2el_ms").get<double>());
}

TEST_CASE("a launch line of a server becomes a scenario that runs, and no flag of it is dropped without a word") {
  const Folder folder;
  struct Line {
    const char *engine, *text;
    std::vector<std::string> says;
  };
  const std::vector<Line> lines{
      {"vllm",
       "vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2 --max-num-seqs 64 \\\n"
       "  --gpu-memory-utilization=0.85 --kv-cache-dtype fp8 --no-enable-prefix-caching --enforce-eager --port 80 "
       "--zzz 7 # more",
       {"model: llama3.1-8b", "tensor: 2", "max_sequences: 64", "memory_utilization: 0.85", "kv_cache: fp8",
        "prefix_caching: false", "graphs: none", "--port 80", "--zzz 7"}},
      {"sglang",
       "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp 16 --dp 8 --enable-dp-attention "
       "--ep 16 --page-size 64",
       {"model: deepseek-v3", "tensor: 2", "attention_data: 8", "expert: 16", "block_tokens: 64", "fp8-block"}},
      {"sglang",
       "python -m sglang.launch_server --model-path Qwen/Qwen3.5-397B-A17B-FP8 --tp 8 --quantization fp8 "
       "--mamba-ssm-dtype bfloat16 --scheduler-recv-interval 30 --stream-interval 50",
       {"model: qwen3.5-397b-a17b", "tensor: 8", "weights: fp8-block", "states: bf16", "polls_every: 30",
        "--stream-interval 50"}},
      // Experts on all tensor ranks with an exchange of their own; gpt-oss as it was published, in MXFP4.
      {"sglang",
       "sglang serve --model-path deepseek-ai/DeepSeek-R1 --tp 16 --moe-a2a-backend deepep",
       {"model: deepseek-v3", "tensor: 16", "expert: 16"}},
      {"vllm",
       "python3 -m vllm.entrypoints.openai.api_server --model openai/gpt-oss-20b --tensor-parallel-size=2",
       {"model: gpt-oss-20b", "tensor: 2", "weights: bf16", "experts: mxfp4"}},
      // Published in blocks of fp8, which no part of the name says; DeepSeek-V3.2 is not V3.
      {"sglang",
       "python -m sglang.launch_server --model-path moonshotai/Kimi-K2-Instruct --tp 16",
       {"model: kimi-k2", "weights: fp8-block"}},
      {"vllm", "vllm serve deepseek-ai/DeepSeek-V3.2 -tp 16", {"model: deepseek-v3.2", "weights: fp8-block"}},
      {"vllm",
       "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model meta-llama/Llama-3.1-8B-Instruct "
       "--max-num-seqs 64",
       {"model: llama3.1-8b", "max_sequences: 64", "--gpus all"}},
      {"trtllm", "trtllm-serve serve Qwen/Qwen3-32B --tp_size 4", {"model: qwen3-32b", "tensor: 4"}},
      {"trtllm",
       "trtllm-serve Qwen/Qwen3-32B --tp_size 4 --max_batch_size 32 --max_num_tokens 4096 --backend pytorch",
       {"model: qwen3-32b", "tensor: 4", "max_sequences: 32", "max_batched_tokens: 4096", "--backend pytorch"}}};
  for (const Line& line : lines) {
    INFO(line.engine);
    const std::string file = folder.write(std::string(line.engine) + ".sh", line.text);
    const std::string out = folder.file(std::string(line.engine) + ".yaml");
    const Outcome outcome = tests::orrery({"import", line.engine, file, "--out", out});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const std::string written = tests::read_file(out);
    INFO(written);
    for (const std::string& part : line.says) CHECK(written.find(part) != std::string::npos);
    const json result = answer_of({"serving", out, "--json", "-", "--set", "traffic.requests=64"});
    CHECK(result.at("completed") == 64);
    // There and back.
    const Outcome exported = tests::orrery({"export", line.engine, out});
    INFO(exported.err);
    REQUIRE(exported.status == 0);
    const std::string again = folder.write(std::string(line.engine) + "-again.sh", exported.out);
    const std::string back = folder.file(std::string(line.engine) + "-again.yaml");
    const Outcome second =
        tests::orrery({"import", line.engine, again, "--out", back, "--set", "precision.weights=bf16"});
    INFO(second.err);
    REQUIRE(second.status == 0);
    for (const std::string part : {"tensor: ", "expert: ", "attention_data: "}) {
      const auto of = [&](const std::string& text) { return text.substr(text.find(part), part.size() + 2); };
      CHECK(of(tests::read_file(back)) == of(written));
    }
  }
}

TEST_CASE("every flag of every server is taken, or says why it is not") {
  for (const char* engine : {"vllm", "sglang", "trtllm"}) {
    const tools::ServerFlags& server = tools::server_flags(engine);
    for (const tools::ServerFlag& flag : server.flags) {
      INFO(engine << " " << flag.names);
      CHECK((flag.key > tools::ServerKey::unmodelled) == flag.why.empty());
      CHECK(server.find(flag.names.substr(0, flag.names.find(' '))) == &flag);
    }
  }
}

TEST_CASE("a launch line that cannot be read is refused in one line") {
  for (const auto& [engine, text, part] :
       {std::tuple("vllm", "vllm serve --tensor-parallel-size 2", "no model"),
        {"vllm", "vllm serve $MODEL", "--env MODEL=VALUE"},
        {"vllm", "vllm serve llama3.1-8b -tp many", "many"},
        {"sglang", "python -m sglang.launch_server --model llama3.1-8b --tp 4 --dp 3 --enable-dp-attention", "divisor"},
        {"trtllm", "trtllm-serve 'open", "does not close it"}}) {
    const Outcome outcome = tests::orrery({"import", engine, text});
    INFO(text << "\n" << outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(part) != std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
}

TEST_CASE("a search finds fleets that keep what is promised, each by the keys that it prints") {
  const Folder folder;
  const std::string file = folder.write("open.yaml", R"(name: open
cluster: {device: h100-sxm-80gb, gpus: 8}
model: llama3.1-8b
software: vllm-0.15
serving: {slo: {ttft: 300 ms, tpot: 12 ms, percentile: 95}}
traffic: {rate: 20/s, input: 700, output: 60, duration: 5 s}
)");
  const json found = answer_of({"search", file, "--json", "-"});
  REQUIRE(found.at("rows").size() > 1);
  std::int64_t before = 0;
  for (const json& row : found.at("rows")) {
    CHECK(row.at("kept_pct").get<double>() >= 95);
    CHECK(row.at("gpus").get<std::int64_t>() >= before);
    before = row.at("gpus").get<std::int64_t>();
  }
  const json& first = found.at("rows")[0];
  std::vector<std::string> words{"serving", file, "--json", "-"};
  for (const json& set : first.at("set")) words.insert(words.end(), {"--set", set.get<std::string>()});
  const json again = answer_of(words);
  CHECK(again.at("gpus") == first.at("gpus"));
  CHECK(again.at("output_tokens_per_s_per_gpu") == first.at("output_tokens_per_s_per_gpu"));
  const json front = answer_of({"search", file, "--json", "-", "--set",
                                "traffic={concurrency: 8, input: 256, output: 32}", "--set", "serving.slo=null"});
  double user = 1e30, gpu = 0;
  REQUIRE(front.at("rows").size() > 1);
  for (const json& row : front.at("rows")) {
    CHECK(row.at("tokens_per_s_per_user").get<double>() < user);
    CHECK(row.at("output_tokens_per_s_per_gpu").get<double>() > gpu);
    user = row.at("tokens_per_s_per_user").get<double>();
    gpu = row.at("output_tokens_per_s_per_gpu").get<double>();
    // What fleets of a search share does not tell: each is what it is by itself.
    words = {"serving", file, "--json", "-", "--set", "traffic={concurrency: 8, input: 256, output: 32}"};
    for (const json& set : row.at("set")) words.insert(words.end(), {"--set", set.get<std::string>()});
    const json alone = answer_of(words);
    CHECK(alone.at("output_tokens_per_s_per_gpu") == row.at("output_tokens_per_s_per_gpu"));
    CHECK(alone.at("tokens_per_s_per_user") == row.at("tokens_per_s_per_user"));
    CHECK(alone.at("mean_ttft_ms").get<double>() == 1e3 * row.at("ttft_s").get<double>());
  }
}

TEST_CASE("a search from pools apart tries them together too, where nothing is handed over") {
  const Folder folder;
  const std::string file = folder.write("apart.yaml", R"(name: apart
cluster: {device: h100-sxm-80gb, gpus: 4}
model: llama3.1-8b
software: vllm-0.15
serving:
  pools: [{role: prefill, parallelism: {tensor: 1}}, {role: decode, parallelism: {tensor: 1}}]
  kv_transfer: {mode: whole, latency: 3 ms}
traffic: {concurrency: 8, input: 256, output: 32}
)");
  const json front = answer_of({"search", file, "--json", "-"});
  REQUIRE(front.at("rows").size() > 1);
  const json& best = front.at("rows").back();
  std::vector<std::string> words{"serving", file, "--json", "-"};
  for (const json& set : best.at("set")) words.insert(words.end(), {"--set", set.get<std::string>()});
  const json alone = answer_of(words);
  CHECK(alone.at("output_tokens_per_s_per_gpu") == best.at("output_tokens_per_s_per_gpu"));
  // The most tokens of a GPU are written where nothing is handed over.
  CHECK(std::count(words.begin(), words.end(), "serving.kv_transfer=null") == 1);
}

TEST_CASE("a search finds what the mean of a load takes, and what its peak does") {
  const Folder folder;
  const std::string file = folder.write("peak.yaml", R"(name: peak
cluster: {device: h100-sxm-80gb, gpus: 8}
model: llama3.1-70b
precision: {weights: fp8, kv_cache: fp8}
software: vllm-0.15
serving: {slo: {ttft: 400 ms, tpot: 28 ms, percentile: 80, window: 6 s}}
traffic: {rate: 8/s, levels: [0.5, 0.5, 0.5, 0.5, 3], input: 900, output: 80, duration: 40 s, sampling: greedy}
)");
  const json found = answer_of({"search", file, "--json", "-"});
  const json &mean = found.at("rows"), &peak = found.at("peak");
  REQUIRE(!mean.empty());
  REQUIRE(!peak.at("rows").empty());
  // The last fifth has three times the mean.
  CHECK(peak.at("requests_per_s").get<double>() > 2 * peak.at("mean_requests_per_s").get<double>());
  CHECK(peak.at("window_s").get<double>() == Approx(6));
  CHECK(peak.at("rows")[0].at("gpus").get<std::int64_t>() >= mean[0].at("gpus").get<std::int64_t>());
  for (const json& row : peak.at("rows")) {
    CHECK(row.at("peak_kept_pct").get<double>() >= 80);
    CHECK(row.at("kept_pct").get<double>() >= 80);
  }
  // Of each kind the first in the list.
  for (const auto& [kind, apart] : {std::pair("together", false), {"apart", true}}) {
    const auto first =
        std::find_if(mean.begin(), mean.end(), [&, &is = apart](const json& row) { return row.at("apart") == is; });
    if (first != mean.end()) CHECK(found.at(kind).at("layout") == first->at("layout"));
  }
}

TEST_CASE("a search of a mixture tries experts on GPUs of their own") {
  const Folder folder;
  const std::string file = folder.write("mixture.yaml", R"(name: mixture
cluster: {device: h100-sxm-80gb, gpus: 8}
model: deepseek-v2-lite
software: sglang-0.5
serving: {slo: {ttft: 2 s, tpot: 60 ms, percentile: 80}}
traffic: {rate: 10/s, input: 500, output: 40, duration: 4 s}
)");
  const json found = answer_of({"search", file, "--top", "1000", "--json", "-"});
  const auto apart = [](const json& row) {
    return row.at("set")[0].get<std::string>().find("expert_gpus") != std::string::npos;
  };
  const json& rows = found.at("rows");
  const auto first = std::find_if(rows.begin(), rows.end(), apart);
  REQUIRE(first != rows.end());
  CHECK(first->at("apart") == true);
  const json again = answer_of({"serving", file, "--json", "-", "--set", first->at("set")[0].get<std::string>()});
  CHECK(again.at("gpus") == first->at("gpus"));
  CHECK(again.at("output_tokens_per_s_per_gpu") == first->at("output_tokens_per_s_per_gpu"));
}

TEST_CASE("together or apart is asked for each pair of lengths, and each answer is that of its own search") {
  const Folder folder;
  const std::string file = folder.write("open.yaml", R"(name: open
cluster: {device: h100-sxm-80gb, gpus: 4}
model: llama3.1-8b
software: vllm-0.15
serving: {slo: {ttft: 500 ms, tpot: 12 ms, percentile: 90}}
traffic: {rate: 10/s, input: 700, output: 60, duration: 4 s}
)");
  const json both = answer_of({"search", file, "--lengths", "300:100,2000:20", "--json", "-"});
  REQUIRE(both.at("workloads").size() == 2);
  const json alone =
      answer_of({"search", file, "--set", "traffic.input=2000", "--set", "traffic.output=20", "--json", "-"});
  CHECK(both.at("workloads")[1].at("input_tokens") == 2000);
  CHECK(both.at("workloads")[1].at("together") == alone.at("together"));
  CHECK(both.at("workloads")[1].at("apart") == alone.at("apart"));
  for (const char* lengths : {"300", "300:", "a:4", "300:0", "1:2,"}) {
    const Outcome refused = tests::orrery({"search", file, "--lengths", lengths});
    INFO(lengths);
    CHECK(refused.status == 2);
    CHECK(refused.err.find("as in 1024:128") != std::string::npos);
  }
}

TEST_CASE("advice for pools apart moves replicas and caches, and puts the pools together") {
  const Folder folder;
  const std::string file = folder.write("apart.yaml", kApart);
  const json advice = answer_of({"advise", file, "--json", "-"});
  std::string all;
  for (const json& row : advice.at("rows")) {
    all += row.at("change").get<std::string>() + "\n";
    std::vector<std::string> words{"serving", file, "--json", "-"};
    for (const json& set : row.at("set")) words.insert(words.end(), {"--set", set.get<std::string>()});
    CHECK(answer_of(words).at("gpus").get<double>() == Approx(row.at("gpus").get<double>()));
  }
  INFO(all);
  for (const char* part :
       {"3 replicas for prompts and 1 for answers", "layer by layer", "answers under way", "together, on 2 replicas"})
    CHECK(all.find(part) != std::string::npos);
  // And of one pool: apart.
  const json one = answer_of({"advise", "llama3.1-70b-serving-h100", "--json", "-", "--set", "traffic.duration=10 s"});
  std::string changes;
  for (const json& row : one.at("rows")) changes += row.at("change").get<std::string>() + "\n";
  CHECK(changes.find("prompts on 1 of 2 replicas") != std::string::npos);
}

TEST_CASE("requests of a measured run stand each beside its prediction") {
  const Folder folder;
  std::string text =
      "request,input_tokens,output_tokens,prefix_tokens_shared,shared_with_request,queued_s,first_token_s,last_token_"
      "s\n";
  text += "0,512,20,0,,0.000,0.050,0.400\n1,512,20,256,0,0.200,0.240,0.700\n2,100,1,0,,0.900,0.930,0.930\n";
  const std::string file = folder.write("h100-sxm-llama3.1-8b-tp2-requests.csv", text);
  const json result = answer_of({"validate", file, "--json", "-"});
  REQUIRE(result.at("rows").size() == 3);
  CHECK(result.at("rows")[1].at("measured").at("ttft_ms").get<double>() == Approx(40));
  CHECK(result.at("rows")[1].at("measured").at("e2e_ms").get<double>() == Approx(500));
  CHECK(result.at("rows")[0].at("error_pct").contains("tpot_ms"));
  CHECK_FALSE(result.at("rows")[2].at("measured").contains("tpot_ms"));
  const std::string nameless = folder.write("table.csv", text);
  CHECK(tests::orrery({"validate", nameless}).status == 2);
}

TEST_CASE("seconds of a measured run stand each beside what runs then") {
  const Folder folder;
  const std::string requests = folder.write("h100-sxm-llama3.1-8b-tp2-requests.csv",
                                            "request,input_tokens,output_tokens,prefix_tokens_shared,shared_with_"
                                            "request,queued_s,first_token_s,last_token_s\n"
                                            "0,512,1000,0,,0.000,0.050,5\n");
  const std::string seconds = folder.write("h100-sxm-llama3.1-8b-tp2-seconds.csv",
                                           "t,running,waiting,kv_cache_pct,gen_throughput\n"
                                           "0.2,1,0,0.1,0\n2.0,1,0,0.1,200\n900.0,1,0,0.1,10\n");
  const json run = answer_of({"validate", requests, "--json", "-"}).at("rows").at(0).at("predicted");
  REQUIRE(run.at("e2e_ms").get<double>() > 2000);  // so that the second before 2 s is whole
  const json rows = answer_of({"validate", seconds, "--json", "-"}).at("rows");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].at("status") == "error");  // no whole second lies behind it
  CHECK(rows[2].at("status") == "error");
  CHECK(rows[1].at("predicted").at("running") == 1);
  CHECK_FALSE(rows[1].at("predicted").contains("waiting"));
  CHECK(rows[1].at("predicted").at("tokens_per_s").get<double>() ==
        Approx(1e3 / run.at("tpot_ms").get<double>()).epsilon(1e-3));
  const std::string odd = folder.write("odd.csv", "t,running,waiting,kv_cache_pct,gen_throughput\n1,1,0,0,0\n");
  CHECK(tests::orrery({"validate", odd}).err.find("-seconds.csv") != std::string::npos);
}

TEST_CASE("several models on one cluster are each what they are alone, and their sums") {
  const Folder folder;
  const std::string chat =
      "serving: {pools: [{parallelism: {tensor: 2}, replicas: 2}], slo: {ttft: 400 ms, tpot: 20 ms, percentile: 95}}\n";
  const std::string both = R"(name: both
cluster: {device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}
software: vllm-0.15
cost: {price_per_gpu_hour_usd: 2}
models:
- {name: chat, model: llama3.1-8b, gpus: 4, serving: {pools: [{parallelism: {tensor: 2}, replicas: 2}],
   slo: {ttft: 400 ms, tpot: 20 ms, percentile: 95}}, traffic: {rate: 10/s, input: 500, output: 60, duration: 10 s}}
- {name: long, model: qwen3-32b, serving: {pools: [{role: prefill, replicas: 1, parallelism: {tensor: 2}},
   {role: decode, replicas: 1, parallelism: {tensor: 4}}]},
   traffic: {rate: 2/s, input: 900, output: 200, duration: 10 s}}
)";
  const std::string file = folder.write("both.yaml", both);
  const std::string alone = folder.write("alone.yaml",
                                         "name: chat\ncluster: {device: h100-sxm-80gb, gpus: 4, fabric: ndr-rail}\n"
                                         "software: vllm-0.15\nmodel: llama3.1-8b\n" +
                                             chat + "traffic: {rate: 10/s, input: 500, output: 60, duration: 10 s}\n");
  const json all = answer_of({"serving", file, "--json", "-"});
  const json one = answer_of({"serving", alone, "--json", "-"});
  REQUIRE(all.at("models").size() == 2);
  const json &first = all.at("models")[0], &second = all.at("models")[1];
  CHECK(first.at("mean_e2el_ms") == one.at("mean_e2el_ms"));
  CHECK(first.at("output_throughput") == one.at("output_throughput"));
  CHECK(first.at("first_gpu") == 0);
  CHECK(second.at("first_gpu") == 4);  // its largest replica has four GPUs of a node
  CHECK(all.at("totals").at("gpus") == 4 + 6);
  CHECK(all.at("totals").at("output_throughput").get<double>() ==
        Approx(first.at("output_throughput").get<double>() + second.at("output_throughput").get<double>()));
  CHECK(all.at("totals").at("usd_per_hour").get<double>() == Approx(2.0 * 10));
  CHECK(all.at("totals").at("promises") == 1);
  const Outcome rows = tests::orrery({"serving", file, "--requests", "-"});
  std::int64_t lines = 0;
  for (const char* name : {"\nchat,", "\nlong,"})
    for (std::size_t at = rows.out.find(name); at != std::string::npos; at = rows.out.find(name, at + 1)) ++lines;
  CHECK(lines == first.at("completed").get<std::int64_t>() + second.at("completed").get<std::int64_t>());
  for (const auto& [set, part] : {std::pair("models[0].gpus=20", "the cluster has 16"),
                                  {"models[0].gpus=12", "but the cluster has 16"},
                                  {"models[1].name=chat", "the second of the name chat"},
                                  {"models[1].cluster={gpus: 8}", "unknown key"},
                                  {"traffic={rate: 1/s, input: 9, output: 9}", "is of each model"}}) {
    const Outcome refused = tests::orrery({"serving", file, "--set", set});
    INFO(set << "\n" << refused.err);
    CHECK(refused.status == 2);
    CHECK(refused.err.find(part) != std::string::npos);
  }
  CHECK(tests::orrery({"run", file}).status == 2);
}

TEST_CASE("a user who asks the same question again finds all but its last block in the cache") {
  const Folder folder;
  std::string text =
      "id,device,model,precision,tp,dp,max_num_batched_tokens,workload_known,rate_rps,duration_s,system_prompt_tokens,"
      "question_tokens,output_tokens,system_prompts,users_per_system_prompt,ttft_mean_ms,itl_mean_ms,suspect\n";
  for (const char* question : {"400", "3200"}) {
    text += "q" + std::string(question) + ",h100-sxm,Qwen/Qwen2.5-7B-Instruct,fp16,1,1,8192,specified,2.0,300,100," +
            question + ",50,4,5,30,7,\n";
  }
  const json result = answer_of({"validate", folder.write("online.csv", text), "--json", "-"});
  const auto first_token = [&](std::size_t row) {
    return result.at("rows").at(row).at("predicted").at("ttft_ms").get<double>();
  };
  // 20 of 600 requests are the first of their user; eight times the tokens take much longer where they are computed,
  // and here what it takes to read them, 3 us each, and to wait for whoever's are being read.
  constexpr double kRead = 2800 * 3e-3;
  CHECK(first_token(1) > first_token(0) + 0.9 * kRead);
  CHECK(first_token(1) < first_token(0) + 1.5 * kRead);
  const json computed =
      answer_of({"serving", "llama3.1-70b-serving-h100", "--json", "-", "--set", "traffic.input=3200"});
  const json fewer = answer_of({"serving", "llama3.1-70b-serving-h100", "--json", "-", "--set", "traffic.input=400"});
  CHECK(computed.at("mean_ttft_ms").get<double>() > 1.5 * fewer.at("mean_ttft_ms").get<double>());
}

TEST_CASE("experts in fp8 read half of what they read in 16 bits, in half of the time, whoever's engine it is") {
  const auto seconds = [](const char* software, const char* type) {
    const json result =
        answer_of({"run", "llama3.1-70b-serving-h100", "--json", "-", "--set", "model=llama4-scout", "--set",
                   "software=" + std::string(software), "--set", "precision.weights=" + std::string(type), "--set",
                   "workload={kind: decode, sequences: 32, cached: 700}"});
    double of_experts = 0;
    for (const json& kernel : result.at("kernels"))
      if (kernel.at("kernel") == "experts") of_experts += kernel.at("seconds").get<double>();
    return of_experts;
  };
  for (const char* software : {"vllm-0.15", "sglang-0.5"}) {
    INFO(software);
    const double ratio = seconds(software, "fp8") / seconds(software, "bf16");
    CHECK(ratio > 0.4);
    CHECK(ratio < 0.8);
  }
}

}  // namespace
