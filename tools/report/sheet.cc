#include "tools/report/sheet.h"

#include <algorithm>

#include "sim/error.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

/// Titles of two lines as one.
std::string one_line(std::string title) {
  std::replace(title.begin(), title.end(), '\n', ' ');
  return title;
}

}  // namespace

Sheet::Sheet(std::string title, std::string subtitle) {
  page_ = {{"kind", "sheet"},
           {"title", std::move(title)},
           {"subtitle", std::move(subtitle)},
           {"facts", ordered_json::array()},
           {"sections", ordered_json::array()}};
}

void Sheet::add_fact(std::string name, std::string value, std::string note) {
  page_["facts"].push_back({std::move(name), std::move(value), std::move(note)});
}

ordered_json& Sheet::add_section(const std::string& title, const std::string& caption) {
  page_["sections"].push_back({{"title", title}, {"caption", caption}});
  return page_["sections"].back();
}

void Sheet::add_table(const std::string& title, const std::string& caption, const TextTable& table) {
  ordered_json& section = add_section(title, caption);
  section["columns"] = ordered_json::array();
  for (const Column& column : table.columns())
    section["columns"].push_back({{"title", one_line(column.title)}, {"number", column.align == Align::right}});
  section["rows"] = ordered_json::array();
  for (const TextTable::Row& row : table.rows()) {
    if (!row.cells.empty())
      section["rows"].push_back(row.cells);
    else if (!row.note.empty())
      section["rows"].push_back(row.note);
  }
}

void Sheet::add_grid(const std::string& title, const std::string& caption, const Grid& grid) {
  ordered_json& section = add_section(title, caption);
  section["columns"] = ordered_json::array();
  for (const GridColumn& column : grid.columns)
    section["columns"].push_back({{"title", one_line(column.title)}, {"number", !column.left}});
  section["rows"] = ordered_json::array();
  for (const Grid::Row& row : grid.rows) section["rows"].push_back(row.cells);
  section["notes"] = grid.notes;
}

void Sheet::add_chart(const std::string& title, const std::string& caption, const SheetChart& chart) {
  const std::size_t points = chart.labels.empty() ? chart.x.size() : chart.labels.size();
  ordered_json series = ordered_json::array();
  for (const SheetSeries& one : chart.series) {
    SIM_CHECK(one.values.size() == points, "a series of {} values over {} points", one.values.size(), points);
    series.push_back({{"name", one.name}, {"values", one.values}});
  }
  add_section(title, caption)["chart"] = {
      {"title", chart.title}, {"x_title", chart.x_title}, {"y_title", chart.y_title}, {"labels", chart.labels},
      {"x", chart.x},         {"series", series}};
}

void Sheet::add_text(const std::string& title, const std::string& text) { add_section(title, {})["text"] = text; }

}  // namespace orrery::tools
