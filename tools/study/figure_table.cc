// See figure_table.h. Left out: spreads of what was measured.
#include "tools/study/figure_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "scenarios/scenario.h"
#include "tools/parallel.h"
#include "tools/study/served_figures.h"
#include "workloads/step/step.h"

namespace orrery::tools {

namespace {

using workloads::StepReport;

/// `other` is the report of the row that `over` names, the row's own where it names none.
struct PublishedFigure {
  const char *name, *unit, *title;
  std::function<double(const StepReport& report, const StepReport& other)> predicted;
};

const std::vector<PublishedFigure>& published_figures() {
  using Report = const StepReport&;
  static const std::vector<PublishedFigure> kFigures{
      {"iteration_s", "s", "step, s", [](Report r, Report) { return sim::to_seconds(r.iteration); }},
      {"tokens_per_s", "tokens/s", "tokens/s", [](Report r, Report) { return r.rates.tokens_per_s; }},
      {"model_tflops_per_gpu", "TFLOP/s", "TFLOP/s/GPU", [](Report r, Report) { return r.rates.model_tflops_per_gpu; }},
      {"hardware_tflops_per_gpu", "TFLOP/s", "hardware TFLOP/s/GPU",
       [](Report r, Report) { return r.rates.hardware_tflops_per_gpu; }},
      {"aggregate_pflops", "PFLOP/s", "PFLOP/s", [](Report r, Report) { return r.rates.aggregate_pflops; }},
      {"mfu_pct", "%", "MFU, %", [](Report r, Report) { return r.rates.mfu_pct; }},
      {"bubble_pct", "%", "bubble over work, %",
       [](Report r, Report) {
         const auto of = [&](workloads::Category c) { return r.breakdown_s[static_cast<std::size_t>(c)]; };
         return 100 * of(workloads::Category::bubble) / of(workloads::Category::compute);
       }},
      {"gpu_w", "W", "a GPU, W", [](Report r, Report) { return r.energy.gpu_w(); }},
      {"node_w", "W", "a node, W", [](Report r, Report) { return r.energy.node_w(); }},
      {"node_dc_w", "W", "a node behind its supplies, W",
       [](Report r, Report) { return r.energy.node_w() * r.energy.conversion; }},
      {"energy_per_token_j", "J", "energy of a token, J",
       [](Report r, Report) { return r.energy.job_w() / r.rates.tokens_per_s; }},
      {"gain", "times", "tokens/s over the other's",
       [](Report r, Report other) { return r.rates.tokens_per_s / other.rates.tokens_per_s; }}};
  return kFigures;
}

sim::Settings scenario_of_row(const sim::Settings& document, const sim::Settings& row) {
  const sim::Settings* own = row.find("scenario");
  const sim::Settings& given = own != nullptr ? *own : document.at("scenario");
  sim::Settings scenario = sim::Settings::mapping(given.place());
  if (given.is_mapping()) {
    for (const auto& [name, member] : given.members()) scenario.set(name, member);
  } else {
    scenario = scenarios::read_scenario(fmt::format("{}/scenarios/{}.yaml", scenarios::data_directory(), given.text()));
  }
  if (const sim::Settings* sets = row.find("set"))
    for (const sim::Settings& set : sets->items()) scenarios::apply_set(scenario, set.text());
  return scenario;
}

/// Where among the rows before this one that which it is compared with stands; the row itself where it names none.
std::size_t compared_with(const std::vector<sim::Settings>& rows, std::size_t row) {
  const sim::Settings* over = rows[row].find("over");
  if (over == nullptr) {
    if (const sim::Settings* gain = rows[row].at("published").find("gain"))
      gain->fail("is over another row, expected over: NAME beside it");
    return row;
  }
  for (std::size_t i = 0; i < row; ++i) {
    if (rows[i].at("name").text() == over->text()) return i;
  }
  over->fail(fmt::format("got {}, expected the name of a row before this one", over->text()));
}

}  // namespace

RecordTable simulate_figures(const std::string& name, const sim::Settings& document, unsigned jobs) {
  document.refuse_unknown({"title", "source", "scenario", "figures", "notes"});
  RecordTable table;
  table.name = name;
  table.title = document.at("title").text();
  table.source = document.at("source").text();
  if (const sim::Settings* notes = document.find("notes"))
    for (const sim::Settings& note : notes->items()) table.notes.push_back(note.text());
  std::vector<std::string> known;
  for (const PublishedFigure& figure : published_figures()) known.emplace_back(figure.name);
  for (std::string& served : served_figure_names()) known.push_back(std::move(served));
  const std::vector<sim::Settings>& given = document.at("figures").items();
  for (std::size_t i = 0; i < given.size(); ++i) {
    given[i].refuse_unknown({"name", "scenario", "set", "over", "published"});
    given[i].at("published").refuse_unknown(known);
    compared_with(given, i);
  }
  std::vector<RecordRow> rows(given.size());
  std::vector<StepReport> reports(given.size());
  const std::vector<char> finished = for_each_parallel(rows.size(), jobs, "rows", [&](std::size_t i) {
    rows[i].id = given[i].at("name").text();
    const sim::Settings described = scenario_of_row(document, given[i]);
    if (described.find("serving") != nullptr) return predict_served(described, given[i].at("published"), rows[i]);
    const scenarios::Scenario scenario = scenarios::load_scenario(described);
    rows[i].gpus = scenario.job.machine.gpus;
    rows[i].layout = layout_text(scenario);
    reports[i] = workloads::simulate_step(scenario.job);
    rows[i].fits = reports[i].memory.fits;
  });
  if (std::find(finished.begin(), finished.end(), 0) != finished.end()) return table;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].cells.empty()) continue;  // served
    const StepReport& other = reports[compared_with(given, i)];
    for (const PublishedFigure& figure : published_figures()) {
      if (const sim::Settings* published = given[i].at("published").find(figure.name))
        rows[i].cells.push_back(
            {figure.name, figure.title, figure.unit, published->as_number(), figure.predicted(reports[i], other)});
    }
  }
  table.rows = std::move(rows);
  return table;
}

}  // namespace orrery::tools
