// `orrery search`: the best layouts of a job on its GPUs, or the smallest cluster that meets a deadline. Layouts that
// cannot win by a proven bound are not simulated; --exhaustive simulates all that fit, as a check. Left out: what is
// not a layout (batch size, model, network); `orrery sweep` varies any key.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>

#include "scenarios/yaml_text.h"
#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/explain/choice.h"
#include "tools/parallel.h"
#include "tools/question.h"
#include "tools/report/csv.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/served_question.h"
#include "tools/study/best_first.h"
#include "tools/study/fingerprint.h"
#include "tools/study/journal.h"
#include "tools/study/served_models.h"
#include "tools/study/study_page.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

struct SearchFlags {
  std::string scenario, objective = "tokens_per_s", csv, json, report, deadline, tokens, resume, lengths;
  std::vector<std::string> sets, varies, assumed;
  FirstQuestion first;
  ServedQuestion traffic;  // what comes, of a question of serving
  std::int64_t most_gpus = 0;
  std::size_t top = 10;
  bool exhaustive = false, pareto = false;
  unsigned jobs = 0;
};

double deadline_seconds(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' '));
  constexpr std::pair<const char*, double> kUnits[] = {
      {"s", 1}, {"minutes", 60}, {"hours", 3600}, {"h", 3600}, {"days", 86'400}, {"d", 86'400}, {"weeks", 604'800}};
  for (const auto& [name, seconds] : kUnits) {
    if (error == std::errc{} && value > 0 && std::isfinite(value) && !unit.empty() &&
        (unit == name || unit + "s" == name))
      return value * seconds;
  }
  throw sim::UserError(
      fmt::format("--deadline: got '{}', expected a time in minutes, hours, days or weeks, as in '30 days'", text));
}

/// Sizes for the smallest cluster: whole nodes, each half of a larger one or three quarters of it.
std::string sizes_up_to(std::int64_t most, std::int64_t node) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = most; size >= node; size /= 2) {
    for (const std::int64_t gpus : {size, size / 4 * 3}) {
      if (gpus >= node && gpus % node == 0 && gpus <= most) sizes.push_back(gpus);
    }
    if (size % 2 != 0) break;
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return fmt::format("cluster.gpus={}", fmt::join(sizes, ","));
}

/// What was asked, checked: the scenario with its goal and the layouts to go through.
struct Question {
  sim::Settings document;
  SearchOptions search;
  std::vector<Variation> variations;
};

Question read_question(SearchFlags& options) {
  Question question;
  options.first.tokens = options.tokens;
  question.document = asked_scenario(options.scenario, options.first, options.sets, options.assumed);
  options.scenario = name_of(options.scenario, options.first);
  if (!options.tokens.empty()) scenarios::apply_set(question.document, "training.tokens=" + options.tokens);
  for (const std::string& text : options.varies) question.variations.push_back(parse_variation(text));
  const std::vector<std::string>& names = objective_names();
  question.search.top = options.top;
  question.search.exhaustive = options.exhaustive;
  question.search.pareto = options.pareto;
  question.search.goal.objective =
      static_cast<Objective>(std::find(names.begin(), names.end(), options.objective) - names.begin());
  if (!options.deadline.empty()) question.search.goal.deadline_s = deadline_seconds(options.deadline);
  return question;
}

/// Fills in what the scenario says, and refuses goals that it says too little for.
void complete_goal(const SearchFlags& options, double tokens_per_step, const workloads::Training& training,
                   bool knows_power, Question& question) {
  Goal& goal = question.search.goal;
  goal.tokens_per_step = tokens_per_step;
  goal.training_tokens = training.tokens;
  const auto refuse = [&](const std::string& what, const char* need) {
    throw sim::UserError(fmt::format("orrery: {} needs {}", what, need));
  };
  const bool timed = !options.deadline.empty() || goal.objective == Objective::time;
  const std::string objective = "--objective " + options.objective;
  if (timed && goal.training_tokens == 0) {
    refuse(options.deadline.empty() ? objective : "--deadline",
           "the tokens to train on: --tokens 300e9, or training: "
           "{tokens: 300e9} in the scenario");
  }
  if (goal.objective == Objective::cost && training.price_per_gpu_hour_usd == 0) {
    refuse(objective, "a price: cost: {price_per_gpu_hour_usd: 2.5} in the scenario, or by --set");
  }
  if (goal.objective == Objective::energy && !knows_power)
    refuse(objective, "a device with a power section in its document");
  if (goal.objective == Objective::gpus && options.deadline.empty()) {
    refuse(objective, "a deadline, as in --deadline '30 days'");
  }
}

