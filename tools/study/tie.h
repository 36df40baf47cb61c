// Keys of a study that follow from others: --tie pipeline=gpus/tensor/data sets the stages of every point so that all
// GPUs are used.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace orrery::tools {

/// A key and the product or quotient of others that it is.
struct Tie {
  std::string key;
  struct Factor {
    bool divides = false;
    std::string key;          // of the scenario; empty: a number
    std::int64_t number = 1;  // where no key stands
  };
  std::vector<Factor> factors;

  /// Sets the key in a document. Throws sim::UserError at "--tie" where a factor has no whole number above zero there,
  /// or the quotient is none.
  void apply(sim::Settings& document) const;
};

/// "KEY=A*B/C...", where each of A, B, C is a key or a whole number. A key may be written by its last part where
/// parallelism, cluster, batch or model has it, looked for in this order. Throws sim::UserError at "--tie".
Tie parse_tie(const std::string& text);

}  // namespace orrery::tools
