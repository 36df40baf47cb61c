// `orrery run`: one training step of one scenario, as text, JSON, a trace or an HTML report.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "scenarios/scenario.h"
#include "scenarios/would_fit.h"
#include "scenarios/yaml_text.h"
#include "sim/error.h"
#include "sim/processors.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/explain/advice_text.h"
#include "tools/explain/explain.h"
#include "tools/parallel.h"
#include "tools/question.h"
#include "tools/report/formulas.h"
#include "tools/report/gzip.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/run_page.h"
#include "tools/report/text.h"
#include "tools/report/trace.h"
#include "tools/study/served_iteration.h"
#include "workloads/step/step.h"

namespace orrery::tools {

namespace {

struct TraceWords {
  std::string file, ranks, window;
};

struct RunOptions {
  FirstQuestion first;
  std::vector<std::string> assumed;  // of a question by flags
  std::string scenario, ranks = "folded", json, report;
  TraceWords trace;
  std::vector<std::string> sets;
  bool explain = false, advise = false, require_fit = false, formulas = false;
  double share_pct = 5;
  unsigned jobs = 0, threads = 1;
  std::int64_t ecmp_seeds = 0;
};

/// The step with every flow hashed onto one path, over seeds 1, 2, ...
struct HashedSteps {
  std::int64_t seeds = 0;
  double mean_s = 0, p95_s = 0;
};

HashedSteps hash_steps(workloads::Job hashed, std::int64_t seeds) {
  if (hashed.machine.fabric.routes.policy != topology::FabricSpec::Routing::ecmp) {
    throw sim::UserError(
        fmt::format("--ecmp-seeds: got {}, expected a fabric whose routing is ecmp; {} has none to hash", seeds,
                    hashed.machine.fabric.name.empty() ? "this cluster" : hashed.machine.fabric.name));
  }
  workloads::Question step;
  step.parts = workloads::Question::Parts::times;
  std::vector<double> seconds;
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    hashed.machine.fabric.routes.ecmp_seed = static_cast<std::uint64_t>(seed);
    seconds.push_back(sim::to_seconds(workloads::simulate_step(hashed, step).iteration));
  }
  std::sort(seconds.begin(), seconds.end());
  const auto last = static_cast<std::size_t>((95 * seeds + 99) / 100) - 1;
  return {seeds, std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seeds), seconds[last]};
}

/// Refuses before the simulation what could not be written after it.
TraceWindow check_outputs(const RunOptions& options) {
  check_writable(options.json);
  check_writable(options.trace.file);
  check_report(options.report);
  for (const auto& [flag, value] :
       {std::pair("--trace-ranks", &options.trace.ranks), std::pair("--trace-window", &options.trace.window)}) {
    if (!value->empty() && options.trace.file.empty())
      throw sim::UserError(std::string(flag) + ": there is no trace to cut, expected --trace FILE beside it");
  }
  return options.trace.window.empty() ? TraceWindow{} : parse_trace_window(options.trace.window);
}

/// What is simulated around the step.
struct Studies {
  std::optional<Explanation> explanation;
  std::optional<Advice> advice;
  bool interrupted() const {
    return (explanation && explanation->study.interrupted) || (advice && advice->interrupted);
  }
};

Studies study(const RunOptions& options, const sim::Settings& document, const scenarios::Scenario& scenario,
              const workloads::StepReport& report) {
  Studies studies;
  if (!options.explain && !options.advise && options.report.empty()) return studies;
  const InterruptGuard guard;
  const unsigned jobs = options.jobs > 0 ? options.jobs : default_jobs();
  if (options.explain) studies.explanation = explain(document, scenario, report, options.share_pct / 100, jobs);
  if (options.advise || !options.report.empty()) {
    AdviceOptions asked;
    asked.jobs = jobs;
    studies.advice = advise(document, asked);
  }
  return studies;
}

/// Beside the step's time, on the first card.
void add_interval(nlohmann::ordered_json& page, const StepInterval& interval, double step_s, const Features& features) {
  page["interval"] = interval_json(interval, step_s, features);
  nlohmann::ordered_json& note = page["facts"].front().back();
  const std::string range = range_text(step_s, interval.like.low68, interval.like.high68) + " for 68 %";
  const std::string before = note.get<std::string>();
  note = before.empty() ? range : range + ", " + before;
  nlohmann::ordered_json& next = page["facts"][1];
  if (next[0] == "training")
    next[2] = fmt::format("{:+.0f} to {:+.0f} % for 68 %, {}", 100 * (interval.like.low68 - 1),
                          100 * (interval.like.high68 - 1), next[2].get<std::string>());
}

