// Writes and reads packed tables. A table begins with its number of rows and of columns, and a line of what a column
// is for each: its name's place and length, whether it holds numbers, where its cells begin.
#include "sim/packed_table.h"

#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "sim/error.h"

namespace orrery::sim {

namespace {

constexpr std::size_t kCellBytes = 8;  // bytes

std::optional<double> number_in(std::string_view cell) {
  constexpr double kLargest = 1e18;
  double value = 0;
  if (cell.empty()) return value;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc{} || end != cell.data() + cell.size() || !(std::abs(value) <= kLargest)) return std::nullopt;
  return value;
}

template <class Value>
void put(std::string& bytes, Value value) {
  static_assert(sizeof(Value) == kCellBytes);
  bytes.append(reinterpret_cast<const char*>(&value), kCellBytes);
}
void put_place(std::string& bytes, std::uint32_t begin, std::uint32_t size) {
  put(bytes, std::uint64_t{begin} | std::uint64_t{size} << 32U);
}

}  // namespace

std::string packed_table(const std::vector<std::vector<std::string>>& lines) {
  SIM_CHECK(!lines.empty(), "a table without a header");
  const std::size_t rows = lines.size() - 1, columns = lines.front().size();
  std::string texts;
  std::unordered_map<std::string, std::uint32_t> placed;
  const std::size_t begin = kCellBytes * (2 + 2 * columns + rows * columns);  // of the texts
  const auto put_text = [&](std::string& bytes, const std::string& text) {
    const auto [at, fresh] = placed.try_emplace(text, static_cast<std::uint32_t>(begin + texts.size()));
    if (fresh) texts += text;
    put_place(bytes, at->second, static_cast<std::uint32_t>(text.size()));
  };
  std::string head, body;
  put<std::uint64_t>(head, rows);
  put<std::uint64_t>(head, columns);
  for (std::size_t c = 0; c < columns; ++c) {
    std::vector<double> values;
    for (std::size_t r = 1; r <= rows; ++r) {
      SIM_CHECK(lines[r].size() == columns, "row {} of a table has {} cells, its header {}", r, lines[r].size(),
                columns);
      const std::optional<double> value = number_in(lines[r][c]);
      if (!value) break;
      values.push_back(*value);
    }
    const bool numbers = values.size() == rows;
    put_text(head, lines.front()[c]);
    put<std::uint64_t>(head, numbers ? 1 : 0);
    for (std::size_t r = 1; r <= rows; ++r) numbers ? put(body, values[r - 1]) : put_text(body, lines[r][c]);
  }
  return head + body + texts;
}

PackedTable::PackedTable(std::string_view bytes) : bytes_(bytes) {
  SIM_CHECK(bytes.size() >= 2 * kCellBytes, "a packed table ends early");
  rows_ = word_at<std::uint64_t>(bytes.data());
  const std::size_t columns = word_at<std::uint64_t>(bytes.data() + kCellBytes);
  SIM_CHECK(bytes.size() >= kCellBytes * (2 + 2 * columns + rows_ * columns), "a packed table ends early");
  const char* head = bytes.data() + 2 * kCellBytes;
  const char* cells = head + 2 * kCellBytes * columns;
  for (std::size_t c = 0; c < columns; ++c, head += 2 * kCellBytes, cells += kCellBytes * rows_)
    columns_.emplace_back(text({false, head}, 0), Column{word_at<std::uint64_t>(head + kCellBytes) != 0, cells});
}

std::optional<PackedTable::Column> PackedTable::column(std::string_view name) const {
  for (std::size_t c = columns_.size(); c-- > 0;)
    if (columns_[c].first == name) return columns_[c].second;
  return std::nullopt;
}

}  // namespace orrery::sim
