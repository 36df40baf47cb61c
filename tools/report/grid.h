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
};

struct Grid {
  std::string title;
  std::vector<GridColumn> columns;
  struct Row {
    std::vector<std::string> cells;  // as many as columns
    std::vector<std::string> exact;  // for CSV, all digits; empty: the cells
    bool begins_group = false;       // a rule above it
  };
  std::vector<Row> rows;
  std::vector<std::string> notes;  // one paragraph each, below the table; not in CSV
};

/// LaTeX needs the package booktabs; HTML is a whole document.
void write_grid(std::ostream& out, GridFormat format, const Grid& grid);

}  // namespace orrery::tools