/// Where the timeline is and how large; a form that is a fraction of it, where it has not got that.
void write_trace_size(std::ostream& out, const std::string& file) {
  std::error_code none;  // of a device or a pipe there is no size
  const auto size = file.empty() ? 0 : std::filesystem::file_size(file, none);
  if (size == 0 || none) return;
  const bool small = file.ends_with(".pftrace") || file.ends_with(".gz");
  out << '\n'
      << wrapped(fmt::format("The timeline is in {}, {}, for ui.perfetto.dev{}", file,
                             bytes_text(static_cast<double>(size)),
                             small ? "." : "; a name that ends in .pftrace makes it a fraction of that."),
                 "", "  ");
}

/// Of a question by flags, in the fastest layout that the software has.
sim::Settings document_of(RunOptions& options) {
  sim::Settings document = asked_scenario(options.scenario, options.first, options.sets, options.assumed);
  options.scenario = typed(options.scenario, options.first);
  if (options.first.asked()) lay_out(document, options.sets, options.jobs > 0 ? options.jobs : default_jobs());
  if (!options.first.out.empty()) {
    write_output(options.first.out, [&](std::ostream& out) { out << scenarios::yaml_text(document); });
    options.sets.clear();  // the file has them
  }
  return document;
}

/// One iteration of a served model, in place of a training step.
int run_iteration(const RunOptions& options, const sim::Settings& document) {
  for (const auto& [flag, is_given] :
       {std::pair("--report", !options.report.empty()), std::pair("--explain", options.explain),
        std::pair("--advise", options.advise), std::pair("--formulas", options.formulas),
        std::pair("--ecmp-seeds", options.ecmp_seeds > 0), std::pair("--trace-ranks", !options.trace.ranks.empty()),
        std::pair("--trace-window", !options.trace.window.empty())})
    if (is_given) throw sim::UserError(fmt::format("{}: is of a training step, expected none with workload", flag));
  const IterationStudy study = study_iteration(scenarios::load_serving(document));
  if (!options.trace.file.empty())
    write_output(options.trace.file, compressed_by_name(options.trace.file, [&](std::ostream& out) {
                   trace_iteration(out, study, trace_form(options.trace.file));
                 }));
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, iteration_json(study)); });
  if (options.json != "-" && options.trace.file != "-") write_iteration(std::cout, study);
  return options.require_fit && study.memory.blocks < 1 ? kUnmet : kDone;
}

