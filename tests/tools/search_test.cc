// Does the search find what simulating everything finds, and do objectives, deadlines and fronts mean what they say?
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/study/best_first.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;
using tests::small_scenario;

namespace {

json search(const std::string& scenario, std::vector<std::string> more) {
  more.insert(more.begin(), {"search", scenario, "--json", "-"});
  const Outcome outcome = tests::orrery(more);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

/// A cluster small enough to simulate every layout of.
std::string write_few(const Folder& folder) {
  std::string text = small_scenario("gpus: 16, gpus_per_node: 8", "gpus: 8, gpus_per_node: 4");
  text.replace(text.find("data: 4"), 7, "data: 2");
  return folder.write("few.yaml", text);
}

}  // namespace

TEST_CASE("the best layouts are those of the exhaustive search, for every objective, on any number of threads",
          "[full-size]") {
  const Folder folder;
  const std::string scenario = write_few(folder);
  for (const std::string& objective : tools::objective_names()) {
    if (objective == "gpus") continue;  // below, with its deadline
    INFO(objective);
    const std::vector<std::string> asked{"--objective", objective, "--top", "5",
                                         "--tokens",    "1e9",     "--set", "cost.price_per_gpu_hour_usd=2"};
    std::vector<std::string> all = asked, one = asked;
    all.emplace_back("--exhaustive");
    one.insert(one.end(), {"--jobs", "1"});
    const json pruned = search(scenario, asked), whole = search(scenario, all), alone = search(scenario, one);
    CHECK(whole["pruned"] == 0);
    CHECK(pruned["layouts"] == whole["layouts"]);
    CHECK(pruned["simulated"].get<int>() + pruned["pruned"].get<int>() + pruned["out_of_memory"].get<int>() +
              pruned["infeasible"].get<int>() ==
          pruned["layouts"].get<int>());
    REQUIRE(pruned["rows"].size() >= 5);
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(pruned["rows"][i]["set"] == whole["rows"][i]["set"]);
      CHECK(pruned["rows"][i]["iteration_s"] == whole["rows"][i]["iteration_s"]);
      CHECK(alone["rows"][i]["set"] == whole["rows"][i]["set"]);
    }
  }
  // Pruning is worth something: of the layouts that fit, most need not be simulated for the best five.
  const json pruned = search(scenario, {"--top", "5"});
  CHECK(pruned["pruned"].get<int>() > pruned["simulated"].get<int>());
}

TEST_CASE("no layout of a sweep over the same keys beats the search, and its best runs as said") {
  const Folder folder;
  const std::string scenario = write_few(folder);
  // All ways of sharding, whatever the software has.
  const json best =
      search(scenario, {"--top", "1", "--vary", "parallelism.sharding=none,optimizer,gradients,parameters"})["rows"][0];
  const json sweep = json::parse(
      tests::orrery({"sweep", scenario, "--set", "parallelism.data=null", "--set", "parallelism.virtual_pipeline=1",
                     "--vary", "parallelism.tensor=1:8:2", "--vary", "parallelism.pipeline=1:8:2", "--vary",
                     "batch.micro=1:16:2", "--vary", "parallelism.sharding=none,optimizer,gradients,parameters",
                     "--vary", "parallelism.sequence_parallel=true,false", "--json", "-"})
          .out);
  std::size_t ok = 0;
  for (const json& row : sweep["rows"]) {
    if (row["status"] != "ok") continue;
    ++ok;
    CHECK(row["iteration_s"].get<double>() >= best["iteration_s"].get<double>());
  }
  CHECK(ok > 50);
  std::vector<std::string> run{"run", scenario, "--json", "-"};
  for (const auto& [key, value] : best["set"].items()) {
    run.insert(run.end(), {"--set", key + "=" + value.get<std::string>()});
  }
  const Outcome outcome = tests::orrery(run);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(json::parse(outcome.out)["iteration_time_s"] == best["iteration_s"]);
}