std::string layout_text(const Layout& layout) {
  std::string text = fmt::format("TP {} PP {}", layout.tensor, layout.pipeline);
  if (layout.chunks > 1) text += fmt::format("x{}", layout.chunks);
  text += fmt::format(" DP {} MB {}", layout.data, layout.micro);
  if (layout.expert > 1) text += fmt::format(" EP {}", layout.expert);
  if (layout.expert_tensor > 1) text += fmt::format(" ETP {}", layout.expert_tensor);
  return layout.dispatcher.empty() ? text : text + " " + layout.dispatcher;
}

std::string days_text(double seconds) { return fmt::format("{:.1f}", seconds / 86'400); }

void write_best(std::ostream& out, const LayoutSpace& space, const SearchResult& result, std::size_t top, bool energy) {
  const std::vector<Layout>& layouts = space.layouts();
  const bool trains = result.best.front().result.time_to_train_s > 0;  // so many tokens are known
  const bool sizes = layouts.front().gpus != layouts.back().gpus;
  std::vector<Column> columns{
      {""}, {"layout", Align::left}, {"SP", Align::left}, {"sharding", Align::left}, {"recompute", Align::left}};
  if (sizes) columns.insert(columns.begin() + 1, {"GPUs"});
  const std::vector<std::string> titles = point_titles(energy);
  for (std::size_t i = 1; i < titles.size(); ++i) columns.push_back({titles[i]});
  if (trains) columns.push_back({"days"});
  TextTable table(std::move(columns), "", 2);
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    if (i >= top && result.pareto[i] == 0) continue;
    const Layout& layout = layouts[result.best[i].layout];
    std::vector<std::string> cells{fmt::format("{}{}", i + 1, result.pareto[i] != 0 ? "*" : " "), layout_text(layout),
                                   layout.sequence_parallel ? "yes" : "no", layout.sharding, layout.recompute};
    if (sizes) cells.insert(cells.begin() + 1, fmt::format("{}", layout.gpus));
    const std::vector<std::string> text = point_text(result.best[i].result, energy);
    cells.insert(cells.end(), text.begin() + 1, text.end());
    if (trains) cells.push_back(days_text(result.best[i].result.time_to_train_s));
    table.add_row(std::move(cells));
  }
  table.write(out);
  out << (energy ? "* nothing found is as fast on less energy\n" : "* nothing found is as fast in less memory\n");
}

/// How near to a deadline the fastest layout of all comes, or by how much it misses it. `space` of `fastest`.
void write_deadline(std::ostream& out, const Visit& fastest, const LayoutSpace& space, double deadline_s) {
  const double taken = fastest.result.time_to_train_s / deadline_s;
  const Layout& layout = space.layouts()[fastest.layout];
  out << wrapped(taken > 1 ? fmt::format("The nearest to it is {} on {} GPUs: {} days, {:.3g} times the {} there are.",
                                         layout_text(layout), layout.gpus, days_text(fastest.result.time_to_train_s),
                                         taken, days_text(deadline_s))
                           : fmt::format("The first takes {} days of the {} there are, {:.0f} %.",
                                         days_text(fastest.result.time_to_train_s), days_text(deadline_s), 100 * taken),
                 "", "  ");
}

/// `subject`: what is searched for, in a line. `evaluates`: now and then, which the search leaves out.
void write_result(std::ostream& out, const SearchFlags& options, const LayoutSpace& space, const SearchResult& result,
                  const Choice& choice, const std::string& subject, bool evaluates) {
  out << wrapped(fmt::format("{}: {}", options.scenario, subject), "", "  ") << '\n';
  if (result.best.empty()) {
    out << (options.deadline.empty() ? "No layout fits the memory.\n"
                                     : "No layout fits the memory and meets the deadline.\n");
  } else {
    write_best(out, space, result, options.top, options.objective == "energy");
    if (!options.deadline.empty()) write_deadline(out, result.best.front(), space, deadline_seconds(options.deadline));
    write_choice(out, choice, result.best.front().result.iteration_s);
    std::string command =
        fmt::format("orrery run {}", options.first.asked() ? flags_of(options.first) : options.scenario);
    for (const std::string& set : options.sets) command += fmt::format(" --set {}", set);
    // A run by flags finds its layout itself, but for what it is told.
    for (const auto& [key, value] : settings_of(space.layouts()[result.best.front().layout])) {
      command += fmt::format(" --set {}={}", key, value);
    }
    out << "\nThe first again:\n" << wrapped(command, "  ", "    ");
  }
  const double rate = 1 / std::max(result.wall_s, 1e-9);
  out << fmt::format(
      "\n{} layouts in {} ({:.0f} per second): {} infeasible, {} out of memory, {} pruned by their bound,\n"
      "{} simulated ({:.0f} per second)\n",
      result.layouts, time_text(result.wall_s), static_cast<double>(result.layouts) * rate, result.infeasible,
      result.out_of_memory, result.pruned, result.simulated, static_cast<double>(result.simulated) * rate);
  if (!result.failures.empty()) {
    out << fmt::format("{} internal errors, please report them with the scenario; the first: {}\n",
                       result.failures.size(), result.failures.front().result.reason);
  }
  if (const std::string missing = space.offers().missing_text(); !missing.empty())
    out << wrapped(fmt::format("Not offered, as {} does not have it: {}; --vary tries it all the same.",
                               space.offers().software, missing),
                   "", "  ");
  if (evaluates) out << "Evaluation passes are left out.\n";
  if (!result.complete) out << "Interrupted: this is the best of what was simulated until then.\n";
}

ordered_json result_json(const SearchFlags& options, const LayoutSpace& space, const SearchResult& result,
                         const Choice& choice) {
  ordered_json json;
  json["scenario"] = options.scenario;
  json["objective"] = options.objective;
  json["layouts"] = result.layouts;
  json["infeasible"] = result.infeasible;
  json["out_of_memory"] = result.out_of_memory;
  json["pruned"] = result.pruned;
  json["simulated"] = result.simulated;
  json["errors"] = result.failures.size();
  json["complete"] = result.complete;
  json["not_offered"] = space.offers().missing_text();
  json["measure"] = choice.measure;
  json["rows"] = ordered_json::array();
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    if (i >= options.top && !options.exhaustive && result.pareto[i] == 0) continue;
    const Visit& visit = result.best[i];
    ordered_json row;
    row["rank"] = i + 1;
    for (const auto& [key, value] : settings_of(space.layouts()[visit.layout])) row["set"][key] = value;
    row["bound_s"] = visit.bound_s;
    row["pareto"] = result.pareto[i] != 0;
    add_point(row, visit.result);
    add_chance(row, choice, i);
    json["rows"].push_back(std::move(row));
  }
  return json;
}