int run(RunOptions& options) {
  const TraceWindow window = check_outputs(options);
  const sim::Settings document = document_of(options);
  if (document.is_mapping() && document.find("serving") != nullptr && document.find("workload") != nullptr)
    return run_iteration(options, document);
  const scenarios::Scenario scenario = scenarios::load_scenario(document);
  workloads::Question step;
  if (options.ranks == "full") step.ranks = workloads::Question::Ranks::every_by_passes;
  // The result is the same with fewer, and a thread without a processor of its own takes more time than it gives.
  if (options.threads > 1) step.threads = std::min(options.threads, sim::processors());
  if (!options.trace.file.empty()) step.timelines.emplace();
  if (!options.report.empty()) step.stages = workloads::Question::Stages::timelines;
  step.counts_memory = true;
  if (!options.trace.ranks.empty()) step.timelines = parse_trace_ranks(options.trace.ranks, scenario.job.machine.gpus);
  workloads::StepReport report = workloads::simulate_step(scenario.job, step);
  if (!report.memory.fits) report.memory.would_fit = scenarios::would_fit(document);
  const Studies studies = study(options, document, scenario, report);
  const Features features = features_of(scenario.job, report);
  const std::optional<StepInterval> interval = interval_of_run(scenario, report);
  const double step_s = sim::to_seconds(report.iteration);
  std::optional<HashedSteps> hashed;
  if (options.ecmp_seeds > 0) hashed = hash_steps(scenario.job, options.ecmp_seeds);
  if (!options.trace.file.empty()) {
    const TraceView view{
        scenario.id,  report.timelines, process_names(scenario.job.parallelism.dims(), report.timelines),
        report.links, window,           critical_path(report.timelines)};
    write_output(options.trace.file, compressed_by_name(options.trace.file, [&](std::ostream& out) {
                   write_trace(out, view, trace_form(options.trace.file));
                 }));
  }
  if (!options.report.empty()) {
    nlohmann::ordered_json page = run_page(document, scenario, report);
    page["advice"] = advice_json(*studies.advice, options.scenario, options.sets);
    if (interval) add_interval(page, *interval, step_s, features);
    if (studies.explanation) page["explain"] = explanation_json(*studies.explanation);
    write_output(options.report, [&](std::ostream& out) { write_page(out, page); });
  }
  if (!options.json.empty()) {
    nlohmann::ordered_json json = report_json(scenario, report);
    if (interval) json["interval"] = interval_json(*interval, step_s, features);
    if (studies.explanation) json["explain"] = explanation_json(*studies.explanation);
    if (options.advise) json["advice"] = advice_json(*studies.advice, options.scenario, options.sets);
    if (options.formulas) json["formulas"] = formulas_json(formulas_of(scenario, report));
    if (hashed) json["hashed_steps"] = {{"seeds", hashed->seeds}, {"mean_s", hashed->mean_s}, {"p95_s", hashed->p95_s}};
    write_output(options.json, [&](std::ostream& out) { write_json(out, json); });
  }
  // What goes to standard output stays one document.
  if (options.json != "-" && options.trace.file != "-" && options.report != "-") {
    std::string sure = interval ? text_of(*interval, step_s, features) : "";
    if (!options.assumed.empty())
      sure += wrapped(fmt::format("The question left open: {}.", fmt::join(options.assumed, ", ")), "  ", "  ");
    write_report(std::cout, scenario, report, sure);
    if (hashed) {
      std::cout << fmt::format("\nPaths hashed with seeds 1 to {}: step {} in the mean, {} at the 95th percentile\n",
                               hashed->seeds, time_text(hashed->mean_s), time_text(hashed->p95_s));
    }
    if (options.formulas) write_formulas(std::cout, formulas_of(scenario, report));
    if (studies.explanation) write_explanation(std::cout, *studies.explanation);
    if (options.advise) write_advice(std::cout, *studies.advice, options.scenario, options.sets, true);
    write_trace_size(std::cout, options.trace.file);
  }
  if (studies.interrupted()) return kInterrupted;
  return options.require_fit && !report.memory.fits ? kUnmet : kDone;
}

}  // namespace

Action declare_run(CommandOptions app) {
  const auto options = std::make_shared<RunOptions>();
  app.add_option("scenario", options->scenario, "scenario file (YAML), or --model, --device and --gpus");
  declare_question(app, options->first, true);
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--ranks", options->ranks, "folded: one rank per class of equals; full: every rank (default folded)")
      .check(OneOf({"folded", "full"}));
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--trace", options->trace.file,
                 "write a timeline that ui.perfetto.dev opens: Perfetto's own form where FILE ends in .pftrace, else "
                 "JSON; compressed behind .gz")
      .type_name("FILE");
  app.add_option("--trace-ranks", options->trace.ranks,
                 "ranks to trace, as in 0,5,8:15, at most 1024 (default: one per class of equals)")
      .type_name("RANKS");
  app.add_option("--trace-window", options->trace.window, "trace only what overlaps FROM:TO, as in 0.1s:0.3s")
      .type_name("FROM:TO");
  app.add_option("--report", options->report, "write charts of the step as one HTML file that needs no network")
      .type_name("FILE");
  app.add_flag("--require-fit", options->require_fit, "exit with status 3 where the step does not fit the memory");
  app.add_flag("--formulas", options->formulas, "the formulas that papers reckon with, beside what is counted");
  app.add_flag("--explain", options->explain, "which inputs the step hangs on, and how sure it is; takes seconds");
  app.add_flag("--advise", options->advise, "what to change, in three lines; `orrery advise` says more");
  app.add_option("--explain-share", options->share_pct, "how far --explain moves each input, in per cent (default 5)")
      .check(Range(0.1, 50.0));
  app.add_option("--ecmp-seeds", options->ecmp_seeds,
                 "the step once more for each of N seeds of hashed paths: mean and 95th percentile")
      .type_name("N")
      .check(Range(1, 10'000));
  app.add_option("--jobs", options->jobs,
                 "simulations at a time of --explain, --advise and --report (default: one per core)")
      .check(Range(1, 1024));
  app.add_option("--threads", options->threads,
                 "with --ranks full: threads that simulate the one step together, with the same result, no more of "
                 "them than processors that this process may use (default 1)")
      .check(Range(1, 64));
  return [options] { return run(*options); };
}

}  // namespace orrery::tools
