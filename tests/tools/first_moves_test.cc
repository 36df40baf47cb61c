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

}  // namespace

TEST_CASE("first moves on the what-if page answer, or the nearest that runs is one button away", "[full-size]") {
  WhatIfEngine engine(WhatIfEngine::Names::shipped);
  std::size_t all = 0, at_once = 0, offered = 0;
  for (const std::string& name : scenarios::shipped("scenarios")) {
    INFO(name);
    const std::string text =
        sim::read_text(scenarios::data_directory() + "/scenarios/" + name + ".yaml", "a YAML file");
    const json base = move_on(engine, text, "", {});
    REQUIRE(base.contains("result"));
    std::size_t moves = 0, dead = 0;
    std::string ends;
    for (const auto& [path, value] : first_moves(base.at("layout"), name.starts_with("dlrm"))) {
      ++moves;
      std::vector<std::string> sets{path + "=" + value};
      const json answer = move_on(engine, text, path, sets);
      if (answer.contains("result")) {
        ++at_once;
        continue;
      }
      if (!answer.contains("nearest")) {
        ++dead;
        ends += fmt::format("\n  {}: {}", sets.front(), answer.value("error", ""));
        continue;
      }
      for (const json& set : answer["nearest"]["set"]) sets.push_back(set);
      (answer["nearest"]["follows"] == true ? at_once : offered) += 1;
      INFO(sets.front() << " and what is offered");
      CHECK(move_on(engine, text, path, sets).contains("result"));
    }
    INFO(ends);
    CHECK(20 * dead <= moves);  // at most one in twenty
    all += moves;
  }
  INFO(at_once << " of " << all << " answer, " << offered << " offer the nearest that runs");
  CHECK(2 * at_once > all);
}
