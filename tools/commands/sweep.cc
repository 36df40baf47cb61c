// `orrery sweep`: the cross product of the values of some keys, every point simulated, on all cores or on the ranks of
// mpirun. The table on disk grows by a row as soon as a point is finished and is put in order at the end. Left out:
// choosing points by what earlier ones said; `orrery search` does that for layouts.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "scenarios/scenario.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/report/csv.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/study/crew.h"
#include "tools/study/fingerprint.h"
#include "tools/study/journal.h"
#include "tools/study/point.h"
#include "tools/study/study_page.h"
#include "tools/study/tie.h"
#include "tools/study/variation.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kDefaultLimit = 100'000;

struct SweepOptions {
  std::string scenario, csv, json, resume, report;
  std::vector<std::string> sets, varies, ties;
  std::size_t limit = kDefaultLimit, top = 0;
  unsigned jobs = 0;
};

/// Loads the points of a sweep. Where only sections of load_variant vary, the first scenario that loads lends the
/// others its machine and its model.
class Loader {
 public:
  Loader(sim::Settings base, const Product& product, const std::vector<Tie>& ties)
      : base_(std::move(base)), product_(product), ties_(ties) {
    const std::vector<std::string>& sections = scenarios::variant_sections();
    const auto varies_only_them = [&](const auto& changed) {
      const std::string section = changed.key.substr(0, changed.key.find('.'));
      return std::find(sections.begin(), sections.end(), section) != sections.end();
    };
    only_variants_ = std::all_of(product.variations().begin(), product.variations().end(), varies_only_them) &&
                     std::all_of(ties.begin(), ties.end(), varies_only_them);
  }
  scenarios::Scenario load(std::size_t index) {
    sim::Settings document = base_;
    product_.apply(index, document);
    for (const Tie& tie : ties_) tie.apply(document);
    if (!only_variants_) return scenarios::load_scenario(document);
    std::shared_ptr<const scenarios::Scenario> first;
    {
      const std::lock_guard lock(mutex_);
      first = first_;
    }
    if (first) return scenarios::load_variant(*first, document);
    scenarios::Scenario scenario = scenarios::load_scenario(document);
    const std::lock_guard lock(mutex_);
    first_ = std::make_shared<const scenarios::Scenario>(scenario);
    return scenario;
  }
  workloads::StepCache& cache() { return cache_; }

 private:
  workloads::StepCache cache_;
  sim::Settings base_;
  const Product& product_;
  const std::vector<Tie>& ties_;
  bool only_variants_ = false;
  std::mutex mutex_;
  std::shared_ptr<const scenarios::Scenario> first_;
};

struct Sweep {
  sim::Settings base;
  Product product;
  std::vector<Tie> ties;
  JournalForm form;
};

/// Points are training steps: else none of them could run, and each would say so.
void refuse_other_studies(const sim::Settings& document) {
  if (!document.is_mapping()) return;
  for (const auto& [key, command] : {std::pair("serving", "serving"), {"models", "serving"}, {"rl", "rl"}}) {
    if (const sim::Settings* section = document.find(key); section != nullptr)
      section->fail(fmt::format(
          "is no training step, which the points of a sweep are; orrery {} SCENARIO --set KEY=VALUE asks one point",
          command));
  }
}

Sweep read_sweep(const SweepOptions& options) {
  std::vector<Variation> variations;
  for (const std::string& text : options.varies) variations.push_back(parse_variation(text));
  Sweep sweep{
      scenarios::read_scenario(options.scenario, options.sets), Product(std::move(variations), options.limit), {}, {}};
  refuse_other_studies(sweep.base);
  for (const std::string& text : options.ties) sweep.ties.push_back(parse_tie(text));
  std::vector<std::string> asked;
  for (const Variation& variation : sweep.product.variations()) {
    sweep.form.columns.push_back(variation.key);
    asked.push_back(variation.key);
    asked.insert(asked.end(), variation.texts.begin(), variation.texts.end());
  }
  for (const std::string& text : options.ties) asked.push_back("tie " + text);
  const std::vector<std::string>& results = point_columns();
  sweep.form.columns.insert(sweep.form.columns.end(), results.begin(), results.end());
  sweep.form.fingerprint = fingerprint_of(sweep.base, asked);
  sweep.form.points = sweep.product.size();
  return sweep;
}

