// Are the HTML reports drawn, in a browser, without an error, light and dark, wide and narrow? Do they hold what they
// should, and nothing that an input could smuggle in?
#include "tools/report/page.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/skipped.h"
#include "tests/tools/browser.h"
#include "tests/tools/program.h"
#include "tools/report/page_parts.h"
#include "tools/study/study_page.h"

using namespace orrery;
using tests::Folder;
using tests::OpenedPage;
using tools::PointResult;
using tools::PointStatus;

namespace {

constexpr std::size_t kMostBytes = 5'000'000;
constexpr long kDrawn = 2000;  // pixels; the grid of an empty chart draws fewer

bool has_charts() {
  if (!tools::page_part("chart.js").empty()) return true;
  tests::skipped("built without Chart.js; install the package libjs-chart.js");
  return false;
}

void check_drawn(const OpenedPage& page, const std::set<std::string>& expected) {
  CHECK(page.ready);
  CHECK(page.errors == "[]");
  CHECK(page.overflow == "0");
  std::set<std::string> labels;
  for (const tests::Canvas& canvas : page.canvases) {
    labels.insert(canvas.label);
    INFO(canvas.label);
    CHECK(canvas.drawn > kDrawn);
  }
  for (const std::string& label : expected) {
    INFO(label);
    CHECK(labels.contains(label));
  }
}

/// In a wide window and one of 800 pixels, light and dark.
void check_page(const std::string& file, const std::set<std::string>& expected) {
  CHECK(tests::fs::file_size(file) < kMostBytes);
  const std::string text = tests::read_file(file);
  CHECK(text.find("http-equiv") == std::string::npos);
  for (const char* fetch : {"src=\"", "href=\"http", "@import", "fetch(", "XMLHttpRequest"})
    CHECK(text.find(fetch) == std::string::npos);
  const std::string browser = tests::find_browser();
  if (browser.empty()) return;
  check_drawn(tests::open_page(browser, file, 1280, "-light"), expected);
  check_drawn(tests::open_page(browser, file, 800, "-dark"), expected);
}

/// A copy of a page with a script of the test at its end.
std::string with_script(const Folder& folder, const std::string& file, const std::string& script) {
  std::string text = tests::read_file(file);
  text.insert(text.rfind("</body>"), "<script>" + script + "</script>\n");
  return folder.write("scripted.html", text);
}

PointResult point(double tokens, double memory, double cost) {
  PointResult result;
  result.status = PointStatus::ok;
  result.tokens_per_s = tokens;
  result.iteration_s = 1e6 / tokens;
  result.mfu_pct = 40;
  result.peak_memory_gb = memory;
  result.usd_per_million_tokens = cost;
  return result;
}

/// Of `count` points, every third infeasible, every sixth out of memory.
tools::Study large_study(std::size_t count) {
  tools::Study study;
  study.title = "A study";
  study.keys = {
      {"parallelism.tensor", {"1", "2", "4", "8"}, {}}, {"batch.micro", {}, {}}, {"software", {"a", "b"}, {}}};
  for (int micro = 1; micro <= 400; ++micro) study.keys[1].values.push_back(std::to_string(micro));
  for (std::uint32_t i = 0; i < count; ++i) {
    study.keys[0].choice.push_back(i % 4);
    study.keys[1].choice.push_back(i / 7 % 400);
    study.keys[2].choice.push_back(i / 3 % 2);
    PointResult result = point(1e6 * (1.5 + std::sin(i * 0.37)), 40 + 30 * std::cos(i * 0.11), 1 + i % 13);
    if (i % 3 == 1) {
      result = {};
      result.status = PointStatus::infeasible;
      result.reason = "case.yaml:3:1: parallelism.data: got " + std::to_string(i) + ", expected a divisor";
    } else if (i % 6 == 5) {
      result.status = PointStatus::oom;
      result.tokens_per_s = 0;
      result.reason = "out of memory";
    }
    study.points.push_back(result);
  }
  return study;
}

}  // namespace

TEST_CASE("base64 is that of RFC 4648") {
  const std::vector<std::pair<std::string, std::string>> vectors = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, coded] : vectors) CHECK(tools::base64(text.data(), text.size()) == coded);
}

