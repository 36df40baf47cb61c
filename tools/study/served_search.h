// `orrery search` of a served scenario: layouts of replicas, prompts and answers together or apart. Open loops and
// traces with a promise (serving.slo): the fewest GPUs that keep it over all requests (the mean of the load), and those
// that keep it for the requests of the busiest stretch as well (its peak). Closed loops: the front of tokens a second
// and GPU against tokens a second and user, over how many requests are under way.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

/// One fleet that was simulated.
struct ServedFleet {
  std::string layout;             // for people
  std::vector<std::string> sets;  // that make the scenario this fleet
  bool apart = false;             // prompts from answers
  std::int64_t gpus = 0, concurrency = 0;
  double per_gpu = 0, per_user = 0;          // tokens a second written
  double ttft_s = 0, tpot_s = 0;             // at the promised percentile, or its mean of a closed loop
  double kept_pct = 0, peak_kept_pct = 100;  // of requests, within what was promised; of those of the busiest stretch
};

/// Requests that come in the busiest stretch of a load, beside its mean.
struct BusiestStretch {
  double from_s = 0, window_s = 0;
  double requests_per_s = 0, mean_per_s = 0;
};

struct ServedSearch {
  std::string scenario;
  bool fewest = false;  // by GPUs; else the front
  double percentile = 99;
  std::int64_t tried = 0, infeasible = 0;
  std::string refusal;  // the first of them
  std::vector<ServedFleet> best;
  BusiestStretch busiest;            // of an open loop
  std::vector<ServedFleet> at_peak;  // that keep the promise there too, the fewest GPUs first
  /// The best of each kind: by GPUs, or of a front by tokens a second and GPU.
  std::optional<ServedFleet> together, apart;
};

/// Throws sim::UserError where nothing can be searched for. `top`: how many fleets to keep where the fewest GPUs count.
ServedSearch search_served(const sim::Settings& document, std::size_t top, unsigned jobs);
/// The fleets alone, and with the command that runs the first of them.
void write_served_fleets(std::ostream& out, const ServedSearch& search);
/// `command`: that serves the scenario which was searched, as it is typed.
void write_served_search(std::ostream& out, const ServedSearch& search, const std::string& command);
nlohmann::ordered_json served_search_json(const ServedSearch& search);

/// The same traffic with prompts and answers of other lengths: where together is better, and where apart.
struct ServedWorkloadSearch {
  std::int64_t input = 0, output = 0;
  ServedSearch search;
};
/// `lengths`: INPUT:OUTPUT[,INPUT:OUTPUT...]. Throws sim::UserError.
std::vector<ServedWorkloadSearch> search_workloads(const sim::Settings& document, const std::string& lengths,
                                                   unsigned jobs);
void write_workload_searches(std::ostream& out, const std::vector<ServedWorkloadSearch>& searches);
nlohmann::ordered_json workload_searches_json(const std::vector<ServedWorkloadSearch>& searches);

}  // namespace orrery::tools