/// One of the layouts, whose keys are those of all.
Layout any_of(const LayoutSpace& space) { return space.layouts().empty() ? Layout{} : space.layouts().front(); }

void write_csv(std::ostream& out, const LayoutSpace& space, const SearchResult& result) {
  std::vector<std::string> head{"rank"};
  for (const auto& [key, value] : settings_of(any_of(space))) head.push_back(key);
  head.insert(head.end(), {"bound_s", "pareto"});
  head.insert(head.end(), point_columns().begin(), point_columns().end());
  out << csv_line(head) << '\n';
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    const Visit& visit = result.best[i];
    std::vector<std::string> cells{fmt::format("{}", i + 1)};
    for (auto& [key, value] : settings_of(space.layouts()[visit.layout])) cells.push_back(std::move(value));
    cells.push_back(fmt::format("{}", visit.bound_s));
    cells.emplace_back(result.pareto[i] != 0 ? "yes" : "no");
    for (std::string& cell : cells_of(visit.result)) cells.push_back(std::move(cell));
    out << csv_line(cells) << '\n';
  }
}

/// Layouts that were simulated or found too large; those that their bound ruled out are a number.
Study study_of(const SearchFlags& options, const LayoutSpace& space, const SearchResult& result,
               const std::string& subject) {
  Study study;
  study.title = fmt::format("Search for the best layout of {}, by {}", options.scenario, options.objective);
  study.subtitle = subject;
  std::vector<std::map<std::string, std::uint32_t>> known;
  for (const auto& [key, value] : settings_of(any_of(space))) study.keys.push_back({key, {}, {}});
  known.resize(study.keys.size());
  for (const std::vector<Visit>* visits : {&result.best, &result.too_large, &result.failures}) {
    for (const Visit& visit : *visits) {
      const auto settings = settings_of(space.layouts()[visit.layout]);
      for (std::size_t k = 0; k < settings.size(); ++k) {
        StudyKey& key = study.keys[k];
        const auto number = static_cast<std::uint32_t>(key.values.size());
        const auto [place, added] = known[k].try_emplace(settings[k].second, number);
        if (added) key.values.push_back(settings[k].second);
        key.choice.push_back(place->second);
      }
      study.points.push_back(visit.result);
    }
  }
  // What all layouts have in common is no axis.
  std::erase_if(study.keys, [](const StudyKey& key) { return key.values.size() < 2; });
  const auto fact = [&](const char* name, std::size_t count) {
    study.facts.emplace_back(name, count_text(static_cast<double>(count)));
  };
  fact("layouts", result.layouts);
  fact("simulated", result.simulated);
  fact("ruled out by their bound", result.pruned);
  fact("out of memory", result.out_of_memory);
  fact("infeasible", result.infeasible);
  study.infeasible.assign(result.refusals.begin(), result.refusals.end());
  return study;
}

