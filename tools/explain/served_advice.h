// `orrery advise` of a served scenario: what each change of its engine, layout or fleet gains, each simulated as
// `orrery serving` would. One change at a time; what a scenario cannot be is left out with its reason.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

struct ServedChange {
  std::string what;               // for people; empty: as it is
  std::vector<std::string> sets;  // as --set takes them
  double per_gpu = 0;             // tokens a second written, of a GPU that is held
  double kept_pct = 0;            // of requests, within what was promised; all where nothing was
  double ttft_s = 0, tpot_s = 0;  // 99th percentiles
  double gpus = 0;                // held in the mean
  double joules = 0;              // a token; 0: unknown
};

struct ServedAdvice {
  std::string scenario;
  ServedChange now;
  bool promised = false;
  std::vector<ServedChange> better, other;  // the best first
  std::vector<std::string> refused;         // what cannot be, and why
};

/// Throws UserError where the scenario does not run.
ServedAdvice advise_served(const sim::Settings& document, unsigned jobs);
void write_served_advice(std::ostream& out, const ServedAdvice& advice, const std::string& scenario, std::size_t top);
nlohmann::ordered_json served_advice_json(const ServedAdvice& advice);

}  // namespace orrery::tools
