// `orrery reproduce`: published tables beside their predictions, with the error of every cell. A table is a file under
// scenarios/reproduce/; this file knows none of their numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/scenario.h"
#include "scenarios/synonyms.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/report/comparison.h"
#include "tools/report/grid.h"
#include "tools/report/milestones.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/sheet.h"
#include "tools/report/text.h"
#include "tools/study/campaign_table.h"
#include "tools/study/curves.h"
#include "tools/study/figure_table.h"
#include "tools/study/layer_table.h"
#include "tools/study/placement_table.h"
#include "tools/study/record_table.h"
#include "tools/study/training_table.h"
#include "workloads/step/step.h"

namespace orrery::tools {

namespace {

constexpr const char* kDefaultTable = "megascale-eos";

struct ReproduceOptions {
  std::string table = kDefaultTable, json, format = "text", report;
  bool list = false;
};

using Columns = std::vector<std::pair<std::string, std::string>>;

/// What stands beside a column's numbers in a paper, with what the row is called there; a time to train has its own.
struct RowName {
  const char *key, *name, *unit;
};
constexpr std::array kRowNames{RowName{"iteration_time_s", "step", "s"},
                               RowName{"tokens_per_s", "throughput", "M tokens/s"},
                               RowName{"minutes_per_billion_tokens", "time of 1e9 tokens", "min"},
                               RowName{"aggregate_pflops", "aggregate", "PFLOP/s"},
                               RowName{"pflops_8_per_parameter", "8 N D", "PFLOP/s"},
                               RowName{"time_to_train", "time to train", ""}};

/// Every column that a table may have, in print order; the keys are those of `published`.
const Columns& all_columns() {
  static const Columns kColumns = {{"iteration_time_s", "step,\ns"},
                                   {"tokens_per_s", "tokens/s,\nmillions"},
                                   {"minutes_per_billion_tokens", "minutes per\n1e9 tokens"},
                                   {"aggregate_pflops", "aggregate\nPFLOP/s"},
                                   {"pflops_8_per_parameter", "8 N D,\nPFLOP/s"},
                                   {"time_to_train", "time to\ntrain"}};
  return kColumns;
}

std::vector<std::string> names_of(const Columns& columns) {
  std::vector<std::string> names;
  for (const auto& [key, title] : columns) names.push_back(key);
  return names;
}

/// Those of a document: the ones that it lists, else the usual four.
Columns columns_of(const sim::Settings& document) {
  std::vector<std::string> shown{"iteration_time_s", "tokens_per_s", "aggregate_pflops", "time_to_train"};
  if (const sim::Settings* columns = document.find("columns")) {
    shown.clear();
    for (const sim::Settings& column : columns->items()) shown.push_back(column.as_choice(names_of(all_columns())));
  }
  Columns chosen;
  for (const auto& column : all_columns())
    if (std::find(shown.begin(), shown.end(), column.first) != shown.end()) chosen.push_back(column);
  return chosen;
}

using WriteText = std::function<void(std::ostream&)>;

/// Whether standard output is left for the table.
bool prints(const ReproduceOptions& options) { return options.json != "-" && options.report != "-"; }

/// The page of a table that has no grid, where one is asked for: its text as it stands.
void report_words(const ReproduceOptions& options, const std::string& title, const WriteText& write) {
  if (options.report.empty()) return;
  std::ostringstream text;
  write(text);
  Sheet sheet(title, {});
  sheet.add_text("Table", text.str());
  write_output(options.report, [&](std::ostream& out) { write_page(out, sheet.page()); });
}

/// A table that reads otherwise in a terminal than as a grid.
void write_words(const ReproduceOptions& options, const Grid& grid, const WriteText& write) {
  report_words(options, grid.title, write);
  if (!prints(options)) return;
  if (options.format == "text")
    write(std::cout);
  else
    write_grid(std::cout, grid_format(options.format), grid);
}

/// A grid with its errors as bars.
Sheet grid_sheet(const Grid& grid) {
  Sheet sheet(grid.title, {});
  const auto found = std::find_if(grid.columns.begin(), grid.columns.end(),
                                  [](const GridColumn& column) { return column.name.ends_with("error_pct"); });
  if (found != grid.columns.end()) {
    const auto error = static_cast<std::size_t>(found - grid.columns.begin());
    SheetChart chart{"Error of each prediction", "", "%", {}, {}, {{"error", {}}}};
    for (const Grid::Row& row : grid.rows) {
      const std::vector<std::string>& cells = row.exact.empty() ? row.cells : row.exact;
      char* end = nullptr;
      const double value = std::strtod(cells[error].c_str(), &end);
      if (end == cells[error].c_str()) continue;  // nothing was published
      std::vector<std::string> words;
      for (std::size_t c = 0; c < error; ++c)
        if (grid.columns[c].left && !cells[c].empty()) words.push_back(cells[c]);
      chart.labels.push_back(fmt::format("{}", fmt::join(words, ", ")));
      chart.series[0].values.push_back(value);
    }
    if (!chart.labels.empty()) sheet.add_chart("Errors", {}, chart);
  }
  sheet.add_grid("Table", {}, grid);
  return sheet;
}

void write_report(const ReproduceOptions& options, const Grid& grid) {
  if (options.report.empty()) return;
  write_output(options.report, [&](std::ostream& out) { write_page(out, grid_sheet(grid).page()); });
}

void print_grid(const ReproduceOptions& options, const Grid& grid) {
  write_report(options, grid);
  if (prints(options)) write_grid(std::cout, grid_format(options.format), grid);
}

/// A row of a table: one published system.
struct System {
  std::string name, platform, scenario_file, source, notes, unit;
  double training_tokens = 0;
  bool with_evaluation = false;
  std::map<std::string, double> published, predicted;
  std::vector<std::string> derived;
  std::optional<scenarios::Scenario> scenario;
  bool fits = true;
};

std::string folder() { return scenarios::data_directory() + "/scenarios/reproduce"; }

double seconds_of(const std::string& unit) { return unit == "days" ? 86400.0 : unit == "hours" ? 3600.0 : 60.0; }

System read_system(const sim::Settings& row) {
  row.refuse_unknown(
      {"name", "platform", "scenario", "with_evaluation", "source", "training", "published", "derived", "notes"});
  System system;
  system.name = row.at("name").text();
  system.platform = row.get_text("platform", "");
  system.scenario_file = row.at("scenario").text();
  system.source = row.at("source").text();
  system.notes = row.get_text("notes", "");
  system.with_evaluation = row.get_bool("with_evaluation", false);
  system.training_tokens = row.at("training").at("tokens").as_number(1);
  system.unit = row.at("training").at("unit").as_choice({"minutes", "hours", "days"});
  const std::vector<std::string> known = names_of(all_columns());
  row.at("published").refuse_unknown(known);
  for (const auto& [key, value] : row.at("published").members()) system.published[key] = value.as_number(0);
  if (const sim::Settings* derived = row.find("derived")) {
    for (const sim::Settings& key : derived->items()) system.derived.push_back(key.as_choice(known));
  }
  return system;
}

void predict(System& system) {
  const std::string file = scenarios::data_directory() + "/scenarios/" + system.scenario_file;
  system.scenario = scenarios::load_scenario(scenarios::read_scenario(file));
  const workloads::StepReport report = workloads::simulate_step(system.scenario->job);
  const bool with = system.with_evaluation;
  const double step = with ? report.evaluation.iteration_s : sim::to_seconds(report.iteration);
  const double tokens_per_s = with ? report.evaluation.tokens_per_s : report.rates.tokens_per_s;
  system.fits = report.memory.fits;
  system.predicted["iteration_time_s"] = step;
  system.predicted["tokens_per_s"] = tokens_per_s;
  // Validation passes train nothing: the step's FLOPs over the longer time.
  system.predicted["aggregate_pflops"] = report.rates.aggregate_pflops * sim::to_seconds(report.iteration) / step;
  system.predicted["minutes_per_billion_tokens"] = 1e9 / tokens_per_s / 60;
  system.predicted["pflops_8_per_parameter"] =
      8 * workloads::active_parameter_count(system.scenario->job.model) * tokens_per_s / 1e15;
  system.predicted["time_to_train"] = system.training_tokens / tokens_per_s / seconds_of(system.unit);
}

std::string cell_text(const System& system, const std::string& key, double value) {
  if (key == "tokens_per_s") return number_text(value / 1e6);
  if (key == "time_to_train")
    return fmt::format("{} {}", number_text(value), system.unit == "minutes" ? "min" : system.unit);
  return number_text(value);
}

std::vector<std::string> cells_of(const System& system, const Columns& columns, const std::string& what) {
  std::vector<std::string> cells;
  for (const auto& [key, title] : columns) {
    const auto published = system.published.find(key);
    if (what == "predicted") {
      cells.push_back(cell_text(system, key, system.predicted.at(key)));
    } else if (published == system.published.end()) {
      cells.emplace_back("-");
    } else if (what == "published") {
      const bool derived = std::count(system.derived.begin(), system.derived.end(), key) > 0;
      cells.push_back((derived ? "= " : "") + cell_text(system, key, published->second));
    } else {
      cells.push_back(error_text(100 * (system.predicted.at(key) / published->second - 1)));
    }
  }
  return cells;
}

/// What is one for all figures of a system: column, name in files and value.
std::vector<std::array<std::string, 3>> layout_of(const System& system) {
  const workloads::Job& job = system.scenario->job;
  const auto number = [](std::int64_t n) { return fmt::format("{}", n); };
  const std::int64_t nodes = (job.machine.gpus + job.machine.gpus_per_node - 1) / job.machine.gpus_per_node;
  return {{"system", "system", system.name},
          {"platform", "platform", system.platform},
          {"GPUs", "gpus", number(job.machine.gpus)},
          {"nodes", "nodes", number(nodes)},
          {"TP", "tensor", number(job.parallelism.tensor)},
          {"PP", "pipeline", number(job.parallelism.pipeline)},
          {"DP", "data", number(job.parallelism.data)},
          {"batch", "batch", number(job.batch.global)}};
}

/// Above a system's figures, so that a line has room for all of them.
std::string heading_of(const System& system) {
  std::vector<std::string> parts;
  for (const auto& [column, key, value] : layout_of(system)) {
    if (column == "system" || value.empty()) continue;
    const bool counted = column == "GPUs" || column == "nodes";
    parts.push_back(column == "platform" ? value : counted ? value + " " + column : column + " " + value);
  }
  return fmt::format("{}: {}", system.name, fmt::join(parts, ", "));
}

void write_table(std::ostream& out, const std::string& title, const Columns& columns,
                 const std::vector<System>& systems) {
  std::vector<Column> heads = {{"", Align::left}};
  for (const auto& [key, text] : columns) heads.push_back({text});
  TextTable table(std::move(heads), "");
  for (const System& system : systems) {
    table.add_note(heading_of(system));
    for (const char* what : {"published", "predicted", "error"}) {
      std::vector<std::string> row{what};
      for (std::string& cell : cells_of(system, columns, what)) row.push_back(std::move(cell));
      table.add_row(std::move(row));
    }
    table.add_note();
  }
  out << title << "\n\n";
  table.write(out);
  out << "= derived from printed figures\n\nSources\n";
  for (const System& system : systems) {
    out << wrapped(fmt::format("{}: {}. {}{}", system.name, system.source, system.notes,
                               system.fits ? "" : " PREDICTED TO RUN OUT OF MEMORY."),
                   "  - ", "    ");
  }
}

Grid systems_grid(const std::string& title, const Columns& columns, const std::vector<System>& systems) {
  Grid grid;
  grid.title = title;
  if (systems.empty()) return grid;  // interrupted before the first was done
  for (const auto& [column, key, value] : layout_of(systems.front()))
    grid.columns.push_back({column, key, column == "system" || column == "platform"});
  grid.columns.insert(grid.columns.end(), {{"figure", "figure", true},
                                           {"published", "published", false, GridColumn::kOfRow},
                                           {"predicted", "predicted", false, GridColumn::kOfRow},
                                           {"error", "error_pct"}});
  for (const System& system : systems) {
    bool first = true;
    for (const auto& [column_key, heading] : columns) {
      const std::string& key = column_key;
      const auto published = system.published.find(key);
      if (published == system.published.end()) continue;
      const double predicted = system.predicted.at(key), error = 100 * (predicted / published->second - 1);
      std::vector<std::string> place;
      for (const auto& [column, name, value] : layout_of(system)) place.push_back(value);
      const auto* named =
          std::find_if(kRowNames.begin(), kRowNames.end(), [&](const RowName& r) { return r.key == key; });
      Grid::Row row;
      row.unit = named->unit;
      row.cells = first ? place : std::vector<std::string>(place.size());
      row.exact = place;
      row.cells.insert(row.cells.end(), {named->name, cell_text(system, key, published->second),
                                         cell_text(system, key, predicted), error_text(error)});
      row.exact.insert(row.exact.end(), {key, fmt::format("{}", published->second), fmt::format("{}", predicted),
                                         fmt::format("{}", error)});
      row.begins_group = first;
      first = false;
      grid.rows.push_back(std::move(row));
    }
    grid.notes.push_back(fmt::format("{}: {}. {}", system.name, system.source, system.notes));
  }
  return grid;
}

nlohmann::ordered_json table_json(const std::string& name, const std::vector<System>& systems) {
  nlohmann::ordered_json json;
  json["table"] = name;
  json["rows"] = nlohmann::ordered_json::array();
  for (const System& system : systems) {
    const workloads::Job& job = system.scenario->job;
    nlohmann::ordered_json row;
    row["system"] = system.name;
    row["platform"] = system.platform;
    row["scenario"] = system.scenario->id;
    row["gpus"] = job.machine.gpus;
    row["nodes"] = (job.machine.gpus + job.machine.gpus_per_node - 1) / job.machine.gpus_per_node;
    row["tensor"] = job.parallelism.tensor;
    row["pipeline"] = job.parallelism.pipeline;
    row["data"] = job.parallelism.data;
    row["batch"] = job.batch.global;
    row["time_to_train_unit"] = system.unit;
    for (const auto& [key, published] : system.published) {
      const double predicted = system.predicted.at(key);
      row["cells"][key] = {{"published", published},
                           {"predicted", predicted},
                           {"error_pct", 100 * (predicted / published - 1)},
                           {"derived", std::count(system.derived.begin(), system.derived.end(), key) > 0}};
    }
    row["source"] = system.source;
    json["rows"].push_back(std::move(row));
  }
  return json;
}

/// A table of platforms in several layouts, each beside the baseline in the same layout: predictions alone.
int reproduce_platforms(const ReproduceOptions& options, const sim::Settings& document) {
  document.refuse_unknown({"title", "baseline", "layouts", "systems"});
  const std::string baseline = document.at("baseline").text();
  const std::vector<sim::Settings>&layouts = document.at("layouts").items(), &named = document.at("systems").items();
  std::vector<ComparedSystem> systems(layouts.size() * named.size());
  const InterruptGuard guard;
  const std::vector<char> finished = for_each_parallel(systems.size(), default_jobs(), "systems", [&](std::size_t i) {
    const sim::Settings &layout = layouts[i / named.size()], &system = named[i % named.size()];
    std::vector<std::string> sets;
    for (const sim::Settings& set : layout.at("set").items()) sets.push_back(set.text());
    systems[i] = compared_system(scenarios::data_directory() + "/scenarios/" + system.at("scenario").text(), sets);
    systems[i].name = system.at("name").text();
  });
  if (std::find(finished.begin(), finished.end(), 0) != finished.end()) return kInterrupted;
  std::vector<ComparisonRow> rows;
  nlohmann::ordered_json json;
  json["table"] = options.table;
  json["baseline"] = baseline;
  for (std::size_t l = 0; l < layouts.size(); ++l) {
    const auto begin = systems.begin() + static_cast<std::ptrdiff_t>(l * named.size());
    const auto end = begin + static_cast<std::ptrdiff_t>(named.size());
    const auto base = std::find_if(begin, end, [&](const ComparedSystem& system) { return system.name == baseline; });
    if (base == end) document.at("baseline").fail("expected the name of one of the systems");
    for (auto system = begin; system != end; ++system) {
      rows.push_back({&*system, &*system, &*base, layouts[l].at("name").text()});
      nlohmann::ordered_json row = comparison_json(*system, *base);
      row["layout"] = rows.back().group;
      row["system"] = system->name;
      json["rows"].push_back(std::move(row));
    }
  }
  if (!options.json.empty()) write_output(options.json, [&](std::ostream& out) { write_json(out, json); });
  const std::string title = fmt::format("{}: {}", options.table, document.at("title").text());
  const auto write_text = [&](std::ostream& out) {
    out << title << "\n\n";
    write_comparison_table(out, TableFormat::text, rows);
    out << fmt::format("\nRatios: each over {} in the same layout; above 1 the system is better.\n\nSources\n",
                       baseline);
    for (const sim::Settings& system : named) {
      out << wrapped(fmt::format("{}: {}", system.at("name").text(), system.at("source").text()), "  - ", "    ");
    }
  };
  report_words(options, title, write_text);
  if (!prints(options)) return kDone;
  if (options.format == "html") {
    write_grid(std::cout, GridFormat::html, comparison_grid(title, rows));
    return kDone;
  }
  if (options.format == "text")
    write_text(std::cout);
  else
    write_comparison_table(std::cout, table_format(options.format), rows);
  return kDone;
}

/// A table whose rows `simulate` computes, which `json` and `write` put out.
template <class Row>
struct TableForm {
  std::vector<Row> (*simulate)(const sim::Settings&, unsigned);
  nlohmann::ordered_json (*json)(const std::string&, const std::vector<Row>&);
  void (*write)(std::ostream&, const std::string&, const std::vector<Row>&);
};

template <class Row>
int reproduce_rows(const ReproduceOptions& options, const sim::Settings& document, const TableForm<Row>& form) {
  const InterruptGuard guard;
  const std::vector<Row> rows = form.simulate(document, default_jobs());
  if (rows.empty()) return kInterrupted;
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, form.json(options.table, rows)); });
  const std::string title = fmt::format("{}: {}", options.table, document.at("title").text());
  write_words(options, grid_of(title, rows), [&](std::ostream& out) { form.write(out, title, rows); });
  return kDone;
}

