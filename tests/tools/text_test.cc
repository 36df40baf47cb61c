// Do numbers print with the digits and units that they promise, and do tables line up?
#include "tools/report/text.h"

#include <sstream>

#include "scenarios/load.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tools/report/report.h"

using namespace orrery::tools;

TEST_CASE("a report's first line says what sequences are packed with, unless a document is all of one") {
  const auto line = [](const std::string& tokens) {
    return scenario_line(orrery::scenarios::load_scenario(
                             orrery::scenarios::read_scenario("gpt3-6.7b-h100", {"batch.document_tokens=" + tokens}))
                             .job);
  };
  CHECK(line("512").find("batch 512 x 2048 of documents of 512, ") != std::string::npos);
  CHECK(line("2048").find("batch 512 x 2048, ") != std::string::npos);
}

TEST_CASE("numbers keep four significant digits and never an exponent") {
  CHECK(number_text(6.34) == "6.340");
  CHECK(number_text(2166.3) == "2166");
  CHECK(number_text(0.0123449) == "0.01234");
  CHECK(number_text(123456) == "123456");
  CHECK(number_text(0) == "0");
  // 9.99999 rounds to 10: the digit moves to the other side of the point.
  CHECK(number_text(9.99999) == "10.00");
}

TEST_CASE("the unit is the largest that leaves a number of at least one") {
  CHECK(time_text(0.9296) == "929.6 ms");
  CHECK(time_text(6.34) == "6.340 s");
  CHECK(time_text(12.5e-6) == "12.50 us");
  CHECK(time_text(0.99999) == "1.000 s");
  CHECK(bytes_text(80e9) == "80.00 GB");
  CHECK(bytes_text(512) == "512.0 B");
  CHECK(si_text(999.99e6, "B/s") == "1.000 GB/s");
  CHECK(count_text(1234567) == "1 234 567");
  CHECK(count_text(123) == "123");
  CHECK(count_text(-1234) == "-1 234");
  CHECK(error_text(1.249) == "+1.25 %");
  CHECK(error_text(-0.5) == "-0.50 %");
}

TEST_CASE("a table is as wide as its widest cells, titles stand at the bottom, notes do not widen it") {
  TextTable table({{"a", Align::left}, {"two\nlines"}}, "", 1);
  table.add_row({"name", "1"});
  table.add_note("a note that is longer than any row");
  table.add_row({"x"});
  std::ostringstream out;
  table.write(out);
  CHECK(out.str() ==
        "       two\n"
        "a    lines\n"
        "name     1\n"
        "a note that is longer than any row\n"
        "x\n");
}

TEST_CASE("wrapped text keeps a number and its per cent on one line") {
  // Words of 9 columns: without care some line would begin with the sign.
  for (std::size_t shift = 0; shift < 10; ++shift) {
    std::string words(shift, 'x');
    for (int i = 0; i < 40; ++i) words += " part 0." + std::to_string(i % 10) + " %,";
    std::istringstream lines(wrapped(words, "- ", "  "));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      CHECK(line.size() <= kTextWidth);
      CHECK(line.substr(2, 1) != "%");
    }
    CHECK(count > 3);
  }
}

TEST_CASE("long text is wrapped at spaces and shortened in the middle") {
  std::string words;
  for (int i = 0; i < 60; ++i) words += "four ";
  std::istringstream lines(wrapped(words, "- ", "  "));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CHECK(line.size() <= kTextWidth);
    CHECK(line.substr(0, 2) == (count == 0 ? "- " : "  "));
  }
  // 60 words of 4 and their spaces are 299 columns; 98 are left of each line.
  CHECK(count == 4);
  CHECK(shortened("abcdefghij", 6) == "ab..ij");
  CHECK(shortened("abc", 6) == "abc");
  CHECK(bar(0.5, 10) == "#####");
  CHECK(bar(7, 10) == "##########");
}
