// The nearest scenario that runs to one that does not: what follows from a change of one key where it may, other
// layouts where it must.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

struct Nearest {
  std::vector<std::string> sets;  // as --set takes them, laid over the scenario in this order
  bool keeps = true;              // the key that was changed stays as it was asked for
  bool follows = true;            // and what else changes only follows from it: replicas, batch, chunks, schedule
  sim::Settings document;         // with them
};

/// `document` does not run, as `line` says; `changed`: the key that was changed last, empty: none. Nothing where none
/// of a hundred layouts around it runs. `runs`: what a scenario that loads ends with when it is simulated; empty: it
/// runs.
using Complaint = std::function<std::string(const sim::Settings&)>;
std::optional<Nearest> nearest_that_runs(const sim::Settings& document, const std::string& changed,
                                         const std::string& line, const Complaint& runs);

/// As above, of a scenario that is served or post-trained.
std::optional<Nearest> nearest_served(const sim::Settings& document, const std::string& changed,
                                      const std::string& line, const Complaint& runs);

}  // namespace orrery::tools