TEST_CASE("a report of a run is drawn") {
  if (!has_charts()) return;
  const Folder folder;
  // A name that would end the script that holds it, were it not escaped.
  const std::string scenario = folder.write(
      "case.yaml", tests::small_scenario("name: small", "name: \"</script><script>console.error(1)</script>\""));
  const std::string file = folder.file("run.html");
  const tests::Outcome run = tests::orrery({"run", scenario, "--report", file, "--set", "batch.micro=1"});
  REQUIRE(run.status == 0);
  CHECK(run.out.find("iteration time") != std::string::npos);
  check_page(file, {"Exposed time per stage", "timeline of the pipeline, one row per stage",
                    "memory of each stage over the step", "load of the busiest links over the step",
                    "Fullest moment of each stage", "By dimension", "By highest network tier", "Roofline"});
}

TEST_CASE("a report with --explain says how sure the step is and draws what it hangs on") {
  if (!has_charts()) return;
  const Folder folder;
  const std::string file = folder.file("run.html");
  const std::string scenario = folder.write("case.yaml", tests::small_scenario());
  const tests::Outcome run = tests::orrery({"run", scenario, "--explain", "--report", file, "--json", "-"});
  REQUIRE(run.status == 0);
  const auto explained = nlohmann::json::parse(run.out).at("explain");
  check_page(file, {"Elasticities: per cent of the step for one per cent of the input"});
  const std::string page = tests::read_file(file);
  CHECK(page.find("\"iteration_time_68_s\":" + explained.at("iteration_time_68_s").dump()) != std::string::npos);
}

TEST_CASE("a trace beside its prediction is drawn: what differs, and both timelines on one axis") {
  if (!has_charts()) return;
  const Folder folder;
  const std::string scenario = folder.write("small.yaml", tests::small_scenario()), trace = folder.file("own.json"),
                    file = folder.file("diff.html");
  REQUIRE(tests::orrery({"run", scenario, "--trace", trace, "--trace-ranks", "0"}).status == 0);
  REQUIRE(tests::orrery({"diff", trace, scenario, "--set", "software.kernel_issue=50 us", "--report", file}).status ==
          0);
  check_page(file, {"Difference by part", "measured and predicted timelines"});
}

TEST_CASE("timelines of compared systems lie on one axis: each is as long as its own step") {
  if (!has_charts()) return;
  const Folder folder;
  const std::string first = folder.write("first.yaml", tests::small_scenario());
  const std::string second = folder.write("second.yaml", tests::small_scenario("micro: 1}", "micro: 2}"));
  const tests::Outcome compared = tests::orrery({"compare", first, second, "--report", "-"});
  REQUIRE(compared.status == 0);
  const std::string open = "id=\"data\">";
  const std::size_t from = compared.out.find(open) + open.size();
  const auto page = nlohmann::json::parse(compared.out.substr(from, compared.out.find("</script>", from) - from));
  REQUIRE(page.at("systems").size() == 2);
  for (const auto& system : page.at("systems")) {
    CHECK(system.at("pipeline").at("span_s").get<double>() ==
          Approx(system.at("iteration_time_s").get<double>()).epsilon(1e-9));
    CHECK(system.at("pipeline").at("timeline").at("rows").size() == 2);  // stages
  }
  CHECK(page.at("systems")[0].at("pipeline") != page.at("systems")[1].at("pipeline"));
}

TEST_CASE("the scenario in a report gives the same step again") {
  if (!has_charts()) return;
  const Folder folder;
  const std::string scenario = folder.write("case.yaml", tests::small_scenario());
  const auto page = [&](const std::string& file) {
    const tests::Outcome run = tests::orrery({"run", file, "--set", "batch.global=32", "--report", "-"});
    REQUIRE(run.status == 0);
    const std::string open = "id=\"data\">";
    const std::size_t from = run.out.find(open) + open.size();
    return nlohmann::json::parse(run.out.substr(from, run.out.find("</script>", from) - from));
  };
  const nlohmann::json first = page(scenario);
  const nlohmann::json again = page(folder.write("copied.yaml", first.at("scenario")));
  CHECK(again.at("iteration_s") == first.at("iteration_s"));
  CHECK(again.at("scenario") == first.at("scenario"));
  // Bars add up to the step, and every stage is there.
  REQUIRE(first.at("stages").size() == 2);
  for (const auto& stage : first.at("stages")) {
    double sum = 0;
    for (const auto& part : stage.at("breakdown_s")) sum += part.get<double>();
    CHECK(sum == Approx(first.at("iteration_s").get<double>()).epsilon(1e-9));
  }
  // Two passes of each micro-batch and chunk on every stage: 32 / (4 x 1) micro-batches, 2 chunks.
  for (const auto& row : first.at("timeline").at("rows")) CHECK(row.at("n").get<int>() > 2 * 8 * 2);
}