namespace {

/// Rows of an exhaustive search that are on the front of step time and `price` by definition, those that it marks, and
/// those that a search for the front marks: all alike.
void check_front(const std::string& scenario, const std::string& objective, const char* price) {
  const json whole = search(scenario, {"--exhaustive", "--objective", objective});
  const json found = search(scenario, {"--pareto", "--top", "1", "--objective", objective});
  // On the front is what no other layout matches in both and beats in one.
  std::vector<std::pair<double, double>> points, front, marked, from_pareto;
  for (const json& row : whole["rows"]) points.emplace_back(row["iteration_s"], row[price]);
  for (const auto& p : points) {
    const bool beaten = std::any_of(points.begin(), points.end(), [&](const auto& q) {
      return q.first <= p.first && q.second <= p.second && q != p;
    });
    if (!beaten) front.push_back(p);
  }
  for (const json& row : whole["rows"]) {
    if (row["pareto"] == true) marked.emplace_back(row["iteration_s"], row[price]);
  }
  for (const json& row : found["rows"]) {
    if (row["pareto"] == true) from_pareto.emplace_back(row["iteration_s"], row[price]);
  }
  for (auto* list : {&front, &marked, &from_pareto}) std::sort(list->begin(), list->end());
  CHECK_FALSE(front.empty());
  CHECK(marked == front);
  CHECK(from_pareto == front);
  CHECK(found["pruned"].get<int>() > 0);
}

}  // namespace

TEST_CASE("the front of step time and memory is that of all layouts") {
  const Folder folder;
  check_front(write_few(folder), "tokens_per_s", "peak_memory_gb");
}

TEST_CASE("the front of step time and energy is that of all layouts, and the best takes least") {
  const Folder folder;
  const std::string scenario = write_few(folder);
  check_front(scenario, "energy", "energy_per_token_j");
  const json whole = search(scenario, {"--exhaustive"}),
             best = search(scenario, {"--objective", "energy", "--top", "1"});
  double least = 1e300;
  for (const json& row : whole["rows"]) least = std::min(least, row["energy_per_token_j"].get<double>());
  CHECK(best["rows"][0]["energy_per_token_j"] == least);
}

TEST_CASE("the smallest cluster for a deadline meets it, and a smaller one does not") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", small_scenario());
  // What 4 GPUs can do at best, and a deadline just short of it: the next larger size is the answer.
  const auto best_time = [&](int gpus) {
    return search(scenario, {"--objective", "time", "--tokens", "1e9", "--vary", fmt::format("cluster.gpus={}", gpus),
                             "--set", "cluster.gpus_per_node=4", "--top", "1"})["rows"][0]["time_to_train_s"]
        .get<double>();
  };
  const double four = best_time(4), eight = best_time(8);
  CHECK(eight < four);
  const auto smallest = [&](double deadline) {
    return search(scenario, {"--objective", "gpus", "--tokens", "1e9", "--deadline", fmt::format("{} s", deadline),
                             "--set", "cluster.gpus_per_node=4", "--top", "1"})["rows"];
  };
  const json tight = smallest(four * 0.999);
  REQUIRE(tight.size() >= 1);
  CHECK(tight[0]["set"]["cluster.gpus"] == "8");
  CHECK(tight[0]["time_to_train_s"].get<double>() == Approx(eight));
  CHECK(smallest(four * 1.001)[0]["set"]["cluster.gpus"] == "4");
  CHECK(smallest(four / 1000).empty());
}

TEST_CASE("a deadline is answered in days: how much of it is taken, or by how much the fastest misses it") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", tests::small_scenario());
  const std::vector<std::string> words{"search", file, "--tokens", "1e11", "--top", "1", "--jobs", "1"};
  const auto found = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return tests::orrery(all).out;
  };
  const double step_s = json::parse(found({"--json", "-"}))["rows"][0]["iteration_s"].get<double>();
  const json run = json::parse(tests::orrery({"run", file, "--json", "-"}).out);
  const double tokens = run["tokens_per_s"].get<double>() * run["iteration_time_s"].get<double>();  // of a step
  const double days = 1e11 / tokens * step_s / 86'400;
  CHECK(found({}).find(fmt::format("{:.1f}", days)) != std::string::npos);
  const std::string met = found({"--deadline", fmt::format("{} days", 2 * days)});
  CHECK(met.find(fmt::format("The first takes {:.1f} days of the {:.1f} there are, 50 %.", days, 2 * days)) !=
        std::string::npos);
  const std::string missed = found({"--deadline", fmt::format("{} days", days / 4)});
  CHECK(missed.find("No layout fits the memory and meets the deadline.") != std::string::npos);
  CHECK(missed.find(fmt::format(": {:.1f} days, 4 times", days)) != std::string::npos);
}

