// The Python module behind the package `orrery`: documents in, JSON out; the objects that people see are made in
// Python, beside it. Work runs without the interpreter's lock, on as many threads as are asked for; after every
// finished point the lock is taken to tell the caller and to notice Ctrl-C. Left out: traces and reports, which the
// program writes.
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "scenarios/would_fit.h"
#include "sim/error.h"
#include "tools/explain/advice.h"
#include "tools/explain/advice_text.h"
#include "tools/parallel.h"
#include "tools/report/report.h"
#include "tools/study/best_first.h"
#include "tools/study/point.h"
#include "tools/study/variation.h"
#include "workloads/step/step.h"

namespace py = pybind11;

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;
using Sets = std::vector<std::string>;

std::string dumped(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// Lays a mapping over the one that is there, key by key; anything else takes the place of what is there.
void lay_over(sim::Settings& document, const std::string& set) {
  scenarios::Assignment assignment = scenarios::parse_assignment(set);
  const sim::Settings* now = document.find_path(assignment.key);
  if (now != nullptr && now->is_mapping() && assignment.value.is_mapping())
    assignment.value = sim::overlay(*now, assignment.value);
  scenarios::apply(document, assignment);
}

/// A scenario as Python hands it over: YAML (JSON is YAML) as text, or the name of a file or of a shipped scenario.
struct Source {
  std::string what;
  bool is_text = false;
  Sets sets;
  sim::Settings read() const {
    sim::Settings document = is_text ? scenarios::parse_yaml(what, "scenario") : scenarios::read_scenario(what, {});
    for (const std::string& set : sets) lay_over(document, set);
    return document;
  }
};

/// Tells Python of finished points. What the callback raises, and Ctrl-C, ends the study.
class Watch {
 public:
  explicit Watch(py::object callback) : callback_(std::move(callback)) {}
  /// Without the interpreter's lock held; for any thread.
  void tell(std::size_t done, std::size_t count) const {
    const py::gil_scoped_acquire lock;
    look();
    if (!callback_.is_none()) callback_(done, count);
  }
  /// For Ctrl-C alone.
  void look() const {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }

 private:
  py::object callback_;
};

unsigned jobs_of(unsigned jobs) { return jobs > 0 ? jobs : default_jobs(); }

/// A simulated step. Writing its document takes longer than all else that a call adds, so it waits to be asked for.
struct Step {
  scenarios::Scenario scenario;
  workloads::StepReport report;
  std::string text() const {
    const py::gil_scoped_release unlocked;
    return dumped(report_json(scenario, report));
  }
};

Step run(const Source& source, bool full) {
  const py::gil_scoped_release unlocked;
  const sim::Settings document = source.read();
  Step step{scenarios::load_scenario(document), {}};
  workloads::Question options;
  if (full) options.ranks = workloads::Question::Ranks::every_by_passes;
  step.report = workloads::simulate_step(step.scenario.job, options);
  if (!step.report.memory.fits) step.report.memory.would_fit = scenarios::would_fit(document);
  return step;
}

std::string sweep(const Source& source, const std::vector<std::string>& vary, std::size_t limit, unsigned jobs,
                  const py::object& progress) {
  const Watch watch(progress);
  const py::gil_scoped_release unlocked;
  const sim::Settings base = source.read();
  std::vector<Variation> variations;
  for (const std::string& text : vary) variations.push_back(parse_variation(text));
  const Product product(std::move(variations), limit);
  std::vector<PointResult> results(product.size());
  workloads::StepCache cache;
  std::mutex mutex;
  std::size_t done = 0;
  for_each_parallel(product.size(), jobs_of(jobs), "", [&](std::size_t i) {
    const auto load = [&] {
      sim::Settings document = base;
      product.apply(i, document);
      return scenarios::load_scenario(document);
    };
    results[i] = evaluate_made(load, cache);
    std::size_t now = 0;
    {
      const std::lock_guard lock(mutex);
      now = ++done;
    }
    watch.tell(now, results.size());
  });
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    ordered_json row;
    const std::vector<std::string> texts = product.texts(i);
    for (std::size_t v = 0; v < texts.size(); ++v) row["set"][product.variations()[v].key] = texts[v];
    add_point(row, results[i]);
    rows.push_back(std::move(row));
  }
  return dumped(rows);
}

