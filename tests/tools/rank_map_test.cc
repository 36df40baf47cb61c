// Does the map of ranks show where they are?
#include "tools/report/rank_map.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/workloads/example.h"

using namespace orrery;

namespace {

nlohmann::ordered_json map_of(const std::vector<std::string>& sets) {
  const workloads::Job job = tests::small_job(sets);
  return tools::rank_map_json(job.parallelism, job.placement, job.machine);
}

}  // namespace

TEST_CASE("a square of the map is a GPU with its rank and the rank's places") {
  const auto map = map_of({});
  CHECK(map["nodes"] == 2);
  CHECK(map["gpus_per_node"] == 8);
  REQUIRE(map["ranks"].size() == 16);
  REQUIRE(map["dimensions"].size() == 3);  // no context ranks
  for (std::size_t gpu = 0; gpu < 16; ++gpu) {
    INFO(gpu);
    // Rank after rank: tensor fastest, then data, then stages.
    CHECK(map["ranks"][gpu] == nlohmann::json({gpu, gpu % 2, gpu / 2 % 4, gpu / 8}));
  }
  // Eight ranks of a stage fill a node: only a pipeline leaves it.
  for (const auto& dimension : map["dimensions"])
    CHECK(dimension["nodes"] == (dimension["name"] == "pipeline" ? 2 : 1));
}

TEST_CASE("the map follows the placement") {
  // Stages fastest: neighbours in a node are stages of one replica.
  const auto map = map_of({"placement={order: [pipeline, tensor, data, context]}"});
  CHECK(map["ranks"][0] == nlohmann::json({0, 0, 0, 0}));
  CHECK(map["ranks"][1] == nlohmann::json({8, 0, 0, 1}));
  for (const auto& dimension : map["dimensions"]) CHECK(dimension["nodes"] == (dimension["name"] == "data" ? 2 : 1));
}

TEST_CASE("the picture of all GPUs follows from a number of ranks and the dimensions") {
  const std::string mixture =
      "model={kind: moe, layers: 8, hidden: 2048, heads: 16, ffn_hidden: 8192, vocab: 51200, seq: 1024, experts: 8, "
      "top_k: 2, expert_ffn_hidden: 2048}";
  const std::string turned = "placement={order: [pipeline, tensor, data, context]}";
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{},
        {turned},
        {mixture, "parallelism={tensor: 1, pipeline: 2, data: 8, expert: 4, sharding: none}",
         "software=megatron-core-0.16"}}) {
    const auto map = map_of(sets);
    REQUIRE(map["gpus"] == 16);
    // Where the order of ranks is that of GPUs, which it is but in the second, no list of them is written.
    CHECK(map.contains("rank_of_gpu") == (!sets.empty() && sets[0] == turned));
    for (std::size_t gpu = 0; gpu < 16; ++gpu) {
      const auto rank = map.contains("rank_of_gpu") ? map["rank_of_gpu"][gpu].get<std::size_t>() : gpu;
      CHECK(map["ranks"][gpu][0] == rank);
      for (std::size_t d = 0; d < map["dimensions"].size(); ++d) {
        const auto& dimension = map["dimensions"][d];
        const auto number = [&](const char* key) { return dimension[key].get<std::size_t>(); };
        CHECK(map["ranks"][gpu][1 + d] == rank % number("within") / number("cut") % number("size"));
      }
    }
  }
}

TEST_CASE("ranks of experts are a dimension of the map") {
  const auto map = map_of(
      {"model={kind: moe, layers: 8, hidden: 2048, heads: 16, ffn_hidden: 8192, vocab: 51200, seq: 1024, experts: 8, "
       "top_k: 2, expert_ffn_hidden: 2048}",
       "parallelism={tensor: 1, pipeline: 2, data: 8, expert: 4, sharding: none}", "software=megatron-core-0.16"});
  REQUIRE(map["dimensions"].back()["name"] == "expert");
  // Inside the eight data ranks of a stage, numbered on: 0 1 2 3 0 1 2 3.
  for (std::size_t gpu = 0; gpu < 16; ++gpu) CHECK(map["ranks"][gpu].back() == gpu % 4);
}
