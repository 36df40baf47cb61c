// The scoreboard: how far predictions are from published measurements, by list, with and without the rows that
// parameters were fitted on, and what is known of the misses. As text, Markdown (for the README), CSV, JSON and a
// scatter plot.
#pragma once

#include <iosfwd>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/decisions.h"
#include "tools/validation.h"

namespace orrery::tools {

/// How much a list was looked at while the model was built.
enum class LookedAt { fitted, developed, never };
std::string_view name_of(LookedAt looked_at);

/// What scenarios/published/notes.yaml says of a list of records.
struct ListNote {
  std::string list;
  std::string title;                         // what the rows are, for tables
  std::string others;                        // errors of other published tools on these rows
  std::string note;                          // why rows are missed, with the evidence; empty: nothing to explain
  LookedAt looked_at = LookedAt::developed;  // a list with rows in a fit is `fitted`, whatever the file says
  std::int64_t alike_to_gpus =
      0;  // 0: no limit; of larger jobs the environment was another, so they stand apart in decisions
};
/// Empty when the file is not there. Throws sim::UserError for a broken one.
std::vector<ListNote> list_notes();

/// Figures of a list on the day that it was taken in, before anybody looked at what it is off by
/// (scenarios/published/first_figures.yaml): never written anew.
struct FirstFigures {
  std::string list, taken;
  std::int64_t rows = 0;  // in no fit, of the step
  double mean_pct = 0, median_pct = 0, p90_pct = 0;
};
/// Empty when the file is not there. Throws sim::UserError for a broken one.
std::vector<FirstFigures> first_figures();

/// Rows of which it is not known how they ran (scenarios/published/state_unknown.yaml): they count, and figures without
/// them stand beside.
std::vector<std::string> state_unknown();

/// Numbers of this project that measured rows moved (calibration/fitted.yaml), and those rows.
struct FreeNumbers {
  std::size_t numbers = 0, rows = 0;
};
FreeNumbers free_numbers(const std::vector<ValidationRow>& rows);

/// Per cent of a list's rows in no fit that the stated intervals of a new source hold.
struct HeldPct {
  double at68 = 0, at90 = 0;
};
/// What stands beside the errors: read from the files named above; `held` by list, and at "" of all.
struct Beside {
  std::vector<ListNote> notes;
  std::vector<FirstFigures> first;
  std::vector<std::string> state_unknown;
  std::map<std::string, HeldPct> held;
};

/// The lists of `rows`, in the order of their first rows.
std::vector<std::string> lists_of(const std::vector<ValidationRow>& rows);
/// Of the step, of the rows of `list` (empty: all); without the fitted ones where asked.
ErrorSummary summary_of(const std::vector<ValidationRow>& rows, const std::string& list, bool with_fitted);

/// Every row, then the summary by list, peak memory, and the notes. `records`: how many there were to simulate.
void write_scoreboard(std::ostream& out, const std::vector<ValidationRow>& rows, std::size_t records,
                      const std::vector<ListNote>& notes);
/// The summary as Markdown tables: errors by list (rows that nothing was fitted on, and the fitted ones apart), what
/// else was measured, decisions, and the figures of the first day.
void write_markdown(std::ostream& out, const std::vector<ValidationRow>& rows, const Beside& beside);
LookedAt looked_at(const std::vector<ValidationRow>& rows, const std::string& list, const std::vector<ListNote>& notes);
/// Errors of memory of a list's rows (all lists where it is empty), in per cent.
std::vector<double> memory_errors(const std::vector<ValidationRow>& rows, const std::string& list);
/// One line per row: ids and citations, what tells rows apart, measured, predicted, error, exposed seconds by category.
void write_rows_csv(std::ostream& out, const std::vector<ValidationRow>& rows);
/// The contract's JSON of `validate`, with summaries by list.
nlohmann::ordered_json validation_json(const std::vector<ValidationRow>& rows, std::size_t records,
                                       const std::vector<ListNote>& notes);

/// Predicted against measured seconds per step, both axes logarithmic, with bands of 10 and 25 %, a symbol per list and
/// the fitted rows hollow: an SVG document. A rate counts as the step that it stands for.
void write_scatter(std::ostream& out, const std::vector<ValidationRow>& rows);

/// `text` with what stands between the lines kSummaryBegin and kSummaryEnd replaced by `summary`. Throws
/// sim::UserError naming `file` where the two lines are not there, once each and in order.
std::string with_summary(const std::string& text, const std::string& file, const std::string& summary);
inline constexpr const char* kSummaryBegin = "<!-- orrery validate: summary -->";
inline constexpr const char* kSummaryEnd = "<!-- end of summary -->";

}  // namespace orrery::tools
