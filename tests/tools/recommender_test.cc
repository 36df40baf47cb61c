// Do the commands know a recommender: what they say of it, and what they refuse in one line?
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/program.h"

using nlohmann::json;
using namespace orrery;
using tests::Outcome;

namespace {
constexpr const char* kScenario = "dlrm-dcnv2-b200-8";
}

TEST_CASE("run shows look-ups beside the memory's limit and vectors beside that of the links") {
  const Outcome run = tests::orrery({"run", kScenario});
  REQUIRE(run.status == 0);
  for (const char* part : {"Embedding tables", "look-ups", "updates", "vectors, forward", "of limit", "batch of 55296"})
    CHECK(run.out.find(part) != std::string::npos);
  const json result = json::parse(tests::orrery({"run", kScenario, "--json", "-"}).out);
  double sum = 0;
  for (const auto& [name, seconds] : result["breakdown_s"].items()) sum += seconds.get<double>();
  CHECK(sum == Approx(result["iteration_time_s"].get<double>()));
  CHECK(result["tokens_per_s"].get<double>() == Approx(55296 / result["iteration_time_s"].get<double>()));
  CHECK(tests::orrery({"run", "gpt3-6.7b-h100"}).out.find("Embedding tables") == std::string::npos);
}

TEST_CASE("formula and count of what a recommender sends agree in every row") {
  for (const char* scenario : {kScenario, "dlrm-dcnv2-h100-64"}) {
    const Outcome traffic = tests::orrery({"traffic", scenario});
    INFO(traffic.out);
    CHECK(traffic.status == 0);
    CHECK(traffic.out.find("Every row agrees") != std::string::npos);
  }
}

TEST_CASE("what has no meaning for a recommender is refused in one line") {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"search", kScenario}, {"export", "megatron", kScenario}}) {
    const Outcome outcome = tests::orrery(command);
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
}

TEST_CASE("advise proposes another placement where every table is cut over all GPUs") {
  const Outcome advise = tests::orrery({"advise", kScenario, "--set", "tables={placement: row}", "--json", "-"});
  INFO(advise.err);
  REQUIRE(advise.status == 0);
  const json suggestions = json::parse(advise.out)["suggestions"];
  REQUIRE_FALSE(suggestions.empty());
  CHECK(suggestions[0]["set"].contains("tables.placement"));
  CHECK(suggestions[0]["saved_pct"] > 0);
  CHECK(advise.out.find("parallelism.") == std::string::npos);
}

TEST_CASE("a sample meets the rows that it looks up, and all of the layers") {
  const json flops = json::parse(tests::orrery({"flops", kScenario, "--json", "-"}).out);
  // 214 rows of 128, and 16 million weights and biases of MLPs and cross layers.
  const double x = 27 * 128.0;
  const double bottom = 14.0 * 512 + 513.0 * 256 + 257.0 * 128;
  const double cross = 3 * ((x + 1) * 512 + 513 * x);
  const double top = (x + 1) * 1024 + 1025.0 * 1024 + 1025.0 * 512 + 513.0 * 256 + 257.0;
  CHECK(flops["active_parameters"].get<double>() == Approx(214 * 128 + bottom + cross + top).epsilon(1e-6));
}
