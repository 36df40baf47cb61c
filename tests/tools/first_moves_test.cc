// Whatever is moved first on the what-if page, on whichever scenario that ships: does it answer, or does the page have
// the nearest that runs behind one button? The moves are those of the page's controls: twice and half of each number,
// another entry of each menu.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/text_file.h"
#include "tests/catch.h"
#include "tools/whatif/engine.h"

using namespace orrery;
using nlohmann::json;
using tools::WhatIfEngine;

namespace {

using Move = std::pair<std::string, std::string>;

json move_on(WhatIfEngine& engine, const std::string& text, const std::string& changed,
             const std::vector<std::string>& sets) {
  const json request{{"do", "run"},       {"text", text},    {"sets", sets},
                     {"remedies", false}, {"nearest", true}, {"changed", changed}};
  return json::parse(engine.answer(request.dump()));
}

/// Twice and half of a number where the layout has one.
void add_numbers(std::vector<Move>& moves, const json& layout, const char* path) {
  const auto now = layout.at(path).get<std::int64_t>();
  moves.emplace_back(path, fmt::format("{}", 2 * now));
  if (now > 1) moves.emplace_back(path, fmt::format("{}", (now + 1) / 2));
}

std::vector<Move> first_moves(const json& layout, bool recommender) {
  std::vector<Move> moves;
  add_numbers(moves, layout, "cluster.gpus");
  add_numbers(moves, layout, "batch.global");
  moves.emplace_back("cluster.device",
                     layout.at("cluster.device") == "h200-sxm-141gb" ? "h100-sxm-80gb" : "h200-sxm-141gb");
  moves.emplace_back("cluster.device", "b200-sxm-180gb");
  if (recommender) return moves;
  for (const char* path : {"parallelism.tensor", "parallelism.pipeline", "parallelism.context", "batch.micro"})
    add_numbers(moves, layout, path);
  if (layout.at("parallelism.pipeline") > 1) add_numbers(moves, layout, "parallelism.virtual_pipeline");
  if (layout.at("model.experts") > 0) add_numbers(moves, layout, "parallelism.expert");
  moves.emplace_back("model.seq", fmt::format("{}", 2 * layout.at("model.seq").get<std::int64_t>()));
  for (const Move& move : std::vector<Move>{{"precision", "fp8"},
                                            {"recompute", "full"},
                                            {"parallelism.sharding", "parameters"},
                                            {"parallelism.sharding", "none"},
                                            {"parallelism.schedule", "gpipe"},
                                            {"parallelism.sequence_parallel", "true"},
                                            {"software", "megatron-core-0.16"},
                                            {"model", "llama3.1-70b"},
                                            {"cluster.fabric", "ndr-rail"}})
    moves.push_back(move);
  return moves;
}

/// What came of the first moves on one scenario, or on all of them.
struct FirstMoves {
  std::size_t all = 0, at_once = 0, offered = 0;
};

/// Every `every`-th move on a scenario; at most one in twenty of them may end nowhere.
void try_moves(WhatIfEngine& engine, const std::string& name, std::size_t every, FirstMoves& tried) {
  INFO(name);
  const std::string text = sim::read_text(scenarios::data_directory() + "/scenarios/" + name + ".yaml", "a YAML file");
  const json base = move_on(engine, text, "", {});
  REQUIRE(base.contains("result"));
  const std::vector<Move> moves = first_moves(base.at("layout"), name.starts_with("dlrm"));
  std::size_t dead = 0;
  std::string ends;
  for (std::size_t i = 0; i < moves.size(); i += every) {
    const auto& [path, value] = moves[i];
    ++tried.all;
    std::vector<std::string> sets{path + "=" + value};
    const json answer = move_on(engine, text, path, sets);
    if (answer.contains("result")) {
      ++tried.at_once;
      continue;
    }
    if (!answer.contains("nearest")) {
      ++dead;
      ends += fmt::format("\n  {}: {}", sets.front(), answer.value("error", ""));
      continue;
    }
    for (const json& set : answer["nearest"]["set"]) sets.push_back(set);
    (answer["nearest"]["follows"] == true ? tried.at_once : tried.offered) += 1;
    INFO(sets.front() << " and what is offered");
    CHECK(move_on(engine, text, path, sets).contains("result"));
  }
  INFO(ends);
  CHECK(20 * dead <= moves.size());
}

}  // namespace