/// A finished point as its row of the table.
std::string row_of(const Sweep& sweep, Loader& loader, std::size_t index) {
  const PointResult result = evaluate_made([&] { return loader.load(index); }, loader.cache());
  std::vector<std::string> cells = sweep.product.texts(index);
  for (std::string& cell : cells_of(result)) cells.push_back(std::move(cell));
  return sweep.form.row(index, cells);
}

PointResult result_in(const Sweep& sweep, const std::string& row) {
  return point_of(csv_cells(row), 1 + sweep.product.variations().size());
}

/// The rows of an earlier run, each of them a point of this sweep with a result.
JournalRows resumed_rows(const Sweep& sweep, const std::string& file) {
  JournalRows rows = read_journal(file, sweep.form);
  for (const auto& [index, row] : rows) {
    const auto refuse = [&, &point = index](const std::string& why) {
      throw sim::UserError({file, 0, 0}, fmt::format("point {}", point),
                           fmt::format("got {}, expected a row as --csv wrote it", why));
    };
    const std::vector<std::string> cells = csv_cells(row), texts = sweep.product.texts(index);
    if (!std::equal(texts.begin(), texts.end(), cells.begin() + 1)) refuse("the values of another point");
    try {
      point_of(cells, 1 + texts.size());
    } catch (const std::invalid_argument& error) {
      refuse(error.what());
    }
  }
  return rows;
}

/// Where the rows go while the sweep runs: --csv, else the file that is resumed, else nowhere.
std::string journal_file(const SweepOptions& options) {
  if (options.csv == "-") return {};
  return options.csv.empty() ? options.resume : options.csv;
}

/// Works on what `rows` lacks and adds it; false when Ctrl-C came first.
bool run_points(const Sweep& sweep, const SweepOptions& options, Loader& loader, Crew& crew, JournalRows& rows) {
  std::optional<Journal> journal;
  const std::string file = journal_file(options);
  if (!file.empty()) journal.emplace(file, sweep.form, options.resume, rows);
  std::vector<std::size_t> tasks;
  for (std::size_t i = 0; i < sweep.product.size(); ++i) {
    if (!rows.contains(i)) tasks.push_back(i);
  }
  const std::size_t resumed = rows.size();
  Progress progress("points");
  const bool all = crew.run(
      tasks, [&](std::size_t i) { return row_of(sweep, loader, i); },
      [&](std::size_t i, const std::string& row) {
        if (journal) journal->append(row);
        rows.emplace(i, row);
        progress.show(rows.size(), sweep.product.size(), resumed);
      },
      [] { return InterruptGuard::interrupted(); });
  if (journal) journal->finish(sweep.form, rows);
  return all;
}

/// The last part of a key; the whole key where another column would be called alike: another varied key, or a result.
std::string column_title(const std::string& key, const std::vector<Variation>& variations) {
  const std::string last = key.substr(key.rfind('.') + 1);
  const auto ends = [&](const Variation& other) { return other.key.substr(other.key.rfind('.') + 1) == last; };
  const std::vector<std::string> results = point_titles();
  const bool alike = std::count_if(variations.begin(), variations.end(), ends) > 1 ||
                     std::find(results.begin(), results.end(), last) != results.end();
  return alike ? key : last;
}

