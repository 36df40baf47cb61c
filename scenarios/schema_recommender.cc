// The part of the scenario language's table that recommenders have. See schema.h.
#include "scenarios/schema_recommender.h"

#include "sim/key_rows.h"

namespace orrery::scenarios {

std::vector<Key> recommender_keys() {
  return {
      sim::key_row("model.dense_features", "integer", "elements", "-", {}, "Numbers of a sample; for kind dlrm.",
                   {"1", "1000000"}),
      sim::key_row(
          "model.bottom_mlp", "list", "elements", "-", {},
          "Widths of the layers that dense features go through, the last that of an embedding vector; for kind dlrm.",
          {"1", "1000000"}),
      sim::key_row("model.top_mlp", "list", "elements", "-", {},
                   "Widths of the layers behind the cross layers; for kind dlrm.", {"1", "1000000"}),
      sim::key_row("model.cross_layers", "integer", "layers", "0", {},
                   "Cross layers of DCN-V2 (arXiv 2008.13535) over all features put side by side; for kind dlrm.",
                   {"0", "64"}),
      sim::key_row("model.cross_rank", "integer", "elements", "-", {}, "Inner width of a cross layer.",
                   {"1", "1000000"}),
      sim::key_row("model.table_width", "integer", "elements", "-", {}, "Width of an embedding vector.",
                   {"1", "65536"}),
      sim::key_row("model.table_rows", "list", "rows", "-", {}, "Rows of every embedding table, one number for each.",
                   {"1", "1000000000000"}),
      sim::key_row("model.table_lookups", "list", "look-ups", "1 in each", {},
                   "Rows of every table that a sample looks up and adds up.", {"1", "1000000"}),
  };
}

std::vector<Key> table_keys() {
  return {
      sim::key_row("tables", "mapping", "", "-", {},
                   "Where the embedding tables of a recommender lie, and how they are trained."),
      sim::key_row("tables.placement", "choice", "", "auto", {"auto", "table", "row", "column", "data"},
                   "Balanced by look-ups and vectors with hot tables cut by rows; or every table whole on one rank, "
                   "cut by rows or by columns over all ranks, or whole on every rank."),
      sim::key_row("tables.replicate_below", "quantity", "bytes", "8 MB on one node, 12.5 MB on several", {},
                   "With placement auto, tables that take less with their optimizer lie on every rank.",
                   {"0 B", "10 TB"}),
      sim::key_row("tables.memory", "quantity", "bytes", "three quarters of the GPU's", {},
                   "What tables and their optimizer may take of a GPU.", {"1 MB", "10 TB"}),
      sim::key_row("tables.optimizer", "choice", "", "adagrad", {"sgd", "rowwise_adagrad", "adagrad"},
                   "What is kept beside the weights: nothing, a number for each row, or one for each weight."),
      sim::key_row(
          "tables.exchange", "choice", "", "hierarchical where there are several nodes", {"flat", "hierarchical"},
          "Vectors go straight to their ranks, or are added up inside the node of the table and sent on rail by rail."),
      sim::key_row("tables.prefetch", "boolean", "", "true", {},
                   "The next batch's keys are exchanged and sorted beside this batch's passes."),
      sim::key_row("tables.distinct", "number", "", "1", {},
                   "Share of a batch's look-ups that do not repeat another of the batch, in a table without end.",
                   {"0.0001", "1"}),
  };
}

}  // namespace orrery::scenarios
