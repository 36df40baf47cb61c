// Reading of table.h.
#include "calibration/measure/table.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>

#include "sim/error.h"
#include "sim/text_file.h"

namespace orrery::calibration {

using sim::Place;
using sim::UserError;

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t comma = line.find(',');
    out.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    line.remove_prefix(comma + 1);
  }
}

TableLine::TableLine(const std::string& file, int number, const std::map<std::string, std::size_t>& columns,
                     std::string_view text, std::vector<char>* asked)
    : file_(file), number_(number), columns_(columns), fields_(fields_of(text)), asked_(asked) {
  if (fields_.size() != columns.size())
    fail("line", "got " + std::to_string(fields_.size()) + " columns, expected " + std::to_string(columns.size()));
}

void TableLine::fail(const std::string& column, const std::string& message) const {
  const auto at = columns_.find(column);
  throw UserError(Place{file_, number_, at == columns_.end() ? 1 : static_cast<int>(at->second) + 1}, column, message);
}

double TableLine::number(const std::string& column) const {
  const std::string_view t = text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), value);
  if (error != std::errc{} || end != t.data() + t.size() || !(value > 0) || !(value < 1e18))
    fail(column, "got '" + std::string(t) + "', expected a positive number");
  return value;
}

std::int64_t TableLine::count(const std::string& column) const {
  const double value = number(column);
  if (value != static_cast<double>(static_cast<std::int64_t>(value)))
    fail(column, "got '" + std::string(text(column)) + "', expected a positive integer");
  return static_cast<std::int64_t>(value);
}

std::int64_t TableLine::optional_count(const std::string& column, std::int64_t missing) const {
  return text(column).empty() || text(column) == "0" ? missing : count(column);
}

std::string whole_text(const std::string& file) {
  const std::string wanted = "a table of measurements (CSV)";
  std::array<unsigned char, 2> magic{};
  std::error_code unreadable;
  if (std::filesystem::is_regular_file(file, unreadable)) {
    std::ifstream in(file, std::ios::binary);
    in.read(reinterpret_cast<char*>(magic.data()), magic.size());
  }
  if (magic != std::array<unsigned char, 2>{0x1f, 0x8b}) return sim::read_text(file, wanted);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> in(gzopen(file.c_str(), "rb"), gzclose);
  if (in == nullptr) throw UserError(Place{file, 0, 0}, "samples", "cannot be read");
  std::string text;
  std::array<char, 1 << 16> block{};
  int read = 0;
  while ((read = gzread(in.get(), block.data(), static_cast<unsigned>(block.size()))) > 0) {
    text.append(block.data(), static_cast<std::size_t>(read));
    if (text.size() > sim::kLargestText)
      throw UserError(Place{file, 0, 0}, "samples",
                      fmt::format("got more than {} MiB, expected {}", sim::kLargestText >> 20, wanted));
  }
  int status = Z_OK;
  gzerror(in.get(), &status);  // a stream that ends early reads as text that does, and this alone says so
  if (status == Z_ERRNO) throw UserError(Place{file, 0, 0}, "samples", "cannot be read");
  if (read < 0 || (status != Z_OK && status != Z_STREAM_END))
    throw UserError(Place{file, 0, 0}, "samples", "got a damaged gzip stream, expected a whole one");
  return text;
}

}  // namespace orrery::calibration
