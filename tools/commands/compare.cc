// `orrery compare`: one training step of two or more scenarios, and how much better a target is than a baseline by
// three ratios, each above 1 where the target is better. Left out: noise, so a ratio near 1 is only as sure as the
// prediction. One scenario and --set compare it, changed, with itself as it stands.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/report/comparison.h"
#include "tools/report/comparison_page.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;
using workloads::StepReport;

constexpr const char* kOom = "OOM";

struct CompareOptions {
  std::vector<std::string> systems, sets;
  std::string baseline, json, report, format = "text";
};

/// Bytes of a step whose highest tier is this one.
double bytes_of(const StepReport& report, topology::Tier tier) {
  for (const StepReport::TierBytes& row : report.tier_bytes) {
    if (row.tier == tier) return row.bytes;
  }
  return 0;
}

void write_comparison(std::ostream& out, const ComparedSystem& target, const ComparedSystem& baseline) {
  for (const auto& [name, system] : {std::pair("target  ", &target), std::pair("baseline", &baseline)}) {
    const std::string line = fmt::format("{}: {}", system->scenario.id, scenario_line(system->scenario.job));
    out << wrapped(line, fmt::format("{}  ", name), "          ");
  }
  out << '\n';
  TextTable table({{"", Align::left}, {"target"}, {"baseline"}});
  const auto row = [&](const char* what, const auto& text_of) {
    const auto cell = [&](const StepReport& report) {
      return report.memory.fits ? text_of(report) : std::string(kOom);
    };
    table.add_row({what, cell(target.report), cell(baseline.report)});
  };
  row("step time", [](const StepReport& r) { return time_text(sim::to_seconds(r.iteration)); });
  row("tokens per second", [](const StepReport& r) { return si_text(r.rates.tokens_per_s, ""); });
  row("MFU", [](const StepReport& r) { return fmt::format("{:.2f} %", r.rates.mfu_pct); });
  const auto memory = [](const StepReport& r) {
    return fmt::format("{}{}", r.memory.fits ? "" : "OOM, needs ", bytes_text(r.memory.peak_bytes));
  };
  table.add_row({"peak memory per GPU", memory(target.report), memory(baseline.report)});
  // What a placement costs: where the traffic goes.
  for (std::uint8_t t = 0; t <= static_cast<std::uint8_t>(topology::Tier::global); ++t) {
    const auto tier = static_cast<topology::Tier>(t);
    const double ours = bytes_of(target.report, tier), theirs = bytes_of(baseline.report, tier);
    if (ours == 0 && theirs == 0) continue;
    table.add_row(
        {fmt::format("bytes, at most over {} links", topology::name_of(tier)), bytes_text(ours), bytes_text(theirs)});
  }
  table.write(out);
  out << '\n';
  TextTable ratios({{"", Align::left}, {""}, {"", Align::left}});
  for (const Ratio& ratio : ratios_of(target.report, baseline.report)) {
    ratios.add_row({ratio.name, ratio.value ? fmt::format("{:.4f}", *ratio.value) : kOom, ratio.meaning});
  }
  ratios.write(out);
}

/// Two systems are a target and its baseline. More: the first is the target of all others, or with --baseline all are
/// targets of that one.
std::vector<ComparisonRow> rows_of(const std::vector<ComparedSystem>& systems, bool given_baseline) {
  std::vector<ComparisonRow> rows;
  const ComparedSystem* fixed = &systems.front();
  for (const ComparedSystem& system : systems) {
    ComparisonRow row{&system, given_baseline ? &system : fixed, given_baseline ? fixed : &system, {}};
    if (&system == fixed) row.target = row.baseline = nullptr;
    rows.push_back(row);
  }
  return rows;
}

ordered_json rows_json(const std::vector<ComparisonRow>& rows) {
  ordered_json json;
  json["comparisons"] = ordered_json::array();
  for (const ComparisonRow& row : rows) {
    if (row.target != nullptr) json["comparisons"].push_back(comparison_json(*row.target, *row.baseline));
  }
  return json;
}

int compare_scenarios(const CompareOptions& options) {
  check_writable(options.json);
  check_report(options.report);
  std::vector<std::string> files = options.systems;
  if (!options.baseline.empty()) files.insert(files.begin(), options.baseline);
  const bool with_itself = files.size() == 1 && !options.sets.empty();
  if (with_itself) files.push_back(files.front());
  if (files.size() < 2) {
    throw sim::UserError(
        "orrery: compare: got one scenario, expected a target and at least one baseline, or --set KEY=VALUE for what "
        "the target changes");
  }
  std::vector<ComparedSystem> systems(files.size());
  const InterruptGuard guard;
  const std::vector<char> finished = for_each_parallel(files.size(), default_jobs(), "systems", [&](std::size_t i) {
    const bool changed = !with_itself || i == 0;
    systems[i] =
        compared_system(files[i], changed ? options.sets : std::vector<std::string>{}, !options.report.empty());
  });
  if (std::find(finished.begin(), finished.end(), 0) != finished.end()) return kInterrupted;
  const std::vector<ComparisonRow> rows = rows_of(systems, !options.baseline.empty());
  const bool pair = files.size() == 2;
  const ComparedSystem &target = *rows[1].target, &baseline = *rows[1].baseline;
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) {
      write_json(out, pair ? comparison_json(target, baseline) : rows_json(rows));
    });
  }
  if (!options.report.empty()) {
    const ordered_json page = comparison_page(systems, rows);
    write_output(options.report, [&](std::ostream& out) { write_page(out, page); });
  }
  if (options.json == "-" || options.report == "-") return kDone;
  const TableFormat format = table_format(options.format);
  if (pair && format == TableFormat::text) {
    write_comparison(std::cout, target, baseline);
    return kDone;
  }
  write_comparison_table(std::cout, format, rows);
  if (format == TableFormat::text) {
    std::cout << (options.baseline.empty() ? fmt::format("\nRatios: {} over each of the others", systems.front().name)
                                           : fmt::format("\nRatios: each over {}", systems.front().name))
              << "; above 1 the target is better.\n";
  }
  return kDone;
}

}  // namespace

Action declare_compare(CommandOptions app) {
  const auto options = std::make_shared<CompareOptions>();
  app.add_option("scenarios", options->systems,
                 "TARGET BASELINE...: scenario files or names, the one that should be better first")
      .required();
  app.add_option("--baseline", options->baseline, "compare every scenario with this one instead").type_name("SCENARIO");
  app.add_option("--set", options->sets,
                 "key.path=value, laid over every scenario; over the target alone where it is the only one, whose "
                 "baseline is then the scenario as it stands; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--format", options->format, "text (default), markdown, latex (booktabs) or csv")
      .check(OneOf(table_format_names()));
  app.add_option("--json", options->json, "write the comparison as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write charts of the differences as one HTML file").type_name("FILE");
  return [options] { return compare_scenarios(*options); };
}

}  // namespace orrery::tools
