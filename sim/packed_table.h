// Tables of comma-separated values in a form that is quick to read, beside packed documents (sim/packed_settings.h):
// column by column, numbers as they are computed with, texts as places in what follows the columns, where one that
// stands in many rows stands once. A number lies at a multiple of eight bytes from the table's beginning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::sim {

/// `lines`: the header's names, then each row's cells, as many. A column whose cells are numbers of no more than 1e18,
/// or empty, which counts as 0, is one of numbers.
std::string packed_table(const std::vector<std::vector<std::string>>& lines);

/// Views into the bytes that it is made of, which have to stay. Bytes that are no table are our own mistake.
class PackedTable {
 public:
  struct Column {
    bool numbers = false;
    const char* cells = nullptr;
  };

  explicit PackedTable(std::string_view bytes);

  std::size_t rows() const { return rows_; }
  /// Of two columns of one name the later one.
  std::optional<Column> column(std::string_view name) const;
  /// Of a column of numbers.
  double number(const Column& column, std::size_t row) const;
  /// Of a column of texts.
  std::string_view text(const Column& column, std::size_t row) const;

 private:
  std::string_view bytes_;
  std::size_t rows_ = 0;
  std::vector<std::pair<std::string_view, Column>> columns_;
};

}  // namespace orrery::sim
