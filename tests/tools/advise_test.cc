// Is what `orrery advise` says true when its commands are run, does it find the way to what a search finds, and does it
// weigh its gains against errors that were seen?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/explain/advice.h"
#include "tools/explain/advice_text.h"
#include "tools/study/layouts.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;
using tests::small_scenario;

namespace {

json json_of(std::vector<std::string> arguments) {
  const Outcome outcome = tests::orrery(std::move(arguments));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

/// The result of running a suggestion's changes.
json run_with(const std::string& scenario, const std::vector<std::string>& sets, const json& changes) {
  std::vector<std::string> arguments{"run", scenario, "--json", "-"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  for (const auto& [key, value] : changes.items())
    arguments.insert(arguments.end(), {"--set", fmt::format("{}={}", key, value.get<std::string>())});
  return json_of(arguments);
}

tools::KnownRow known_row(const std::string& list, const std::string& device, double log_ratio) {
  tools::KnownRow row;
  row.list = list;
  row.features.device = device;
  row.features.gpus = 8;
  row.features.sizes.hidden = 1024;
  row.features.sizes.micro_batch = row.features.sizes.seq = row.features.sizes.tensor = 1;
  row.log_ratio = log_ratio;
  return row;
}

}  // namespace

TEST_CASE("what advice promises is what its commands simulate, and the best comes first") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const json advice = json_of({"advise", file, "--top", "8", "--json", "-"});
  const double now = advice["iteration_time_s"];
  CHECK(run_with(file, {}, json::object())["iteration_time_s"] == now);
  REQUIRE(advice["suggestions"].size() >= 4);
  double last = 0;
  bool pairs = false;
  for (const json& s : advice["suggestions"]) {
    INFO(s["command"]);
    const json then = run_with(file, {}, s["set"]);
    CHECK(then["iteration_time_s"] == s["iteration_time_s"]);
    CHECK(then["memory"]["fits"] == true);
    CHECK(then["memory"]["peak_bytes"].get<double>() == Approx(s["peak_bytes"].get<double>()));
    CHECK(s["saved_pct"].get<double>() == Approx(100 * (1 - s["iteration_time_s"].get<double>() / now)));
    CHECK(s["iteration_time_s"].get<double>() >= last);
    CHECK(s["iteration_time_s"].get<double>() < now);
    last = s["iteration_time_s"];
    double sum = 0;
    for (const auto& [part, seconds] : s["breakdown_s"].items()) sum += seconds.get<double>();
    CHECK(sum == Approx(last));
    pairs = pairs || s["kind"].get<std::string>().find(" and ") != std::string::npos;
  }
  CHECK(pairs);
  CHECK(advice["tried"].get<int>() == advice["simulated"].get<int>() + advice["out_of_memory"].get<int>() +
                                          advice["infeasible"].get<int>() + advice["slower_by_bound"].get<int>() +
                                          advice["errors"].get<int>());
  // Single changes alone: none of the suggestions is a pair, and what is left over is simulated.
  const json single = json_of({"advise", file, "--pairs", "0", "--json", "-"});
  for (const json& s : single["suggestions"]) CHECK(s["kind"].get<std::string>().find(" and ") == std::string::npos);
  CHECK(single["simulated"].get<int>() < advice["simulated"].get<int>());
}

TEST_CASE("advice on a question by flags names a command that runs the layout it found") {
  const json advice =
      json_of({"advise", "--model", "gpt3-6.7b", "--device", "h100", "--gpus", "8", "--jobs", "1", "--json", "-"});
  REQUIRE(!advice["suggestions"].empty());
  const json& first = advice["suggestions"][0];
  const std::string command = first["command"];
  INFO(command);
  REQUIRE(command.starts_with("orrery run --model gpt3-6.7b --device h100 --gpus 8 --set parallelism.tensor="));
  REQUIRE(command.find('\'') == std::string::npos);
  std::vector<std::string> words;
  std::istringstream text(command.substr(command.find(' ') + 1));
  for (std::string word; text >> word;) words.push_back(word);
  words.insert(words.end(), {"--json", "-"});
  CHECK(json_of(words)["iteration_time_s"] == first["iteration_time_s"]);
}

TEST_CASE("no single change of a key that a sweep tries beats the advice") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const json advice = json_of({"advise", file, "--json", "-"});
  const double best = advice["suggestions"][0]["iteration_time_s"];
  for (const char* vary : {"batch.micro=1,2,4", "parallelism.tensor=1,2,4,8", "parallelism.pipeline=1,2,4,8",
                           "parallelism.sharding=none,optimizer,gradients,parameters", "recompute=none,selective,full",
                           "parallelism.schedule=gpipe,interleaved_1f1b,zb_v,v_half,v_min,dualpipe",
                           "overlap.tensor=true,false", "parallelism.virtual_pipeline=1,2,4"}) {
    const json sweep = json_of({"sweep", file, "--set", "parallelism.data=null", "--vary", vary, "--json", "-"});
    std::size_t ok = 0;
    for (const json& row : sweep["rows"]) {
      if (row["status"] != "ok") continue;
      ++ok;
      CHECK(row["iteration_s"].get<double>() >= best);
    }
    INFO(vary);
    CHECK(ok >= 2);
  }
}

