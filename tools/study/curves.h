// `orrery reproduce` of curves: what a paper says of the shape of a curve (where its best point is, or that it falls)
// beside the predicted curve. For figures whose numbers are not printed but whose shapes are stated in words.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/report/grid.h"

namespace orrery::tools {

struct Curve {
  std::string name, source, statement;
  bool of_model = false;  // `counts: model`: where curves with and without recomputation are compared
  std::string best;       // the name of the point that is said to be best; empty: the curve is said to fall
  struct Point {
    std::string name;
    double tflops_per_gpu = 0;  // hardware FLOPs, as Megatron-LM counts, or those that the model needs
    bool fits = true;
  };
  std::vector<Point> points;
  /// Whether the predicted points have the stated shape.
  bool as_stated() const;
};

/// Reads and simulates the curves of a document: title, and curves of {name, source, statement, best or falls,
/// scenario, set, points, counts}. Throws sim::UserError; stops early, with fewer points, after Ctrl-C.
std::vector<Curve> simulate_curves(const sim::Settings& document, unsigned jobs);

void write_curves(std::ostream& out, const std::string& title, const std::vector<Curve>& curves);
nlohmann::ordered_json curves_json(const std::string& table, const std::vector<Curve>& curves);

Grid grid_of(const std::string& title, const std::vector<Curve>& curves);

}  // namespace orrery::tools
