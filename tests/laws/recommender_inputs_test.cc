// What the keys of recommenders move. The walk over the schema (inputs_test.cc) asks for these cases too.
#include "tests/catch.h"
#include "tests/laws/inputs.h"

using namespace orrery;
using namespace orrery::tests;

namespace {

/// Laid over the document of the walk: four tables of 32 over eight GPUs of a node.
const Sets kRecommender{"cluster={device: h100-sxm-80gb, gpus: 8}",
                        "model={kind: dlrm, dense_features: 16, bottom_mlp: [256, 32], table_width: 32, table_rows: "
                        "[4000000, 400000, 4000, "
                        "100], table_lookups: [40, 8, 2, 1], cross_layers: 2, cross_rank: 64, top_mlp: [256, 1]}",
                        "parallelism={}",
                        "batch={global: 262144}",
                        "precision=fp16",
                        "software=hugectr",
                        "tables={placement: row, replicate_below: 0 B}"};

Sets recommender_with(const Sets& more) { return plus(kRecommender, more); }

}  // namespace

std::vector<Case> orrery::tests::recommender_cases() {
  using enum Effect;
  return {
      {"model.dense_features", slower, "4096", recommender_with({}), "16"},
      {"model.bottom_mlp", slower, "[8192, 32]", recommender_with({}), "[256, 32]"},
      {"model.top_mlp", slower, "[4096, 1]", recommender_with({}), "[256, 1]"},
      {"model.cross_layers", slower, "4", recommender_with({}), "2"},
      {"model.cross_rank", slower, "2048", recommender_with({}), "64"},
      {"model.table_width", refused, "64", recommender_with({}), ""},  // not the bottom MLP's
      {"model.table_rows", more_memory, "[40000000, 400000, 4000, 100]", recommender_with({}),
       "[4000000, 400000, 4000, 100]"},
      {"model.table_lookups", slower, "[80, 8, 2, 1]", recommender_with({}), "[40, 8, 2, 1]"},
      {"tables.placement", slower, "table", recommender_with({}), "row"},
      {"tables.replicate_below", differs, "10 MB", recommender_with({"tables.placement=auto"}), "0 B"},
      {"tables.memory", refused, "1 MB", recommender_with({}), ""},
      {"tables.optimizer", more_memory, "adagrad", recommender_with({}), "sgd"},
      {"tables.exchange", differs, "flat",
       recommender_with({"cluster={device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}"}), "hierarchical"},
      {"tables.prefetch", slower, "false", recommender_with({}), "true"},
      {"tables.distinct", faster, "0.1", recommender_with({}), "1"},
  };
}

TEST_CASE("every key of a recommender moves the answer as it must, or is refused") {
  for (const Case& c : recommender_cases()) check(c);
}
