// `orrery validate`: every record of lists of measured scenarios, on all cores. No row is dropped: what cannot be
// loaded or simulated is a row that says why.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/error.h"
#include "sim/text_file.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/explain/newness.h"
#include "tools/parallel.h"
#include "tools/report/comparison_page.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/scoreboard.h"
#include "tools/study/rl_tables.h"
#include "tools/study/serving_tables.h"

namespace orrery::tools {

namespace {

struct ValidateOptions {
  std::vector<std::string> paths;
  std::string json, plot, rows, intervals, readme, report, format = "text";
  double bound_pct = 0;  // 0: none
  unsigned jobs = 0;
  bool strict = false;
};

/// What the repository says beside errors, and how many rows the intervals hold that are stated for a source of which
/// no row is known.
Beside beside_of(const WidthStudy& widths) {
  Beside beside{list_notes(), first_figures(), state_unknown(), {}};
  for (const Held& held : widths.held) {
    if (held.left_out == "source" && held.rows > 0) beside.held[held.list] = {held.at68, held.at90};
  }
  return beside;
}

void write_readme(const std::string& file, const std::vector<ValidationRow>& rows, const Beside& beside) {
  std::ostringstream summary;
  write_markdown(summary, rows, beside);
  const std::string text = with_summary(sim::read_text(file, "a text with the summary's marks"), file, summary.str());
  write_output(file, [&](std::ostream& out) { out << text; });
}

/// Rows that are no prediction within the bound, each in a line.
std::vector<std::string> unmet_rows(const std::vector<ValidationRow>& rows, double bound_pct) {
  std::vector<std::string> unmet;
  for (const ValidationRow& row : rows) {
    const double error = row.error_pct.value_or(0);
    if (row.status == RowStatus::error)
      unmet.push_back(fmt::format("{}: {}", row.id, row.message));
    else if (row.status == RowStatus::oom)
      unmet.push_back(fmt::format("{}: is predicted to run out of memory, and ran", row.id));
    else if (bound_pct > 0 && std::abs(error) > bound_pct)
      unmet.push_back(fmt::format("{}: the step is off by {:+.1f} %, beyond {:g} %", row.id, error, bound_pct));
  }
  return unmet;
}

/// Says on standard error what --strict found; the exit status.
int strict_status(const std::vector<ValidationRow>& rows, double bound_pct) {
  const std::vector<std::string> unmet = unmet_rows(rows, bound_pct);
  for (const std::string& line : unmet) std::cerr << "validate: " << line << '\n';
  return unmet.empty() ? kDone : kUnmet;
}

/// Why no row could be run, by the first of them; empty where one could, or there are none.
std::string none_ran(const std::vector<ValidationRow>& rows) {
  const auto errs = [](const ValidationRow& row) { return row.status == RowStatus::error; };
  if (rows.empty() || !std::all_of(rows.begin(), rows.end(), errs)) return {};
  return fmt::format("validate: none of {} rows could be run, the first: {}", rows.size(), rows.front().message);
}

/// Tables of measured serving have rows, scores and a JSON of their own.
int validate_tables(const ValidateOptions& options) {
  check_writable(options.json);
  std::vector<ServingRow> rows;
  const InterruptGuard guard;
  for (const std::string& file : options.paths) {
    const unsigned jobs = options.jobs > 0 ? options.jobs : default_jobs();
    std::vector<ServingRow> more = is_rl_table(file) ? validate_rl(file, jobs) : validate_serving(file, jobs);
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, serving_rows_json(rows)); });
  if (options.json != "-") write_serving_rows(std::cout, rows);
  const bool any = std::any_of(rows.begin(), rows.end(), [](const ServingRow& row) { return row.status != "error"; });
  if (!any) throw sim::UserError(fmt::format("{}: no row could be run", options.paths.front()));
  return kDone;
}