TEST_CASE("first moves on the what-if page answer, or the nearest that runs is one button away", "[full-size]") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  FirstMoves tried;
  for (const std::string& name : scenarios::shipped("scenarios")) try_moves(engine, name, 1, tried);
  INFO(tried.at_once << " of " << tried.all << " answer, " << tried.offered << " offer the nearest that runs");
  CHECK(2 * tried.at_once > tried.all);
}

TEST_CASE("of every twelfth scenario that ships every third first move answers, or offers the nearest that runs") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  FirstMoves tried;
  const std::vector<std::string> names = scenarios::shipped("scenarios");
  for (std::size_t i = 0; i < names.size(); i += 12) try_moves(engine, names[i], 3, tried);
  INFO(tried.at_once << " of " << tried.all << " answer, " << tried.offered << " offer the nearest that runs");
  CHECK(2 * tried.at_once > tried.all);
}

namespace {

/// Moves of the controls of a served scenario, and of one that is post-trained.
const std::vector<std::pair<std::string, std::vector<Move>>> kServedMoves{
    {"serving/llama3.1-70b-serving-h100",
     {{"serving.pools[0].parallelism.tensor", "8"},
      {"serving.pools[0].parallelism.tensor", "2"},
      {"serving.pools[0].parallelism.pipeline", "2"},
      {"serving.pools[0].parallelism.attention_data", "2"},
      {"serving.pools[0].replicas", "4"},
      {"serving.pools[0].max_batched_tokens", "512"},
      {"cluster.gpus", "4"},
      {"cluster.gpus", "16"},
      {"cluster.device", "mi300x"},
      {"cluster.device", "l40s-48gb"},
      {"model", "deepseek-v3"},
      {"model", "qwen3-32b"},
      {"precision.weights", "fp8"},
      {"precision.kv_cache", "fp8"},
      {"software", "trtllm-1.0"},
      {"traffic.rate", "20/s"}}},
    {"rl/qwen3-32b-grpo-256h100-separate",
     {{"cluster.gpus", "128"},
      {"cluster.gpus", "512"},
      {"rl.placement", "colocated"},
      {"rl.placement.rollout_gpus", "192"},
      {"rl.prompts", "500"},
      {"rl.rollout.pools[0].parallelism.tensor", "8"},
      {"rl.training.parallelism.tensor", "16"},
      {"rl.training.parallelism.pipeline", "4"},
      {"rl.algorithm", "ppo"},
      {"rl.framework", "nemo-rl-0.6"},
      {"cluster.device", "b200-sxm-180gb"},
      {"model", "qwen3-235b-a22b"}}},
};

}  // namespace

TEST_CASE("first moves on what is served or post-trained answer, or offer the nearest that runs") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  for (const auto& [name, moves] : kServedMoves) {
    std::string text = sim::read_text(scenarios::data_directory() + "/scenarios/" + name + ".yaml", "a YAML file");
    for (const auto& [path, value] : moves) {
      std::vector<std::string> sets{path + "=" + value};
      if (path == "rl.placement") sets.emplace_back("rl.weight_transfer=null");
      if (name.starts_with("serving")) sets.emplace_back("traffic.duration=60 s");
      INFO(name << " " << sets.front());
      const json answer = move_on(engine, text, path, sets);
      if (answer.contains("result")) continue;
      INFO(answer.value("error", ""));
      REQUIRE(answer.contains("nearest"));
      for (const json& set : answer["nearest"]["set"]) sets.push_back(set);
      CHECK(move_on(engine, text, path, sets).contains("result"));
    }
  }
}
