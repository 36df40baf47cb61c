// Comma-separated values, line by line. Left out: cells with line breaks, so that a line is always a row.
#include "tools/report/csv.h"

#include <algorithm>
#include <stdexcept>

#include "sim/error.h"

namespace orrery::tools {

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string& cell = cells[i];
    SIM_CHECK(cell.find('\n') == std::string::npos, "a cell of a table holds a line break");
    if (i > 0) line += ',';
    if (cell.find_first_of(",\"\r") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (const char c : cell) line += c == '"' ? "\"\"" : std::string(1, c);
    line += '"';
  }
  return line;
}

std::vector<std::string> csv_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == ',') {
      cells.emplace_back();
      ++i;
    } else if (line[i] == '"' && cells.back().empty()) {
      for (++i;; ++i) {
        if (i >= line.size()) throw std::invalid_argument("a quote that is not closed");
        if (line[i] == '"' && (i + 1 >= line.size() || line[i + 1] != '"')) break;
        if (line[i] == '"') ++i;
        cells.back() += line[i];
      }
      ++i;
      if (i < line.size() && line[i] != ',') throw std::invalid_argument("text behind a closing quote");
    } else {
      cells.back() += line[i++];
    }
  }
  return cells;
}

}  // namespace orrery::tools