/// What is known of layouts from an interrupted search, and the file that grows by each that is simulated.
class Notes {
 public:
  Notes(const SearchFlags& options, const Question& question, const LayoutSpace& space) : space_(space) {
    if (options.resume.empty()) return;
    std::vector<std::string> asked{"search"};
    for (const Variation& variation : question.variations) {
      asked.push_back(variation.key);
      asked.insert(asked.end(), variation.texts.begin(), variation.texts.end());
    }
    for (const auto& [key, value] : settings_of(any_of(space))) form_.columns.push_back(key);
    first_ = 1 + form_.columns.size();
    form_.columns.insert(form_.columns.end(), point_columns().begin(), point_columns().end());
    form_.fingerprint = fingerprint_of(question.document, asked);
    form_.points = space.layouts().size();
    std::error_code ignored;
    const bool goes_on = std::filesystem::exists(options.resume, ignored);
    if (goes_on) {
      rows_ = read_journal(options.resume, form_);
      for (const auto& [layout, row] : rows_) check(options.resume, layout);
    }
    journal_.emplace(options.resume, form_, goes_on ? options.resume : "", rows_);
  }

  Memory memory() {
    if (!journal_) return {};
    return {[this](std::size_t layout) { return known(layout); },
            [this](std::size_t layout, const std::string& line) { keep(layout, line); }};
  }

  /// Puts the file in order.
  void finish() {
    if (journal_) journal_->finish(form_, rows_);
  }

 private:
  std::optional<std::string> known(std::size_t layout) const {
    const auto row = rows_.find(layout);
    if (row == rows_.end()) return std::nullopt;
    const std::vector<std::string> cells = csv_cells(row->second);
    const auto from = cells.begin() + static_cast<std::ptrdiff_t>(first_);
    return csv_line({from, from + static_cast<std::ptrdiff_t>(point_columns().size())});
  }

  void keep(std::size_t layout, const std::string& line) {
    std::vector<std::string> cells;
    for (auto& [key, value] : settings_of(space_.layouts()[layout])) cells.push_back(std::move(value));
    for (std::string& cell : csv_cells(line)) cells.push_back(std::move(cell));
    const std::string row = form_.row(layout, cells);
    journal_->append(row);
    rows_.emplace(layout, row);
  }

  void check(const std::string& file, std::size_t layout) const {
    try {
      point_of(csv_cells(*known(layout)), 0);
    } catch (const std::invalid_argument& error) {
      throw sim::UserError({file, 0, 0}, fmt::format("layout {}", layout),
                           fmt::format("got {}, expected a row as --resume wrote it", error.what()));
    }
  }