TEST_CASE("reports of sweep, search, compare and validate are drawn") {
  if (!has_charts()) return;
  const Folder folder;
  const std::string scenario = folder.write("case.yaml", tests::small_scenario());
  const auto made = [&](std::vector<std::string> arguments, const std::string& name) {
    arguments.insert(arguments.end(), {"--report", folder.file(name)});
    CHECK(tests::orrery(arguments).status == 0);
    return folder.file(name);
  };
  check_page(made({"sweep", scenario, "--set", "parallelism.data=null", "--vary", "parallelism.tensor=1,2,3,4",
                   "--vary", "batch.micro=1,2,4", "--set", "cost={price_per_gpu_hour_usd: 2.5}"},
                  "sweep.html"),
             {"points of the study", "parallel coordinates of the study"});
  check_page(made({"search", scenario, "--exhaustive"}, "search.html"),
             {"points of the study", "parallel coordinates of the study"});
  const std::string second = folder.write(
      "second.yaml", tests::small_scenario("tensor: 2, pipeline: 2, virtual_pipeline: 2", "tensor: 4, pipeline: 1"));
  check_page(made({"compare", scenario, second}, "compare.html"),
             {"time of a step", "small instead of small", "Memory per GPU", "Traffic per rank",
              "timeline of the pipeline, one row per stage, of small"});
  const std::string list = std::string(tests::kSourceDir) + "/tests/published/megascale.yaml";
  check_page(made({"validate", list}, "validate.html"), {"Error by list"});
}

TEST_CASE("a report of a queue is drawn") {
  if (!has_charts()) return;
  const Folder folder;
  std::string jobs = "submit_s,gpus,duration_s\n";
  for (int i = 0; i < 60; ++i) jobs += fmt::format("{},{},{}\n", 50 * i, 4 << (i % 3), 600 + 40 * (i % 7));
  const std::string scenario = folder.write("small.yaml", tests::small_scenario()), file = folder.file("queue.html");
  const auto outcome =
      tests::orrery({"queue", scenario, folder.write("<jobs>.csv", jobs), "--gpus", "32", "--report", file});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  check_page(file, {"GPUs that jobs hold over time", "Jobs by their wait"});
}

TEST_CASE("reports of commands that answer with tables are drawn") {
  if (!has_charts()) return;
  const Folder folder;
  const std::string scenario = folder.write("<b>small.yaml", tests::small_scenario());
  const auto check = [&](std::vector<std::string> arguments, const std::set<std::string>& expected) {
    const std::string file = folder.file("sheet.html");
    arguments.insert(arguments.end(), {"--report", file});
    const auto outcome = tests::orrery(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK_FALSE(outcome.out.empty());  // the table is printed all the same
    check_page(file, expected);
  };
  check({"traffic", scenario}, {"Bytes sent in one step"});
  check({"topology", scenario}, {"Rate of all links of a tier, one direction"});
  check({"collective", scenario, "--op", "all_reduce", "--gpus", "8", "--sizes", "1MB:64MB"},
        {"Bandwidth by size", "Time by size"});
  check({"place", scenario, scenario}, {"Slow-down of each job by placement"});
  check({"reproduce", "milestones"}, {"Error of each prediction"});
  check({"reproduce", "megascale-eos"}, {"Error of each prediction"});
  check({"reproduce", "parallelism-shapes"}, {});
  check({"reproduce", "gpt3-6.7b-platforms", "--format", "csv"}, {});
}

TEST_CASE("a report of a campaign is drawn") {
  if (!has_charts()) return;
  const Folder folder;
  const std::string scenario = folder.write(
      "small.yaml",
      tests::small_scenario() + "campaign: {tokens: 20e9, failures: {causes: {gpu: {mtbf: 200 h, loses: node}}}}\n");
  const std::string file = folder.file("campaign.html");
  const auto outcome = tests::orrery({"campaign", scenario, "--seeds", "50", "--report", file});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  check_page(file, {"timeline of the median campaign", "Goodput against checkpoint interval", "Goodput against GPUs",
                    "Campaigns by time to train"});
}

TEST_CASE("a study of 100,000 points fits a file that a browser opens, filters and sorts") {
  if (!has_charts()) return;
  const Folder folder;
  constexpr std::size_t kPoints = 100'000;
  const tools::Study study = large_study(kPoints);
  const nlohmann::ordered_json page = tools::study_page(study);
  CHECK(page.at("n") == kPoints);
  std::ostringstream text;
  tools::write_page(text, page);
  const std::string file = folder.write("study.html", text.str());
  check_page(file, {"points of the study", "parallel coordinates of the study"});
  const std::string browser = tests::find_browser();
  if (browser.empty()) return;
  // Filters take what a loop over the points takes; the first row of the sorted table is the best of them.
  std::size_t expected = 0;
  double best = 0;
  for (std::size_t i = 0; i < kPoints; ++i) {
    if (i % 4 != 2 || study.points[i].status != PointStatus::ok || i / 7 % 400 + 1 >= 100) continue;
    ++expected;
    best = std::max(best, study.points[i].tokens_per_s);
  }
  const std::string script = R"(
    const type = (i, text) => { const input = document.querySelectorAll('.grid .head input')[i]; input.value = text;
      input.dispatchEvent(new Event('input')); };
    type(0, '=4'); type(1, '<100'); type(3, 'ok');
    const first = list.rows[0];
    document.documentElement.dataset.said = list.rows.length + ' ' + Math.round(results[0].column[first]) + ' ' +
      document.querySelectorAll('.grid .row').length;)";
  const OpenedPage opened = tests::open_page(browser, with_script(folder, file, script), 1280);
  CHECK(opened.errors == "[]");
  std::istringstream said(opened.said);
  std::size_t rows = 0, lines = 0;
  double top = 0;
  said >> rows >> top >> lines;
  CHECK(rows == expected);
  CHECK(top == Approx(best).epsilon(1e-6));
  CHECK(lines < 100);  // only what is in sight
}

