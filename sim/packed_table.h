// Tables of comma-separated values in a form that is quick to read, beside packed documents (sim/packed_settings.h):
// column by column, numbers as they are computed with, texts as places in what follows the columns, where one that
// stands in many rows stands once. A number lies at a multiple of eight bytes from the table's beginning.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
  double number(const Column& column, std::size_t row) const {
    return word_at<double>(column.cells + kCellBytes * row);
  }
  /// Of a column of texts.
  std::string_view text(const Column& column, std::size_t row) const {
    const auto place = word_at<std::uint64_t>(column.cells + kCellBytes * row);
    return bytes_.substr(static_cast<std::uint32_t>(place), place >> 32U);
  }

 private:
  static constexpr std::size_t kCellBytes = 8;  // bytes

  template <class Value>
  static Value word_at(const char* at) {
    static_assert(sizeof(Value) == kCellBytes);
    Value value;
    std::memcpy(&value, at, kCellBytes);
    return value;
  }

  std::string_view bytes_;
  std::size_t rows_ = 0;
  std::vector<std::pair<std::string_view, Column>> columns_;
};

}  // namespace orrery::sim
