// How far from measured? The published records that the repository keeps, simulated: the main job's rows held to 10 %,
// every row accounted for, and what the repository says of them (docs/scoreboard.md, residuals, intervals) true.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "scenarios/scenario.h"
#include "scenarios/yaml_text.h"
#include "tests/catch.h"
#include "tests/laws/tree.h"
#include "tests/paths.h"
#include "tests/skipped.h"
#include "tools/explain/newness.h"
#include "tools/parallel.h"
#include "tools/report/scoreboard.h"
#include "tools/study/offers.h"
#include "tools/validation.h"
#include "workloads/step/step.h"

using namespace orrery;

namespace {

// Under sanitizers, which take ten times as long, one record of so many is simulated, and the first of each list; what
// needs them all is tagged full-size.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kOneRecordOf = 32;
#else
constexpr std::size_t kOneRecordOf = 1;
#endif

std::vector<tools::ListedRecord> kept_records() {
  std::vector<tools::ListedRecord> out;
  std::set<std::string> lists;
  std::size_t seen = 0;
  for (tools::ListedRecord& record : tools::read_lists({std::string(tests::kSourceDir) + "/tests/published"})) {
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

/// Whether the record could be simulated; checks that it is run as it is validated.
bool runs_as_validated(const tools::ListedRecord& record) {
  const std::string id = tools::record_id(record.settings);
  const std::string file = std::string(tests::kSourceDir) + "/tests/published/" + record.list + ".yaml";
  for (const tools::ValidationRow& r : rows()) {
    if (r.list != record.list || r.id != id || r.status == tools::RowStatus::error) continue;
    INFO(record.list << " " << id);
    const auto run = scenarios::load_scenario(scenarios::read_scenario(file + "#" + id));
    const workloads::StepReport report = workloads::simulate_step(run.job);
    // An id that two rows of a table bear is the first's.
    CHECK(sim::to_seconds(report.iteration) == r.features.step_s);
    CHECK(report.memory.fits != r.memory.predicted_oom);
    return true;
  }
  return false;
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

TEST_CASE("every record is simulated, compared and cited, or refused for what the language has no word for") {
  std::size_t compared = 0, refused = 0;
  for (const tools::ValidationRow& r : rows()) {
    INFO(r.list << " " << r.id << " " << r.message);
    CHECK_FALSE(r.internal);
    if (r.status == tools::RowStatus::error) {
      // Expert ranks that repeat the batch, experts that replicas do not divide, stages without layers: of these three
      // kinds, in these lists.
      const bool known =
          (r.list == "kempner-h200" && r.message.find("parallelism.data") != std::string::npos) ||
          (r.list == "megatron-bridge-moe" && r.message.find("parallelism.expert") != std::string::npos) ||
          (r.list == "nanotron-failed" && r.message.find("chunks") != std::string::npos);
      CHECK(known);
      ++refused;
      continue;
    }
    CHECK(r.source.size() >= 20);
    const bool ended = r.measured_failed || r.memory.measured_oom.value_or(false);
    CHECK(r.error_pct.has_value() != ended);
    compared += ended ? 0 : 1;
  }
  CHECK(compared >= 2008 / kOneRecordOf);
  CHECK(refused <= 44);
}

TEST_CASE("every row of the sources' tables is there, under a citation, and every list is on the scoreboard",
          "[full-size]") {
  std::map<std::string, std::size_t> lists;
  for (const tools::ValidationRow& r : rows()) ++lists[r.list];
  CHECK(lists.size() == 44);
  CHECK(rows().size() == 2899);
  CHECK(lists["nanotron"] == 885);
  CHECK(lists["nanotron-failed"] == 775);
  std::set<std::string> noted;
  for (const tools::ListNote& note : tools::list_notes()) noted.insert(note.list);
  for (const auto& [list, count] : lists) {
    const std::string text = laws::fs::path(tests::kSourceDir) / "tests/published" / (list + ".yaml");
    std::string first;
    std::ifstream file(text);
    std::getline(file >> std::ws, first);
    INFO(list);
    CHECK(first.starts_with("# "));  // the citation of the list
    CHECK(noted.count(list) == 1);
  }
}

TEST_CASE("a record that is run gives the step that validate compares, to the last digit") {
  // As `orrery run FILE#ID` reads it; every row by `laws_test [every-row]`.
  std::size_t seen = 0, ran = 0;
  for (const tools::ListedRecord& record : kept_records()) {
    if (seen++ % 16 == 0) ran += runs_as_validated(record) ? 1 : 0;
  }
  CHECK(ran > 100 / kOneRecordOf);
}

TEST_CASE("every record that is run gives the step that validate compares", "[.][every-row][full-size]") {
  std::size_t ran = 0;
  for (const tools::ListedRecord& record : kept_records()) ran += runs_as_validated(record) ? 1 : 0;
  CHECK(ran == 2855);
}

TEST_CASE("lists that nobody had looked at have figures of their first day", "[full-size]") {
  std::set<std::string> first;
  for (const tools::FirstFigures& figures : tools::first_figures()) first.insert(figures.list);
  for (const tools::ListNote& note : tools::list_notes()) {
    INFO(note.list);
    if (note.looked_at == tools::LookedAt::never) CHECK(first.count(note.list) == 1);
  }
}

TEST_CASE("rows whose state is unknown are rows of the lists") {
  std::set<std::string> ids;
  for (const tools::ListedRecord& record : tools::read_lists({std::string(tests::kSourceDir) + "/tests/published"}))
    ids.insert(tools::record_id(record.settings));
  CHECK(tools::state_unknown().size() == 126);
  for (const std::string& id : tools::state_unknown()) CHECK(ids.count(id) == 1);
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
  CHECK(noted.size() == lists.size());
}

const tools::WidthStudy& widths() {
  static const tools::WidthStudy study = tools::study_widths(tools::known_rows(rows()));
  return study;
}

TEST_CASE("docs/scoreboard.md holds the summary that tools/scoreboard writes", "[full-size]") {
  std::ostringstream text;
  text << std::ifstream(std::string(tests::kSourceDir) + "/docs/scoreboard.md", std::ios::binary).rdbuf();
  std::ostringstream summary;
  tools::Beside beside{tools::list_notes(), tools::first_figures(), tools::state_unknown(), {}};
  for (const tools::Held& held : widths().held) {
    if (held.left_out == "source" && held.rows > 0) beside.held[held.list] = {held.at68, held.at90};
  }
  tools::write_markdown(summary, rows(), beside);
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
  std::multimap<std::string, double> shipped;  // a source may name two rows alike
  for (const tools::KnownRow& known : tools::shipped_known_rows()) shipped.emplace(known.id, known.log_ratio);
  const auto live = tools::known_rows(rows());
  INFO("run tools/scoreboard");
  CHECK(shipped.size() == live.size());
  for (const tools::KnownRow& known : live) {
    INFO(known.id);
    const auto [begin, end] = shipped.equal_range(known.id);
    CHECK(
        std::any_of(begin, end, [&](const auto& row) { return row.second == Approx(known.log_ratio).margin(0.002); }));
  }
}

TEST_CASE("intervals hold as many rows of a framework that is left out as they say, to 4 points", "[full-size]") {
  // A framework has no part in its own widening. Single ones differ, and single devices more: intervals.yaml has them.
  for (const tools::Held& held : widths().held) {
    INFO(held.left_out << " " << held.list);
    if (held.list.empty() && held.left_out != "device" && held.left_out != "work") {
      CHECK(held.at68 > 60);
      CHECK(held.at68 < 80);
      CHECK(held.at90 > 85);
      CHECK(held.at90 < 97);
    }
    if (held.left_out != "framework") continue;
    CHECK(held.at68 == Approx(68).margin(4));
    CHECK(held.at90 == Approx(90).margin(4));
  }
}

TEST_CASE("what published rows ran is among what their software is said to offer") {
  const std::vector<std::string> sharding{"none", "optimizer", "gradients", "parameters"};
  std::size_t checked = 0;
  std::map<std::string, tools::Offers> known;
  for (const tools::KnownRow& row : tools::shipped_known_rows()) {
    const tools::Features& f = row.features;
    if (!known.contains(f.software))
      known[f.software] = tools::offers_of(scenarios::parse_yaml("software: " + f.software, "x.yaml"));
    const tools::Offers& offers = known.at(f.software);
    if (offers.software.empty()) continue;
    INFO(row.id << " " << f.software << " " << f.sharding << " " << f.schedule);
    const auto ways = offers.sharding_of(sharding, f.sizes.pipeline > 1);
    CHECK(std::find(ways.begin(), ways.end(), f.sharding) != ways.end());
    CHECK(offers.has_schedule(f.schedule));
    ++checked;
  }
  CHECK(checked > 1000);
}

TEST_CASE("the shipped widenings are those of these rows", "[full-size]") {
  const tools::WidthStudy shipped = tools::shipped_widths();
  INFO("run tools/scoreboard");
  for (std::size_t i = 0; i < tools::kNewnesses; ++i) {
    INFO(i);
    CHECK(shipped.widenings.at[i].widening.at68 == Approx(widths().widenings.at[i].widening.at68).margin(0.01));
    CHECK(shipped.widenings.at[i].widening.at90 == Approx(widths().widenings.at[i].widening.at90).margin(0.01));
  }
}

TEST_CASE("where the lists that these were taken from lie beside the checkout, the records are theirs") {
  const laws::fs::path shared = laws::fs::path(tests::kSourceDir).parent_path() / "shared" / "published";
  if (!laws::fs::is_directory(shared)) {
    tests::skipped("no shared lists of published rows beside the source tree: the kept records are not compared");
    return;
  }
  std::map<std::string, std::set<std::string>> kept;  // a source may name two rows alike
  const auto named = [](const tools::ListedRecord& record) {
    return record.list + "#" + tools::record_id(record.settings);
  };
  for (const tools::ListedRecord& record : tools::read_lists({std::string(tests::kSourceDir) + "/tests/published"}))
    kept[named(record)].insert(scenarios::yaml_text(record.settings));
  std::size_t compared = 0;
  std::set<std::string> lists;  // others were taken in from elsewhere
  for (const tools::ListedRecord& record : tools::read_lists({shared.string()})) {
    lists.insert(record.list);
    if (kept.count(named(record)) == 0) continue;  // the shared lists have grown since
    INFO(named(record));
    CHECK(kept.at(named(record)).count(scenarios::yaml_text(record.settings)) == 1);
    ++compared;
  }
  const auto theirs = std::count_if(kept.begin(), kept.end(), [&](const auto& one) {
    return lists.contains(one.first.substr(0, one.first.find('#')));
  });
  CHECK(compared >= static_cast<std::size_t>(theirs));
  CHECK(theirs > 2000);
}
