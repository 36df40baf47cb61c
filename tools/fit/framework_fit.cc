// A generation fitted as a whole. Steps alone tell much less than a trace (tools/learn): a handful of rows cannot tell
// ten numbers apart. So every number is held to what the nearest generation has by a ridge, as strong as its prior is
// narrow, and the report says which of them the rows themselves determine.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "calibration/framework/software.h"
#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/fit/step_fit.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// `prior`: how far frameworks lie apart in it: about the spread over the generations that ship.
struct Row {
  const char *key, *unit;
  double low, high, prior;
  const char* meaning;
};
constexpr Row kRows[] = {
    {"kernel_issue", "us", 0, 100, 3, "host time of a launch"},
    {"backward_issue_share", "", 0.1, 3, 0.3, "of a launch in the backward pass"},
    {"microbatch_host", "us", 0, 50'000, 2'000, "host time of a micro-batch"},
    {"transfer_issue", "us", 0, 1'000, 15, "host time of a call"},
    {"tensor_call", "us", 0, 2'000, 100, "host time around a call of a tensor group"},
    {"checked_call_per_rank", "us", 0, 1'000, 50, "host time of a call that ranks compare, for each of them"},
    {"extra_kernels_per_layer", "", 0, 100, 6, "small kernels beyond those modelled"},
    {"qkv_copies", "", 0, 20, 3, "copies of q, k and v forward, and what else runs as long"},
    {"qkv_gradient_copies", "", 0, 20, 3, "the same backward"},
    {"compute_slowdown_under_collective", "", 1, 2, 0.1, "kernels beside data-parallel collectives"},
    {"tensor_overlap_slowdown", "", 1, 2, 0.1, "products that are split to overlap"},
    {"pipeline_slowdown", "", 1, 1.5, 0.04, "kernels of a pipeline's stages"},
    {"kernel_slowdown", "", 1, 2, 0.1, "all kernels over the profile's"},
    {"collective_base", "us", 0, 500, 15, "fixed cost of a collective between nodes"},
    {"collective_step_ring", "us", 0, 100, 8, "of a step of a ring between nodes"},
};

std::string amount(double value, const char* unit) {
  return *unit == '\0' ? fmt::format("{:.6g}", value) : fmt::format("{:.6g} {}", value, unit);
}

bool any_reads(const std::vector<std::string>& lists, const std::string& key, const std::string& file) {
  const scenarios::DocumentKey wanted{"software", calibration::present_key(key)};
  for (const ListedRecord& record : read_lists(lists)) {
    try {
      if (scenarios::reads_from(record.settings, wanted, file)) return true;
    } catch (const sim::UserError&) {  // a record that names what is not there: the fit says so
    }
  }
  return false;
}

Settings patterns(const std::vector<std::string>& ids) {
  Settings out = Settings::sequence({"--records", 0, 0});
  for (const std::string& id : ids) out.append(Settings::scalar(id, {"--records", 0, 0}, true));
  return out;
}

}  // namespace

StepFit framework_fit(const std::string& generation, const std::vector<std::string>& lists,
                      const std::vector<std::string>& only, const std::vector<std::string>& except, double ridge) {
  const sim::Place place{"--framework", 0, 0};
  const Settings name = Settings::scalar(generation, place);
  const std::string file = scenarios::document_file("software", name);
  Settings document = Settings::mapping(place);
  const auto set = [&](Settings& to, const char* key, const std::string& value) {
    to.set(key, Settings::scalar(value, place));
  };
  set(document, "description",
      fmt::format("{} as a whole on measured steps, held to its own numbers by a ridge of {:.3g}", generation, ridge));
  Settings parameters = Settings::sequence(place);
  for (const Row& row : kRows) {
    if (!any_reads(lists, row.key, file)) continue;
    Settings one = Settings::mapping(place);
    set(one, "document", generation);
    set(one, "key", std::string("software.") + row.key);
    set(one, "low", amount(row.low, row.unit));
    set(one, "high", amount(row.high, row.unit));
    set(one, "prior", amount(row.prior, row.unit));
    set(one, "meaning", row.meaning);
    parameters.append(std::move(one));
  }
  if (parameters.items().empty())
    throw sim::UserError(fmt::format("--framework: no row of these lists reads {}, expected records with software: {}",
                                     generation, generation));
  document.set("parameters", std::move(parameters));
  Settings rows = Settings::sequence(place);
  for (const std::string& list : lists) {
    Settings one = Settings::mapping(place);
    set(one, "list", std::filesystem::absolute(list).string());
    if (!only.empty()) one.set("records", patterns(only));
    if (!except.empty()) one.set("except", patterns(except));
    rows.append(std::move(one));
  }
  document.set("rows", std::move(rows));
  set(document, "loss", "heavy_tailed");
  set(document, "ridge", fmt::format("{}", ridge));
  set(document, "starts", "1");
  return step_fit_of(document, "--framework");
}

std::string framework_text(const StepFit& fit, const FitOutcome& outcome, const std::string& generation,
                           const std::string& name) {
  std::string out = fmt::format("# Fitted by orrery fit --framework on {} measured steps.\nname: {}\ninherits: {}\n",
                                fit.rows.size(), name, generation);
  out += "provenance: fitted on measured steps of the user's own jobs, held to the generation that it inherits\n";
  out += "fitted:\n";
  const std::vector<Verdict> all = verdicts(fit, outcome);
  for (std::size_t p = 0; p < all.size(); ++p) {
    const FitParameter& parameter = fit.parameters[p];
    const char* unit = parameter.unit.c_str();
    out += fmt::format("  # {} before; {}{}\n", amount(parameter.start, unit),
                       all[p].determined ? fmt::format("determined to {}", amount(all[p].standard_error, unit))
                                         : "not determined by these rows, held by the ridge",
                       all[p].at_bound ? "; at its bound" : "");
    const std::string& key = parameter.key.key;  // written without its block
    out += fmt::format("  {}: {}\n", key.substr(key.rfind('.') + 1), parameter.text_of(all[p].value));
  }
  return out;
}

}  // namespace orrery::tools
