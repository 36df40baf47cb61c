// Comparison of systems. A system that does not fit its memory has no step to compare: what depends on it is OOM. Left
// out: noise, so a ratio near 1 is only as sure as the prediction.
#include "tools/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/error.h"
#include "tools/report/csv.h"
#include "tools/report/report.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;
using workloads::StepReport;

constexpr const char* kOom = "OOM";

/// A column: titles for people and for machines, and its text, given whether a machine reads it.
struct Field {
  const char* title;  // a line break starts a second title line
  const char* name;
  bool left;
  std::function<std::string(const ComparisonRow&, bool exact)> text;
};

std::string layout_text(const workloads::Parallelism& p) {
  std::string text = fmt::format("DP {}", p.data);
  if (p.tensor > 1) text += fmt::format(" TP {}{}", p.tensor, p.sequence_parallel ? " SP" : "");
  if (p.pipeline > 1) text += fmt::format(" PP {}", p.pipeline);
  return text;
}

std::string number_field(const StepReport& report, double value, bool exact, int digits) {
  if (!report.memory.fits) return kOom;
  return exact ? fmt::format("{}", value) : fmt::format("{:.{}f}", value, digits);
}

std::string ratio_field(const ComparisonRow& row, std::size_t which, bool exact) {
  if (row.target == nullptr) return exact ? "" : "-";
  const std::optional<double> value = ratios_of(row.target->report, row.baseline->report)[which].value;
  if (!value) return kOom;
  return exact ? fmt::format("{}", *value) : fmt::format("{:.2f}", *value);
}

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = {
      {"system", "system", true, [](const ComparisonRow& row, bool) { return row.system->name; }},
      {"GPUs", "gpus", false,
       [](const ComparisonRow& row, bool) { return fmt::format("{}", row.system->scenario.job.machine.gpus); }},
      {"layout", "layout", true,
       [](const ComparisonRow& row, bool) { return layout_text(row.system->scenario.job.parallelism); }},
      {"type", "precision", true,
       [](const ComparisonRow& row, bool) {
         return std::string(calibration::name_of(row.system->scenario.job.method.precision.matmul));
       }},
      {"step,\ns", "iteration_s", false,
       [](const ComparisonRow& row, bool exact) {
         return number_field(row.system->report, sim::to_seconds(row.system->report.iteration), exact, 3);
       }},
      {"throughput,\nk tokens/s", "thousand_tokens_per_s", false,
       [](const ComparisonRow& row, bool exact) {
         return number_field(row.system->report, row.system->report.rates.tokens_per_s / 1e3, exact, 1);
       }},
      {"MFU,\n%", "mfu_pct", false,
       [](const ComparisonRow& row, bool exact) {
         return number_field(row.system->report, row.system->report.rates.mfu_pct, exact, 1);
       }},
      {"memory,\nGB", "peak_memory_gb", false,
       [](const ComparisonRow& row, bool exact) {
         return number_field(row.system->report, row.system->report.memory.peak_bytes / 1e9, exact, 1);
       }},
      {"Throughput\nSpeedup", "ThroughputSpeedup", false,
       [](const ComparisonRow& row, bool exact) { return ratio_field(row, 0, exact); }},
      {"MemoryUsage\nEfficiency", "MemoryUsageEfficiency", false,
       [](const ComparisonRow& row, bool exact) { return ratio_field(row, 1, exact); }},
      {"FLOPs\nUtilization", "FLOPsUtilization", false,
       [](const ComparisonRow& row, bool exact) { return ratio_field(row, 2, exact); }},
      {"FLOPs\nUsage", "FLOPsUsage", false,
       [](const ComparisonRow& row, bool exact) { return ratio_field(row, 3, exact); }}};
  return kFields;
}

std::vector<std::string> cells_of_row(const ComparisonRow& row, bool exact) {
  std::vector<std::string> cells;
  for (const Field& field : fields()) cells.push_back(field.text(row, exact));
  return cells;
}

std::string in_one_line(std::string title, const std::string& break_as) {
  const std::size_t at = title.find('\n');
  if (at != std::string::npos) title.replace(at, 1, break_as);
  return title;
}

