// Text for people: aligned tables that fit a terminal, and numbers with units.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::tools {

/// Widest line of any report, in columns.
inline constexpr std::size_t kTextWidth = 100;

enum class Align { left, right };

struct Column {
  std::string title;  // a line break starts a second title line
  Align align = Align::right;
};

/// Rows of cells, printed in columns as wide as their widest cell. ASCII only: one byte is one column.
class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns, std::string indent = "  ", std::size_t gap = 2);
  /// `cells` may be shorter than the columns; the rest stays empty.
  void add_row(std::vector<std::string> cells);
  /// A line of its own between rows, outside the columns; empty: a blank line between groups of rows.
  void add_note(std::string text = {});
  void write(std::ostream& out) const;

  struct Row {
    std::vector<std::string> cells;  // empty: a note
    std::string note;
  };
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<std::size_t> widths() const;
  void write_line(std::ostream& out, const std::vector<std::string>& cells,
                  const std::vector<std::size_t>& width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  std::string indent_;
  std::size_t gap_;
};

/// Four significant digits with the unit that fits: "929.6 ms", "6.340 s", "12.50 us".
std::string time_text(double seconds);
/// Decimal units, as in data sheets: "80.00 GB", "1.500 MB".
std::string bytes_text(double bytes);
/// Four significant digits and an SI prefix before the unit: si_text(5.92e6, "tokens/s") = "5.920 Mtokens/s".
std::string si_text(double value, std::string_view unit);
/// Four significant digits without exponent: "6.340", "2166", "0.01234".
std::string number_text(double value);
/// Signed, two digits after the point: "+1.25 %".
std::string error_text(double percent);
/// A whole number with spaces between thousands: "10 752".
std::string count_text(double count);

/// Text that a cell of a Markdown table shows as it stands: no end of the cell, no tag, no link.
std::string markdown_cell(const std::string& text);

/// Keeps the beginning and the end of a text that is longer than `width`.
std::string shortened(const std::string& text, std::size_t width);
/// With the characters that HTML and SVG read as marks written as entities.
std::string markup_text(const std::string& text);
/// Breaks `text` at spaces, but not between a number and its %, so that no line is longer than kTextWidth; the first
/// line starts with `first`, the others with `rest`. A word longer than a line stays whole.
std::string wrapped(const std::string& text, const std::string& first, const std::string& rest);
/// A bar of `width` cells of which `share` (0 to 1) is filled.
std::string bar(double share, std::size_t width);

}  // namespace orrery::tools
