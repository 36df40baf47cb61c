// How far from measured? The published records that the repository keeps, simulated: the main job's rows held to 10 %,
// every row accounted for, and what the repository says of them (docs/scoreboard.md, residuals, intervals) true.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/laws/tree.h"
#include "tests/skipped.h"
#include "tools/explain/like_rows.h"
#include "tools/parallel.h"
#include "tools/report/scoreboard.h"
#include "tools/validation.h"
#include "workloads/step/step.h"

using namespace orrery;

namespace {

// Under sanitizers, which take ten times as long, one record of so many is simulated, and the first of each list; what
// needs them all is tagged full-size.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kOneRecordOf = 8;
#else
constexpr std::size_t kOneRecordOf = 1;
#endif

std::vector<tools::ListedRecord> kept_records() {
  std::vector<tools::ListedRecord> out;
  std::set<std::string> lists;
  std::size_t seen = 0;
  for (tools::ListedRecord& record : tools::read_lists({std::string(ORRERY_SOURCE_DIR) + "/tests/published"})) {
    if (lists.insert(record.list).second || seen % kOneRecordOf == 0) out.push_back(std::move(record));
    ++seen;
  }
  return out;
}

/// The records, simulated once for all tests of this file.
const std::vector<tools::ValidationRow>& rows() {
  static const std::vector<tools::ValidationRow> all = [] {
    const std::vector<tools::ListedRecord> records = kept_records();
    const auto fitted = tools::fitted_records();
    std::vector<tools::ValidationRow> out(records.size());
    tools::for_each_parallel(records.size(), tools::default_jobs(), "",
                             [&](std::size_t i) { out[i] = tools::validate_record(records[i], fitted); });
    return out;
  }();
  return all;
}

const tools::ValidationRow& row(std::string_view id) {
  for (const tools::ValidationRow& r : rows()) {
    if (r.id == id) return r;
  }
  FAIL("no record is called " << id);
  return rows().front();
}

/// The words of a text, numbers apart.
struct Words {
  std::vector<std::string> text;
  std::vector<double> numbers;
};
Words words_of(const std::string& text) {
  Words words;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    std::size_t end = 0;
    const char first = word.front();  // "nanotron" is no number, though stod reads one
    if (std::isdigit(static_cast<unsigned char>(first)) != 0 || first == '+' || first == '-') {
      try {
        words.numbers.push_back(std::stod(word, &end));
      } catch (const std::exception&) {
        end = 0;
      }
    }
    words.text.push_back(word.substr(end));
  }
  return words;
}

}  // namespace

TEST_CASE("steps of more than ten thousand GPUs come out within 10 % of what was measured, in no fit", "[full-size]") {
  for (const char* id : {"megascale-megascale-b6144-12288", "megascale-megatron-lm-b6144-12288",
                         "mlperf-v3.1-gpt3-nvidia-eos-dfw_n1344_ngc23.09_nemo"}) {
    INFO(id);
    const tools::ValidationRow& r = row(id);
    REQUIRE(r.error_pct.has_value());
    INFO(*r.error_pct);
    CHECK(std::abs(r.error_pct.value_or(1e9)) < 10);
    CHECK_FALSE(r.fitted);
  }
}

TEST_CASE("every kept record is simulated, compared and cited") {
  std::set<std::string> ids;
  for (const tools::ValidationRow& r : rows()) {
    INFO(r.id << " " << r.message);
    ids.insert(r.id);
    CHECK(r.status != tools::RowStatus::error);
    CHECK(r.error_pct.has_value());
    CHECK(r.source.citation.size() >= 20);
  }
  CHECK(ids.size() == rows().size());
  CHECK(ids.size() > 900 / kOneRecordOf);
}

TEST_CASE("every row of the sources' tables is kept", "[full-size]") {
  std::map<std::string, std::size_t> lists;
  for (const tools::ValidationRow& r : rows()) ++lists[r.list];
  // As counted in them.
  const std::map<std::string, std::size_t> expected{{"bigscience-tr11", 30},
                                                    {"dgxc-gb200-dense", 6},
                                                    {"dgxc-h100", 111},
                                                    {"dgxc-moe", 25},
                                                    {"frontier", 1},
                                                    {"gpt6.7b", 2},
                                                    {"korthikanti", 4},
                                                    {"llama3", 2},
                                                    {"megascale", 23},
                                                    {"megatron-bridge-dense", 52},
                                                    {"megatron-bridge-moe", 77},
                                                    {"mlperf-dlrm", 29},
                                                    {"mlperf-gpt3-h100", 4},
                                                    {"mlperf-llama31", 23},
                                                    {"mlperf-llama405b", 2},
                                                    {"mlperf-lora", 46},
                                                    {"mosaic-fsdp", 101},
                                                    {"mtnlg", 1},
                                                    {"nanotron", 87},
                                                    {"narayanan", 13},
                                                    {"nemo-docs", 17},
                                                    {"torchtitan", 17},
                                                    {"vtrain-multi", 65},
                                                    {"vtrain-single", 194},
                                                    {"zero-bubble", 29}};
  CHECK(lists == expected);
  for (const auto& [list, count] : lists) {
    const std::string text = laws::fs::path(ORRERY_SOURCE_DIR) / "tests/published" / (list + ".yaml");
    std::string first;
    std::getline(std::ifstream(text) >> std::ws, first);
    INFO(list);
    CHECK(first.starts_with("# "));  // the citation of the list
  }
}