TEST_CASE("of more points than a file holds the fastest are kept") {
  const nlohmann::ordered_json page = tools::study_page(large_study(400'000));
  const auto kept = page.at("n").get<std::size_t>();
  CHECK(kept < 400'000);
  CHECK(kept > 50'000);
  CHECK(page.at("points") == 400'000);
  CHECK(page.dump().size() < kMostBytes - tools::page_part("chart.js").size());
}

TEST_CASE("the front is what no other point beats") {
  std::vector<PointResult> points;
  std::uint32_t state = 1;
  const auto draw = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>(state >> 28);  // 0 to 15: many ties
  };
  for (int i = 0; i < 300; ++i) points.push_back(point(1 + draw(), 1 + draw(), 1 + draw()));
  points.push_back({});  // infeasible
  const std::vector<char> front = tools::study_front(points);
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    bool beaten = false;
    for (std::size_t j = 0; j + 1 < points.size(); ++j) {
      const PointResult &a = points[j], &b = points[i];
      const bool no_worse = a.tokens_per_s >= b.tokens_per_s && a.peak_memory_gb <= b.peak_memory_gb &&
                            a.usd_per_million_tokens <= b.usd_per_million_tokens;
      const bool better = a.tokens_per_s > b.tokens_per_s || a.peak_memory_gb < b.peak_memory_gb ||
                          a.usd_per_million_tokens < b.usd_per_million_tokens;
      beaten = beaten || (no_worse && better);
    }
    CHECK((front[i] != 0) == !beaten);
  }
  CHECK(front.back() == 0);
}

TEST_CASE("a report that cannot be written is refused before the simulation, in one line") {
  const Folder folder;
  const std::string scenario = folder.write("case.yaml", tests::small_scenario());
  const std::string list = std::string(tests::kSourceDir) + "/tests/published/megascale.yaml";
  const std::vector<std::vector<std::string>> commands = {{"run", scenario},
                                                          {"sweep", scenario, "--vary", "batch.micro=1,2"},
                                                          {"search", scenario},
                                                          {"compare", scenario, scenario},
                                                          {"validate", list}};
  for (std::vector<std::string> command : commands) {
    for (const std::string& path :
         {folder.file("missing/report.html"), folder.path().string(), std::string("/dev/full")}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"--report", path});
      const tests::Outcome outcome = tests::orrery(arguments);
      CHECK(outcome.status == 2);
      CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
      CHECK(outcome.err.find(has_charts() ? path : "libjs-chart.js") != std::string::npos);
    }
  }
}
