// See record_table.h. Left out: weights, means over rows; `orrery validate` has them.
#include "tools/study/record_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/report/text.h"
#include "tools/validation.h"
#include "workloads/step/step.h"

namespace orrery::tools {

namespace {

using scenarios::Measured;
using scenarios::Scenario;
using workloads::StepReport;

/// What the times of a training are worked out for.
struct Training {
  double tokens = 0;
  std::string unit;
  double seconds() const { return unit == "days" ? 86'400 : unit == "hours" ? 3600 : 60; }
};

bool counts_hardware(const Measured& measured) {
  return measured.tflops_kind.starts_with("hardware") || measured.tflops_kind.starts_with("megatron");
}

std::optional<double> measured_step(const Measured& measured, const Scenario& s) {
  if (measured.iteration_s) return measured.iteration_s;
  if (!measured.tokens_per_s) return std::nullopt;
  return static_cast<double>(s.job.batch.global) * static_cast<double>(s.job.model.seq) / *measured.tokens_per_s;
}

double rate_of(const Measured& measured, const StepReport& report) {
  return counts_hardware(measured) ? report.rates.hardware_tflops_per_gpu : report.rates.model_tflops_per_gpu;
}

/// A figure: what was published of it and what is predicted, where it was.
struct Figure {
  const char *name, *unit, *title;  // title: for people, with the unit
  bool derived;                     // from others that were measured: only where a table asks for it
  std::function<std::optional<double>(const Measured&, const Scenario&, const Training&)> published;
  std::function<double(const Measured&, const Scenario&, const StepReport&, const Training&)> predicted;
};

const std::vector<Figure>& figures() {
  static const std::vector<Figure> kFigures{
      {"iteration_s", "s", "step, s", false,
       [](const Measured& m, const Scenario&, const Training&) { return m.iteration_s; },
       [](const Measured&, const Scenario&, const StepReport& r, const Training&) {
         return sim::to_seconds(r.iteration);
       }},
      {"tokens_per_s", "tokens/s", "tokens/s", false,
       [](const Measured& m, const Scenario&, const Training&) { return m.tokens_per_s; },
       [](const Measured&, const Scenario&, const StepReport& r, const Training&) { return r.rates.tokens_per_s; }},
      {"tflops_per_gpu", "TFLOP/s", "TFLOP/s/GPU", false,
       [](const Measured& m, const Scenario&, const Training&) { return m.tflops_per_gpu; },
       [](const Measured& m, const Scenario&, const StepReport& r, const Training&) { return rate_of(m, r); }},
      {"aggregate_pflops", "PFLOP/s", "PFLOP/s", true,
       [](const Measured& m, const Scenario& s, const Training&) -> std::optional<double> {
         if (!m.tflops_per_gpu) return std::nullopt;
         return *m.tflops_per_gpu * static_cast<double>(s.job.machine.gpus) / 1e3;
       },
       [](const Measured& m, const Scenario& s, const StepReport& r, const Training&) {
         return rate_of(m, r) * static_cast<double>(s.job.machine.gpus) / 1e3;
       }},
      {"mfu_pct", "%", "MFU, %", false, [](const Measured& m, const Scenario&, const Training&) { return m.mfu_pct; },
       [](const Measured&, const Scenario&, const StepReport& r, const Training&) { return r.rates.mfu_pct; }},
      {"memory_gb", "GB", "memory, GB", false,
       [](const Measured& m, const Scenario&, const Training&) { return m.memory.peak_gb; },
       [](const Measured& m, const Scenario&, const StepReport& r, const Training&) {
         return (m.memory.kind == "allocated"  ? r.memory.allocated_bytes
                 : m.memory.kind == "reserved" ? r.memory.reserved_bytes
                                               : r.memory.peak_bytes) /
                1e9;
       }},
      {"time_to_train", "", "", true,
       [](const Measured& m, const Scenario& s, const Training& t) -> std::optional<double> {
         const auto step = measured_step(m, s);
         if (!step || t.tokens == 0) return std::nullopt;
         const double each = static_cast<double>(s.job.batch.global) * static_cast<double>(s.job.model.seq);
         return t.tokens / each * *step / t.seconds();
       },
       [](const Measured&, const Scenario&, const StepReport& r, const Training& t) {
         return t.tokens / r.rates.tokens_per_s / t.seconds();
       }}};
  return kFigures;
}

/// What a document asks for.
struct RecordQuestion {
  std::vector<std::string> ids, columns;  // empty: all
  Training training;
  bool asks(const Figure& figure) const {
    if (columns.empty()) return !figure.derived;
    return std::find(columns.begin(), columns.end(), figure.name) != columns.end();
  }
};

RecordQuestion question_of(const sim::Settings& document) {
  RecordQuestion question;
  std::vector<std::string> known;
  for (const Figure& figure : figures()) known.emplace_back(figure.name);
  if (const sim::Settings* ids = document.find("ids"))
    for (const sim::Settings& id : ids->items()) question.ids.push_back(id.text());
  if (const sim::Settings* columns = document.find("columns"))
    for (const sim::Settings& column : columns->items()) question.columns.push_back(column.as_choice(known));
  if (const sim::Settings* training = document.find("training")) {
    question.training.tokens = training->at("tokens").as_number(1);
    question.training.unit = training->at("unit").as_choice({"minutes", "hours", "days"});
  }
  return question;
}

std::string id_of(const sim::Settings& record) { return record.at("id").text(); }

/// The list's records that are asked for.
std::vector<sim::Settings> chosen(const sim::Settings& document, const RecordQuestion& question) {
  const std::string file =
      fmt::format("{}/tests/published/{}.yaml", scenarios::data_directory(), document.at("list").text());
  std::vector<sim::Settings> all = scenarios::read_records(file);
  if (question.ids.empty()) {
    // A job that ran out of memory has no figure to stand beside a prediction.
    std::erase_if(all, [&](const sim::Settings& record) {
      const sim::Settings& measured = record.at("measured");
      return measured.find("oom") != nullptr &&
             std::none_of(question.columns.begin(), question.columns.end(),
                          [&](const std::string& column) { return measured.find(column) != nullptr; });
    });
    return all;
  }
  std::vector<sim::Settings> some;
  for (std::size_t i = 0; i < question.ids.size(); ++i) {
    const std::size_t before = some.size();
    for (const sim::Settings& record : all)
      if (matches(id_of(record), question.ids[i])) some.push_back(record);
    if (some.size() == before)
      document.at("ids").items()[i].fail(fmt::format("got {}, expected a record of {}", question.ids[i], file));
  }
  return some;
}

RecordRow simulate(const sim::Settings& record, const RecordQuestion& question) {
  RecordRow row;
  row.id = id_of(record);
  try {
    const scenarios::Scenario scenario = scenarios::load_scenario(record);
    const workloads::Job& job = scenario.job;
    row.gpus = job.machine.gpus;
    row.layout = layout_text(scenario);
    if (!scenario.measured) record.fail("has no 'measured' section, expected measured: {iteration_s: ...}");
    const StepReport report = workloads::simulate_step(job);
    row.fits = report.memory.fits;
    for (const Figure& figure : figures()) {
      if (!question.asks(figure)) continue;
      const auto published = figure.published(*scenario.measured, scenario, question.training);
      if (!published) continue;
      const std::string unit = *figure.unit == '\0' ? question.training.unit : figure.unit;
      const std::string title = *figure.title == '\0' ? "training, " + unit : figure.title;
      row.cells.push_back({figure.name, title, unit, *published,
                           figure.predicted(*scenario.measured, scenario, report, question.training)});
    }
  } catch (const sim::UserError& error) {
    row.reason = error.what();
  }
  return row;
}

/// How many characters the ids of all rows begin with alike, up to a hyphen: what a reader can do without.
std::size_t common_prefix(const std::vector<RecordRow>& rows) {
  if (rows.size() < 2) return 0;
  std::string prefix = rows.front().id;
  for (const RecordRow& row : rows) {
    const auto differs = std::mismatch(prefix.begin(), prefix.end(), row.id.begin(), row.id.end()).first;
    prefix.erase(differs, prefix.end());
  }
  return prefix.rfind('-') + 1;  // npos + 1 is 0
}

}  // namespace

std::string layout_text(const Scenario& s) {
  if (s.job.model.recommender.any()) return s.job.machine.device.name();  // it has one layout
  const workloads::Parallelism& p = s.job.parallelism;
  std::string text = fmt::format("TP {} PP {}", p.tensor, p.pipeline);
  if (p.virtual_pipeline > 1) text += fmt::format("x{}", p.virtual_pipeline);
  text += fmt::format(" DP {}", p.data);
  if (p.context > 1) text += fmt::format(" CP {}", p.context);
  return text;
}

double RecordCell::error_pct() const { return 100 * (predicted / published - 1); }

RecordTable simulate_records(const std::string& name, const sim::Settings& document, unsigned jobs) {
  document.refuse_unknown({"title", "source", "list", "ids", "columns", "training", "notes"});
  const RecordQuestion question = question_of(document);
  const std::vector<sim::Settings> records = chosen(document, question);
  RecordTable table;
  table.name = name;
  table.title = document.at("title").text();
  table.source = document.at("source").text();
  if (const sim::Settings* notes = document.find("notes"))
    for (const sim::Settings& note : notes->items()) table.notes.push_back(note.text());
  std::vector<RecordRow> rows(records.size());
  const std::vector<char> finished = for_each_parallel(
      records.size(), jobs, "records", [&](std::size_t i) { rows[i] = simulate(records[i], question); });
  if (std::find(finished.begin(), finished.end(), 0) == finished.end()) table.rows = std::move(rows);
  return table;
}

Grid grid_of(const RecordTable& table) {
  Grid grid;
  grid.title = fmt::format("{}: {}", table.name, table.title);
  grid.columns = {{"row", "id", true},
                  {"GPUs", "gpus"},
                  {"layout", "layout", true},
                  {"figure", "figure", true},
                  {"published", "published", false, GridColumn::kOfRow},
                  {"predicted", "predicted", false, GridColumn::kOfRow},
                  {"error", "error_pct"}};
  grid.notes.push_back(fmt::format("Source: {}.", table.source));
  for (const std::string& note : table.notes) grid.notes.push_back(note);
  constexpr std::size_t kIdWidth = 24;
  const std::size_t prefix = common_prefix(table.rows);
  for (const RecordRow& row : table.rows) {
    bool first = true;
    for (const RecordCell& cell : row.cells) {
      Grid::Row line;
      line.cells = {first ? shortened(row.id.substr(prefix), kIdWidth) : "",
                    first ? fmt::format("{}", row.gpus) : "",
                    first ? row.layout : "",
                    cell.title,
                    number_text(cell.published),
                    number_text(cell.predicted),
                    error_text(cell.error_pct())};
      line.exact = {row.id,
                    fmt::format("{}", row.gpus),
                    row.layout,
                    fmt::format("{}, {}", cell.name, cell.unit),
                    fmt::format("{}", cell.published),
                    fmt::format("{}", cell.predicted),
                    fmt::format("{}", cell.error_pct())};
      line.unit = cell.unit == "times" ? "" : cell.unit;
      line.begins_group = first;
      first = false;
      grid.rows.push_back(std::move(line));
    }
    if (!row.reason.empty()) grid.notes.push_back(fmt::format("{} is refused: {}", row.id, row.reason));
    if (!row.fits) grid.notes.push_back(row.id + " is predicted to run out of memory.");
  }
  return grid;
}

nlohmann::ordered_json record_table_json(const RecordTable& table) {
  nlohmann::ordered_json json;
  json["table"] = table.name;
  json["title"] = table.title;
  json["source"] = table.source;
  json["rows"] = nlohmann::ordered_json::array();
  for (const RecordRow& row : table.rows) {
    nlohmann::ordered_json cells = nlohmann::ordered_json::array();
    for (const RecordCell& cell : row.cells) {
      cells.push_back({{"name", cell.name},
                       {"unit", cell.unit},
                       {"published", cell.published},
                       {"predicted", cell.predicted},
                       {"error_pct", cell.error_pct()}});
    }
    json["rows"].push_back({{"id", row.id}, {"gpus", row.gpus}, {"layout", row.layout}, {"cells", std::move(cells)}});
    if (!row.reason.empty()) json["rows"].back()["reason"] = row.reason;
  }
  return json;
}

}  // namespace orrery::tools