TEST_CASE("a step that does not fit gets its ways out, each of which fits") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const std::vector<std::string> sets{"batch.micro=256", "batch.global=4096"};
  std::vector<std::string> arguments{"advise", file, "--json", "-"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  const json advice = json_of(arguments);
  CHECK(advice["memory"]["fits"] == false);
  REQUIRE_FALSE(advice["suggestions"].empty());
  for (const json& s : advice["suggestions"]) CHECK(run_with(file, sets, s["set"])["memory"]["fits"] == true);
  arguments = {"advise", file};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  CHECK(tests::orrery(arguments).out.starts_with("OUT OF MEMORY: "));
}

TEST_CASE("other numerics stand apart, and what a framework must have is named") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const json advice = json_of({"advise", file, "--top", "50", "--json", "-"});
  REQUIRE_FALSE(advice["numerics"].empty());
  for (const json& s : advice["numerics"]) {
    CHECK(s["changes_numerics"] == true);
    CHECK(s["set"].contains("precision"));
  }
  bool named = false;
  for (const json& s : advice["suggestions"]) {
    CHECK(s["changes_numerics"] == false);
    CHECK_FALSE(s["set"].contains("precision"));
    if (s["kind"] == "schedule") named = s["needs"].get<std::string>().starts_with("schedule ");
  }
  CHECK(named);
}

TEST_CASE("the first suggestion, taken again and again, ends where the search does", "[full-size]") {
  // From layouts drawn at random: six suggestions in turn must end within 3 % of the best that the search simulates, in
  // the median. Advice tries more keys than the search and may end below it.
  std::mt19937_64 random(7);
  std::vector<double> ends;
  for (const char* gpus : {"gpus: 16, gpus_per_node: 8", "gpus: 32, gpus_per_node: 8"}) {
    sim::Settings document = scenarios::parse_yaml(small_scenario("gpus: 16, gpus_per_node: 8", gpus), "small.yaml");
    scenarios::apply_set(document, "batch.global=64");
    tools::LayoutSpace space(document, {});
    const Folder folder;
    std::string text = small_scenario("gpus: 16, gpus_per_node: 8", gpus);
    text.replace(text.find("data: 4, "), 9, "");
    const std::string file = folder.write("s.yaml", text);
    const json search = json_of({"search", file, "--set", "batch.global=64", "--top", "1", "--json", "-"});
    const double best = search["rows"][0]["iteration_s"];
    for (int start = 0; start < 4;) {
      const tools::Layout& layout = space.layouts()[random() % space.layouts().size()];
      sim::Settings here = document;
      for (const auto& [key, value] : tools::settings_of(layout)) scenarios::apply_set(here, key + "=" + value);
      try {
        scenarios::load_scenario(here);
      } catch (const sim::UserError&) {
        continue;  // cannot run
      }
      ++start;
      double end = 0;
      for (int step = 0; step < 6; ++step) {
        const tools::Advice advice = tools::advise(here, {1, 32, 2});
        end = advice.now.step_s;
        if (advice.suggestions.empty()) break;
        end = advice.suggestions[0].step_s;
        for (const std::string& set : advice.suggestions[0].set) scenarios::apply_set(here, set);
      }
      ends.push_back(end / best - 1);
    }
  }
  std::sort(ends.begin(), ends.end());
  INFO(fmt::format("{:.4f}", fmt::join(ends, " ")));
  CHECK(ends[ends.size() / 2] <= 0.03);
}

