// Tables in five formats. Left out: alignment at the decimal point, captions and labels of LaTeX, colours.
#include "tools/report/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string_view>

#include "sim/error.h"
#include "tools/report/csv.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

void write_text(std::ostream& out, const Grid& grid) {
  std::vector<Column> columns;
  for (const GridColumn& column : grid.columns)
    columns.push_back({column.title, column.left ? Align::left : Align::right});
  TextTable table(std::move(columns), "", 2);
  for (const Grid::Row& row : grid.rows) {
    if (row.begins_group && &row != grid.rows.data()) table.add_note();
    table.add_row(row.cells);
  }
  out << wrapped(grid.title, "", "  ") << '\n';
  table.write(out);
  if (!grid.notes.empty()) out << '\n';
  for (const std::string& note : grid.notes) out << wrapped(note, "  - ", "    ");
}

void write_markdown(std::ostream& out, const Grid& grid) {
  std::string head = "|", line = "|";
  for (const GridColumn& column : grid.columns) {
    head += fmt::format(" {} |", markdown_cell(column.title));
    line += column.left ? "---|" : "---:|";
  }
  out << fmt::format("**{}**\n\n{}\n{}\n", markdown_cell(grid.title), head, line);
  for (const Grid::Row& row : grid.rows) {
    out << '|';
    for (const std::string& cell : row.cells) out << ' ' << markdown_cell(cell) << " |";
    out << '\n';
  }
  if (!grid.notes.empty()) out << '\n';
  for (const std::string& note : grid.notes) out << "- " << markdown_cell(note) << '\n';
}

/// `text` with each character of `of` replaced by what stands at its place in `by`.
std::string escaped(const std::string& text, std::string_view of, const std::vector<std::string>& by) {
  std::string result;
  for (const char c : text) {
    const std::size_t at = of.find(c);
    if (at == std::string_view::npos)
      result += c;
    else
      result += by[at];
  }
  return result;
}

std::string latex(const std::string& text) {
  return escaped(text, "\\^~&%$#_{}<>",
                 {"\\textbackslash{}", "\\textasciicircum{}", "\\textasciitilde{}", "\\&", "\\%", "\\$", "\\#", "\\_",
                  "\\{", "\\}", "\\textless{}", "\\textgreater{}"});
}

void write_latex(std::ostream& out, const Grid& grid) {
  std::string columns, head;
  for (const GridColumn& column : grid.columns) {
    columns += column.left ? 'l' : 'r';
    head += (head.empty() ? "" : " & ") + latex(column.title);
  }
  out << fmt::format("% {}\n\\begin{{tabular}}{{{}}}\n\\toprule\n{} \\\\\n\\midrule\n", grid.title, columns, head);
  for (const Grid::Row& row : grid.rows) {
    if (row.begins_group && &row != grid.rows.data()) out << "\\midrule\n";
    std::vector<std::string> cells;
    for (const std::string& cell : row.cells) cells.push_back(latex(cell));
    out << fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  }
  out << "\\bottomrule\n\\end{tabular}\n";
  for (const std::string& note : grid.notes) out << "% " << note << '\n';
}

void write_csv(std::ostream& out, const Grid& grid) {
  std::vector<std::string> head;
  for (const GridColumn& column : grid.columns) head.push_back(column.name);
  out << csv_line(head) << '\n';
  for (const Grid::Row& row : grid.rows) out << csv_line(row.exact.empty() ? row.cells : row.exact) << '\n';
}

void write_html(std::ostream& out, const Grid& grid) {
  out << fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>\n"
      "body {{ font: 15px/1.4 sans-serif; margin: 2em auto; max-width: 70em; }}\n"
      "table {{ border-collapse: collapse; }} th, td {{ padding: .2em .7em; text-align: right; }}\n"
      "th {{ border-bottom: 1px solid #333; }} .l {{ text-align: left; }} .g td {{ border-top: 1px solid #aaa; }}\n"
      "</style></head><body>\n<h1>{0}</h1>\n<table>\n<tr>",
      markup_text(grid.title));
  const auto cell = [&](const char* tag, std::size_t column, const std::string& text) {
    out << fmt::format("<{0}{1}>{2}</{0}>", tag, grid.columns[column].left ? " class=\"l\"" : "", markup_text(text));
  };
  for (std::size_t c = 0; c < grid.columns.size(); ++c) cell("th", c, grid.columns[c].title);
  out << "</tr>\n";
  for (const Grid::Row& row : grid.rows) {
    out << (row.begins_group ? "<tr class=\"g\">" : "<tr>");
    for (std::size_t c = 0; c < row.cells.size(); ++c) cell("td", c, row.cells[c]);
    out << "</tr>\n";
  }
  out << "</table>\n<ul>\n";
  for (const std::string& note : grid.notes) out << "<li>" << markup_text(note) << "</li>\n";
  out << "</ul>\n</body></html>\n";
}

/// The table with units beside its numbers.
Grid with_units(Grid grid) {
  for (GridColumn& column : grid.columns)
    if (!column.unit.empty() && column.unit != GridColumn::kOfRow) column.title += ", " + column.unit;
  for (Grid::Row& row : grid.rows) {
    if (row.unit.empty()) continue;
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      std::string& cell = row.cells[c];
      const std::size_t comma = cell.rfind(", ");
      if (grid.columns[c].left && cell.ends_with(", " + row.unit)) cell.erase(comma);
      if (grid.columns[c].unit == GridColumn::kOfRow && !cell.empty() && cell != "-") cell += " " + row.unit;
    }
  }
  return grid;
}

}  // namespace

const std::vector<std::string>& grid_format_names() {
  static const std::vector<std::string> kNames{"text", "markdown", "latex", "csv", "html"};
  return kNames;
}

GridFormat grid_format(const std::string& name) {
  const auto& names = grid_format_names();
  const auto found = std::find(names.begin(), names.end(), name);
  SIM_CHECK(found != names.end(), "no format is called {}", name);
  return static_cast<GridFormat>(found - names.begin());
}

void write_grid(std::ostream& out, GridFormat format, const Grid& grid) {
  for (const Grid::Row& row : grid.rows) {
    SIM_CHECK(row.cells.size() == grid.columns.size(), "{} cells in a table of {} columns", row.cells.size(),
              grid.columns.size());
  }
  switch (format) {
    case GridFormat::text:
      return write_text(out, grid);
    case GridFormat::markdown:
      return write_markdown(out, with_units(grid));
    case GridFormat::latex:
      return write_latex(out, with_units(grid));
    case GridFormat::csv:
      return write_csv(out, grid);
    case GridFormat::html:
      return write_html(out, with_units(grid));
  }
}

}  // namespace orrery::tools
