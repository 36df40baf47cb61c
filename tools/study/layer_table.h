// `orrery reproduce` of tables that say what one layer takes: its forward and its backward pass.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/report/grid.h"

namespace orrery::tools {

/// One way to run a layer. Seconds of its passes, with the exchanges that nothing hides.
struct LayerRow {
  std::string name;
  struct Times {
    double forward = 0, backward = 0;
    double sum() const { return forward + backward; }
  } published, predicted;
};

struct LayerTable {
  std::string name, title, source;
  std::vector<std::string> notes;
  std::vector<LayerRow> rows;
};

/// Reads and simulates a table: {title, source, scenario, in_place_of_dense, layers, notes}, each of `layers`
/// {name, set, published: {forward_s, backward_s}}. What a layer takes is what two more layers add to a step and to an
/// evaluation, halved; in place of dense ones, what two of four layers add that have experts where they had the
/// scenario's dense MLP before, so that norms, attention and residual cancel. The optimizer's kernels are left out.
/// Throws sim::UserError; stops early, with no rows, after Ctrl-C.
LayerTable simulate_layers(const std::string& name, const sim::Settings& document, unsigned jobs);

Grid grid_of(const LayerTable& table);
nlohmann::ordered_json layer_table_json(const LayerTable& table);

}  // namespace orrery::tools