  const LayoutSpace& space_;
  JournalForm form_;
  std::size_t first_ = 0;
  JournalRows rows_;
  std::optional<Journal> journal_;
};

/// The scenario in the layout that was found to be the best; there is one.
sim::Settings laid_out(sim::Settings document, const LayoutSpace& space, const SearchResult& result) {
  for (const auto& [key, value] : settings_of(space.layouts()[result.best.front().layout]))
    scenarios::apply_set(document, fmt::format("{}={}", key, value));
  return document;
}

/// What a question by flags asks beside the layouts; --out keeps the first of them as a scenario.
void answer(const SearchFlags& options, const sim::Settings& asked, const LayoutSpace& space,
            const SearchResult& result) {
  if (result.best.empty() || (!options.first.asked() && options.first.out.empty())) return;
  const sim::Settings document = laid_out(asked, space, result);
  const bool quiet = options.csv == "-" || options.json == "-" || options.report == "-";
  std::ostringstream text;
  write_answer(text, document, options.first, options.assumed);
  if (!quiet) std::cout << text.str();
}

/// Fleets of several models on one cluster.
int search_models(const SearchFlags& options, const sim::Settings& document, const std::string& command) {
  const ServedModelsSearch found =
      search_served_models(document, options.top, options.jobs > 0 ? options.jobs : default_jobs());
  if (InterruptGuard::interrupted()) return kInterrupted;
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, served_models_search_json(found)); });
  if (options.json != "-") write_served_models_search(std::cout, found, command);
  return kDone;
}

/// Together or apart, by the lengths of prompts and answers.
int search_lengths(const SearchFlags& options, const sim::Settings& document) {
  const std::vector<ServedWorkloadSearch> found =
      search_workloads(document, options.lengths, options.jobs > 0 ? options.jobs : default_jobs());
  if (InterruptGuard::interrupted()) return kInterrupted;
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, workload_searches_json(found)); });
  if (options.json != "-") write_workload_searches(std::cout, found);
  return kDone;
}

/// What the flags ask of serving.
ServedQuestion served_question(const SearchFlags& options) {
  const FirstQuestion& first = options.first;
  ServedQuestion question = options.traffic;
  question.model = first.model;
  question.device = first.device;
  question.fabric = first.fabric;
  question.software = first.software;
  question.price = first.price;
  question.gpus = first.gpus;
  return question;
}

/// Keeps the first of the fleets as a scenario.
void keep_first(const std::string& file, sim::Settings document, const ServedSearch& found) {
  if (file.empty() || found.best.empty()) return;
  for (const std::string& set : found.best.front().sets) scenarios::apply_set(document, set);
  write_output(file, [&](std::ostream& out) { out << scenarios::yaml_text(document); });
}

/// Fleets of a served scenario.
int search_serving(const SearchFlags& options) {
  for (const auto& [given, name] : {std::pair(!options.csv.empty(), "--csv"),
                                    {!options.report.empty(), "--report"},
                                    {!options.deadline.empty(), "--deadline"},
                                    {!options.tokens.empty(), "--tokens"},
                                    {!options.varies.empty(), "--vary"},
                                    {!options.resume.empty(), "--resume"},
                                    {!options.first.batch_tokens.empty(), "--batch-tokens"},
                                    {!options.first.seq.empty(), "--seq"},
                                    {options.most_gpus > 0, "--max-gpus"},
                                    {options.pareto, "--pareto"},
                                    {options.exhaustive, "--exhaustive"},
                                    {options.objective != "tokens_per_s", "--objective"}})
    if (given)
      throw sim::UserError(fmt::format(
          "search: got {} for a served scenario, expected none: it seeks the fewest GPUs for a promise (serving.slo) "
          "under an open loop or a trace, the front of throughput and speed in a closed loop",
          name));
  for (const std::string& file : {options.json, options.first.out}) check_writable(file);
  const ServedQuestion question = served_question(options);
  std::vector<std::string> assumed;
  const sim::Settings document = asked_service(options.scenario, question, options.sets, assumed);
  std::string command = "orrery serving " + (question.asked() ? flags_of(question) : options.scenario);
  for (const std::string& set : options.sets) command += fmt::format(" --set '{}'", set);
  const InterruptGuard guard;
  const bool several = scenarios::serves_several(document);
  if (!options.first.out.empty() && (several || !options.lengths.empty()))
    throw sim::UserError("search: got --out, which keeps one fleet, expected none beside --lengths or several models");
  if (several && !options.lengths.empty())
    throw sim::UserError("search: got --lengths for several models, expected a scenario of one");
  if (several) return search_models(options, document, command);
  if (!options.lengths.empty()) return search_lengths(options, document);
  const ServedSearch found = search_served(document, options.top, options.jobs > 0 ? options.jobs : default_jobs());
  if (InterruptGuard::interrupted()) return kInterrupted;
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, served_search_json(found)); });
  keep_first(options.first.out, document, found);
  if (options.json == "-") return kDone;
  write_served_search(std::cout, found, command);
  for (const std::string& what : assumed) std::cout << wrapped(fmt::format("Assumed: {}.", what), "  ", "  ");
  return kDone;
}