/// Measured records or published figures of scenarios, figure by figure.
int reproduce_records(const ReproduceOptions& options, const sim::Settings& document) {
  const InterruptGuard guard;
  const RecordTable table = document.find("figures") != nullptr
                                ? simulate_figures(options.table, document, default_jobs())
                                : simulate_records(options.table, document, default_jobs());
  if (table.rows.empty()) return kInterrupted;
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, record_table_json(table)); });
  print_grid(options, grid_of(table));
  return kDone;
}

/// Passes over one layer.
int reproduce_layers(const ReproduceOptions& options, const sim::Settings& document) {
  const InterruptGuard guard;
  const LayerTable table = simulate_layers(options.table, document, default_jobs());
  if (table.rows.empty()) return kInterrupted;
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, layer_table_json(table)); });
  print_grid(options, grid_of(table));
  return kDone;
}

/// Training compute beside published estimates.
int reproduce_milestones(const ReproduceOptions& options, const sim::Settings& document) {
  const std::vector<Milestone> rows = milestones_of(document);
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, milestones_json(options.table, rows)); });
  print_grid(options, milestones_grid(document.at("title").text(), rows));
  return kDone;
}

int reproduce(const ReproduceOptions& options) {
  check_writable(options.json);
  check_report(options.report);
  const std::vector<std::string> known = scenarios::shipped("tables");
  if (options.list) {
    TextTable tables({{"", Align::left}, {"", Align::left}}, "");
    for (const std::string& name : known) tables.add_row({name, scenarios::about("tables", name)});
    tables.write(std::cout);
    return kDone;
  }
  if (std::find(known.begin(), known.end(), options.table) == known.end()) {
    throw sim::UserError(fmt::format("orrery: '{}' is not a published table{}; orrery list tables names them",
                                     options.table, scenarios::near_text(scenarios::names_near(options.table, known))));
  }
  const sim::Settings document = scenarios::read_yaml(fmt::format("{}/{}.yaml", folder(), options.table));
  if (document.find("baseline") != nullptr) return reproduce_platforms(options, document);
  if (document.find("list") != nullptr || document.find("figures") != nullptr)
    return reproduce_records(options, document);
  if (document.find("layers") != nullptr) return reproduce_layers(options, document);
  if (document.find("milestones") != nullptr) return reproduce_milestones(options, document);
  if (document.find("curves") != nullptr)
    return reproduce_rows<Curve>(options, document, {simulate_curves, curves_json, write_curves});
  if (document.find("campaigns") != nullptr)
    return reproduce_rows<CampaignRow>(options, document,
                                       {simulate_campaigns, campaign_rows_json, write_campaign_rows});
  if (document.find("trainings") != nullptr)
    return reproduce_rows<TrainingRow>(options, document,
                                       {simulate_trainings, training_rows_json, write_training_rows});
  if (document.find("placements") != nullptr)
    return reproduce_rows<PlacementRow>(options, document,
                                        {simulate_placements, placement_rows_json, write_placement_rows});
  document.refuse_unknown({"title", "columns", "systems"});
  const Columns columns = columns_of(document);
  std::vector<System> systems;
  for (const sim::Settings& row : document.at("systems").items()) systems.push_back(read_system(row));
  const InterruptGuard guard;
  const std::vector<char> finished =
      for_each_parallel(systems.size(), default_jobs(), "systems", [&](std::size_t i) { predict(systems[i]); });
  std::vector<System> done;
  for (std::size_t i = 0; i < systems.size(); ++i) {
    if (finished[i] != 0) done.push_back(std::move(systems[i]));
  }
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, table_json(options.table, done)); });
  }
  const std::string title = fmt::format("{}: {}", options.table, document.at("title").text());
  write_report(options, systems_grid(title, columns, done));
  if (prints(options)) {
    if (options.format == "text")
      write_table(std::cout, title, columns, done);
    else
      write_grid(std::cout, grid_format(options.format), systems_grid(title, columns, done));
  }
  return done.size() < systems.size() ? kInterrupted : kDone;
}

}  // namespace

Action declare_reproduce(CommandOptions app) {
  const auto options = std::make_shared<ReproduceOptions>();
  app.add_option("table", options->table, std::string("which published table (default ") + kDefaultTable + ")");
  app.add_flag("--list", options->list, "the tables that there are, one line each");
  app.add_option("--format", options->format, "text (default), markdown, latex, csv or html")
      .check(OneOf(grid_format_names()));
  app.add_option("--json", options->json, "write the table as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write the table and a chart as one HTML file that needs no network")
      .type_name("FILE");
  return [options] { return reproduce(*options); };
}

}  // namespace orrery::tools
