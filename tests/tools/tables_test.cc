// Published tables whose rows are records: every cell is the record's figure beside what run says of it, in all
// formats.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/tools/program.h"
#include "tools/report/grid.h"
#include "tools/study/figure_table.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;

namespace {

json table(const std::string& name) {
  const Outcome outcome = tests::orrery({"reproduce", name, "--json", "-"});
  INFO(name << ": " << outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

std::string text_of(tools::GridFormat format, const tools::Grid& grid) {
  std::ostringstream out;
  tools::write_grid(out, format, grid);
  return out.str();
}

}  // namespace

TEST_CASE("tables of records put the published figure beside the prediction of the same record") {
  // Layouts of at most 512 GPUs, quick to run once more each.
  const json zero_bubble = table("zero-bubble");
  CHECK(zero_bubble["rows"].size() == 29);
  const json& row = zero_bubble["rows"][0];
  CHECK(row["id"] == "zb-1.5B-ZB-2p-m24");
  CHECK(row["gpus"] == 8);
  REQUIRE(row["cells"].size() == 2);
  CHECK(row["cells"][0]["published"] == 1.241);
  CHECK(row["cells"][1]["published"] == 59);
  const json korthikanti = table("korthikanti-table5");
  const std::string file = std::string(tests::kSourceDir) + "/tests/published/korthikanti.yaml";
  for (const json& line : korthikanti["rows"]) {
    const Outcome run = tests::orrery({"run", file + "#" + line["id"].get<std::string>(), "--json", "-"});
    INFO(run.err);
    REQUIRE(run.status == 0);
    const json alone = json::parse(run.out);
    CHECK(line["cells"][0]["name"] == "iteration_s");
    CHECK(line["cells"][0]["predicted"] == alone["iteration_time_s"]);
    const double published = line["cells"][0]["published"], predicted = line["cells"][0]["predicted"];
    CHECK(line["cells"][0]["error_pct"].get<double>() == Approx(100 * (predicted / published - 1)));
  }
}

TEST_CASE("days of a training follow from the published step") {
  const json megascale = table("megascale");
  REQUIRE(megascale["rows"].size() == 4);
  for (const json& row : megascale["rows"]) {
    double step = 0;
    for (const json& cell : row["cells"]) {
      if (cell["name"] == "iteration_s") step = cell["published"];
      if (cell["name"] != "time_to_train") continue;
      // 300e9 tokens in batches of 768 or 6144 sequences of 2048.
      const double batch = row["gpus"] == 256 ? 768 : 6144;
      CHECK(cell["published"].get<double>() == Approx(300e9 / (batch * 2048) * step / 86'400));
      CHECK(cell["unit"] == "days");
    }
  }
}

TEST_CASE("a table says the same in every format, and nothing in it is a command there") {
  tools::Grid grid;
  grid.title = "A <table> & more";
  grid.columns = {{"name", "name", true}, {"value, %", "value_pct"}};
  grid.rows = {{{"a_b|c", "1.5"}, {"a_b|c", "1.54321"}, true}, {{"d\"e", "2"}, {}, false}};
  grid.notes = {"Source: 100 % of <it>."};
  const std::string text = text_of(tools::GridFormat::text, grid);
  CHECK(text.find("a_b|c       1.5") != std::string::npos);
  CHECK(text.find("- Source") != std::string::npos);
  const std::string markdown = text_of(tools::GridFormat::markdown, grid);
  CHECK(markdown.find("| a_b\\|c | 1.5 |") != std::string::npos);
  CHECK(markdown.find("|---|---:|") != std::string::npos);
  const std::string latex = text_of(tools::GridFormat::latex, grid);
  CHECK(latex.find("a\\_b|c & 1.5 \\\\") != std::string::npos);
  CHECK(latex.find("value, \\%") != std::string::npos);
  CHECK(latex.find("{lr}") != std::string::npos);
  const std::string csv = text_of(tools::GridFormat::csv, grid);
  CHECK(csv == "name,value_pct\na_b|c,1.54321\n\"d\"\"e\",2\n");
  const std::string html = text_of(tools::GridFormat::html, grid);
  CHECK(html.find("<h1>A &lt;table&gt; &amp; more</h1>") != std::string::npos);
  CHECK(html.find("<td class=\"l\">d&quot;e</td><td>2</td>") != std::string::npos);
  for (const std::string& format : tools::grid_format_names()) {
    const Outcome outcome = tests::orrery({"reproduce", "mt-nlg", "--format", format});
    INFO(format << ": " << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.out.find("60.1") != std::string::npos);
  }
}

TEST_CASE("a layer's passes follow from steps of more layers, and full recomputation adds a forward pass") {
  const json layers = table("korthikanti-table4");
  REQUIRE(layers["rows"].size() == 5);
  const auto predicted = [&](std::size_t row, std::size_t cell) {
    return layers["rows"][row]["cells"][cell]["predicted"].get<double>();
  };
  for (std::size_t row = 0; row < 5; ++row) CHECK(predicted(row, 2) == Approx(predicted(row, 0) + predicted(row, 1)));
  const std::size_t none = 0, full = 2;
  CHECK(predicted(full, 0) == Approx(predicted(none, 0)).epsilon(0.01));
  CHECK(predicted(full, 1) == Approx(predicted(none, 1) + predicted(none, 0)).epsilon(0.05));
}

TEST_CASE("reproduce --list names every table") {
  const Outcome outcome = tests::orrery({"reproduce", "--list"});
  CHECK(outcome.status == 0);
  for (const std::string& name : scenarios::shipped("tables")) CHECK(outcome.out.find(name) != std::string::npos);
}

TEST_CASE("SC21's figure 6: a pipeline idles (n - d) / b' of what it works") {
  const json rows = table("sc21-fig6")["rows"];
  CHECK(rows.size() == 24);
  for (const json& row : rows) {
    INFO(row.dump());
    const json& cell = row["cells"][0];
    CHECK(std::abs(cell["predicted"].get<double>() - cell["published"].get<double>()) < 2);
  }
}

TEST_CASE("SC21's figures have the shapes that the paper states") {
  const json figures = table("sc21-figures");
  CHECK(figures["curves"].size() == 11);
  std::vector<double> gains;  // of interleaving, by batch
  for (const json& curve : figures["curves"]) {
    INFO(curve.dump());
    CHECK(curve["as_stated"] == true);
    const json& points = curve["points"];
    const double last = points.back()["tflops_per_gpu"], first = points.front()["tflops_per_gpu"];
    const auto name = curve["name"].get<std::string>();
    if (name.starts_with("Figure 12")) gains.push_back(last / first);
    if (name.starts_with("Figure 18")) CHECK(last / first < 1.11);
    // Recomputation costs a third of the arithmetic of passes, so up to a quarter of the rate, and up to 33 % as
    // measured.
    if (name == "Figure 17 - recomputation, 145B, batch 2") CHECK(first / last > 1 - 0.33);
  }
  REQUIRE(gains.size() == 5);
  for (std::size_t i = 1; i < gains.size(); ++i) CHECK(gains[i] < gains[i - 1]);
}

namespace {
/// Every `error_pct` of a document, without its sign.
void add_errors(const json& part, std::vector<double>& errors) {
  if (part.is_object() && part.contains("error_pct") && part["error_pct"].is_number())
    errors.push_back(std::abs(part["error_pct"].get<double>()));
  if (!part.is_structured()) return;
  for (const json& inner : part) add_errors(inner, errors);
}

/// What a table's errors come to in docs/scoreboard.md, and in docs/mission.md where it is named there.
struct WrittenErrors {
  std::string scoreboard = tests::read_file(std::string(tests::kSourceDir) + "/docs/scoreboard.md");
  std::string mission = tests::read_file(std::string(tests::kSourceDir) + "/docs/mission.md");
  std::size_t asked_for = 0, with_errors = 0;

  void check(const std::string& table, const json& result) {
    std::vector<double> errors;
    add_errors(result, errors);
    if (errors.empty()) return;
    ++with_errors;
    const std::string begin = fmt::format("\n| `{}` | {} | ", table, errors.size());
    const std::size_t at = scoreboard.find(begin);
    REQUIRE(at != std::string::npos);
    const double mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
    CHECK(std::stod(scoreboard.substr(at + begin.size())) == Approx(mean).margin(0.11));
    const std::string cell = fmt::format("`orrery reproduce {}` | ", table);
    if (const std::size_t row = mission.find(cell); row != std::string::npos) {
      ++asked_for;
      CHECK(std::stod(mission.substr(row + cell.size())) == Approx(mean).margin(0.11));
    }
  }

  std::size_t named() const {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = scoreboard.find("\n| `", at + 1)) != std::string::npos;) ++count;
    return count;
  }
};
}  // namespace

TEST_CASE("every table that ships runs, refuses no row, is written, and has the errors of the scoreboard",
          "[full-size]") {
  const Folder folder;
  const std::string file = folder.file("table.json");
  WrittenErrors written;
  INFO("run tools/scoreboard");
  std::size_t tables = 0;
  for (const std::string& name : scenarios::shipped("tables")) {
    // Formats in turn: each table in one of them, since a table takes the same way into all.
    const char* format = ++tables % 2 == 0 ? "csv" : "html";
    const Outcome outcome = tests::orrery({"reproduce", name, "--quiet", "--format", format, "--json", file});
    INFO(name << " as " << format << ": " << outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') > 1);
    const json result = json::parse(tests::read_file(file));
    written.check(name, result);
    const sim::Settings document =
        scenarios::read_yaml(scenarios::data_directory() + "/scenarios/reproduce/" + name + ".yaml");
    if (document.find("list") == nullptr) continue;
    CHECK_FALSE(result["rows"].empty());
    for (const json& row : result["rows"]) {
      INFO(row.dump());
      CHECK_FALSE(row.contains("reason"));
      CHECK_FALSE(row["cells"].empty());
    }
  }
  CHECK(tables > 25);
  CHECK(written.asked_for > 20);
  CHECK(written.with_errors == written.named());
  CHECK(written.named() > 20);
}

TEST_CASE("a table of scenarios says what each draws, and what one gains over another, as runs of them say") {
  const auto simulated = [](const std::string& figures) {
    return tools::simulate_figures("one",
                                   scenarios::parse_yaml(R"(
title: one
source: none
scenario: gpt3-6.7b-h100
figures:
)" + figures,
                                                         "one.yaml"),
                                   1);
  };
  const tools::RecordTable table = simulated(R"(
  - {name: plain, published: {iteration_s: 1, node_w: 7000, node_dc_w: 7000}}
  - {name: capped, set: [power.cap=500 W], over: plain, published: {gain: 0.9, tokens_per_s: 1e6}}
)");
  REQUIRE(table.rows.size() == 2);
  const auto run = [](std::vector<std::string> more) {
    std::vector<std::string> words{"run", "gpt3-6.7b-h100", "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out);
  };
  const json plain = run({}), capped = run({"--set", "power.cap=500 W"});
  const auto cell = [&](std::size_t row, const std::string& name) {
    for (const tools::RecordCell& one : table.rows[row].cells)
      if (one.name == name) return one;
    FAIL("no cell is called " << name);
    return tools::RecordCell{};
  };
  CHECK(cell(0, "iteration_s").predicted == plain["iteration_time_s"].get<double>());
  CHECK(cell(0, "node_w").predicted == Approx(plain["power"]["node_w"].get<double>()));
  CHECK(cell(0, "node_dc_w").predicted < cell(0, "node_w").predicted);
  const double gain = capped["tokens_per_s"].get<double>() / plain["tokens_per_s"].get<double>();
  CHECK(cell(1, "gain").predicted == Approx(gain));
  CHECK(gain < 1);
  CHECK(cell(1, "gain").error_pct() == Approx(100 * (gain / 0.9 - 1)));
  CHECK_THROWS_WITH(simulated("  - {name: a, published: {gain: 1}}\n"), ContainsSubstring("expected over: NAME"));
  CHECK_THROWS_WITH(simulated("  - {name: a, over: b, published: {gain: 1}}\n"),
                    ContainsSubstring("got b, expected the name of a row before this one"));
  CHECK_THROWS_WITH(simulated("  - {name: a, published: {watts: 1}}\n"), ContainsSubstring("published"));
}
