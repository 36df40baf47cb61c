// Data of a page of tables and charts; tools/report/page/sheet.js draws it.
#include "tools/report/sheet.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/error.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

/// Titles of two lines as one.
std::string one_line(std::string title) {
  std::replace(title.begin(), title.end(), '\n', ' ');
  return title;
}

void add_table_json(const TextTable& table, ordered_json& section) {
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

ordered_json chart_json(const SheetChart& chart) {
  ordered_json json{
      {"title", chart.title}, {"x_title", chart.x_title},       {"y_title", chart.y_title}, {"labels", chart.labels},
      {"x", chart.x},         {"series", ordered_json::array()}};
  for (const SheetSeries& one : chart.series) json["series"].push_back({{"name", one.name}, {"values", one.values}});
  return json;
}

}  // namespace

Sheet::Sheet(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Sheet::add_fact(std::string name, std::string value, std::string note) {
  facts_.push_back({std::move(name), std::move(value), std::move(note)});
}

void Sheet::add_table(const std::string& title, const std::string& caption, const TextTable& table) {
  sections_.push_back({title, caption, table, {}, {}, {}});
}

void Sheet::add_grid(const std::string& title, const std::string& caption, const Grid& grid) {
  std::vector<Column> columns;
  for (const GridColumn& column : grid.columns)
    columns.push_back({column.title, column.left ? Align::left : Align::right});
  TextTable table(std::move(columns));
  for (const Grid::Row& row : grid.rows) table.add_row(row.cells);
  sections_.push_back({title, caption, std::move(table), {}, {}, grid.notes});
}

void Sheet::add_chart(const std::string& title, const std::string& caption, const SheetChart& chart) {
  const std::size_t points = chart.labels.empty() ? chart.x.size() : chart.labels.size();
  for (const SheetSeries& one : chart.series)
    SIM_CHECK(one.values.size() == points, "a series of {} values over {} points", one.values.size(), points);
  sections_.push_back({title, caption, {}, chart, {}, {}});
}

void Sheet::add_text(const std::string& title, const std::string& text) {
  sections_.push_back({title, {}, {}, {}, text, {}});
}

void Sheet::add_levels(const std::string& title, const std::string& caption, std::vector<SheetLevel> levels) {
  Section section;
  section.title = title;
  section.caption = caption;
  section.levels = std::move(levels);
  sections_.push_back(std::move(section));
}

ordered_json Sheet::page() const {
  ordered_json page{{"kind", "sheet"},
                    {"title", title_},
                    {"subtitle", subtitle_},
                    {"facts", facts_},
                    {"sections", ordered_json::array()}};
  for (const Section& section : sections_) {
    ordered_json json{{"title", section.title}, {"caption", section.caption}};
    if (section.table) add_table_json(*section.table, json);
    if (section.chart) json["chart"] = chart_json(*section.chart);
    for (const SheetLevel& level : section.levels)
      json["levels"].push_back(
          {{"what", level.what}, {"count", level.count}, {"links", level.links}, {"bytes_per_s", level.bytes_per_s}});
    if (!section.text.empty()) json["text"] = section.text;
    json["notes"] = section.notes;
    page["sections"].push_back(std::move(json));
  }
  return page;
}

}  // namespace orrery::tools
