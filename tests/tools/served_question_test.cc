// Does a question of serving without a file get the answer that its scenario gives?
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;

TEST_CASE("a question of serving by flags is its scenario, with the smallest replica that has room") {
  const Folder folder;
  const std::string file = (folder.path() / "service.yaml").string();
  const Outcome asked =
      tests::orrery({"serving", "--model", "llama3.1-70b", "--device", "h100", "--gpus", "8", "--rate", "2/s", "--ttft",
                     "1 s", "--price", "2.5", "--out", file, "--json", "-"});
  INFO(asked.err);
  REQUIRE(asked.status == 0);
  const Outcome kept = tests::orrery({"serving", file, "--json", "-"});
  REQUIRE(kept.status == 0);
  json a = json::parse(asked.out), b = json::parse(kept.out);
  CHECK(a["gpus"] == 8);
  // 141 GB of weights in 16 bits need two GPUs of 80 GB and leave no room beside; four have it.
  CHECK(a["assumptions"].dump().find("2 replicas of TP 4, the smallest whose cache holds 32 requests") !=
        std::string::npos);
  a.erase("assumptions");
  b.erase("assumptions");
  CHECK(a == b);
}

TEST_CASE("flags of a question beside a served scenario change it as --set does") {
  const auto answer = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"serving", "llama3.1-70b-serving-h100", "--json", "-"});
    const Outcome outcome = tests::orrery(args);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out);
  };
  const json plain = answer({});
  for (const auto& [flags, sets] : std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{"--rate", "3/s"}, {"traffic.rate=3/s"}},
           {{"--input", "300", "--output", "40"}, {"traffic.input=300", "traffic.output=40"}},
           {{"--ttft", "250 ms", "--tpot", "20 ms"}, {"serving.slo.ttft=250 ms", "serving.slo.tpot=20 ms"}},
           {{"--software", "sglang", "--price", "4"}, {"software=sglang-0.5", "cost.price_per_gpu_hour_usd=4"}},
           {{"--concurrency", "8"},
            {"traffic={concurrency: 8, input: {mean: 1100, distribution: lognormal, variation: 1}, output: {mean: 250, "
             "distribution: lognormal, variation: 0.7}, prefix: {tokens: 256, groups: 4}, seed: 1}"}}}) {
    INFO(flags.front());
    std::vector<std::string> by_set;
    for (const std::string& set : sets) by_set.insert(by_set.end(), {"--set", set});
    const json by_flag = answer(flags);
    CHECK(by_flag == answer(by_set));
    CHECK(by_flag != plain);
  }
}

TEST_CASE("a search by flags of traffic is one of fleets, and keeps the first") {
  const Folder folder;
  const std::string file = (folder.path() / "first.yaml").string();
  const Outcome asked = tests::orrery({"search", "--model", "llama3.1-70b", "--device", "h100", "--gpus", "8", "--rate",
                                       "2/s", "--tpot", "60 ms", "--jobs", "1", "--out", file});
  INFO(asked.err);
  REQUIRE(asked.status == 0);
  // Four GPUs hold 141 GB of weights with room for a cache, two do not; at 60 ms a token eight are not needed.
  CHECK_THAT(asked.out, ContainsSubstring("together: 4 GPUs"));
  CHECK_THAT(asked.out,
             ContainsSubstring("orrery serving --model llama3.1-70b --device h100 --gpus 8 --rate 2/s --tpot "
                               "'60 ms' --set 'serving.pools="));
  CHECK_THAT(tests::read_file(file), ContainsSubstring("tensor: 4"));
  CHECK(tests::orrery({"serving", file}).status == 0);
  const auto refused = [](const std::vector<std::string>& args) {
    const Outcome outcome = tests::orrery(args);
    CHECK(outcome.status == 2);
    return outcome.err;
  };
  CHECK_THAT(refused({"search", "gpt3-6.7b-h100", "--rate", "2/s"}), ContainsSubstring("which trains"));
  CHECK_THAT(refused({"search", "llama3.1-70b-serving-h100", "--max-gpus", "16"}), ContainsSubstring("got --max-gpus"));
  CHECK_THAT(refused({"serving", "two-models-h100", "--rate", "2/s"}), ContainsSubstring("serves several models"));
}

TEST_CASE("what a question of serving lacks or says twice is told") {
  const auto refused = [](std::vector<std::string> args) {
    args.insert(args.begin(), "serving");
    const Outcome outcome = tests::orrery(args);
    CHECK(outcome.status == 2);
    return outcome.err;
  };
  CHECK_THAT(refused({}), ContainsSubstring("expected one, as in llama3.1-70b-serving-h100, or a question"));
  CHECK_THAT(refused({"--model", "llama3.1-8b", "--gpus", "8"}), ContainsSubstring("without --device"));
  CHECK_THAT(
      refused({"--model", "llama3.1-8b", "--device", "h100", "--gpus", "1", "--rate", "1/s", "--concurrency", "2"}),
      ContainsSubstring("beside --rate"));
  CHECK_THAT(refused({"--model", "llama3.1-405b", "--device", "h100", "--gpus", "4"}),
             ContainsSubstring("leave no room for a cache"));
  CHECK_THAT(refused({"llama3.1-70b-serving-h100", "--gpus", "4"}), ContainsSubstring("one of the two"));
}

TEST_CASE(
    "replicas without room for a cache are told how many GPUs have some, where they are served and where they write") {
  const tests::Folder folder;
  const std::string site =
      "name: s\ncluster: {device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}\nmodel: llama3.1-70b\n";
  const std::string served =
      folder.write("served.yaml", site + "serving: {pools: [{parallelism: {tensor: 1}}]}\n" +
                                      "traffic: {concurrency: 32, requests: 32, input: 64, output: 8}\n");
  const std::string written = folder.write(
      "written.yaml", site + "rl: {prompts: 16, samples_per_prompt: 2, prompt: 64, answer: {mean: 64, max: 128}}\n");
  for (const auto& [command, file, key] :
       {std::tuple("serving", served, "serving.pools"), {"rl", written, "rl.rollout.pools"}}) {
    INFO(command);
    const Outcome outcome = tests::orrery({command, file});
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(std::string(key) + ": 141.1 GB of weights"));
    CHECK_THAT(outcome.err, ContainsSubstring("as in {parallelism: {tensor: "));
    // What it names is enough, and half of it is not.
    const std::size_t at = outcome.err.find("tensor: ") + 8;
    const int tensor = std::stoi(outcome.err.substr(at));
    const auto with = [&command = command, &file = file, &key = key](int ranks) {
      return tests::orrery({command, file, "--set", fmt::format("{}=[{{parallelism: {{tensor: {}}}}}]", key, ranks)});
    };
    CHECK(with(tensor).status == 0);
    CHECK(with(tensor / 2).status == 2);
  }
}
