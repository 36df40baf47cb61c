// `orrery run` of one iteration of a served model.
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using nlohmann::json;
using tests::Outcome;

namespace {

constexpr const char* kServedScenario = "llama3.1-70b-serving-h100";

TEST_CASE("an iteration's kernels and its breakdown both add up to it, and its trace is as long") {
  for (const char* work : {"workload=decode", "workload=prefill"}) {
    const tests::Folder folder;
    const std::string trace = folder.file("trace.json");
    const Outcome outcome = tests::orrery({"run", kServedScenario, "--set", work, "--json", "-", "--trace", trace});
    INFO(work << outcome.err);
    REQUIRE(outcome.status == 0);
    const json result = json::parse(outcome.out);
    const double whole = result.at("iteration_time_s").get<double>();
    double kernels = 0, breakdown = 0, end = 0;
    for (const json& kernel : result.at("kernels")) kernels += kernel.at("seconds").get<double>();
    for (const auto& [name, seconds] : result.at("breakdown_s").items()) breakdown += seconds.get<double>();
    CHECK(kernels == Approx(whole).epsilon(1e-9));
    CHECK(breakdown == Approx(whole).epsilon(1e-9));
    const json written = json::parse(tests::read_file(trace));
    for (const json& event : written.at("traceEvents"))
      if (event.at("ph") == "X") end = std::max(end, event.at("ts").get<double>() + event.at("dur").get<double>());
    CHECK(end * 1e-6 == Approx(whole).epsilon(1e-5));
  }
}

TEST_CASE("a profile's own kernels of engines take the place of those that ship, one by one") {
  const auto kernels = [](const std::string& device) {
    const Outcome outcome = tests::orrery(
        {"run", kServedScenario, "--set", "workload=decode", "--set", "cluster.device=" + device, "--json", "-"});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    std::map<std::string, double> seconds;
    const json result = json::parse(outcome.out);
    for (const json& kernel : result.at("kernels")) seconds[kernel.at("kernel")] += kernel.at("seconds").get<double>();
    return seconds;
  };
  const tests::Folder folder;
  const auto own = [&](const char* launch) {
    return kernels(
        folder.write("mine.yaml", "inherits: h100-sxm-80gb\nserving: {engines: {vllm: {sampling: {bf16: {launch: " +
                                      std::string(launch) + ", stream: 1, efficiency: 0.5}}}}}\n"));
  };
  const auto shipped = kernels("h100-sxm-80gb"), slow = own("400 us"), fast = own("100 us");
  CHECK(slow.at("sampler") - fast.at("sampler") == Approx(300e-6));
  for (const auto& [name, seconds] : shipped)
    if (name != "sampler") CHECK(slow.at(name) == seconds);
  const Outcome wrong = tests::orrery(
      {"run", kServedScenario, "--set", "workload=decode", "--set",
       "cluster.device=" + folder.write("wrong.yaml", "inherits: h100-sxm-80gb\nserving: {engines: {vlm: {}}}\n")});
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("vlm") != std::string::npos);
}

TEST_CASE("what an implementation computes otherwise: routers in fp32, norms over all heads, sums in products") {
  const auto kernels = [](std::vector<std::string> sets) {
    std::vector<std::string> words{"run",    kServedScenario,
                                   "--set",  "model=minimax-m2",
                                   "--set",  "cluster.gpus=8",
                                   "--set",  "serving.pools=[{parallelism: {tensor: 8}}]",
                                   "--set",  "workload={kind: prefill, tokens: 4096}",
                                   "--json", "-"};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    std::map<std::string, std::pair<double, double>> all;  // launches, seconds
    const json result = json::parse(outcome.out);
    for (const json& kernel : result.at("kernels")) {
      auto& [launches, seconds] = all[kernel.at("kernel").get<std::string>()];
      launches += kernel.at("launches").get<double>();
      seconds += kernel.at("seconds").get<double>();
    }
    return all;
  };
  const auto shipped = kernels({}), heads = kernels({"model.served.qk_norm_over=head"});
  // Each of the 62 layers adds up what attention and experts give, and squares of queries and keys.
  CHECK(shipped.at("all-reduce").first == 3 * 62);
  CHECK(heads.at("all-reduce").first == 2 * 62);
  CHECK(shipped.contains("qk squares"));
  CHECK_FALSE(heads.contains("qk squares"));
  // 2 x 4096 x 256 x 3072 operations a layer at no more than the H100's 67 TFLOP/s.
  const auto tf32 = kernels({"precision.router=tf32"}), bf16 = kernels({"precision.router=bf16"});
  CHECK(shipped.at("router").second >= 62 * 2. * 4096 * 256 * 3072 / 67e12);
  CHECK(shipped.at("router").second > tf32.at("router").second);
  CHECK(tf32.at("router").second >= 2 * bf16.at("router").second);
  // Behind a product of many waves the exchange hides but for its last wave.
  const auto apart = kernels({"software=trtllm-1.0-tensorrt", "software.kernels.sums=own_kernels"}),
             joined = kernels({"software=trtllm-1.0-tensorrt"});
  CHECK(joined.at("all-reduce").second < apart.at("all-reduce").second);
  CHECK(joined.at("all-reduce").second > 0);
}

TEST_CASE("a longer prompt takes longer, and so do more sequences or longer ones") {
  const auto seconds = [](std::vector<std::string> sets) {
    std::vector<std::string> words{"run", kServedScenario, "--json", "-"};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", "workload." + set});
    const Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out).at("iteration_time_s").get<double>();
  };
  CHECK(seconds({"kind=prefill", "tokens=4096"}) > seconds({"kind=prefill", "tokens=2048"}));
  CHECK(seconds({"kind=prefill", "tokens=2048", "cached=30000"}) > seconds({"kind=prefill", "tokens=2048"}));
  CHECK(seconds({"kind=decode", "sequences=200"}) > seconds({"kind=decode", "sequences=20"}));
  CHECK(seconds({"kind=decode", "cached=20000"}) > seconds({"kind=decode", "cached=2000"}));
}

TEST_CASE("what is of a training step is refused beside an iteration, and an iteration where requests are served") {
  const Outcome report = tests::orrery({"run", kServedScenario, "--set", "workload=decode", "--explain"});
  CHECK(report.status == 2);
  CHECK(report.err.find("--explain: is of a training step") != std::string::npos);
  const Outcome served = tests::orrery({"serving", kServedScenario, "--set", "workload=decode"});
  CHECK(served.status == 2);
  CHECK(served.err.find("which orrery run looks at") != std::string::npos);
}

}  // namespace
