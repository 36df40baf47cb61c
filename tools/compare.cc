// `orrery compare`: one training step of two scenarios, and how much better the target is than the baseline by three
// ratios, each above 1 where the target is better. A system that does not fit its memory has no step to compare: what
// depends on it is OOM. Left out: noise, so a ratio near 1 is only as sure as the prediction.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "scenarios/scenario.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/report.h"
#include "tools/text.h"
#include "workloads/step.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;
using workloads::StepReport;

constexpr const char* kOom = "OOM";

struct CompareOptions {
  std::string target, baseline, json;
};

struct System {
  scenarios::Scenario scenario;
  StepReport report;
};

System simulate(const std::string& file) {
  System system;
  system.scenario = scenarios::load_scenario(scenarios::read_scenario(file));
  system.report = workloads::simulate_step(system.scenario.job);
  return system;
}

struct Ratio {
  const char* name;
  std::optional<double> value;  // none: one of the two runs out of memory
  const char* meaning;
};

/// Definitions of the contract: throughput and FLOPs usage target over baseline, memory baseline over target.
std::vector<Ratio> ratios_of(const StepReport& target, const StepReport& baseline) {
  const auto ratio = [&](double above, double below) -> std::optional<double> {
    if (!target.fits || !baseline.fits || !(below > 0)) return std::nullopt;
    return above / below;
  };
  return {{"ThroughputSpeedup", ratio(target.tokens_per_s, baseline.tokens_per_s), "tokens/s, target / baseline"},
          {"MemoryUsageEfficiency", ratio(baseline.peak_bytes, target.peak_bytes), "peak memory, baseline / target"},
          {"FLOPsUtilization", ratio(target.mfu_pct, baseline.mfu_pct), "MFU, target / baseline"}};
}

void write_comparison(std::ostream& out, const System& target, const System& baseline) {
  for (const auto& [name, system] : {std::pair("target  ", &target), std::pair("baseline", &baseline)}) {
    const std::string line = fmt::format("{}: {}", system->scenario.id, scenario_line(system->scenario.job));
    out << wrapped(line, fmt::format("{}  ", name), "          ");
  }
  out << '\n';
  TextTable table({{"", Align::left}, {"target"}, {"baseline"}});
  const auto row = [&](const char* what, const auto& text_of) {
    const auto cell = [&](const StepReport& report) { return report.fits ? text_of(report) : std::string(kOom); };
    table.add_row({what, cell(target.report), cell(baseline.report)});
  };
  row("step time", [](const StepReport& r) { return time_text(sim::to_seconds(r.iteration)); });
  row("tokens per second", [](const StepReport& r) { return si_text(r.tokens_per_s, ""); });
  row("MFU", [](const StepReport& r) { return fmt::format("{:.2f} %", r.mfu_pct); });
  const auto memory = [](const StepReport& r) {
    return fmt::format("{}{}", r.fits ? "" : "OOM, needs ", bytes_text(r.peak_bytes));
  };
  table.add_row({"peak memory per GPU", memory(target.report), memory(baseline.report)});
  table.write(out);
  out << '\n';
  TextTable ratios({{"", Align::left}, {""}, {"", Align::left}});
  for (const Ratio& ratio : ratios_of(target.report, baseline.report)) {
    ratios.add_row({ratio.name, ratio.value ? fmt::format("{:.4f}", *ratio.value) : kOom, ratio.meaning});
  }
  ratios.write(out);
}

ordered_json system_json(const System& system) {
  const StepReport& report = system.report;
  const auto if_fits = [&](double value) { return report.fits ? ordered_json(value) : ordered_json(nullptr); };
  ordered_json json;
  json["scenario"] = system.scenario.id;
  json["gpus"] = system.scenario.job.gpus;
  json["oom"] = !report.fits;
  json["iteration_time_s"] = if_fits(sim::to_seconds(report.iteration));
  json["tokens_per_s"] = if_fits(report.tokens_per_s);
  json["model_tflops_per_gpu"] = if_fits(report.model_tflops_per_gpu);
  json["mfu_pct"] = if_fits(report.mfu_pct);
  json["peak_bytes"] = report.peak_bytes;  // what it needs, also where that is too much
  json["capacity_bytes"] = report.capacity_bytes;
  return json;
}

ordered_json comparison_json(const System& target, const System& baseline) {
  ordered_json json;
  json["target"] = system_json(target);
  json["baseline"] = system_json(baseline);
  json["oom"] = !target.report.fits || !baseline.report.fits;
  for (const Ratio& ratio : ratios_of(target.report, baseline.report)) {
    json[ratio.name] = ratio.value ? ordered_json(*ratio.value) : ordered_json(nullptr);
  }
  return json;
}

int compare_scenarios(const CompareOptions& options) {
  check_writable(options.json);
  const System target = simulate(options.target), baseline = simulate(options.baseline);
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, comparison_json(target, baseline)); });
  }
  if (options.json != "-") write_comparison(std::cout, target, baseline);
  return kDone;
}

}  // namespace

Action declare_compare(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  app.add_option("target", options->target, "scenario file or name: the system that should be better")->required();
  app.add_option("baseline", options->baseline, "scenario file or name: what it is compared with")->required();
  app.add_option("--json", options->json, "write the comparison as JSON to FILE, or to standard output for -")
      ->type_name("FILE");
  return [options] { return compare_scenarios(*options); };
}

}  // namespace orrery::tools