/// Threads of this process that tell of every layout that is counted as done: most tasks of a search only bound one.
class WatchedCrew : public Crew {
 public:
  WatchedCrew(unsigned jobs, const Watch& watch) : jobs_(jobs), watch_(watch) {}
  std::size_t hands() const override { return jobs_; }
  bool run(const std::vector<std::size_t>& tasks, const Work& work, const Keep& keep,
           const std::function<bool()>& /*stopped*/) override {
    for_each_parallel(tasks.size(), jobs_, "", [&](std::size_t i) {
      const std::string line = work(tasks[i]);
      std::size_t before = 0, now = 0;
      {
        const std::lock_guard lock(mutex_);
        before = done_;
        keep(tasks[i], line);
        now = done_;
      }
      if (now > before)
        watch_.tell(now, 0);
      else
        watch_.look();
    });
    return true;
  }
  /// Of what is kept.
  void count() { ++done_; }

 private:
  unsigned jobs_;
  const Watch& watch_;
  std::mutex mutex_;
  std::size_t done_ = 0;
};

Goal goal_of(const std::string& objective, double tokens_per_step, const workloads::Training& training) {
  const std::vector<std::string>& names = objective_names();
  const auto found = std::find(names.begin(), names.end(), objective);
  if (found == names.end() || objective == "gpus")
    throw sim::UserError(fmt::format("objective: got {}, expected tokens_per_s, mfu, time, cost or memory", objective));
  Goal goal;
  goal.objective = static_cast<Objective>(found - names.begin());
  goal.tokens_per_step = tokens_per_step;
  goal.training_tokens = training.tokens;
  if (objective == "time" && training.tokens == 0)
    throw sim::UserError("objective: got time, expected a scenario with training.tokens beside it");
  if (objective == "cost" && training.price_per_gpu_hour_usd == 0)
    throw sim::UserError("objective: got cost, expected a scenario with cost.price_per_gpu_hour_usd beside it");
  return goal;
}

std::string search(const Source& source, const std::string& objective, std::size_t top,
                   const std::vector<std::string>& vary, unsigned jobs, const py::object& progress) {
  const Watch watch(progress);
  const py::gil_scoped_release unlocked;
  const sim::Settings document = source.read();
  const auto job = layoutless_job(document);
  std::vector<Variation> variations;
  for (const std::string& text : vary) variations.push_back(parse_variation(text));
  LayoutSpace space(document, variations);
  SearchOptions options;
  options.top = std::max<std::size_t>(top, 1);
  options.goal =
      goal_of(objective, static_cast<double>(job.batch.global) * static_cast<double>(job.model.seq), job.training);
  WatchedCrew crew(jobs_of(jobs), watch);
  Memory memory;
  memory.keep = [&](std::size_t, const std::string&) { crew.count(); };
  const SearchResult result = search_layouts(space, options, crew, jobs_of(jobs), memory);
  if (result.complete && result.layouts == result.infeasible)
    throw sim::UserError(result.refusal.empty() ? "search: there is no layout to try" : result.refusal);
  ordered_json json;
  json["layouts"] = result.layouts;
  json["infeasible"] = result.infeasible;
  json["out_of_memory"] = result.out_of_memory;
  json["pruned"] = result.pruned;
  json["simulated"] = result.simulated;
  json["rows"] = ordered_json::array();
  for (std::size_t i = 0; i < std::min(options.top, result.best.size()); ++i) {
    ordered_json row;
    for (const auto& [key, value] : settings_of(space.layouts()[result.best[i].layout])) row["set"][key] = value;
    add_point(row, result.best[i].result);
    json["rows"].push_back(std::move(row));
  }
  return dumped(json);
}

std::string advice(const Source& source, std::size_t top, std::size_t pairs, unsigned jobs) {
  const py::gil_scoped_release unlocked;
  return dumped(advice_json(advise(source.read(), {top, pairs, jobs_of(jobs)}), source.is_text ? "FILE" : source.what,
                            source.sets));
}

}  // namespace

}  // namespace orrery::tools

PYBIND11_MODULE(_orrery, module) {
  using namespace orrery;
  using tools::Source;
  module.doc() = "The simulator behind the package orrery; use that.";
  // Made by the package, which knows how to take a message apart.
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const sim::UserError& error) {
      PyErr_SetString(py::module_::import("orrery._errors").attr("InputError").ptr(), error.what());
    }
  });
  py::class_<Source>(module, "Source").def(py::init([](std::string what, bool is_text, tools::Sets sets) {
    return Source{std::move(what), is_text, std::move(sets)};
  }));
  py::class_<tools::Step>(module, "Step").def("text", &tools::Step::text);
  module.def("run", &tools::run);
  module.def("sweep", &tools::sweep);
  module.def("search", &tools::search);
  module.def("advise", &tools::advice);
  module.def("version", [] { return std::string(ORRERY_VERSION); });
  module.def("data_directory", &scenarios::data_directory);
  module.def("shipped", &scenarios::shipped);
}
