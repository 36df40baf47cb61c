// `orrery fit`: parameters of software generations, fabrics and devices fitted on measured steps, how well the rows
// determine each, and the error on rows that were left out. Changes no file unless asked to.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "calibration/framework/software.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/text_file.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/fit/step_fit.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/validation.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

struct FitOptions {
  std::vector<std::string> files, only, except;
  std::string json, framework, out, name = "fitted";
  double ridge = 1;
  unsigned jobs = 0;
  bool write = false;
};

/// ln(predicted / measured) in percent of the measured.
std::vector<double> percent(const StepFit& fit, const std::vector<double>& residuals, const std::string& list) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    if (list.empty() || fit.rows[i].list == list) errors.push_back(100 * std::expm1(residuals[i]));
  }
  return errors;
}

std::vector<double> percent_held(const StepFit& fit, const FitOutcome& outcome, const std::string& list) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < outcome.held.size(); ++i) {
    if (outcome.held[i] && (list.empty() || fit.rows[i].list == list)) {
      errors.push_back(100 * std::expm1(*outcome.held[i]));
    }
  }
  return errors;
}

std::vector<std::string> lists_of(const StepFit& fit) {
  std::vector<std::string> lists;
  for (const FitRow& row : fit.rows) {
    if (std::find(lists.begin(), lists.end(), row.list) == lists.end()) lists.push_back(row.list);
  }
  return lists;
}

std::string verdict_text(const FitParameter& p, const Verdict& v) {
  std::string text;
  if (v.at_bound) text = fmt::format("at its bound {}", p.text_of(v.value));
  if (!v.determined) text += (text.empty() ? "" : ", ") + std::string("not determined by these rows");
  return text.empty() ? "determined" : text;
}

void write_parameters(std::ostream& out, const StepFit& fit, const FitOutcome& outcome) {
  TextTable table(
      {{"parameter", Align::left}, {"start"}, {"fitted"}, {"std. error"}, {"over parts held out"}, {"", Align::left}});
  const std::vector<Verdict> all = verdicts(fit, outcome);
  for (std::size_t p = 0; p < all.size(); ++p) {
    const FitParameter& parameter = fit.parameters[p];
    const Verdict& v = all[p];
    table.add_row({fmt::format("{}: {}", parameter.document, parameter.path), parameter.text_of(parameter.start),
                   parameter.text_of(v.value), fmt::format("{:.3g}", v.standard_error),
                   fmt::format("{:.4g} to {:.4g}", v.fold_low, v.fold_high), verdict_text(parameter, v)});
    if (!v.partner.empty()) table.add_note("      moves with " + v.partner);
  }
  table.write(out);
  std::vector<std::string> values;
  for (const double s : outcome.determination.singular_values) values.push_back(fmt::format("{:.3g}", s));
  out << wrapped(fmt::format("Singular values over the bounds, in standard deviations of the residuals: {}. Where one "
                             "is below {:.1f}, its direction is known no better than by the bounds.",
                             fmt::join(values, ", "), 1 / calibration::kSpread),
                 "  ", "  ");
  out << wrapped(
      "Standard errors take rows for independent and the bounds for what was known before; rows of one "
      "source share causes, so that the spread over parts held out is the better guide.",
      "  ", "  ");
}

/// Whether rows held out come out better with what the others were fitted to than before; nothing where none were.
std::optional<bool> carries(const StepFit& fit, const FitOutcome& outcome) {
  const ErrorSummary held = summarize(percent_held(fit, outcome, ""));
  if (held.n == 0) return std::nullopt;
  return held.median_ape_pct < summarize(percent(fit, outcome.before, "")).median_ape_pct;
}

void write_errors(std::ostream& out, const StepFit& fit, const FitOutcome& outcome) {
  TextTable table({{"errors", Align::left}, {"rows"}, {"mean |error|"}, {"median"}, {"largest"}, {"bias"}});
  const auto add = [&](const std::string& name, const std::vector<double>& errors) {
    const ErrorSummary s = summarize(errors);
    if (s.n == 0) return;
    table.add_row({name, fmt::format("{}", s.n), fmt::format("{:.2f} %", s.mape_pct),
                   fmt::format("{:.2f} %", s.median_ape_pct), fmt::format("{:.2f} %", s.max_ape_pct),
                   error_text(s.bias_pct)});
  };
  std::vector<std::string> lists = lists_of(fit);
  if (lists.size() > 1) lists.emplace_back();
  for (const std::string& list : lists) {
    const std::string name = list.empty() ? "all" : list;
    add(name + ", before", percent(fit, outcome.before, list));
    add(name + ", fitted", percent(fit, outcome.after, list));
    add(name + ", held out", percent_held(fit, outcome, list));
  }
  table.write(out);
  if (!carries(fit, outcome).value_or(true)) {
    out << wrapped(
        "Rows held out come out no better, in the median, than with the numbers before: this fit says little of other "
        "rows. More rows may, or the numbers before held more closely (a larger ridge).",
        "  ", "  ");
  }
}

