// The scoreboard: how far predictions are from published measurements, by list, with and without the rows that
// parameters were fitted on, and what is known of the misses. As text, Markdown (for the README), CSV, JSON and a
// scatter plot.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/validation.h"

namespace orrery::tools {

/// What scenarios/published/notes.yaml says of a list of records.
struct ListNote {
  std::string list;
  std::string title;   // what the rows are, for tables
  std::string others;  // errors of other published tools on these rows
  std::string note;    // why rows are missed, with the evidence; empty: nothing to explain
};
/// Empty when the file is not there. Throws sim::UserError for a broken one.
std::vector<ListNote> list_notes();

/// The lists of `rows`, in the order of their first rows.
std::vector<std::string> lists_of(const std::vector<ValidationRow>& rows);
/// Of the step, of the rows of `list` (empty: all); without the fitted ones where asked.
ErrorSummary summary_of(const std::vector<ValidationRow>& rows, const std::string& list, bool with_fitted);

/// Every row, then the summary by list, peak memory, and the notes. `records`: how many there were to simulate.
void write_scoreboard(std::ostream& out, const std::vector<ValidationRow>& rows, std::size_t records,
                      const std::vector<ListNote>& notes);
/// The summary as a Markdown table: rows that nothing was fitted on, and the fitted ones apart.
void write_markdown(std::ostream& out, const std::vector<ValidationRow>& rows, const std::vector<ListNote>& notes);
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
