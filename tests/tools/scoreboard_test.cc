// Are the scoreboard's table, plot and CSV what its rows say?
#include "tools/report/scoreboard.h"

#include <cmath>
#include <sstream>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/explain/like_rows.h"
#include "tools/report/csv.h"

using namespace orrery;
using tools::ValidationRow;

namespace {

ValidationRow row(const std::string& list, const std::string& id, double measured, double predicted, bool fitted) {
  ValidationRow r;
  r.list = list;
  r.id = id;
  r.metric = "iteration_s";
  r.measured = measured;
  r.predicted = predicted;
  r.error_pct = 100 * (predicted / measured - 1);
  r.fitted = fitted;
  r.source = "a paper, table 1";
  r.features.device = "h100-sxm-80gb";
  r.features.gpus = 8;
  r.features.sizes.hidden = 1024;
  r.features.sizes.micro_batch = 1;
  r.features.sizes.seq = 2048;
  r.features.sizes.tensor = 1;
  r.features.exposed_s[0] = predicted;
  return r;
}

/// Two lists: errors +10 and -20 %, and +5 % on a row that was fitted.
std::vector<ValidationRow> rows() {
  return {row("one", "a", 1, 1.1, false), row("one", "b", 10, 8, false), row("two", "c", 100, 105, true)};
}

}  // namespace

TEST_CASE("the Markdown summary of three rows worked out by hand") {
  std::ostringstream out;
  tools::write_markdown(
      out, rows(),
      {.notes = {{"one", "First list", "Other tool 12 %", "a note"}}, .first = {}, .state_unknown = {}, .held = {}});
  const std::string text = out.str();
  INFO(text);
  // The ninth tenth between 10 and 20 %: 10 + 0.9 x 10.
  const std::string errors = "| 2 | 15.0 % | 15.0 % | 19.0 % | 20.0 % | -5.0 % |";
  CHECK(text.find("| First list | developed on " + errors + "  | 0/2 |  |  | Other tool 12 % |\n") !=
        std::string::npos);
  CHECK(text.find("| two | fitted | 0 | | | | | |  | 0/1 |  | 1, 5.0 % |  |\n") != std::string::npos);
  CHECK(text.find("| all |  " + errors + "  | 0/3 |  | 1, 5.0 % |  |\n") != std::string::npos);
}

TEST_CASE("the text shows the note of a list that has one") {
  std::ostringstream out;
  tools::write_scoreboard(out, rows(), 3, {{"one", "", "", "rows contradict each other"}, {"gone", "", "", "unseen"}});
  CHECK(out.str().find("one: rows contradict each other") != std::string::npos);
  CHECK(out.str().find("unseen") == std::string::npos);
}

TEST_CASE("the summary goes between its two lines, and nowhere else") {
  const std::string begin = std::string(tools::kSummaryBegin) + "\n", end = tools::kSummaryEnd;
  CHECK(tools::with_summary("x\n" + begin + "old\n" + end + "\ny\n", "f", "new\n") ==
        "x\n" + begin + "new\n" + end + "\ny\n");
  for (const std::string& wrong : {std::string("x\n"), begin, end + "\n" + begin, begin + begin + end}) {
    INFO(wrong);
    CHECK_THROWS_AS(tools::with_summary(wrong, "f", "new\n"), sim::UserError);
  }
}

TEST_CASE("the plot holds every row once, above the diagonal where the prediction is too long") {
  std::ostringstream out;
  tools::write_scatter(out, rows());
  const std::string svg = out.str();
  std::size_t titles = 0;
  for (std::size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos; ++at) ++titles;
  CHECK(titles == 3);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  // The axes span 1 to 1000 s over 560 points from (76, 604): 1 s measured lies at x = 76, and 1.1 s predicted at
  // 604 - 560 log10(1.1) / 3 = 596.3.
  CHECK(svg.find("<title>a: measured 1.000 s, predicted 1.100 s (+10.00 %)</title><circle cx=\"76.0\" cy=\"596.3\"") !=
        std::string::npos);
  CHECK(svg.find("fill=\"#fff\" stroke") != std::string::npos);  // the fitted row is hollow
}

TEST_CASE("the CSV of rows is read back as what is known of them") {
  std::ostringstream out;
  tools::write_rows_csv(out, rows());
  const tests::Folder folder;
  const auto read = tools::read_known_rows(folder.write("rows.csv", out.str()));
  const auto direct = tools::known_rows(rows());
  REQUIRE(read.size() == 3);
  REQUIRE(direct.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(read[i].id == direct[i].id);
    CHECK(read[i].log_ratio == Approx(direct[i].log_ratio).epsilon(1e-4));
    CHECK(tools::distance_squared(read[i].features, direct[i].features) == Approx(0).margin(1e-9));
  }
  CHECK(read[1].log_ratio == Approx(std::log(10 / 8.0)).epsilon(1e-4));
  CHECK_THROWS_AS(tools::read_known_rows(folder.write("broken.csv", "list,id\na,\"b\n")), sim::UserError);
}

TEST_CASE("validate writes the plot, the rows and the README's summary") {
  const tests::Folder folder;
  const std::string list = folder.write("one.yaml", tests::small_scenario() + "measured: {iteration_s: 1}\n");
  const std::string readme =
      folder.write("README.md", std::string("# x\n") + tools::kSummaryBegin + "\n" + tools::kSummaryEnd + "\nend\n");
  const tests::Outcome outcome = tests::orrery({"validate", list, "--plot", folder.file("p.svg"), "--rows",
                                                folder.file("r.csv"), "--readme", readme, "--format", "markdown"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.out.starts_with("| rows | looked at | n |"));
  CHECK(tests::read_file(readme) ==
        std::string("# x\n") + tools::kSummaryBegin + "\n" + outcome.out + tools::kSummaryEnd + "\nend\n");
  CHECK(tests::read_file(folder.file("p.svg")).find("<title>small: measured 1.000 s") != std::string::npos);
  CHECK(tools::read_known_rows(folder.file("r.csv")).size() == 1);
  const tests::Outcome nowhere = tests::orrery({"validate", list, "--readme", folder.write("no.md", "x\n")});
  CHECK(nowhere.status == 2);
  CHECK(nowhere.err.find("holds no place for the summary") != std::string::npos);
}
