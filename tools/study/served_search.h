// `orrery search` of a served scenario: layouts of replicas, prompts and answers together or apart. Open loops and
// traces with a promise (serving.slo): the fewest GPUs that keep it. Closed loops: the front of tokens a second and GPU
// against tokens a second and user, over how many requests are under way.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

/// One fleet that was simulated.
struct ServedFleet {
  std::string layout;             // for people
  std::vector<std::string> sets;  // that make the scenario this fleet
  std::int64_t gpus = 0, concurrency = 0;
  double per_gpu = 0, per_user = 0;  // tokens a second written
  double ttft_s = 0, tpot_s = 0;     // at the promised percentile, or its mean of a closed loop
  double kept_pct = 0;               // of requests, within what was promised
};

struct ServedSearch {
  std::string scenario;
  bool fewest = false;  // by GPUs; else the front
  std::int64_t tried = 0, infeasible = 0;
  std::string refusal;  // the first of them
  std::vector<ServedFleet> best;
};

/// Throws sim::UserError where nothing can be searched for. `top`: how many fleets to keep where the fewest GPUs count.
ServedSearch search_served(const sim::Settings& document, std::size_t top, unsigned jobs);
/// The fleets alone, and with the command that runs the first of them.
void write_served_fleets(std::ostream& out, const ServedSearch& search);
void write_served_search(std::ostream& out, const ServedSearch& search);
nlohmann::ordered_json served_search_json(const ServedSearch& search);

}  // namespace orrery::tools