TEST_CASE("values given for a key are the only ones tried") {
  const Folder folder;
  const std::string scenario = write_few(folder);
  const json result = search(scenario, {"--exhaustive", "--vary", "parallelism.tensor=2", "--vary", "recompute=full",
                                        "--vary", "batch.micro=1,2"});
  REQUIRE(result["rows"].size() > 3);
  for (const json& row : result["rows"]) {
    CHECK(row["set"]["parallelism.tensor"] == "2");
    CHECK(row["set"]["recompute"] == "full");
    CHECK((row["set"]["batch.micro"] == "1" || row["set"]["batch.micro"] == "2"));
  }
}

TEST_CASE("the table holds every simulated layout, best first") {
  const Folder folder;
  const std::string scenario = write_few(folder), file = folder.file("best.csv");
  const Outcome outcome = tests::orrery({"search", scenario, "--exhaustive", "--csv", file});
  REQUIRE(outcome.status == 0);
  for (const char* word : {"layout", "sharding", "orrery run", "pruned", "per second"}) {
    INFO(word);
    CHECK(outcome.out.find(word) != std::string::npos);
  }
  std::istringstream in(tests::read_file(file));
  std::string header, line;
  std::getline(in, header);
  CHECK(header.starts_with("rank,cluster.gpus,parallelism.tensor"));
  std::size_t rows = 0;
  while (std::getline(in, line)) CHECK(line.starts_with(fmt::format("{},8,", ++rows)));
  CHECK(rows > 50);
}

TEST_CASE("what cannot be searched is refused") {
  const Folder folder;
  const std::string scenario = write_few(folder);
  const auto refused = [&](std::vector<std::string> more, const std::string& part) {
    more.insert(more.begin(), {"search", scenario});
    const Outcome outcome = tests::orrery(more);
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(outcome.err.find(part) != std::string::npos);
  };
  refused({"--objective", "beauty"}, "--objective");
  refused({"--objective", "time"}, "--tokens");
  refused({"--objective", "cost"}, "price_per_gpu_hour_usd");
  refused({"--objective", "gpus", "--tokens", "1e9"}, "--deadline");
  refused({"--deadline", "30 moons", "--tokens", "1e9"}, "30 days");
  refused({"--deadline", "30 days"}, "tokens");
  refused({"--vary", "model.layers=8,16"}, "model.layers");
  refused({"--vary", "parallelism.tensor=many"}, "many");
  refused({"--vary", "parallelism.sequence_parallel=perhaps"}, "perhaps");
  refused({"--vary", "recompute=some"}, "recompute");
  refused({"--set", "batch.globl=8"}, "batch.globl");
  refused({"--csv", folder.file("no/folder.csv")}, "no/folder.csv");
  // A layout that cannot run is no reason to refuse: finding one that can is what a search is for.
  CHECK(tests::orrery({"search", scenario, "--top", "1", "--set", "parallelism.tensor=3"}).status == 0);
}

TEST_CASE("a search is the same bytes on any number of threads, and after it was killed and resumed") {
  const Folder folder;
  const std::string scenario = write_few(folder);
  const auto tables = [&](std::vector<std::string> more, const std::string& name) {
    const std::string csv = folder.file(name + ".csv"), page = folder.file(name + ".html");
    more.insert(more.begin(), {"search", scenario, "--top", "3", "--pareto", "--csv", csv, "--report", page, "--json",
                               folder.file(name + ".json")});
    const Outcome outcome = tests::orrery(more);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return tests::read_file(csv) + tests::read_file(page) + tests::read_file(folder.file(name + ".json"));
  };
  const std::string one = tables({"--jobs", "1"}, "one");
  CHECK(tables({"--jobs", "2"}, "two") == one);
  CHECK(tables({"--jobs", "64"}, "many") == one);
  const std::string notes = folder.file("notes.csv");
  CHECK(tables({"--resume", notes}, "kept") == one);
  const std::string all = tests::read_file(notes);
  const std::size_t rows = static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
  REQUIRE(rows > 4);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, all.size() / 3, all.size() - 1, all.size()}) {
    INFO("cut after byte " << size);
    folder.write("notes.csv", all.substr(0, size));
    CHECK(tables({"--resume", notes, "--jobs", "2"}, "resumed") == one);
    CHECK(tests::read_file(notes) == all);
  }
  // Another search's notes, or changed ones, are no help.
  CHECK(tests::orrery({"search", scenario, "--set", "recompute=full", "--resume", notes}).status == 2);
  std::string changed = all;
  changed[changed.find(",ok,") + 5] ^= 1;
  folder.write("notes.csv", changed);
  const Outcome refused = tests::orrery({"search", scenario, "--top", "3", "--pareto", "--resume", notes});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("its check does not hold") != std::string::npos);
}

