// `orrery traffic`: what each parallel dimension moves. The closed form and the count in the simulated plan are made
// independently; a row where they differ says so.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/sheet.h"
#include "tools/report/text.h"
#include "workloads/step/step.h"

namespace orrery::tools {

namespace {

using workloads::StepReport;
using workloads::TrafficRow;

struct TrafficOptions {
  std::string scenario, json, report;
  std::vector<std::string> sets;
};

/// Sums of many doubles: equal up to rounding.
bool agree(const TrafficRow& row) {
  constexpr double kRounding = 1e-9;
  return std::abs(row.closed_form_bytes - row.simulated_bytes) <=
         kRounding * std::max(std::abs(row.closed_form_bytes), std::abs(row.simulated_bytes));
}

constexpr const char* kBytesMeaning =
    "closed form and simulated: bytes sent in one step, all ranks together; bytes/call: the whole buffer.";

bool all_agree(const StepReport& report) { return std::all_of(report.traffic.begin(), report.traffic.end(), agree); }

TextTable traffic_table(const StepReport& report) {
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
  for (const TrafficRow& row : report.traffic) {
    table.add_row({row.dimension, row.operation, fmt::format("{}", row.group), row.level,
                   row.calls_per_layer > 0 ? fmt::format("{:g}", row.calls_per_layer) : "-",
                   fmt::format("{:g}", row.calls), bytes_text(row.bytes_per_call), bytes_text(row.closed_form_bytes),
                   bytes_text(row.simulated_bytes), agree(row) ? "OK" : "differs"});
    if (!row.what.empty()) table.add_note("    " + row.what);
  }
  return table;
}

TextTable tier_table(const StepReport& report) {
  TextTable tiers({{"", Align::left}, {""}});
  for (const StepReport::TierBytes& tier : report.tier_bytes) {
    tiers.add_row({std::string(topology::name_of(tier.tier)), bytes_text(tier.bytes)});
  }
  return tiers;
}

void write_traffic(std::ostream& out, const scenarios::Scenario& scenario, const StepReport& report) {
  out << wrapped(fmt::format("{}: {}", scenario.id, scenario_line(scenario.job)), "", "  ") << '\n';
  traffic_table(report).write(out);
  out << '\n' << kBytesMeaning << '\n';
  out << (all_agree(report) ? "Every row agrees.\n" : "SOME ROWS DIFFER: this is a bug of the simulator.\n");
  if (report.tier_bytes.empty()) return;
  out << "\nBytes per step by the highest network tier that they cross\n";
  tier_table(report).write(out);
}

Sheet traffic_sheet(const scenarios::Scenario& scenario, const StepReport& report) {
  Sheet sheet("Traffic of " + scenario.id, scenario_line(scenario.job));
  sheet.add_fact("two counts", all_agree(report) ? "agree" : "DIFFER", "closed form and simulated, row by row");
  SheetChart chart{"Bytes sent in one step", "dimension, operation", "GB", {}, {}, {{"simulated", {}}}};
  for (const TrafficRow& row : report.traffic) {
    chart.labels.push_back(row.dimension + ", " + row.operation);
    chart.series[0].values.push_back(row.simulated_bytes / 1e9);
  }
  if (!chart.labels.empty()) sheet.add_chart("By operation", {}, chart);
  sheet.add_table("Operations", kBytesMeaning, traffic_table(report));
  if (!report.tier_bytes.empty())
    sheet.add_table("Tiers", "Bytes per step by the highest network tier that they cross.", tier_table(report));
  return sheet;
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
  check_report(options.report);
  const scenarios::Scenario scenario =
      scenarios::load_scenario(scenarios::read_scenario(options.scenario, options.sets));
  const StepReport report = workloads::simulate_step(scenario.job);
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, traffic_document(scenario, report)); });
  }
  if (!options.report.empty()) {
    write_output(options.report, [&](std::ostream& out) { write_page(out, traffic_sheet(scenario, report).page()); });
  }
  if (options.json != "-" && options.report != "-") write_traffic(std::cout, scenario, report);
  return all_agree(report) ? kDone : kBug;
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
  app.add_option("--report", options->report, "write the tables and a chart as one HTML file that needs no network")
      .type_name("FILE");
  return [options] { return traffic(*options); };
}

}  // namespace orrery::tools