/// Rows so far off that they pull a fit with heavy tails no more; of other losses none.
std::vector<std::size_t> set_aside(const StepFit& fit, const FitOutcome& outcome) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < outcome.after.size() && fit.loss == RowLoss::heavy_tailed; ++i) {
    if (std::abs(outcome.after[i]) > kSetAside * kRowMiss) rows.push_back(i);
  }
  return rows;
}

void write_set_aside(std::ostream& out, const StepFit& fit, const FitOutcome& outcome) {
  const std::vector<std::size_t> rows = set_aside(fit, outcome);
  if (rows.empty()) return;
  std::vector<std::string> named;
  for (const std::size_t i : rows)
    named.push_back(fmt::format("{} ({})", fit.rows[i].id, error_text(100 * std::expm1(outcome.after[i]))));
  out << wrapped(fmt::format("Set aside, being so far off that they hardly pull: {}. These steps were disturbed, or "
                             "something is not modelled.",
                             fmt::join(named, ", ")),
                 "  ", "  ");
}

void write_fit(std::ostream& out, const StepFit& fit, const FitOutcome& outcome) {
  if (!fit.description.empty()) out << wrapped(fit.description, "", "");
  out << fmt::format("{} parameters on the {} of {} rows of {} lists, {} iterations, {} simulations\n\n",
                     fit.parameters.size(), fit.memory ? "memory" : "step", fit.rows.size(), lists_of(fit).size(),
                     outcome.fit.iterations, outcome.simulations);
  write_parameters(out, fit, outcome);
  if (outcome.optima.size() > 1) {
    std::vector<std::string> costs;
    for (const double cost : outcome.optima) costs.push_back(fmt::format("{:.4g}", cost));
    out << wrapped(fmt::format("Sums of squares that {} descents ended at: {}; the least is shown.", costs.size(),
                               fmt::join(costs, ", ")),
                   "  ", "  ");
  }
  out << '\n';
  write_errors(out, fit, outcome);
  write_set_aside(out, fit, outcome);
}

ordered_json summary_json(const std::vector<double>& errors) {
  const ErrorSummary s = summarize(errors);
  return {{"n", s.n},
          {"mape_pct", s.mape_pct},
          {"median_ape_pct", s.median_ape_pct},
          {"max_ape_pct", s.max_ape_pct},
          {"bias_pct", s.bias_pct}};
}

ordered_json fit_json(const StepFit& fit, const FitOutcome& outcome) {
  ordered_json json;
  json["description"] = fit.description;
  json["parameters"] = ordered_json::array();
  const std::vector<Verdict> all = verdicts(fit, outcome);
  for (std::size_t p = 0; p < all.size(); ++p) {
    const FitParameter& parameter = fit.parameters[p];
    json["parameters"].push_back({{"document", parameter.document},
                                  {"key", parameter.path},
                                  {"unit", parameter.unit},
                                  {"low", parameter.low},
                                  {"high", parameter.high},
                                  {"start", parameter.start},
                                  {"fitted", all[p].value},
                                  {"standard_error", all[p].standard_error},
                                  {"held_out_low", all[p].fold_low},
                                  {"held_out_high", all[p].fold_high},
                                  {"at_bound", all[p].at_bound},
                                  {"determined", all[p].determined}});
  }
  json["correlation"] = outcome.determination.correlation;
  json["singular_values"] = outcome.determination.singular_values;
  json["weakest_direction"] = outcome.determination.weakest;
  json["summary"] = {{"before", summary_json(percent(fit, outcome.before, ""))},
                     {"fitted", summary_json(percent(fit, outcome.after, ""))},
                     {"held_out", summary_json(percent_held(fit, outcome, ""))}};
  if (const auto better = carries(fit, outcome)) json["held_out_better"] = *better;
  json["set_aside"] = ordered_json::array();
  for (const std::size_t i : set_aside(fit, outcome)) json["set_aside"].push_back(fit.rows[i].id);
  json["rows"] = ordered_json::array();
  for (std::size_t i = 0; i < fit.rows.size(); ++i) {
    json["rows"].push_back(
        {{"id", fit.rows[i].id},
         {"list", fit.rows[i].list},
         {"before_pct", 100 * std::expm1(outcome.before[i])},
         {"fitted_pct", 100 * std::expm1(outcome.after[i])},
         {"held_out_pct", outcome.held[i] ? ordered_json(100 * std::expm1(*outcome.held[i])) : ordered_json(nullptr)}});
  }
  return json;
}