TEST_CASE("tables of mixtures, and of groups that are asked for, have a value for every column") {
  const Folder folder;
  const std::string mixture = folder.write("mixture.yaml", R"(
name: mixture
cluster: {device: h100-sxm-80gb, gpus: 8}
model: {kind: moe, layers: 4, hidden: 1024, heads: 8, ffn_hidden: 4096, vocab: 32000, seq: 1024, experts: 4, top_k: 2,
        expert_ffn_hidden: 2048}
parallelism: {tensor: 2, data: 4}
batch: {global: 16, micro: 1}
)");
  const std::vector<std::pair<std::string, std::vector<std::string>>> asked{
      {mixture, {"--vary", "parallelism.sharding=optimizer", "--vary", "recompute=none"}},
      {mixture,
       {"--vary", "experts.dispatcher=alltoall,deepep", "--vary", "recompute=none", "--vary", "parallelism.tensor=1"}},
      {write_few(folder),
       {"--vary", "parallelism.sharding=parameters", "--vary", "parallelism.shard_group=2,4", "--vary",
        "parallelism.tensor_in=1", "--vary", "recompute=none"}}};
  for (const auto& [scenario, more] : asked) {
    std::vector<std::string> args{
        "search", scenario, "--csv", folder.file("out.csv"), "--report", folder.file("out.html")};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = tests::orrery(args);
    INFO(scenario << ": " << outcome.err);
    REQUIRE(outcome.status == 0);
    std::istringstream table(tests::read_file(folder.file("out.csv")));
    std::string line;
    std::size_t columns = 0, lines = 0;
    for (; std::getline(table, line); ++lines) {
      // Reasons of refusals, which are quoted, have commas of their own; simulated layouts have none.
      const auto cells = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
      if (lines == 0) columns = cells;
      CHECK(cells == columns);
    }
    CHECK(lines > 1);
  }
}

TEST_CASE("a search offers what the named software has, and says what it leaves out") {
  const Folder folder;
  const std::string scenario = write_few(folder);
  const auto shardings = [&](const std::string& software, std::vector<std::string> more) {
    std::vector<std::string> words{"--exhaustive", "--top", "100000", "--set", "software=" + software};
    words.insert(words.end(), more.begin(), more.end());
    const json found = search(scenario, words);
    std::set<std::string> all;
    for (const json& row : found["rows"]) all.insert(row["set"]["parallelism.sharding"].get<std::string>());
    return std::pair(all, found["not_offered"].get<std::string>());
  };
  // nanotron has zero_stage 0 and 1 and no chunks of stages.
  const auto [nanotron, missing] = shardings("nanotron-2025", {});
  CHECK(nanotron == std::set<std::string>{"none", "optimizer"});
  CHECK(missing.find("sharding gradients and parameters") != std::string::npos);
  CHECK(missing.find("interleaved_1f1b") != std::string::npos);
  const auto [asked, still] = shardings("nanotron-2025", {"--vary", "parallelism.sharding=parameters"});
  CHECK(asked == std::set<std::string>{"parameters"});
  const auto [all, beside] = shardings("megatron-core-0.16", {});
  CHECK(all.size() == 4);
  CHECK(beside.find("beside stages sharding gradients and parameters") == 0);
}

TEST_CASE("a search says which layouts are as good as the first, and how likely it is the fastest") {
  const Folder folder;
  const json found = search(write_few(folder), {"--top", "3"});
  double chances = 0;
  for (const json& row : found["rows"]) {
    if (!row.contains("chance_best")) continue;
    chances += row["chance_best"].get<double>();
    CHECK(row["expected_s"].get<double>() >= row["iteration_s"].get<double>());
  }
  CHECK(found["rows"][0]["chance_best"].get<double>() > 0);
  CHECK(chances <= 1 + 1e-9);
  CHECK(found["measure"][0] == 1);
  CHECK(found["measure"].size() <= 3);
}
