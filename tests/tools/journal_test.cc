// Does a study's table survive a kill at any byte, and is another study's table refused?
#include "tools/study/journal.h"

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/report/csv.h"

using namespace orrery;
using tests::Folder;
using tools::Journal;
using tools::JournalForm;
using tools::JournalRows;

namespace {

const JournalForm kForm{{"key", "reason"}, "0123456789abcdef", 5};

JournalRows some_rows() {
  JournalRows rows;
  for (const std::size_t i : {0, 1, 2, 3, 4}) {
    rows[i] = kForm.row(i, {"v" + std::to_string(i), "said \"no, never\""});
  }
  return rows;
}

}  // namespace

TEST_CASE("cells come back from their line whatever they hold") {
  const std::vector<std::vector<std::string>> lines{{"=1+1", "-x", "+x", "@x", "'", "'=1", "-1", "+2.5", "\t=x", "\r"},
                                                    {"a", "b"},
                                                    {""},
                                                    {"", ""},
                                                    {"a,b", "\"quoted\"", "c"},
                                                    {"\"", ",", "x"},
                                                    {"a b", " c "}};
  for (const std::vector<std::string>& cells : lines) CHECK(tools::csv_cells(tools::csv_line(cells)) == cells);
  CHECK_THROWS_AS(tools::csv_cells("\"open"), std::invalid_argument);
  CHECK_THROWS_AS(tools::csv_cells("\"closed\"too"), std::invalid_argument);
}

TEST_CASE("text that a spreadsheet would take for a formula begins with an apostrophe; numbers stay as they are") {
  CHECK(tools::csv_line({"=cmd|' /C calc'!A0", "@SUM(A1)", "+x", "-x,y"}) ==
        "'=cmd|' /C calc'!A0,'@SUM(A1),'+x,\"'-x,y\"");
  CHECK(tools::csv_line({"-1", "+2", "-1e-9", "1-2", "a=b"}) == "-1,+2,-1e-9,1-2,a=b");
}

TEST_CASE("a row that was changed in any byte, or stands there twice, is refused with its line") {
  const Folder folder;
  const std::string header = kForm.header() + "\n", first = some_rows().at(0) + "\n", row = some_rows().at(1);
  const auto complaint = [&](const std::string& text) {
    const std::string file = folder.write("t.csv", text);
    try {
      tools::read_journal(file, kForm);
    } catch (const sim::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(complaint(header + first + row + "\n").empty());
  for (std::size_t at = 0; at < row.size(); ++at) {
    for (const char c : {'x', '0', ',', '\0', '\x80'}) {
      if (row[at] == c) continue;
      std::string changed = row;
      changed[at] = c;
      INFO(changed);
      CHECK(complaint(header + first + changed + "\n").find("t.csv:3:") != std::string::npos);
    }
    std::string shorter = row;
    shorter.erase(at, 1);
    CHECK(complaint(header + first + shorter + "\n").find("t.csv:3:") != std::string::npos);
    std::string longer = row;
    longer.insert(at, 1, '\'');
    INFO(longer);
    CHECK(complaint(header + first + longer + "\n").find("t.csv:3:") != std::string::npos);
  }
  CHECK(complaint(header + first + row + "\n" + row + "\n").find("t.csv:4:1: got point 1 a second time") !=
        std::string::npos);
}

TEST_CASE("rows written in any order are read back, and put in order at the end") {
  const Folder folder;
  const std::string file = folder.file("t.csv");
  const JournalRows rows = some_rows();
  Journal journal(file, kForm, "", {});
  for (const std::size_t i : {3, 0, 4}) journal.append(rows.at(i));
  const JournalRows read = tools::read_journal(file, kForm);
  CHECK(read == JournalRows{{0, rows.at(0)}, {3, rows.at(3)}, {4, rows.at(4)}});
  journal.finish(kForm, rows);
  std::string whole = kForm.header() + "\n";
  for (const auto& [index, row] : rows) whole += row + "\n";
  CHECK(tests::read_file(file) == whole);
}

TEST_CASE("cut at any byte, the whole rows are kept and the table is completed to the same bytes") {
  const Folder folder;
  const JournalRows rows = some_rows();
  const std::string file = folder.file("t.csv");
  {
    Journal journal(file, kForm, "", {});
    for (const std::size_t i : {2, 0, 1, 4, 3}) journal.append(rows.at(i));
  }
  const std::string all = tests::read_file(file);
  for (std::size_t bytes = 0; bytes <= all.size(); ++bytes) {
    INFO("cut after byte " << bytes);
    folder.write("t.csv", all.substr(0, bytes));
    JournalRows kept = tools::read_journal(file, kForm);
    const std::string text = all.substr(0, bytes);
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    CHECK(kept.size() == (lines > 0 ? lines - 1 : 0));
    Journal journal(file, kForm, file, kept);
    for (const auto& [index, row] : rows) {
      if (kept.emplace(index, row).second) journal.append(row);
    }
    CHECK(tools::read_journal(file, kForm) == rows);  // killed before finish(), nothing would be missing
    journal.finish(kForm, kept);
    CHECK(tools::read_journal(file, kForm) == rows);
  }
}

TEST_CASE("tables that are not of this study are refused") {
  const Folder folder;
  const std::string header = kForm.header() + "\n", row = some_rows().at(1) + "\n";
  JournalForm other = kForm;
  other.fingerprint = "fedcba9876543210";
  JournalForm wider = kForm;
  wider.columns.push_back("more");
  const std::string file = folder.write("t.csv", header + row);
  CHECK(tools::read_journal(file, kForm).size() == 1);
  CHECK_THROWS_AS(tools::read_journal(file, other), sim::UserError);
  CHECK_THROWS_AS(tools::read_journal(file, wider), sim::UserError);
  CHECK_THROWS_AS(tools::read_journal(folder.file("missing"), kForm), sim::UserError);
  for (const std::string& text : std::vector<std::string>{
           "not a table", "x\n", header + "7,a,b,0123456789abcdef\n", header + "-1,a,b,0123456789abcdef\n",
           header + "1,a,0123456789abcdef\n", header + "1,\"a,b,0123456789abcdef\n" + row}) {
    INFO(text);
    CHECK_THROWS_AS(tools::read_journal(folder.write("bad.csv", text), kForm), sim::UserError);
  }
}

TEST_CASE("a full disk is the user's to know") { CHECK_THROWS_AS(Journal("/dev/full", kForm, "", {}), sim::UserError); }
