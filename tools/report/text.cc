// Tables and number formats of the reports. Left out: colours, terminal widths other than 100, East Asian wide glyphs.
#include "tools/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <sstream>

namespace orrery::tools {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Scale {
  double factor;
  const char* prefix;
};

Scale scale_of(double magnitude) {
  constexpr std::array<Scale, 7> kScales = {
      {{1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1.0, ""}}};
  // 999.95 already prints as 1000: four digits belong to the next prefix.
  for (const Scale& scale : kScales) {
    if (magnitude >= scale.factor * 0.99995) return scale;
  }
  return {1.0, ""};
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns, std::string indent, std::size_t gap)
    : columns_(std::move(columns)), indent_(std::move(indent)), gap_(gap) {}

void TextTable::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), {}});
}

void TextTable::add_note(std::string text) { rows_.push_back({{}, std::move(text)}); }

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> width(columns_.size(), 0);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    for (const std::string& line : lines_of(columns_[c].title)) width[c] = std::max(width[c], line.size());
    for (const Row& row : rows_) {
      if (!row.cells.empty()) width[c] = std::max(width[c], row.cells[c].size());
    }
  }
  return width;
}

void TextTable::write_line(std::ostream& out, const std::vector<std::string>& cells,
                           const std::vector<std::size_t>& width) const {
  std::string line = indent_;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) line.append(gap_, ' ');
    line += columns_[c].align == Align::left ? fmt::format("{:<{}}", cells[c], width[c])
                                             : fmt::format("{:>{}}", cells[c], width[c]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

void TextTable::write(std::ostream& out) const {
  const std::vector<std::size_t> width = widths();
  std::size_t title_lines = 0;
  for (const Column& column : columns_) title_lines = std::max(title_lines, lines_of(column.title).size());
  for (std::size_t line = 0; line < title_lines; ++line) {
    std::vector<std::string> cells;
    for (const Column& column : columns_) {
      const std::vector<std::string> titles = lines_of(column.title);
      const std::size_t above = title_lines - titles.size();  // titles stand on the rows: bottom aligned
      cells.push_back(line >= above ? titles[line - above] : "");
    }
    write_line(out, cells, width);
  }
  for (const Row& row : rows_) {
    if (!row.cells.empty())
      write_line(out, row.cells, width);
    else
      out << row.note << '\n';
  }
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (value == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value) * 1.00005)));
  return fmt::format("{:.{}f}", value, std::clamp(3 - exponent, 0, 12));
}

std::string time_text(double seconds) {
  const double magnitude = std::abs(seconds);
  if (seconds == 0) return "0 s";
  if (magnitude >= 0.99995) return number_text(seconds) + " s";
  if (magnitude >= 0.99995e-3) return number_text(seconds * 1e3) + " ms";
  return number_text(seconds * 1e6) + " us";
}

std::string si_text(double value, std::string_view unit) {
  const Scale scale = scale_of(std::abs(value));
  return fmt::format("{} {}{}", number_text(value / scale.factor), scale.prefix, unit);
}

std::string bytes_text(double bytes) { return si_text(bytes, "B"); }

std::string error_text(double percent) { return fmt::format("{:+.2f} %", percent); }

std::string count_text(double count) {
  const std::string digits = fmt::format("{:.0f}", std::abs(count));
  std::string text = count < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ' ';
    text += digits[i];
  }
  return text;
}

std::string markup_text(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string shortened(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  const std::size_t tail = (width - 2) / 2;
  return text.substr(0, width - 2 - tail) + ".." + text.substr(text.size() - tail);
}

std::string wrapped(const std::string& text, const std::string& first, const std::string& rest) {
  std::string result, line = first;
  bool empty = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    // A number keeps its unit beside it.
    for (words >> std::ws; words.peek() == '%'; words >> std::ws) {
      std::string unit;
      words >> unit;
      word += ' ' + unit;
    }
    if (!empty && line.size() + 1 + word.size() > kTextWidth) {
      result += line + '\n';
      line = rest;
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
  }
  return result + line + '\n';
}

std::string bar(double share, std::size_t width) {
  const double cells = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  return std::string(static_cast<std::size_t>(std::lround(cells)), '#');
}

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '<')
      cell += "&lt;";
    else if (std::string_view("|[]\\`").find(c) != std::string_view::npos)
      cell += std::string{'\\', c};
    else
      cell += c;
  }
  return cell;
}

}  // namespace orrery::tools
