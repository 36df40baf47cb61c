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

/// The cell whose opening quote is at `at`, which goes on behind its closing one.
std::string_view CsvCells::quoted(std::string_view line, std::size_t& at) {
  const std::size_t begin = ++at;
  std::string* joined = nullptr;  // where a doubled quote stands for one
  for (std::size_t from = begin;; from = at) {
    const std::size_t quote = line.find('"', at);
    if (quote == std::string_view::npos) throw std::invalid_argument("a quote that is not closed");
    const bool doubled = quote + 1 < line.size() && line[quote + 1] == '"';
    if (doubled && joined == nullptr) joined = &with_quotes_.emplace_back();
    if (joined != nullptr) joined->append(line.substr(from, quote + (doubled ? 1 : 0) - from));
    at = quote + (doubled ? 2 : 1);
    if (doubled) continue;
    if (at < line.size() && line[at] != ',') throw std::invalid_argument("text behind a closing quote");
    return joined != nullptr ? std::string_view(*joined) : line.substr(begin, quote - begin);
  }
}

const std::vector<std::string_view>& CsvCells::of(std::string_view line) {
  cells_.clear();
  with_quotes_.clear();
  for (std::size_t at = 0;; ++at) {  // `at` is the comma before the cell after the first turn
    if (at < line.size() && line[at] == '"') {
      cells_.push_back(quoted(line, at));
    } else {
      const std::size_t end = std::min(line.find(',', at), line.size());
      cells_.push_back(line.substr(at, end - at));
      at = end;
    }
    if (cells_.back().starts_with('\'')) cells_.back().remove_prefix(1);
    if (at >= line.size()) return cells_;
  }
}

std::vector<std::string> csv_cells(std::string_view line) {
  CsvCells cells;
  const std::vector<std::string_view>& views = cells.of(line);
  return {views.begin(), views.end()};
}

}  // namespace orrery::tools
