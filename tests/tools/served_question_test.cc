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
