// Comma-separated values (RFC 4180, lines end in a line feed): one table per file, a header, cells quoted where needed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::tools {

/// One line without its line break. Cells must not hold line breaks.
std::string csv_line(const std::vector<std::string>& cells);
/// The cells of one line. Throws std::invalid_argument when a quote is left open or text follows a closing one.
std::vector<std::string> csv_cells(std::string_view line);

}  // namespace orrery::tools