TEST_CASE("errors of ratios are those of the parts that two layouts spend differently, found again from pairs") {
  // Three layouts of each of eight frameworks: half of the step, a third and none of it in collectives of tensor
  // groups, which take 20 % longer than predicted in one half of the frameworks and 20 % less in the other. Steps of
  // which so much is off by so much are off by exp of 0.2 times the share; nothing else is off.
  std::vector<tools::KnownRow> known;
  for (int framework = 0; framework < 8; ++framework) {
    for (int tensor = 1; tensor <= 3; ++tensor) {
      tools::KnownRow row = known_row(fmt::format("list-{}", framework), "h100-sxm-80gb", 0);
      row.features.software = fmt::format("framework{}-1", framework);
      row.features.sizes.tensor = tensor;
      row.features.exposed_s = {};
      const double share = tensor == 1 ? 0 : tensor == 2 ? 1 / 3.0 : 0.5;
      row.features.exposed_s[static_cast<std::size_t>(workloads::Category::compute)] = 1 - share;
      row.features.exposed_s[static_cast<std::size_t>(workloads::Category::tensor_comm)] = share;
      row.log_ratio = (framework % 2 == 0 ? 0.2 : -0.2) * share;
      known.push_back(row);
    }
  }
  const auto errors = tools::fit_pair_errors(known);
  REQUIRE(errors);
  CHECK(errors->pairs == 24);
  CHECK(errors->groups == 8);
  CHECK(errors->own < 0.02);
  // What tensor groups gain computation loses: the two errors are told apart by nothing, their sum is 0.2 a share.
  const tools::Shares none{1, 0, 0, 0, 0}, half{0.5, 0.5, 0, 0, 0}, third{2 / 3.0, 1 / 3.0, 0, 0, 0};
  CHECK(errors->scale(none, half) == Approx(0.1).epsilon(0.25));
  CHECK(errors->scale(third, half) < errors->scale(none, half));
  CHECK(errors->scale(half, half) == Approx(errors->own));
  CHECK_FALSE(tools::fit_pair_errors({known[0], known[1]}));  // two layouts are no group
}

TEST_CASE("gains are weighed against the error of such ratios; of two equal layouts each is best half of the time") {
  tools::PairErrors errors;
  errors.own = 0.05;
  errors.of = {0, 0.5, 0, 0, 0};
  const tools::Shares plain{1, 0, 0, 0, 0}, talks{0.8, 0.2, 0, 0, 0};
  // Alike: 1.134 and 2.132 times 5 %, quantiles of Student's t of four degrees.
  CHECK(tools::confidence_of(0.05, errors, plain, plain) == tools::Confidence::within);
  CHECK(tools::confidence_of(0.06, errors, plain, plain) == tools::Confidence::likely);
  CHECK(tools::confidence_of(0.11, errors, plain, plain) == tools::Confidence::beyond);
  CHECK(tools::confidence_of(0.06, errors, plain, talks) == tools::Confidence::within);  // 11 % of their own
  CHECK(tools::confidence_of(0.06, std::nullopt, plain, plain) == tools::Confidence::unknown);
  const auto even = tools::chances_of(errors, {{1.0, plain}, {1.0, plain}});
  CHECK(even[0].best == Approx(0.5).margin(0.03));
  CHECK(even[0].best + even[1].best == Approx(1));
  CHECK(even[1].tied);
  // A gap of 10 % and an error of 5 %: two standard deviations, 2.3 %.
  const auto apart = tools::chances_of(errors, {{1.0, plain}, {std::exp(0.1), plain}});
  CHECK(apart[1].best == Approx(0.0228).margin(0.01));
  CHECK_FALSE(apart[1].tied);
  // What talks more may be off by more, so that its step is expected longer than predicted by more.
  const auto both = tools::chances_of(errors, {{1.0, talks}, {1.0, plain}});
  CHECK(both[0].expected_s == Approx(std::exp((0.05 * 0.05 + 0.1 * 0.1) / 2)));
  CHECK(both[1].expected_s == Approx(std::exp(0.05 * 0.05 / 2)));
}

TEST_CASE("a reason names the part that shrinks most and the one that grows most") {
  std::array<double, workloads::kCategories> now{}, then{};
  const auto at = [](workloads::Category c) { return static_cast<std::size_t>(c); };
  now[at(workloads::Category::compute)] = 6;
  now[at(workloads::Category::bubble)] = 3;
  now[at(workloads::Category::data_comm)] = 1;
  then = now;
  then[at(workloads::Category::bubble)] = 1;
  then[at(workloads::Category::data_comm)] = 1.5;
  CHECK(tools::reason_text(now, then, 10) ==
        "bubble falls from 30.0 to 10.0 % of the step as it is, data_comm rises from 10.0 to 15.0 %");
  CHECK(tools::reason_text(now, now, 10) == "every part of the step stays as it is");
}

TEST_CASE("what follows from a change follows: data, micro-batch, chunks and schedule") {
  const sim::Settings document = scenarios::parse_yaml(small_scenario(), "small.yaml");
  const tools::Arrangement here =
      tools::arrangement_of(scenarios::load_scenario(document));  // 16 GPUs, TP 2, PP 2x2, DP 4, batch 16 x 1
  const auto set = [&](std::map<std::string, std::string> changes) {
    const auto lines = tools::assignments(here, {"", std::move(changes)});
    return lines ? fmt::format("{}", fmt::join(*lines, " ")) : std::string("none");
  };
  CHECK(set({{"parallelism.tensor", "4"}}) == "parallelism.data=2 parallelism.tensor=4");
  CHECK(set({{"parallelism.tensor", "3"}}) == "none");
  // One stage has one chunk, and 1F1B.
  CHECK(set({{"parallelism.pipeline", "1"}}) ==
        "parallelism.data=8 parallelism.pipeline=1 parallelism.schedule=1f1b parallelism.virtual_pipeline=1");
  CHECK(set({{"parallelism.virtual_pipeline", "1"}}) == "parallelism.schedule=1f1b parallelism.virtual_pipeline=1");
  CHECK(set({{"batch.micro", "2"}}) == "batch.micro=2");
  // 16 sequences on 4 replicas: 4 micro-batches of 1, or 1 of 4, of which interleaving on two stages needs a multiple
  // of two; 2 is the largest divisor of 4 that leaves as many.
  CHECK(set({{"batch.micro", "4"}}) == "batch.micro=2");
  CHECK(set({{"parallelism.schedule", "zb_v"}}) == "parallelism.schedule=zb_v");
}

