// `orrery traffic`: what each parallel dimension moves. The closed form and the count in the simulated plan are made
// independently; a row where they differ says so.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "tools/command_options.h"
#include "tools/commands.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "workloads/step/step.h"

namespace orrery::tools {

namespace {

using workloads::StepReport;
using workloads::TrafficRow;

struct TrafficOptions {
  std::string scenario, json;
  std::vector<std::string> sets;
};

/// Sums of many doubles: equal up to rounding.
bool agree(const TrafficRow& row) {
  constexpr double kRounding = 1e-9;
  return std::abs(row.closed_form_bytes - row.simulated_bytes) <=
         kRounding * std::max(std::abs(row.closed_form_bytes), std::abs(row.simulated_bytes));
}

void write_traffic(std::ostream& out, const scenarios::Scenario& scenario, const StepReport& report) {
  out << wrapped(fmt::format("{}: {}", scenario.id, scenario_line(scenario.job)), "", "  ") << '\n';
  TextTable table({{"dimension", Align::left},
                   {"operation", Align::left},
                   {"group"},
                   {"level", Align::left},
                   {"calls/\nlayer"},
                   {"calls/\nstep"},
                   {"bytes/\ncall"},
                   {"closed\nform"},
                   {"simulated"},
                   {"check", Align::left}},
                  "", 2);
  bool all_agree = true;
  for (const TrafficRow& row : report.traffic) {
    all_agree = all_agree && agree(row);
    table.add_row({row.dimension, row.operation, fmt::format("{}", row.group), row.level,
                   row.calls_per_layer > 0 ? fmt::format("{:g}", row.calls_per_layer) : "-",
                   fmt::format("{:g}", row.calls), bytes_text(row.bytes_per_call), bytes_text(row.closed_form_bytes),
                   bytes_text(row.simulated_bytes), agree(row) ? "OK" : "differs"});
    if (!row.what.empty()) table.add_note("    " + row.what);
  }
  table.write(out);
  out << "\nclosed form and simulated: bytes sent in one step, all ranks together; bytes/call: the whole buffer.\n";
  out << (all_agree ? "Every row agrees.\n" : "SOME ROWS DIFFER: this is a bug of the simulator.\n");
  if (report.tier_bytes.empty()) return;
  out << "\nBytes per step by the highest network tier that they cross\n";
  TextTable tiers({{"", Align::left}, {""}});
  for (const StepReport::TierBytes& tier : report.tier_bytes) {
    tiers.add_row({std::string(topology::name_of(tier.tier)), bytes_text(tier.bytes)});
  }
  tiers.write(out);
}

nlohmann::ordered_json traffic_document(const scenarios::Scenario& scenario, const StepReport& report) {
  nlohmann::ordered_json json;
  json["scenario"] = scenario.id;
  json["gpus"] = report.gpus;
  json["traffic"] = nlohmann::ordered_json::array();
  for (const TrafficRow& row : report.traffic) {
    json["traffic"].push_back(traffic_json(row));
    json["traffic"].back()["check"] = agree(row) ? "OK" : "differs";
  }
  json["tier_bytes"] = tier_bytes_json(report);
  return json;
}

int traffic(const TrafficOptions& options) {
  check_writable(options.json);
  const scenarios::Scenario scenario =
      scenarios::load_scenario(scenarios::read_scenario(options.scenario, options.sets));
  const StepReport report = workloads::simulate_step(scenario.job);
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, traffic_document(scenario, report)); });
  }
  if (options.json != "-") write_traffic(std::cout, scenario, report);
  return kDone;
}

}  // namespace

Action declare_traffic(CommandOptions app) {
  const auto options = std::make_shared<TrafficOptions>();
  app.add_option("scenario", options->scenario, "scenario file (YAML)").required();
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--json", options->json, "write the table as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  return [options] { return traffic(*options); };
}

}  // namespace orrery::tools
