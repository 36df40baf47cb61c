// Measured beside predicted, part by part.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/learn/decompose.h"

namespace orrery::tools {

struct DifferenceRow {
  Part part;
  Tally measured, predicted;
  double difference_s() const { return predicted.seconds - measured.seconds; }
};

struct Difference {
  Decomposition measured, predicted;
  std::vector<DifferenceRow> rows;  // the largest difference first; differences add up to that of the step
  std::vector<std::int64_t> ranks;
};

Difference difference_of(const std::vector<Trace>& measured, const std::vector<Trace>& predicted,
                         const std::vector<std::int64_t>& ranks);

void write_difference(std::ostream& out, const Difference& difference);
nlohmann::ordered_json difference_json(const Difference& difference);

}  // namespace orrery::tools
