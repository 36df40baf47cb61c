// Curves of points that each lay some keys over one scenario. Left out: reading numbers off figures.
#include "tools/study/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "scenarios/scenario.h"
#include "tools/parallel.h"
#include "tools/report/text.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr std::size_t kBar = 30;

void lay_over(Settings& scenario, const Settings* sets) {
  if (sets == nullptr) return;
  for (const Settings& set : sets->items()) scenarios::apply_set(scenario, set.text());
}

Settings scenario_of(const Settings& curve) {
  const Settings& given = curve.at("scenario");
  if (!given.is_mapping()) given.fail("expected a scenario: a mapping of keys");
  Settings scenario = Settings::mapping(given.place());
  for (const auto& [name, member] : given.members()) scenario.set(name, member);
  lay_over(scenario, curve.find("set"));
  return scenario;
}

}  // namespace

bool Curve::as_stated() const {
  const auto less = [](const Point& a, const Point& b) { return a.tflops_per_gpu < b.tflops_per_gpu; };
  if (points.size() < 2) return false;
  if (!best.empty()) return std::max_element(points.begin(), points.end(), less)->name == best;
  // Falls: every point is below the one before.
  return std::is_sorted(points.rbegin(), points.rend(), less) &&
         std::adjacent_find(points.begin(), points.end(),
                            [&](const Point& a, const Point& b) { return !less(b, a); }) == points.end();
}

std::vector<Curve> simulate_curves(const Settings& document, unsigned jobs) {
  document.refuse_unknown({"title", "curves"});
  struct Task {
    std::size_t curve, point;
    Settings scenario;
  };
  std::vector<Curve> curves;
  std::vector<Task> tasks;
  for (const Settings& s : document.at("curves").items()) {
    s.refuse_unknown({"name", "source", "statement", "best", "falls", "scenario", "set", "points", "counts"});
    Curve curve;
    curve.name = s.at("name").text();
    curve.source = s.at("source").text();
    curve.statement = s.at("statement").text();
    curve.best = s.get_text("best", "");
    if (const Settings* counts = s.find("counts")) curve.of_model = counts->as_choice({"model", "hardware"}) == "model";
    if (curve.best.empty() != s.get_bool("falls", false)) s.fail("expected best: POINT, or falls: true");
    for (const Settings& point : s.at("points").items()) {
      point.refuse_unknown({"name", "set"});
      Settings scenario = scenario_of(s);
      lay_over(scenario, &point.at("set"));
      tasks.push_back({curves.size(), curve.points.size(), std::move(scenario)});
      curve.points.push_back({point.at("name").text()});
    }
    curves.push_back(std::move(curve));
  }
  workloads::StepCache cache;
  const std::vector<char> finished = for_each_parallel(tasks.size(), jobs, "points", [&](std::size_t i) {
    workloads::Question options;
    options.cache = &cache;
    const auto report = workloads::simulate_step(scenarios::load_scenario(tasks[i].scenario).job, options);
    Curve& curve = curves[tasks[i].curve];
    Curve::Point& point = curve.points[tasks[i].point];
    point.tflops_per_gpu = curve.of_model ? report.rates.model_tflops_per_gpu : report.rates.hardware_tflops_per_gpu;
    point.fits = report.memory.fits;
  });
  if (std::find(finished.begin(), finished.end(), 0) != finished.end()) curves.clear();
  return curves;
}

void write_curves(std::ostream& out, const std::string& title, const std::vector<Curve>& curves) {
  out << title << '\n';
  for (const Curve& curve : curves) {
    double top = 0;
    for (const Curve::Point& point : curve.points) top = std::max(top, point.tflops_per_gpu);
    out << '\n' << curve.name << '\n' << wrapped("published: " + curve.statement, "  ", "    ");
    TextTable table({{"", Align::left},
                     {curve.of_model ? "model TFLOP/s per GPU" : "TFLOP/s per GPU"},
                     {"", Align::left},
                     {"", Align::left}});
    for (const Curve::Point& point : curve.points) {
      table.add_row({point.name, number_text(point.tflops_per_gpu), bar(point.tflops_per_gpu / top, kBar),
                     point.fits ? "" : "OOM"});
    }
    table.write(out);
    out << (curve.as_stated() ? "  predicted: so too\n" : "  predicted: NOT so\n");
  }
  out << "\nSources\n";
  std::vector<std::string> told;
  for (const Curve& curve : curves) {
    if (std::find(told.begin(), told.end(), curve.source) != told.end()) continue;
    told.push_back(curve.source);
    out << wrapped(curve.source, "  - ", "    ");
  }
}

nlohmann::ordered_json curves_json(const std::string& table, const std::vector<Curve>& curves) {
  nlohmann::ordered_json json;
  json["table"] = table;
  json["curves"] = nlohmann::ordered_json::array();
  for (const Curve& curve : curves) {
    nlohmann::ordered_json row;
    row["name"] = curve.name;
    row["source"] = curve.source;
    row["statement"] = curve.statement;
    row["as_stated"] = curve.as_stated();
    for (const Curve::Point& point : curve.points) {
      row["points"].push_back({{"name", point.name}, {"tflops_per_gpu", point.tflops_per_gpu}, {"fits", point.fits}});
    }
    json["curves"].push_back(std::move(row));
  }
  return json;
}

Grid grid_of(const std::string& title, const std::vector<Curve>& curves) {
  Grid grid;
  grid.title = title;
  grid.columns = {{"curve", "curve", true},
                  {"point", "point", true},
                  {"TFLOP/s per GPU", "tflops_per_gpu"},
                  {"fits", "fits", true},
                  {"as published", "as_stated", true}};
  for (const Curve& curve : curves) {
    const std::string stated = curve.as_stated() ? "yes" : "no";
    bool first = true;
    for (const Curve::Point& point : curve.points) {
      const std::string fits = point.fits ? "yes" : "no";
      grid.rows.push_back(
          {{first ? curve.name : "", point.name, number_text(point.tflops_per_gpu), fits, first ? stated : ""},
           {curve.name, point.name, fmt::format("{}", point.tflops_per_gpu), fits, stated},
           first});
      first = false;
    }
    grid.notes.push_back(fmt::format("{}: published: {}. {}{}", curve.name, curve.statement, curve.source,
                                     curve.of_model ? "; the model's FLOPs" : ""));
  }
  return grid;
}

}  // namespace orrery::tools
