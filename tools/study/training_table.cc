// Rows of published trainings. Left out: runs that were stopped and begun anew, the spread of the simulated time (with
// nothing that fails there is none).
#include "tools/study/training_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/long_time.h"
#include "tools/parallel.h"
#include "tools/report/text.h"
#include "tools/study/campaign_prices.h"
#include "workloads/runs/campaign/run.h"

namespace orrery::tools {

using sim::Settings;

namespace {

std::vector<double> times_of(const Settings& list) {
  if (!list.is_sequence() || list.items().empty()) list.expected("a list of times, as in [234.9 s, 235.0 s]");
  std::vector<double> times;
  for (const Settings& item : list.items()) times.push_back(sim::as_long_time(item));
  return times;
}

std::vector<std::string> texts_of(const Settings* list) {
  std::vector<std::string> texts;
  if (list == nullptr) return texts;
  for (const Settings& item : list->items()) texts.push_back(item.text());
  return texts;
}

/// `after`: laid over the row's own changes.
TrainingRow simulate(const Settings& given, const std::vector<std::string>& after) {
  given.refuse_unknown({"name", "scenario", "set", "source", "published", "notes"});
  given.at("published").refuse_unknown({"start", "run"});
  TrainingRow row;
  row.name = given.at("name").text();
  row.source = given.at("source").text();
  row.notes = given.get_text("notes", "");
  row.published_start_s = times_of(given.at("published").at("start"));
  row.published_run_s = times_of(given.at("published").at("run"));
  std::vector<std::string> sets = texts_of(given.find("set"));
  sets.insert(sets.end(), after.begin(), after.end());
  const std::string file = scenarios::data_directory() + "/" + given.at("scenario").text();
  PricedCampaign priced = price_campaign(scenarios::read_scenario(file, sets), 1);
  // A log's clock runs on between two steps: what the host does there is no part of a step by its timer.
  if (priced.spec.data_per_step_s == 0)
    priced.spec.data_per_step_s = sim::to_seconds(priced.scenario.job.software.host.step_host);
  const campaign::Plan plan = campaign::compile(priced.spec, priced.machine, priced.prices);
  const campaign::Outcome outcome = campaign::run(plan, 1);
  if (outcome.failures > 0 || !outcome.finished)
    given.at("scenario").fail("has failures or ends early, expected a campaign that nothing interrupts");
  using campaign::Share;
  for (const Share share : {Share::restart, Share::initialisation, Share::loading, Share::warm_up})
    row.start_s += campaign::to_seconds(campaign::at(outcome.shares, share));
  row.run_s = campaign::to_seconds(outcome.wall) - row.start_s;
  row.gpus = priced.machine.gpus;
  row.steps = plan.steps;
  row.evaluations = plan.evaluation.every > 0 ? plan.steps / plan.evaluation.every : 0;
  return row;
}

double error_pct(double simulated, double published) { return 100 * (simulated / published - 1); }

}  // namespace

double median_of(std::vector<double> values) {
  SIM_CHECK(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double TrainingRow::run_error_pct() const { return error_pct(run_s, median_of(published_run_s)); }
double TrainingRow::whole_error_pct() const {
  return error_pct(start_s + run_s, median_of(published_start_s) + median_of(published_run_s));
}

std::vector<TrainingRow> simulate_trainings(const Settings& document, unsigned jobs) {
  document.refuse_unknown({"title", "set", "trainings"});
  const std::vector<std::string> sets = texts_of(document.find("set"));
  const std::vector<Settings>& given = document.at("trainings").items();
  std::vector<TrainingRow> rows(given.size());
  const std::vector<char> done =
      for_each_parallel(given.size(), jobs, "trainings", [&](std::size_t i) { rows[i] = simulate(given[i], sets); });
  if (std::find(done.begin(), done.end(), 0) != done.end()) rows.clear();
  return rows;
}

void write_training_rows(std::ostream& out, const std::string& title, const std::vector<TrainingRow>& rows) {
  TextTable table({{"training", Align::left},
                   {"GPUs"},
                   {"steps"},
                   {"start, s,\npublished"},
                   {"simulated"},
                   {"run, min,\npublished"},
                   {"simulated"},
                   {"error"},
                   {"both"}},
                  "");
  std::vector<double> errors;
  for (const TrainingRow& row : rows) {
    table.add_row({row.name, fmt::format("{}", row.gpus), fmt::format("{}", row.steps),
                   fmt::format("{:.0f}", median_of(row.published_start_s)), fmt::format("{:.0f}", row.start_s),
                   fmt::format("{:.2f}", median_of(row.published_run_s) / 60), fmt::format("{:.2f}", row.run_s / 60),
                   error_text(row.run_error_pct()), error_text(row.whole_error_pct())});
    errors.push_back(std::abs(row.run_error_pct()));
  }
  out << title << "\n\n";
  table.write(out);
  out << fmt::format("\nrun: median of the published runs; {:.1f} % off in the median. both: error of start and run\n",
                     median_of(errors))
      << "together. Steps and validations are as many as the source took.\n\nSources\n";
  for (const TrainingRow& row : rows)
    out << wrapped(fmt::format("{}: {}. {}", row.name, row.source, row.notes), "  - ", "    ");
}

nlohmann::ordered_json training_rows_json(const std::string& table, const std::vector<TrainingRow>& rows) {
  nlohmann::ordered_json json;
  json["table"] = table;
  json["rows"] = nlohmann::ordered_json::array();
  for (const TrainingRow& row : rows) {
    json["rows"].push_back({{"name", row.name},
                            {"gpus", row.gpus},
                            {"steps", row.steps},
                            {"evaluations", row.evaluations},
                            {"published_start_s", row.published_start_s},
                            {"start_s", row.start_s},
                            {"published_run_s", row.published_run_s},
                            {"run_s", row.run_s},
                            {"run_error_pct", row.run_error_pct()},
                            {"whole_error_pct", row.whole_error_pct()},
                            {"source", row.source}});
  }
  return json;
}

Grid grid_of(const std::string& title, const std::vector<TrainingRow>& rows) {
  Grid grid;
  grid.title = title;
  grid.columns = {{"training", "training", true},
                  {"GPUs", "gpus"},
                  {"steps", "steps"},
                  {"figure", "figure", true},
                  {"published", "published", false, GridColumn::kOfRow},
                  {"predicted", "predicted", false, GridColumn::kOfRow},
                  {"error", "error_pct"}};
  for (const TrainingRow& row : rows) {
    const std::vector<std::string> place{row.name, fmt::format("{}", row.gpus), fmt::format("{}", row.steps)};
    bool first = true;
    const auto add = [&](const char* figure, double published, double predicted) {
      const double error = 100 * (predicted / published - 1);
      Grid::Row line;
      line.cells = first ? place : std::vector<std::string>(place.size());
      line.exact = place;
      line.cells.insert(line.cells.end(), {figure, number_text(published), number_text(predicted), error_text(error)});
      line.exact.insert(line.exact.end(),
                        {figure, fmt::format("{}", published), fmt::format("{}", predicted), fmt::format("{}", error)});
      line.unit = "s";
      line.begins_group = first;
      first = false;
      grid.rows.push_back(std::move(line));
    };
    const double start = median_of(row.published_start_s), run = median_of(row.published_run_s);
    add("start, s", start, row.start_s);
    add("run, s", run, row.run_s);
    add("both, s", start + run, row.start_s + row.run_s);
    grid.notes.push_back(fmt::format("{}: {}. {}", row.name, row.source, row.notes));
  }
  return grid;
}

}  // namespace orrery::tools