/// Whether the scenario that is named has a serving section, or the flags ask of serving.
bool is_served(const SearchFlags& options) {
  if (options.scenario.empty() || options.first.asked()) return options.traffic.says_traffic();
  const sim::Settings document = scenarios::read_scenario(options.scenario, {});
  const bool served = document.find("serving") != nullptr || scenarios::serves_several(document);
  if (!served && options.traffic.says_traffic())
    throw sim::UserError(fmt::format(
        "search: got --rate, --concurrency, --input, --output, --ttft or --tpot for {}, which trains, expected them of "
        "a served scenario or a question",
        options.scenario));
  return served;
}

int search(SearchFlags& options) {
  if (is_served(options)) return search_serving(options);
  if (!options.lengths.empty())
    throw sim::UserError("search: --lengths is of a served scenario, or of a question with --rate or --concurrency");
  for (const std::string& file : {options.csv, options.json, options.resume, options.first.out}) check_writable(file);
  check_report(options.report);
  Question question = read_question(options);
  const workloads::Job job = layoutless_job(question.document);
  if (job.model.recommender.any())
    throw sim::UserError(
        "search: got a recommender, whose tables the balancer lays out, expected a model of layers; sweep --vary "
        "tables.placement=auto,table,row,column tries the placements");
  complete_goal(options, static_cast<double>(job.batch.global) * static_cast<double>(job.model.seq), job.training,
                job.machine.knows_power(), question);
  const bool sized = std::any_of(question.variations.begin(), question.variations.end(),
                                 [](const Variation& variation) { return variation.key == "cluster.gpus"; });
  if (!sized && (!options.deadline.empty() || options.most_gpus > 0)) {
    const std::int64_t most = options.most_gpus > 0 ? options.most_gpus : job.machine.gpus;
    question.variations.push_back(parse_variation(sizes_up_to(most, std::min(most, job.machine.gpus_per_node))));
  }
  const std::unique_ptr<Crew> crew = make_crew(options.jobs);
  const unsigned jobs = options.jobs > 0 ? options.jobs : default_jobs();
  // An answer by flags is to come at once; all layouts are gone through where none of these fits.
  const bool first = options.first.asked() && crew->alone() && options.resume.empty() && !options.exhaustive;
  Reach reach = first ? reach_of(job.machine) : Reach{};
  std::optional<LayoutSpace> laid(std::in_place, question.document, question.variations, reach);
  if (first) laid->keep_details();
  if (crew->serves()) {
    crew->serve([&](std::size_t task) { return work_on_layout(*laid, task); });
    return kDone;
  }
  const InterruptGuard guard;
  Notes notes(options, question, *laid);
  SearchResult result = search_layouts(*laid, question.search, *crew, jobs, notes.memory());
  if (reach.any() && result.complete && result.best.empty()) {
    reach = {};
    laid.emplace(question.document, question.variations);
    result = search_layouts(*laid, question.search, *crew, jobs);
  }
  LayoutSpace& space = *laid;
  if (reach.any()) options.assumed.push_back(reach_text(reach) + " (--vary KEY=VALUES goes further)");
  notes.finish();
  if (result.complete && result.layouts == result.infeasible) {
    throw sim::UserError(result.refusal.empty() ? "orrery: there is no layout to try, expected fewer --vary"
                                                : result.refusal);
  }
  // Chances are of steps; what is sought by memory, energy or GPUs is not chosen by its step.
  const bool by_step = question.search.goal.objective != Objective::memory &&
                       question.search.goal.objective != Objective::energy &&
                       question.search.goal.objective != Objective::gpus;
  const Choice choice = by_step ? weigh_best(space, result, jobs) : Choice{};
  if (InterruptGuard::interrupted()) result.complete = false;  // chances may be missing
  if (!options.csv.empty()) write_output(options.csv, [&](std::ostream& out) { write_csv(out, space, result); });
  if (!options.json.empty()) {
    write_output(options.json,
                 [&](std::ostream& out) { write_json(out, result_json(options, space, result, choice)); });
  }
  if (!options.report.empty()) {
    Study study = study_of(options, space, result, scenario_line(job));
    if (!result.best.empty()) study.winner = answer_cards(laid_out(question.document, space, result));
    const auto page = study_page(study);
    write_output(options.report, [&](std::ostream& out) { write_page(out, page); });
  }
  if (options.csv != "-" && options.json != "-" && options.report != "-") {
    write_result(std::cout, options, space, result, choice, scenario_line(job), job.evaluation.every_steps > 0);
    // What misses the deadline is not simulated: the fastest of all layouts says by how much.
    if (result.best.empty() && result.complete && !options.deadline.empty()) {
      SearchOptions without = question.search;
      without.top = 1;
      without.goal.deadline_s = std::numeric_limits<double>::infinity();
      without.goal.objective = Objective::time;
      const SearchResult nearest = search_layouts(space, without, *crew, jobs);
      if (!nearest.best.empty())
        write_deadline(std::cout, nearest.best.front(), space, question.search.goal.deadline_s);
    }
  }
  answer(options, question.document, space, result);
  if (!result.complete) return kInterrupted;
  return result.failures.empty() ? kDone : kBug;
}

}  // namespace

