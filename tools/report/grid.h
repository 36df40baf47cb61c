// A table of text cells, for a terminal, a paper, a spreadsheet or a page.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace orrery::tools {

enum class GridFormat { text, markdown, latex, csv, html };
/// As the command line spells them, in the order of the enumeration.
const std::vector<std::string>& grid_format_names();
/// SIM_CHECK for a name that is none of them.
GridFormat grid_format(const std::string& name);

struct GridColumn {
  std::string title;  // for people
  std::string name;   // in CSV
  bool left = false;  // words, not numbers
  /// Beside the title where a table goes into a paper or on a page; `row`: numbers are in the unit of their row.
  std::string unit = "";
  static constexpr const char* kOfRow = "row";
};

struct Grid {
  std::string title;
  std::vector<GridColumn> columns;
  struct Row {
    std::vector<std::string> cells;  // as many as columns
    std::vector<std::string> exact;  // for CSV, all digits; empty: the cells
    bool begins_group = false;       // a rule above it
    std::string unit = "";           // of its numbers in columns of kOfRow; words that end in ", UNIT" say it no more
  };
  std::vector<Row> rows;
  std::vector<std::string> notes;  // one paragraph each, below the table; not in CSV
};

/// Markdown, LaTeX and HTML say units beside the numbers, for a table is cut up and quoted there; a terminal's has them
/// in its words. LaTeX needs the package booktabs; HTML is a whole document.
void write_grid(std::ostream& out, GridFormat format, const Grid& grid);

}  // namespace orrery::tools
