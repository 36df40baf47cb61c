// Lines of a table of measurements (CSV, gzipped or not), by the names of their columns. Plain commas: none of the
// published tables quotes a field. Internal to the readers of samples.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::calibration {

std::vector<std::string_view> fields_of(std::string_view line);

/// One line of a table, with its columns by name.
class TableLine {
 public:
  /// `asked`: as many as columns, set where a reader looks at one; or null.
  TableLine(const std::string& file, int number, const std::map<std::string, std::size_t>& columns,
            std::string_view text, std::vector<char>* asked = nullptr);
  [[noreturn]] void fail(const std::string& column, const std::string& message) const;
  const std::string& file() const { return file_; }
  bool has(const std::string& column) const { return columns_.count(column) == 1; }
  std::string_view text(const std::string& column) const {
    const std::size_t at = columns_.at(column);
    if (asked_ != nullptr) (*asked_)[at] = 1;
    return fields_[at];
  }
  double number(const std::string& column) const;  // positive
  std::int64_t count(const std::string& column) const;
  std::int64_t optional_count(const std::string& column, std::int64_t missing = 0) const;

 private:
  const std::string& file_;
  int number_;
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string_view> fields_;
  std::vector<char>* asked_;
};

/// A file as it is, or what its gzip stream holds: a stream of kilobytes can stand for gigabytes, so both have a limit.
std::string whole_text(const std::string& file);

}  // namespace orrery::calibration
