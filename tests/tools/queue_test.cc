// Does `orrery queue` read what it promises to read, refuse the rest in one line, and price distance by steps?
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/study/queue_study.h"
#include "tools/study/queue_trace.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;

namespace {

/// Jobs of 4 GPUs on nodes of 4 below leaves of two nodes, with thin uplinks; see program.h.
std::string thin() {
  return tests::small_scenario("fabric: ndr-rail", "fabric: {inherits: ndr-rail, unit_nodes: 2, oversubscription: 8}");
}

std::string rows(int count) {
  std::string text = "submit_s,gpus,duration_s\n";
  for (int i = 0; i < count; ++i) text += fmt::format("{},{},{}\n", 10 * i, 1 << (i % 5), 100 + 7 * (i % 11));
  return text;
}

std::string refusal(const Folder& folder, const std::string& text, std::int64_t most = 64) {
  try {
    tools::read_queue_trace(folder.write("trace.csv", text), most);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("traces are read by the names of their columns, dates and seconds alike") {
  const Folder folder;
  const tools::QueueTrace plain =
      tools::read_queue_trace(folder.write("a.csv",
                                           "job,submit_s,gpus,duration_s,limit_s\n1,20,8,3.5,10\n"
                                           "2,10,4,60,\n3,30,0,5,5\n4,31,2,0,5\n5,32,128,9,9\n"),
                              64);
  REQUIRE(plain.jobs.size() == 2);  // by arrival
  CHECK(plain.jobs[0].submit_ms == 10'000);
  CHECK(plain.jobs[0].limit_ms == 60'000);  // none given: its own time
  CHECK(plain.jobs[1].work_ms == 3500);
  CHECK(plain.jobs[1].limit_ms == 10'000);
  CHECK(plain.without_gpus == 1);
  CHECK(plain.without_time == 1);
  CHECK(plain.too_large == 1);
  // Helios' and Acme's columns: the second a day and a second after the first, over the end of a February.
  const tools::QueueTrace dated =
      tools::read_queue_trace(folder.write("b.csv",
                                           "job_id,user,gpu_num,cpu_num,state,submit_time,duration,queue\r\n"
                                           "1,u,1,4,COMPLETED,2023-02-28 23:59:59,12,0\r\n\r\n"
                                           "2,u,2,4,FAILED,2023-03-02T00:00:00+08:00,13,\"1,5\"\r\n"),
                              64);
  REQUIRE(dated.jobs.size() == 2);
  CHECK(dated.jobs[1].submit_ms - dated.jobs[0].submit_ms == (86'400 + 1) * 1000);
  CHECK_FALSE(dated.limits);
}

TEST_CASE("what is no trace is refused with its place") {
  const Folder folder;
  const auto says = [&](const std::string& text, const std::string& what) {
    const std::string said = refusal(folder, text);
    INFO(said);
    CHECK(said.find(what) != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  };
  says("", "is empty");
  says("submit_s,gpus\n1,2\n", "no column for the time that it runs, expected one of duration_s");
  says("submit_s,gpus,duration_s\n1,2\n", "trace.csv:2:1: trace: got 2 cells, expected 3");
  says("submit_s,gpus,duration_s\n1,two,3\n", "trace.csv:2:2: gpus: got 'two'");
  says("submit_s,gpus,duration_s\n1,1.5,3\n", "expected a whole number");
  says("submit_s,gpus,duration_s\n1,1,-3\n", "trace.csv:2:3: duration_s: got '-3'");
  says("submit_s,gpus,duration_s\n1,1,1e300\n", "duration_s: got '1e300'");
  says("submit_s,gpus,duration_s\n2023-02-30 00:00:00,1,3\n", "submit_s: got '2023-02-30");
  says("submit_s,gpus,duration_s\nnan,1,3\n", "submit_s: got 'nan'");
  says("submit_s,gpus,duration_s\n1,1,\"3\n", "trace.csv:2:1");
  says("submit_s,gpus,duration_s\n1,0,3\n", "no job that can run: 1 without GPUs");
  says("submit_s,gpus,duration_s\n0,1,3\n1e10,1,3\n", "more than 100 years");
}

TEST_CASE("a queue's figures are the same for any number of jobs, and distance is priced by steps") {
  const Folder folder;
  const std::string file = folder.write("thin.yaml", thin()), trace = folder.write("trace.csv", rows(200));
  const tests::Outcome outcome =
      tests::orrery({"queue", file, trace, "--gpus", "32", "--resample", "4", "--json", "-"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["policies"].size() == 12);
  for (const json& row : result["policies"]) {
    double sum = 0;
    for (const auto& [use, share] : row["gpu_time"].items()) sum += share.get<double>();
    CHECK(sum == Approx(1));
    CHECK(row["utilisation"].get<double>() <= 1);
    CHECK(row["stretch"].get<double>() >= 1);
    std::int64_t jobs = 0;
    for (const auto& [span, count] : row["spans"].items()) jobs += count.get<std::int64_t>();
    CHECK(jobs == 200);
  }
  // 16 GPUs are two nodes of one unit; over two units they share thin uplinks: `place` says the same.
  const auto price =
      std::find_if(result["prices"].begin(), result["prices"].end(), [](const json& one) { return one["gpus"] == 16; });
  REQUIRE(price != result["prices"].end());
  CHECK((*price)["unit"] == 1.0);
  CHECK((*price)["cluster"].get<double>() > 1);
  const json step = json::parse(tests::orrery({"run", file, "--json", "-"}).out);
  if (step["gpus"] == 16) CHECK((*price)["step_s"] == step["iteration_time_s"]);
  CHECK(result["resampled"]["seeds"] == 4);
  CHECK(tests::orrery({"queue", file, trace, "--gpus", "32", "--resample", "4", "--json", "-", "--jobs", "1"}).out ==
        outcome.out);
}

TEST_CASE("one policy is asked for by name, and the page holds its data") {
  const Folder folder;
  const std::string file = folder.write("thin.yaml", thin()), trace = folder.write("trace.csv", rows(50));
  const tests::Outcome text =
      tests::orrery({"queue", file, trace, "--gpus", "32", "--order", "backfill", "--placement", "best_fit"});
  INFO(text.err);
  REQUIRE(text.status == 0);
  CHECK(text.out.find("backfill") != std::string::npos);
  CHECK(text.out.find("fifo") == std::string::npos);
  CHECK(text.out.find("no limits") != std::string::npos);
  const std::string page = folder.file("queue.html");
  REQUIRE(tests::orrery({"queue", file, trace, "--gpus", "32", "--report", page}).status == 0);
  tests::check_refused(tests::orrery({"queue", file, trace, "--gpus", "33"}), {"--gpus: got 33"});
  tests::check_refused(tests::orrery({"queue", file, trace, "--order", "lifo"}), {"--order"});
  tests::check_refused(tests::orrery({"queue", file, folder.file("none.csv")}), {"none.csv"});
  tests::check_refused(tests::orrery({"queue", file, file}), {"thin.yaml:1"});
}

TEST_CASE("on nodes of two kinds the queue of one is that of a cluster of its own, with the jobs that ask for it") {
  const Folder folder;
  std::string text = thin();
  text.replace(text.find("gpus: 16,"), 9, "gpus: 32, others: [{device: a100-sxm-80gb, gpus: 16}],");
  text.replace(text.find("data: 4"), 7, "data: 8");
  text.replace(text.find("global: 16"), 10, "global: 32");
  const std::string mixed = folder.write("mixed.yaml", text);
  std::string plain = thin();
  plain.replace(plain.find("h100-sxm-80gb"), 13, "a100-sxm-80gb");
  const std::string alone = folder.write("alone.yaml", plain);
  std::string all = "submit_s,gpus,duration_s,gpu_type\n", own = "submit_s,gpus,duration_s\n";
  const char* const kAsked[] = {"A100", "H100", "a100-sxm-80gb", ""};
  for (int i = 0; i < 40; ++i) {
    const std::string row = fmt::format("{},{},{}", 10 * i, 1 << (i % 5), 100 + 7 * (i % 11));
    all += fmt::format("{},{}\n", row, kAsked[i % 4]);
    if (i % 4 != 1) own += row + "\n";
  }
  const std::string jobs = folder.write("all.csv", all), few = folder.write("own.csv", own);
  const auto replay = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--order", "fifo", "--json", "-"});
    const tests::Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out);
  };
  const json part = replay({"queue", mixed, jobs, "--device", "a100-sxm-80gb"}),
             own_cluster = replay({"queue", alone, few});
  REQUIRE_FALSE(part["policies"].empty());
  CHECK(part["policies"] == own_cluster["policies"]);
  CHECK(part["prices"] == own_cluster["prices"]);
  CHECK(part.dump().find("10 jobs that ask for other devices are left out") != std::string::npos);
  CHECK(replay({"queue", mixed, jobs, "--device", "h100-sxm-80gb"})["policies"] != part["policies"]);
  tests::check_refused(tests::orrery({"queue", mixed, jobs}), {"--device: got none", "a100-sxm-80gb", "one kind"});
  tests::check_refused(tests::orrery({"queue", alone, few, "--device", "b200"}), {"--device: got b200"});
}
