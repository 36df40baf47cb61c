// Comma-separated values (RFC 4180, lines end in a line feed): one table per file, a header, cells quoted where needed.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::tools {

/// One line without its line break. Cells must not hold line breaks.
std::string csv_line(const std::vector<std::string>& cells);
/// The cells of one line. Throws std::invalid_argument when a quote is left open or text follows a closing one.
std::vector<std::string> csv_cells(std::string_view line);

/// The same, without a copy of any cell but those that hold a quote: for tables of thousands of lines.
class CsvCells {
 public:
  /// Views into `line`, or into this, until the next call.
  const std::vector<std::string_view>& of(std::string_view line);

 private:
  std::string_view quoted(std::string_view line, std::size_t& at);

  std::vector<std::string_view> cells_;
  std::deque<std::string> with_quotes_;
};

}  // namespace orrery::tools
