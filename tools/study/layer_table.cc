// See layer_table.h. Left out: layers that differ from each other.
#include "tools/study/layer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "tools/parallel.h"
#include "tools/report/text.h"
#include "workloads/step/step.h"

namespace orrery::tools {

namespace {

constexpr std::int64_t kLayers = 2, kMore = 2;

/// Of a model of so many layers: an evaluation's forward passes, and a step without its optimizer.
struct Passes {
  double forward = 0, both = 0;
};

Passes simulate(sim::Settings scenario, std::int64_t layers, std::int64_t dense) {
  scenarios::apply_set(scenario, fmt::format("model.layers={}", layers));
  if (dense > 0) scenarios::apply_set(scenario, fmt::format("model.dense_layers={}", dense));
  const workloads::Job job = scenarios::load_scenario(scenario).job;
  const workloads::StepReport report = workloads::simulate_step(job);
  const double optimizer = report.breakdown_s[static_cast<std::size_t>(workloads::Category::optimizer)];
  return {report.evaluation.seconds, sim::to_seconds(report.iteration) - optimizer};
}

LayerRow::Times layer_of(const sim::Settings& scenario, bool in_place_of_dense) {
  const Passes few = in_place_of_dense ? simulate(scenario, kLayers + kMore, kMore) : simulate(scenario, kLayers, 0);
  const Passes more = simulate(scenario, kLayers + kMore, 0);
  const double forward = (more.forward - few.forward) / static_cast<double>(kMore);
  return {forward, (more.both - few.both) / static_cast<double>(kMore) - forward};
}

sim::Settings scenario_of(const sim::Settings& document, const sim::Settings& row) {
  const sim::Settings& given = document.at("scenario");
  if (!given.is_mapping()) given.fail("expected a scenario: a mapping of keys");
  sim::Settings scenario = sim::Settings::mapping(given.place());
  for (const auto& [name, member] : given.members()) scenario.set(name, member);
  for (const sim::Settings& set : row.at("set").items()) scenarios::apply_set(scenario, set.text());
  const std::string global = scenario.at("batch").at("global").text();
  scenarios::apply_set(scenario, fmt::format("evaluation={{every_steps: 1, sequences: {}}}", global));
  return scenario;
}

struct Part {
  const char *name, *title;
  double published, predicted;
};

std::vector<Part> parts_of(const LayerRow& row) {
  return {{"forward_s", "forward, ms", row.published.forward, row.predicted.forward},
          {"backward_s", "backward, ms", row.published.backward, row.predicted.backward},
          {"combined_s", "both, ms", row.published.sum(), row.predicted.sum()}};
}

}  // namespace

LayerTable simulate_layers(const std::string& name, const sim::Settings& document, unsigned jobs) {
  document.refuse_unknown({"title", "source", "scenario", "in_place_of_dense", "layers", "notes"});
  const sim::Settings* replaces = document.find("in_place_of_dense");
  const bool in_place_of_dense = replaces != nullptr && replaces->as_bool();
  LayerTable table;
  table.name = name;
  table.title = document.at("title").text();
  table.source = document.at("source").text();
  if (const sim::Settings* notes = document.find("notes"))
    for (const sim::Settings& note : notes->items()) table.notes.push_back(note.text());
  const std::vector<sim::Settings>& layers = document.at("layers").items();
  std::vector<LayerRow> rows(layers.size());
  const std::vector<char> finished = for_each_parallel(rows.size(), jobs, "layers", [&](std::size_t i) {
    layers[i].refuse_unknown({"name", "set", "published"});
    const sim::Settings& published = layers[i].at("published");
    rows[i].name = layers[i].at("name").text();
    rows[i].published = {published.at("forward_s").as_number(0), published.at("backward_s").as_number(0)};
    rows[i].predicted = layer_of(scenario_of(document, layers[i]), in_place_of_dense);
  });
  if (std::find(finished.begin(), finished.end(), 0) == finished.end()) table.rows = std::move(rows);
  return table;
}

Grid grid_of(const LayerTable& table) {
  Grid grid;
  grid.title = fmt::format("{}: {}", table.name, table.title);
  grid.columns = {{"layer", "name", true},
                  {"figure", "figure", true},
                  {"published", "published", false, GridColumn::kOfRow},
                  {"predicted", "predicted", false, GridColumn::kOfRow},
                  {"error", "error_pct"}};
  grid.notes.push_back(fmt::format("Source: {}.", table.source));
  for (const std::string& note : table.notes) grid.notes.push_back(note);
  for (const LayerRow& row : table.rows) {
    bool first = true;
    for (const Part& part : parts_of(row)) {
      const double error = 100 * (part.predicted / part.published - 1);
      Grid::Row line;
      line.cells = {first ? row.name : "", part.title, number_text(1e3 * part.published),
                    number_text(1e3 * part.predicted), error_text(error)};
      line.exact = {row.name, part.name, fmt::format("{}", part.published), fmt::format("{}", part.predicted),
                    fmt::format("{}", error)};
      line.unit = "ms";
      line.begins_group = first;
      first = false;
      grid.rows.push_back(std::move(line));
    }
  }
  if (table.rows.empty()) return grid;
  const LayerRow& base = table.rows.front();
  for (const LayerRow& row : table.rows) {
    if (&row == &base) continue;
    grid.notes.push_back(fmt::format("{} over {}: {} published, {} predicted.", row.name, base.name,
                                     error_text(100 * (row.published.sum() / base.published.sum() - 1)),
                                     error_text(100 * (row.predicted.sum() / base.predicted.sum() - 1))));
  }
  return grid;
}

nlohmann::ordered_json layer_table_json(const LayerTable& table) {
  nlohmann::ordered_json json;
  json["table"] = table.name;
  json["title"] = table.title;
  json["source"] = table.source;
  json["rows"] = nlohmann::ordered_json::array();
  for (const LayerRow& row : table.rows) {
    nlohmann::ordered_json cells = nlohmann::ordered_json::array();
    for (const Part& part : parts_of(row)) {
      cells.push_back({{"name", part.name},
                       {"unit", "s"},
                       {"published", part.published},
                       {"predicted", part.predicted},
                       {"error_pct", 100 * (part.predicted / part.published - 1)}});
    }
    json["rows"].push_back({{"id", row.name}, {"cells", std::move(cells)}});
  }
  return json;
}

}  // namespace orrery::tools