Action declare_search(CommandOptions app) {
  const auto options = std::make_shared<SearchFlags>();
  app.add_option("scenario", options->scenario, "scenario file (YAML), or --model, --device and --gpus");
  declare_question(app, options->first, false);
  declare_traffic_question(app, options->traffic);
  app.add_option("--objective", options->objective, "what is best (default tokens_per_s)")
      .check(OneOf(objective_names()));
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--vary", options->varies, "try these values of a key of the layout instead of all; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUES");
  app.add_option("--tokens", options->tokens, "tokens to train on, as training.tokens").type_name("N");
  app.add_option("--deadline", options->deadline, "the whole training must be done in this time, as in '30 days'")
      .type_name("TIME");
  app.add_option("--lengths", options->lengths,
                 "of a served scenario: prompts and answers together or apart, for each of these lengths of them, as "
                 "in 1024:128,8192:1024")
      .type_name("IN:OUT,...");
  app.add_option("--max-gpus", options->most_gpus, "try clusters of up to N GPUs (with --deadline: the scenario's)")
      .type_name("N")
      .check(Range(1, 1 << 20));
  app.add_option("--top", options->top, "how many layouts to show (default 10)").check(Range(1, 1'000'000));
  app.add_flag("--pareto", options->pareto,
               "find the whole front of step time and memory, or energy by that objective");
  app.add_flag("--exhaustive", options->exhaustive, "simulate every layout that fits, whatever its bound");
  app.add_option("--jobs", options->jobs, "simulations at a time (default: one per core)").check(Range(1, 1024));
  app.add_option("--csv", options->csv, "write every simulated layout, best first; - for standard output")
      .type_name("FILE");
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write charts and a table of the layouts as one HTML file")
      .type_name("FILE");
  app.add_option("--resume", options->resume,
                 "keep every simulated layout in FILE, and go on from what an interrupted search left there")
      .type_name("FILE");
  return [options] { return search(*options); };
}

}  // namespace orrery::tools