/// Where a fitted number goes in its document: where it stands, else into the block that a generation keeps such in.
std::string place_of(const FitParameter& parameter) {
  const std::string& key = parameter.key.key;
  if (parameter.key.kind != "software") return key;
  const std::string there = calibration::spelled_in(scenarios::read_yaml(parameter.file), key);
  return there.empty() ? "fitted." + key.substr(key.rfind('.') + 1) : there;
}

/// The fitted values into their documents, the rows into calibration/fitted.yaml, so that the scoreboard marks them.
void write_documents(const StepFit& fit, const FitOutcome& outcome) {
  const std::vector<Verdict> all = verdicts(fit, outcome);
  std::string entry = "- parameters:\n";
  for (std::size_t p = 0; p < all.size(); ++p) {
    const FitParameter& parameter = fit.parameters[p];
    const std::string value = parameter.text_of(all[p].value), place = place_of(parameter);
    const std::string text = with_value(sim::read_text(parameter.file, "a document"), parameter.file, place, value);
    write_output(parameter.file, [&](std::ostream& out) { out << text; });
    entry += fmt::format("  - {{document: {}, key: {}}}\n", parameter.document, parameter.path);
    std::cout << fmt::format("wrote {}: {} of {}\n", value, place, parameter.file);
  }
  if (fit.memory) entry += "  note: on measured.memory_gb alone\n";
  entry += "  records:\n";
  const std::vector<std::string> known = fitted_records();
  std::size_t marks = 0;
  for (const FitRow& row : fit.rows) {
    const bool marked =
        std::any_of(known.begin(), known.end(), [&](const std::string& p) { return matches(row.id, p); });
    if (marked) continue;
    entry += fmt::format("  - {}\n", row.id);
    ++marks;
  }
  if (marks == 0) return;
  const std::string file = scenarios::data_directory() + "/calibration/fitted.yaml";
  const std::string text = sim::read_text(file, "a list of fits") + entry;
  write_output(file, [&](std::ostream& out) { out << text; });
  std::cout << fmt::format("marked the rows in {}\n", file);
}

StepFit asked_fit(const FitOptions& options) {
  if (!options.framework.empty())
    return framework_fit(options.framework, options.files, options.only, options.except, options.ridge);
  if (options.files.size() > 1)
    throw sim::UserError("orrery: fit: got several files, expected one, or --framework NAME");
  if (!options.only.empty() || !options.except.empty() || !options.out.empty())
    throw sim::UserError("orrery: fit: --records, --except and --out belong to --framework, expected a fit's document");
  return read_step_fit(options.files.front());
}

int run_fit(const FitOptions& options) {
  check_writable(options.json);
  if (!options.out.empty()) check_writable(options.out);
  if (!options.framework.empty() && options.write)
    throw sim::UserError("orrery: fit: --write changes shipped documents, expected --out FILE beside --framework");
  const StepFit fit = asked_fit(options);
  const InterruptGuard guard;
  FitOutcome outcome;
  try {
    outcome = run_step_fit(fit, options.jobs > 0 ? options.jobs : default_jobs());
  } catch (const Interrupted&) {
    std::cerr << "Interrupted: no fit.\n";
    return kInterrupted;
  }
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, fit_json(fit, outcome)); });
  }
  if (options.json != "-") write_fit(std::cout, fit, outcome);
  if (options.write) write_documents(fit, outcome);
  if (!options.out.empty()) {
    const std::string text = framework_text(fit, outcome, options.framework, options.name);
    write_output(options.out, [&](std::ostream& out) { out << text; });
  }
  return kDone;
}

}  // namespace

Action declare_fit(CommandOptions app) {
  const auto options = std::make_shared<FitOptions>();
  app.add_option("fit", options->files,
                 "parameters with bounds, rows and loss (YAML); with --framework lists of records")
      .required()
      .type_name("FILE...");
  app.add_option("--framework", options->framework,
                 "fit a generation as a whole, held to its own numbers by a ridge: its host, calls, copies, slow-downs")
      .type_name("SOFTWARE");
  app.add_option("--records", options->only, "with --framework: the ids to fit on, a trailing * for all that begin so")
      .delimiter(',')
      .type_name("ID,...");
  app.add_option("--except", options->except, "with --framework: ids to leave out").delimiter(',').type_name("ID,...");
  app.add_option("--ridge", options->ridge, "with --framework: weight of the generation's own numbers (default 1)")
      .check(Range(0.0, 1000.0));
  app.add_option("--out", options->out, "with --framework: write the fitted generation to FILE")
      .type_name("SOFTWARE.yaml");
  app.add_option("--name", options->name, "with --framework: name of the fitted generation (default: fitted)")
      .type_name("NAME");
  app.add_option("--json", options->json, "write the fit as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--jobs", options->jobs, "simulations at a time (default: one per core)").check(Range(1, 1024));
  app.add_flag("--write", options->write, "write the fitted values into their documents and mark the rows as fitted");
  return [options] { return run_fit(*options); };
}

}  // namespace orrery::tools
