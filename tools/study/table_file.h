// Tables of comma-separated values as others publish them: a header, fields that may be quoted, gzipped or not.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::tools {

/// The contents of a file, unpacked where it is gzipped; at most `most` bytes. Throws sim::UserError.
std::string read_packed_text(const std::string& file, const std::string& wanted,
                             std::size_t most = std::size_t{1} << 30);

class TableFile {
 public:
  /// Throws sim::UserError where lines have other numbers of fields than the header.
  static TableFile parse(const std::string& file, const std::string& text);

  const std::string& file() const { return file_; }
  std::size_t rows() const { return rows_.size(); }
  bool has(std::string_view column) const { return at(column).has_value(); }
  const std::vector<std::string>& columns() const { return columns_; }
  /// Empty where the table has no such column.
  const std::string& text(std::size_t row, std::string_view column) const;
  /// Nothing where it is empty or absent. Throws sim::UserError where it is no number of at least `low`.
  std::optional<double> number(std::size_t row, std::string_view column, double low = 0) const;
  double needed(std::size_t row, std::string_view column, double low = 0) const;
  [[noreturn]] void fail(std::size_t row, std::string_view column, const std::string& message) const;

 private:
  std::optional<std::size_t> at(std::string_view column) const;
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<int> lines_;
};

}  // namespace orrery::tools