TEST_CASE("rows of MegaScale and MLPerf come out within 20 %") {
  for (const tools::ValidationRow& r : rows()) {
    if (r.list != "megascale" && r.list != "mlperf-gpt3-h100") continue;
    INFO(r.id);
    CHECK(r.status == tools::RowStatus::ok);
    CHECK(std::abs(r.error_pct.value_or(1e9)) < 20);
  }
}

TEST_CASE("an Eos step with its share of the validation passes comes out within 10 % of 1.068 s") {
  const std::string file = scenarios::data_directory() + "/scenarios/eos-gpt3-175b.yaml";
  const auto report = workloads::simulate_step(scenarios::load_scenario(scenarios::read_scenario(file)).job);
  CHECK(report.evaluation.iteration_s == Approx(1.068).epsilon(0.1));
}

TEST_CASE("notes and fitted marks name lists and records that exist") {
  std::set<std::string> lists;
  for (const tools::ValidationRow& r : rows()) lists.insert(r.list);
  std::set<std::string> noted;
  for (const tools::ListNote& note : tools::list_notes()) {
    INFO(note.list);
    CHECK(lists.count(note.list) == 1);
    CHECK(noted.insert(note.list).second);
    CHECK_FALSE(note.title.empty());
  }
  CHECK(noted == lists);
}

TEST_CASE("docs/scoreboard.md holds the summary that tools/scoreboard writes", "[full-size]") {
  std::ostringstream text;
  text << std::ifstream(std::string(ORRERY_SOURCE_DIR) + "/docs/scoreboard.md", std::ios::binary).rdbuf();
  std::ostringstream summary;
  tools::write_markdown(summary, rows(), tools::list_notes());
  const std::string shown = text.str();
  const std::string expected = tools::with_summary(shown, "scoreboard.md", summary.str());
  // Another compiler may round the last digit the other way.
  const Words is = words_of(shown), wanted = words_of(expected);
  INFO("run tools/scoreboard");
  REQUIRE(is.text == wanted.text);
  REQUIRE(is.numbers.size() == wanted.numbers.size());
  for (std::size_t i = 0; i < is.numbers.size(); ++i) CHECK(is.numbers[i] == Approx(wanted.numbers[i]).margin(0.11));
}

TEST_CASE("the shipped residuals are those of these rows", "[full-size]") {
  std::map<std::string, double> shipped;
  for (const tools::KnownRow& known : tools::shipped_known_rows()) shipped[known.id] = known.log_ratio;
  const auto live = tools::known_rows(rows());
  INFO("run tools/scoreboard");
  CHECK(shipped.size() == live.size());
  for (const tools::KnownRow& known : live) {
    INFO(known.id);
    REQUIRE(shipped.count(known.id) == 1);
    CHECK(shipped.at(known.id) == Approx(known.log_ratio).margin(0.002));
  }
}

TEST_CASE("the intervals of run --explain hold about as many published rows as they say", "[full-size]") {
  // Every row in no fit, from the others; and from other lists alone, widened by what those ask for when each is left
  // out in turn, so that a row has no part in its own interval. Single lists differ: docs/accuracy.md has them.
  const tools::Coverage coverage = tools::coverage_of(tools::known_rows(rows()));
  CHECK(coverage.all.held68 > 60);
  CHECK(coverage.all.held68 < 80);
  CHECK(coverage.all.held90 > 85);
  CHECK(coverage.all.held90 < 97);
  CHECK(coverage.all.new68 > 60);
  CHECK(coverage.all.new68 < 80);
  CHECK(coverage.all.new90 > 85);
  CHECK(coverage.all.new90 < 97);
}

TEST_CASE("where the shared lists lie beside the checkout, the kept records are among theirs") {
  const laws::fs::path shared = laws::fs::path(ORRERY_SOURCE_DIR).parent_path() / "shared" / "published";
  if (!laws::fs::is_directory(shared)) {
    tests::skipped("no shared lists of published rows beside the source tree: the kept records are not compared");
    return;
  }
  std::map<std::string, const tools::ValidationRow*> kept;
  for (const tools::ValidationRow& r : rows()) kept[r.id] = &r;
  std::size_t compared = 0;
  for (const tools::ListedRecord& record : tools::read_lists({shared.string()})) {
    if (kept.count(record.settings.at("id").text()) == 0) continue;  // the shared lists have grown since
    const scenarios::Scenario scenario = scenarios::load_scenario(record.settings);
    INFO(scenario.id);
    REQUIRE(scenario.measured.has_value());
    const tools::Metric metric = tools::compare(*scenario.measured, {});
    CHECK(kept[scenario.id]->metric == metric.name);
    CHECK(kept[scenario.id]->measured == metric.measured);
    const tools::Features features = tools::features_of(scenario.job, {});
    CHECK(features.gpus == kept[scenario.id]->features.gpus);
    // A step tells the software of some.
    if (!kept[scenario.id]->source.told_by_step) CHECK(features.software == kept[scenario.id]->features.software);
    CHECK(features.sizes.global_batch == kept[scenario.id]->features.sizes.global_batch);
    ++compared;
  }
  CHECK(compared == rows().size());
}