/// A terminal is narrow: what is the same in every row is said once.
void write_text(std::ostream& out, const std::vector<ComparisonRow>& rows) {
  std::vector<Column> columns;
  std::vector<std::size_t> shown;
  std::string same;
  for (std::size_t f = 0; f < fields().size(); ++f) {
    const Field& field = fields()[f];
    const std::string first = field.text(rows.front(), false);
    const bool varies = std::any_of(rows.begin(), rows.end(),
                                    [&](const ComparisonRow& row) { return field.text(row, false) != first; });
    if (!varies && (field.name == std::string_view("gpus") || field.name == std::string_view("precision"))) {
      same += fmt::format("{}{} {}", same.empty() ? "" : ", ", field.title, first);
      continue;
    }
    shown.push_back(f);
    columns.push_back({field.title, field.left ? Align::left : Align::right});
  }
  TextTable table(std::move(columns), "", 2);
  std::string group;
  for (const ComparisonRow& row : rows) {
    if (row.group != group) {
      table.add_note();
      table.add_note(row.group);
    }
    group = row.group;
    std::vector<std::string> cells;
    for (const std::size_t f : shown) cells.push_back(fields()[f].text(row, false));
    table.add_row(std::move(cells));
  }
  table.write(out);
  if (!same.empty()) out << fmt::format("\nIn every row: {}.\n", same);
}

void write_markdown(std::ostream& out, const std::vector<ComparisonRow>& rows) {
  std::string head = "|", line = "|";
  for (const Field& field : fields()) {
    const bool compound = std::string(field.title).find(",\n") == std::string::npos;
    head += fmt::format(" {} |", in_one_line(field.title, compound ? "" : " "));
    line += field.left ? "---|" : "---:|";
  }
  std::string group;
  out << head << '\n' << line << '\n';
  for (const ComparisonRow& row : rows) {
    if (row.group != group)
      out << fmt::format("| **{}** |{}\n", markdown_cell(row.group), std::string(fields().size() - 1, '|'));
    group = row.group;
    std::vector<std::string> cells = cells_of_row(row, false);
    for (std::string& cell : cells) cell = markdown_cell(cell);
    out << fmt::format("| {} |\n", fmt::join(cells, " | "));
  }
}

/// Text that LaTeX sets as it stands: no character of it is a command.
std::string latex(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\textbackslash{}";
    else if (c == '^')
      escaped += "\\textasciicircum{}";
    else if (c == '~')
      escaped += "\\textasciitilde{}";
    else if (std::string_view("&%$#_{}").find(c) != std::string_view::npos)
      escaped += std::string{'\\', c};
    else
      escaped += c;
  }
  return escaped;
}

void write_latex(std::ostream& out, const std::vector<ComparisonRow>& rows) {
  std::string columns, head;
  for (const Field& field : fields()) {
    const bool compound = std::string(field.title).find(",\n") == std::string::npos;
    columns += field.left ? 'l' : 'r';
    head += (head.empty() ? "" : " & ") + latex(in_one_line(field.title, compound ? "" : " "));
  }
  out << fmt::format("\\begin{{tabular}}{{{}}}\n\\toprule\n{} \\\\\n\\midrule\n", columns, head);
  std::string group;
  for (const ComparisonRow& row : rows) {
    if (row.group != group) {
      if (!group.empty()) out << "\\midrule\n";
      out << fmt::format("\\multicolumn{{{}}}{{l}}{{\\emph{{{}}}}} \\\\\n", fields().size(), latex(row.group));
    }
    group = row.group;
    std::vector<std::string> cells = cells_of_row(row, false);
    for (std::string& cell : cells) cell = latex(cell);
    out << fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  }
  out << "\\bottomrule\n\\end{tabular}\n";
}

void write_csv(std::ostream& out, const std::vector<ComparisonRow>& rows) {
  std::vector<std::string> head{"group"};
  for (const Field& field : fields()) head.emplace_back(field.name);
  out << csv_line(head) << '\n';
  for (const ComparisonRow& row : rows) {
    std::vector<std::string> cells = cells_of_row(row, true);
    cells.insert(cells.begin(), row.group);
    out << csv_line(cells) << '\n';
  }
}

}  // namespace

