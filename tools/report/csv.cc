// Comma-separated values, line by line. Text that a spreadsheet would take for a formula begins with an apostrophe, as
// spreadsheets write it themselves, and so does text that began with one; csv_cells takes it away again. Left out:
// cells with line breaks, so that a line is always a row.
#include "tools/report/csv.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "sim/error.h"

namespace orrery::tools {

namespace {

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

/// A cell that a spreadsheet takes as it stands (OWASP, CSV injection).
std::string as_text(const std::string& cell) {
  const bool formula = !cell.empty() && std::string_view("=+-@\t\r").find(cell[0]) != std::string_view::npos;
  return (formula && !is_number(cell)) || cell.starts_with('\'') ? '\'' + cell : cell;
}

}  // namespace

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = as_text(cells[i]);
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
  for (std::string& cell : cells) {
    if (cell.starts_with('\'')) cell.erase(0, 1);
  }
  return cells;
}

}  // namespace orrery::tools