void write_points(std::ostream& out, const Sweep& sweep, const JournalRows& rows, std::size_t top) {
  std::vector<std::pair<std::size_t, PointResult>> points;
  for (const auto& [index, row] : rows) points.emplace_back(index, result_in(sweep, row));
  if (top > 0) {
    std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
      const bool ok_a = a.second.status == PointStatus::ok, ok_b = b.second.status == PointStatus::ok;
      return ok_a != ok_b ? ok_a : a.second.tokens_per_s > b.second.tokens_per_s;
    });
    points.resize(std::min(points.size(), top));
  }
  std::vector<Column> columns{{"point"}};
  for (const Variation& variation : sweep.product.variations()) {
    columns.push_back({column_title(variation.key, sweep.product.variations())});
  }
  const auto& keys = sweep.product.variations();
  const bool power =
      std::any_of(keys.begin(), keys.end(), [](const Variation& v) { return v.key.starts_with("power."); });
  for (const std::string& title : point_titles(power)) columns.push_back({title});
  TextTable table(std::move(columns));
  for (const auto& [index, result] : points) {
    std::vector<std::string> cells{fmt::format("{}", index)};
    for (const std::string& text : sweep.product.texts(index)) cells.push_back(shortened(text, 24));
    for (std::string& cell : point_text(result, power)) cells.push_back(std::move(cell));
    table.add_row(std::move(cells));
    if (!result.reason.empty()) {
      std::string reason = wrapped(result.reason, "      ", "      ");
      reason.pop_back();
      table.add_note(reason);
    }
  }
  table.write(out);
}

std::size_t count_of(const Sweep& sweep, const JournalRows& rows, PointStatus status) {
  return static_cast<std::size_t>(std::count_if(
      rows.begin(), rows.end(), [&](const auto& row) { return result_in(sweep, row.second).status == status; }));
}

void write_summary(std::ostream& out, const Sweep& sweep, const JournalRows& rows, const std::string& file) {
  out << fmt::format("\n{} of {} points: {} simulated, {} out of memory, {} infeasible\n", rows.size(),
                     sweep.product.size(), count_of(sweep, rows, PointStatus::ok),
                     count_of(sweep, rows, PointStatus::oom), count_of(sweep, rows, PointStatus::infeasible));
  const bool pinned = std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
    return result_in(sweep, row.second).reason.find(" parallelism.data: got ") != std::string::npos;
  });
  if (pinned) out << "--set parallelism.data=null has the replicas follow from the GPUs.\n";
  if (const std::size_t errors = count_of(sweep, rows, PointStatus::error); errors > 0) {
    out << fmt::format("{} internal errors, please report them with the scenario\n", errors);
  }
  if (rows.size() < sweep.product.size()) {
    out << (file.empty() ? "Interrupted.\n" : fmt::format("Interrupted; --resume {} goes on.\n", file));
  }
}

ordered_json sweep_json(const SweepOptions& options, const Sweep& sweep, const JournalRows& rows) {
  ordered_json json;
  json["scenario"] = options.scenario;
  json["points"] = sweep.product.size();
  json["finished"] = rows.size();
  json["fingerprint"] = sweep.form.fingerprint;
  json["vary"] = ordered_json::object();
  for (const Variation& variation : sweep.product.variations()) json["vary"][variation.key] = variation.texts;
  json["rows"] = ordered_json::array();
  for (const auto& [index, line] : rows) {
    ordered_json row;
    row["index"] = index;
    const std::vector<std::string> texts = sweep.product.texts(index);
    for (std::size_t i = 0; i < texts.size(); ++i) row["values"][sweep.product.variations()[i].key] = texts[i];
    add_point(row, result_in(sweep, line));
    json["rows"].push_back(std::move(row));
  }
  return json;
}