TEST_CASE("launches are replayed as graphs: whole steps, or of dropless experts what does not hang on their counts") {
  const std::string mixture = R"(
cluster: {device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}
model: {kind: moe, layers: 4, hidden: 1024, heads: 8, kv_heads: 4, vocab: 2560, seq: 512, gated_mlp: true,
        tied_embeddings: false, positions: rotary, norm: rms_norm, biases: none,
        experts: 16, top_k: 4, expert_ffn_hidden: 512}
parallelism: {tensor: 1, pipeline: 1, expert: 8, sequence_parallel: false, sharding: optimizer}
batch: {global: 64, micro: 1}
software: nemo-26.04
)";
  const auto graphs = [&](std::vector<std::string> sets) {
    sim::Settings document = scenarios::parse_yaml(mixture, "mixture.yaml");
    for (const std::string& set : sets) scenarios::apply_set(document, set);
    std::vector<std::string> found;
    for (const tools::WhatIf& what_if : tools::what_ifs(tools::arrangement_of(scenarios::load_scenario(document)))) {
      if (what_if.kind != "CUDA graphs") continue;
      CHECK(what_if.needs.starts_with("CUDA graphs"));
      found.push_back({});
      for (const auto& [key, value] : what_if.set) found.back() += fmt::format("{}={} ", key, value);
    }
    return found;
  };
  const std::string part = "software.graphs=ahead_of_counts ", whole = "software.features=[cuda-graphs] ";
  CHECK(graphs({}) == std::vector<std::string>{part, "experts.paged_stash=true " + whole});
  // Where no count is waited for, a step is one graph as it stands; where launches are replayed already, there is none.
  CHECK(graphs({"experts.paged_stash=true"}) == std::vector<std::string>{whole});
  CHECK(graphs({"experts.capacity_factor=1", "experts.pad_to_capacity=true"}) == std::vector<std::string>{whole});
  CHECK(graphs({"software.features=[cuda-graphs]"}).empty());
  CHECK(graphs({"software.graphs=ahead_of_counts"}) == std::vector<std::string>{"experts.paged_stash=true " + whole});

  // Nearly all of such a small step is the host's, and advice says how to be rid of it.
  const Folder folder;
  const std::string file = folder.write("mixture.yaml", mixture);
  const json advice = json_of({"advise", file, "--top", "8", "--pairs", "0", "--json", "-"});
  const double step = advice["iteration_time_s"];
  CHECK(advice["breakdown_s"]["host"].get<double>() > step / 2);
  const auto proposed = std::find_if(advice["suggestions"].begin(), advice["suggestions"].end(),
                                     [](const json& s) { return s["kind"] == "CUDA graphs"; });
  REQUIRE(proposed != advice["suggestions"].end());
  CHECK((*proposed)["breakdown_s"]["host"].get<double>() < advice["breakdown_s"]["host"].get<double>() / 2);
  CHECK(run_with(file, {}, (*proposed)["set"])["iteration_time_s"] == (*proposed)["iteration_time_s"]);
}

TEST_CASE("run --advise adds three lines, and commands repeat what was set and quote what a shell would read") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const std::string plain = tests::orrery({"run", file}).out, advised = tests::orrery({"run", file, "--advise"}).out;
  CHECK(plain.find("What to change") == std::string::npos);
  CHECK(advised.find("\nWhat to change (`orrery advise` says why)\n") != std::string::npos);
  tools::Suggestion suggestion;
  suggestion.set = {"recompute={kind: selective, modules: [mlp]}", "batch.micro=2"};
  CHECK(tools::command_of("my file.yaml", {"batch.micro=1", "precision=fp8"}, suggestion) ==
        "orrery run 'my file.yaml' --set precision=fp8 --set 'recompute={kind: selective, modules: [mlp]}' --set "
        "batch.micro=2");
  tests::check_refused(tests::orrery({"advise", file, "--pairs", "-1"}), "--pairs");
  tests::check_refused(tests::orrery({"advise", file, "--set", "batch.micro=x"}), "batch.micro");
}
