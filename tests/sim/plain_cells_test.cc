// Cells of plain lines are what a search for one comma after another finds, wherever a line's words of eight characters
// begin and end.
#include "sim/plain_cells.h"

#include <random>
#include <string>

#include "tests/catch.h"

using namespace orrery::sim;

namespace {

struct Taken {
  std::vector<std::string> cells;
  std::size_t rest = 0;
};

/// One character at a time.
Taken one_by_one(const std::string& line) {
  Taken out;
  while (true) {
    if (out.rest < line.size() && line[out.rest] == '"') return out;
    const std::size_t end = std::min(line.find(',', out.rest), line.size());
    std::string cell = line.substr(out.rest, end - out.rest);
    if (cell.starts_with('\'')) cell.erase(0, 1);
    out.cells.push_back(cell);
    out.rest = end + 1;
    if (end == line.size()) return out;
  }
}

}  // namespace

TEST_CASE("cells of a line are taken up to the first that is quoted") {
  std::mt19937 random(7);
  // Characters that differ from a comma in one bit, or by one, are those that a mistake would take for it.
  const std::string letters = ",,,\"'-.+l\xac\x2d\x2b a1";
  for (int round = 0; round < 20000; ++round) {
    std::string line;
    for (std::size_t left = random() % 40; left > 0; --left) line += letters[random() % letters.size()];
    const Taken expected = one_by_one(line);
    std::vector<std::string_view> cells;
    const std::size_t rest = take_plain_cells(line, cells);
    INFO(line);
    REQUIRE(std::vector<std::string>(cells.begin(), cells.end()) == expected.cells);
    REQUIRE(rest == expected.rest);
  }
}
