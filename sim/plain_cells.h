// The cells of a line of comma-separated values, as views: tables of thousands of lines are read with every prediction.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace orrery::sim {

/// Appends the cells of `line` ahead of the first that begins with a quotation mark, without an apostrophe that they
/// begin with. Says where that one begins; beyond the line where there is none.
std::size_t take_plain_cells(std::string_view line, std::vector<std::string_view>& cells);

}  // namespace orrery::sim