int validate(const ValidateOptions& options) {
  const auto served = std::count_if(options.paths.begin(), options.paths.end(), [](const std::string& file) {
    return is_serving_table(file) || is_rl_table(file);
  });
  if (served > 0 && served < static_cast<std::int64_t>(options.paths.size()))
    throw sim::UserError("validate: got tables of serving beside other lists, expected one kind at a time");
  if (served > 0) return validate_tables(options);
  for (const std::string& file : {options.json, options.plot, options.rows, options.intervals}) check_writable(file);
  check_report(options.report);
  if (!options.readme.empty())
    with_summary(sim::read_text(options.readme, "a text with the summary's marks"), options.readme, "");
  const std::vector<ListedRecord> records = read_lists(options.paths);
  const std::vector<std::string> fitted = fitted_records();
  std::vector<ValidationRow> all(records.size());
  const InterruptGuard guard;
  const std::vector<char> finished =
      for_each_parallel(records.size(), options.jobs > 0 ? options.jobs : default_jobs(), "records",
                        [&](std::size_t i) { all[i] = validate_record(records[i], fitted); });
  std::vector<ValidationRow> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (finished[i] != 0) rows.push_back(std::move(all[i]));
  }
  const std::vector<ListNote> notes = list_notes();
  if (!options.json.empty()) {
    write_output(options.json,
                 [&](std::ostream& out) { write_json(out, validation_json(rows, records.size(), notes)); });
  }
  if (!options.report.empty()) {
    const nlohmann::ordered_json page = validation_page(rows, records.size());
    write_output(options.report, [&](std::ostream& out) { write_page(out, page); });
  }
  if (!options.plot.empty()) write_output(options.plot, [&](std::ostream& out) { write_scatter(out, rows); });
  if (!options.rows.empty()) write_output(options.rows, [&](std::ostream& out) { write_rows_csv(out, rows); });
  const bool documents = options.json == "-" || options.plot == "-" || options.rows == "-" || options.report == "-";
  const bool tables = !options.readme.empty() || (!documents && options.format == "markdown");
  const WidthStudy widths = tables || !options.intervals.empty() ? study_widths(known_rows(rows)) : WidthStudy{};
  const Beside beside = tables ? beside_of(widths) : Beside{};
  if (!options.intervals.empty() && rows.size() == records.size())
    write_output(options.intervals, [&](std::ostream& out) { write_widths(out, widths); });
  if (!documents && options.format == "markdown") write_markdown(std::cout, rows, beside);
  if (!documents && options.format == "text") write_scoreboard(std::cout, rows, records.size(), notes);
  if (!options.readme.empty() && rows.size() == records.size()) write_readme(options.readme, rows, beside);
  if (rows.size() < records.size()) return kInterrupted;
  const bool bug = std::any_of(rows.begin(), rows.end(), [](const ValidationRow& row) { return row.internal; });
  if (bug) return kBug;
  if (const std::string nothing = none_ran(rows); !nothing.empty()) {
    std::cerr << nothing << '\n';
    return kUserError;
  }
  return options.strict ? strict_status(rows, options.bound_pct) : kDone;
}

}  // namespace

Action declare_validate(CommandOptions app) {
  const auto options = std::make_shared<ValidateOptions>();
  app.add_option("lists", options->paths, "lists of measured scenarios, or folders of them").required();
  app.add_option("--json", options->json, "write rows and summary as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--plot", options->plot, "draw predicted against measured as SVG into FILE").type_name("FILE");
  app.add_option("--rows", options->rows, "write every row with what tells it apart as CSV to FILE").type_name("FILE");
  app.add_option("--intervals", options->intervals,
                 "write how much wider intervals are for what no row has as YAML to FILE (scenarios/published)")
      .type_name("FILE");
  app.add_option("--format", options->format, "text: every row and the summary (default); markdown: the summary")
      .check(OneOf({"text", "markdown"}));
  app.add_option("--readme", options->readme, "write the summary between its two marker lines in FILE")
      .type_name("FILE");
  app.add_option("--report", options->report, "write charts of predicted against measured as one HTML file")
      .type_name("FILE");
  const CommandOption strict =
      app.add_flag("--strict", options->strict,
                   "exit with status 3, naming the rows, where one errs or is predicted to run out of "
                   "memory and did not");
  app.add_option("--bound", options->bound_pct, "with --strict: also where a step is off by more than PCT per cent")
      .type_name("PCT")
      .needs(strict)
      .check(MoreThanZero{});
  app.add_option("--jobs", options->jobs, "simulations at a time (default: one per core)").check(Range(1, 1024));
  return [options] { return validate(*options); };
}

}  // namespace orrery::tools