ComparedSystem compared_system(const std::string& file, const std::vector<std::string>& sets, bool drawn) {
  ComparedSystem system;
  system.scenario = scenarios::load_scenario(scenarios::read_scenario(file, sets));
  system.name = system.scenario.id;
  workloads::Question options;
  if (drawn) options.stages = workloads::Question::Stages::bars;
  system.report = workloads::simulate_step(system.scenario.job, options);
  return system;
}

std::vector<Ratio> ratios_of(const StepReport& target, const StepReport& baseline) {
  const auto ratio = [&](double above, double below) -> std::optional<double> {
    if (!target.memory.fits || !baseline.memory.fits || !(below > 0)) return std::nullopt;
    return above / below;
  };
  return {{"ThroughputSpeedup", ratio(target.rates.tokens_per_s, baseline.rates.tokens_per_s),
           "tokens/s, target / baseline"},
          {"MemoryUsageEfficiency", ratio(baseline.memory.peak_bytes, target.memory.peak_bytes),
           "peak memory, baseline / target"},
          {"FLOPsUtilization", ratio(target.rates.mfu_pct, baseline.rates.mfu_pct), "MFU, target / baseline"},
          {"FLOPsUsage", ratio(target.rates.model_tflops_per_gpu, baseline.rates.model_tflops_per_gpu),
           "model FLOP/s of a GPU, target / baseline"}};
}

const std::vector<std::string>& table_format_names() {
  static const std::vector<std::string> names{"text", "markdown", "latex", "csv"};
  return names;
}

TableFormat table_format(const std::string& name) {
  const std::vector<std::string>& names = table_format_names();
  const auto found = std::find(names.begin(), names.end(), name);
  SIM_CHECK(found != names.end(), "the format '{}' passed its check", name);
  return static_cast<TableFormat>(found - names.begin());
}

void write_comparison_table(std::ostream& out, TableFormat format, const std::vector<ComparisonRow>& rows) {
  switch (format) {
    case TableFormat::text:
      return write_text(out, rows);
    case TableFormat::markdown:
      return write_markdown(out, rows);
    case TableFormat::latex:
      return write_latex(out, rows);
    case TableFormat::csv:
      return write_csv(out, rows);
  }
}

ordered_json system_json(const ComparedSystem& system) {
  const StepReport& report = system.report;
  const auto if_fits = [&](double value) { return report.memory.fits ? ordered_json(value) : ordered_json(nullptr); };
  ordered_json json;
  json["scenario"] = system.scenario.id;
  json["gpus"] = system.scenario.job.machine.gpus;
  json["oom"] = !report.memory.fits;
  json["iteration_time_s"] = if_fits(sim::to_seconds(report.iteration));
  json["tokens_per_s"] = if_fits(report.rates.tokens_per_s);
  json["model_tflops_per_gpu"] = if_fits(report.rates.model_tflops_per_gpu);
  json["mfu_pct"] = if_fits(report.rates.mfu_pct);
  json["peak_bytes"] = report.memory.peak_bytes;  // what it needs, also where that is too much
  json["capacity_bytes"] = report.memory.capacity_bytes;
  json["tier_bytes"] = tier_bytes_json(report);
  return json;
}

ordered_json comparison_json(const ComparedSystem& target, const ComparedSystem& baseline) {
  ordered_json json;
  json["target"] = system_json(target);
  json["baseline"] = system_json(baseline);
  json["oom"] = !target.report.memory.fits || !baseline.report.memory.fits;
  for (const Ratio& ratio : ratios_of(target.report, baseline.report)) {
    json[ratio.name] = ratio.value ? ordered_json(*ratio.value) : ordered_json(nullptr);
  }
  return json;
}

Grid comparison_grid(const std::string& title, const std::vector<ComparisonRow>& rows) {
  Grid grid;
  grid.title = title;
  grid.columns.push_back({"group", "group", true});
  for (const Field& field : fields()) grid.columns.push_back({in_one_line(field.title, " "), field.name, field.left});
  std::string group;
  for (const ComparisonRow& row : rows) {
    Grid::Row line{cells_of_row(row, false), cells_of_row(row, true), row.group != group};
    line.cells.insert(line.cells.begin(), line.begins_group ? row.group : "");
    line.exact.insert(line.exact.begin(), row.group);
    group = row.group;
    grid.rows.push_back(std::move(line));
  }
  return grid;
}

}  // namespace orrery::tools