Study study_of(const SweepOptions& options, const Sweep& sweep, const JournalRows& rows) {
  Study study;
  study.title = "Sweep of " + options.scenario;
  for (const Variation& variation : sweep.product.variations()) {
    study.subtitle += fmt::format("{}{}={}", study.subtitle.empty() ? "" : "  ", variation.key,
                                  shortened(fmt::format("{}", fmt::join(variation.texts, ",")), 60));
    study.keys.push_back({variation.key, variation.texts, {}});
  }
  for (const auto& [index, line] : rows) {
    const std::vector<std::size_t> choices = sweep.product.choices(index);
    for (std::size_t k = 0; k < choices.size(); ++k)
      study.keys[k].choice.push_back(static_cast<std::uint32_t>(choices[k]));
    study.points.push_back(result_in(sweep, line));
  }
  const auto fact = [&](const char* name, std::size_t count) {
    study.facts.emplace_back(name, count_text(static_cast<double>(count)));
  };
  fact("points", sweep.product.size());
  fact("simulated", count_of(sweep, rows, PointStatus::ok));
  fact("out of memory", count_of(sweep, rows, PointStatus::oom));
  fact("infeasible", count_of(sweep, rows, PointStatus::infeasible));
  return study;
}

int run_sweep(const SweepOptions& options) {
  for (const std::string& file : {options.csv, options.json}) check_writable(file);
  check_report(options.report);
  const Sweep sweep = read_sweep(options);
  Loader loader(sweep.base, sweep.product, sweep.ties);
  JournalRows rows;
  const std::unique_ptr<Crew> crew = make_crew(options.jobs);
  if (crew->serves()) {
    crew->serve([&](std::size_t i) { return row_of(sweep, loader, i); });
    return kDone;
  }
  if (!options.resume.empty()) rows = resumed_rows(sweep, options.resume);
  const InterruptGuard guard;
  const bool all = run_points(sweep, options, loader, *crew, rows);
  if (options.csv == "-") {
    std::cout << sweep.form.header() << '\n';
    for (const auto& [index, row] : rows) std::cout << row << '\n';
  }
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, sweep_json(options, sweep, rows)); });
  }
  if (!options.report.empty()) {
    const auto page = study_page(study_of(options, sweep, rows));
    write_output(options.report, [&](std::ostream& out) { write_page(out, page); });
  }
  // What goes to standard output stays one document.
  if (options.csv != "-" && options.json != "-" && options.report != "-") {
    write_points(std::cout, sweep, rows, options.top);
    write_summary(std::cout, sweep, rows, journal_file(options));
  }
  if (!all) return kInterrupted;
  return count_of(sweep, rows, PointStatus::error) > 0 ? kBug : kDone;
}

}  // namespace

Action declare_sweep(CommandOptions app) {
  const auto options = std::make_shared<SweepOptions>();
  app.add_option("scenario", options->scenario, "scenario file (YAML)").required();
  app.add_option("--tie", options->ties,
                 "KEY=A*B/C of other keys and numbers, as in pipeline=gpus/tensor/data; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=FACTORS");
  app.add_option("--vary", options->varies,
                 "key.path=v1,v2,... or BEGIN:END:FACTOR or BEGIN:END:+STEP; may be repeated, for the cross product")
      .allow_extra_args(false)
      .required()
      .type_name("KEY=VALUES");
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--jobs", options->jobs, "simulations at a time (default: one per core)").check(Range(1, 1024));
  app.add_option("--csv", options->csv, "write a row per point, each as soon as it is finished; - for standard output")
      .type_name("FILE");
  app.add_option("--json", options->json, "write all rows as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write charts and a table of all points as one HTML file")
      .type_name("FILE");
  app.add_option("--resume", options->resume, "go on where the --csv FILE of this very sweep ends").type_name("FILE");
  app.add_option("--top", options->top, "print only the N points of highest throughput")
      .type_name("N")
      .check(Range(1, 1'000'000'000));
  app.add_option("--limit", options->limit, fmt::format("refuse more points than this (default {})", kDefaultLimit))
      .type_name("N")
      .check(Range(1, 1'000'000'000));
  return [options] { return run_sweep(*options); };
}

}  // namespace orrery::tools
