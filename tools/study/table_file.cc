// A table in CSV, plain or in a gzip stream. See table_file.h.
#include "tools/study/table_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>

#include "sim/error.h"
#include "sim/text_file.h"

namespace orrery::tools {

std::string read_packed_text(const std::string& file, const std::string& wanted, std::size_t most) {
  if (!file.ends_with(".gz")) return sim::read_text(file, wanted, most);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> in(gzopen(file.c_str(), "rb"), gzclose);
  if (!in) throw sim::UserError(fmt::format("{}: cannot be read, expected {}", file, wanted));
  std::string text;
  std::vector<char> block(std::size_t{1} << 20);
  for (int got = 0; (got = gzread(in.get(), block.data(), static_cast<unsigned>(block.size()))) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(got));
    if (text.size() > most)
      throw sim::UserError(fmt::format("{}: holds more than {} bytes, expected fewer", file, most));
  }
  int status = Z_OK;
  gzerror(in.get(), &status);
  if (status != Z_OK && status != Z_STREAM_END)
    throw sim::UserError(fmt::format("{}: is no gzip file, or a broken one; expected {}", file, wanted));
  if (text.find('\0') != std::string::npos)
    throw sim::UserError(fmt::format("{}: holds a NUL byte, expected {}", file, wanted));
  return text;
}

namespace {

/// Fields of a line; quotes as in RFC 4180, but for line breaks inside them.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace

TableFile TableFile::parse(const std::string& file, const std::string& text) {
  TableFile table;
  table.file_ = file;
  std::string_view left = text;
  for (int line = 1; !left.empty(); ++line) {
    const std::size_t end = left.find('\n');
    std::string_view here = left.substr(0, end);
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
    if (here.ends_with('\r')) here.remove_suffix(1);
    if (here.empty()) continue;
    std::vector<std::string> fields = fields_of(here);
    if (table.columns_.empty()) {
      table.columns_ = std::move(fields);
      continue;
    }
    if (fields.size() != table.columns_.size())
      throw sim::UserError(
          sim::Place{file, line, 1}, "line",
          fmt::format("got {} fields, expected {}, as the header has", fields.size(), table.columns_.size()));
    table.rows_.push_back(std::move(fields));
    table.lines_.push_back(line);
  }
  if (table.columns_.empty()) throw sim::UserError(fmt::format("{}: is empty, expected a table with a header", file));
  return table;
}

std::optional<std::size_t> TableFile::at(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

const std::string& TableFile::text(std::size_t row, std::string_view column) const {
  static const std::string kEmpty;
  const auto i = at(column);
  return i ? rows_[row][*i] : kEmpty;
}

std::optional<double> TableFile::number(std::size_t row, std::string_view column, double low) const {
  const std::string& field = text(row, column);
  if (field.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value) || value < low)
    fail(row, column, fmt::format("got '{}', expected a number of at least {}", field.substr(0, 40), low));
  return value;
}

double TableFile::needed(std::size_t row, std::string_view column, double low) const {
  const auto value = number(row, column, low);
  if (!value) fail(row, column, "is empty, expected a number");
  return *value;
}

void TableFile::fail(std::size_t row, std::string_view column, const std::string& message) const {
  const auto i = at(column);
  throw sim::UserError(sim::Place{file_, lines_[row], i ? static_cast<int>(*i) + 1 : 1}, std::string(column), message);
}

}  // namespace orrery::tools
