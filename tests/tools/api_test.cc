// Does the library say what the program says?
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/api/orrery.h"

using namespace orrery;

TEST_CASE("a result of the library is the program's") {
  const std::string text = tests::small_scenario();
  const Scenario scenario = parse(text);
  const Plan compiled = plan(scenario);
  const Result result = run(compiled);
  const tests::Folder folder;
  const nlohmann::json json =
      nlohmann::json::parse(tests::orrery({"run", folder.write("small.yaml", text), "--json", "-"}).out);
  CHECK(result.iteration_time_s == json["iteration_time_s"].get<double>());
  CHECK(result.tokens_per_s == json["tokens_per_s"].get<double>());
  CHECK(result.mfu_pct == json["mfu_pct"].get<double>());
  CHECK(result.traffic.size() == json["traffic"].size());
  CHECK(result.memory.stages.size() == 2);
  CHECK(result.ranks_simulated == json["ranks_simulated"].get<std::int64_t>());
  double sum = 0;
  for (const auto& [cause, seconds] : result.breakdown_s) {
    CHECK(seconds == json["breakdown_s"].at(cause).get<double>());
    sum += seconds;
  }
  CHECK(sum == Approx(result.iteration_time_s));

  CHECK(scenario.name() == "small");
  CHECK(compiled.ranks() == 16);
  CHECK(compiled.ranks_simulated() <= 16);
  CHECK(compiled.stages() == 2);
  CHECK(compiled.operations() > 0);
  CHECK(run(compiled, {true}).iteration_time_s == result.iteration_time_s);
}

TEST_CASE("a plan is made on the cluster as it is, faults included") {
  const std::string text = tests::small_scenario();
  const Plan whole = plan(parse(text));
  // One GPU's link at half its rate sets its tensor group apart, and with it those that meet this group.
  const Plan broken = plan(parse(text, {"perturb.slow_links=[{between: [n0 gpu3, n0 nvswitch0], rate: 0.5}]"}));
  CHECK(broken.ranks_simulated() > whole.ranks_simulated());
  CHECK(broken.ranks_simulated() == run(broken).ranks_simulated);
}

TEST_CASE("a plan holds the programs that it runs, and shows them as orrery plan does") {
  const std::string text = tests::small_scenario();
  const Plan compiled = plan(parse(text));
  const tests::Folder folder;
  const std::string file = folder.write("small.yaml", text);
  std::int64_t operations = 0;
  for (const std::int64_t stage : {0, 1}) {
    for (const std::int64_t passes : {0, 3}) {
      std::vector<std::string> arguments{"plan", file, "--folded", "--stage", std::to_string(stage)};
      if (passes > 0) arguments.insert(arguments.end(), {"--passes", std::to_string(passes)});
      const tests::Outcome printed = tests::orrery(arguments);
      INFO(printed.err);
      CHECK(printed.status == 0);
      CHECK(printed.out.ends_with(compiled.text(stage, passes)));
    }
    const std::string head = compiled.text(stage);  // "stage 0 of 2: 32 passes, 412 operations"
    const std::size_t comma = head.find(" passes, ");
    REQUIRE(comma != std::string::npos);
    operations += std::stoll(head.substr(comma + 9));
  }
  CHECK(compiled.operations() == operations);
  CHECK_THROWS_AS(compiled.text(2), Error);
  CHECK_THROWS_AS(compiled.text(-1), Error);
  // Run twice, it is the same plan.
  CHECK(run(compiled).iteration_time_s == run(compiled).iteration_time_s);
}

TEST_CASE("scenarios load by name and take changes; mistakes are one line") {
  const Scenario scenario = load("gpt3-6.7b-h100", {"batch.micro=1"});
  CHECK(scenario.gpus() == 64);
  CHECK(scenario.parameters() == Approx(6.7e9).epsilon(0.02));
  CHECK_FALSE(scenario.assumptions().empty());
  for (const auto& mistake : {std::vector<std::string>{"batch.micro=0"}, {"batch.micor=1"}, {"model.layers=x"}}) {
    try {
      load("gpt3-6.7b-h100", mistake);
      FAIL_CHECK("was not refused");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      CHECK(std::string(error.what()).size() > 10);
    }
  }
  CHECK_THROWS_AS(load("no-such-scenario"), Error);
  CHECK_THROWS_AS(parse("a: ["), Error);
  CHECK(version().size() >= 5);
}
