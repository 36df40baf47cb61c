// An id is a name: whatever a scenario or a record is called, it means the same.
#include <fmt/format.h>

#include <iostream>
#include <set>
#include <string>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/tools/program.h"
#include "tools/explain/explain.h"
#include "tools/validation.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

using namespace orrery;

namespace {

// One id of so many is tried; fewer under sanitizers, which take ten times as long.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kOneIdOf = 32;
#else
constexpr std::size_t kOneIdOf = 4;
#endif

const std::vector<tools::ListedRecord>& published() {
  static const std::vector<tools::ListedRecord> all =
      tools::read_lists({std::string(tests::kSourceDir) + "/tests/published"});
  return all;
}

/// Every id that a source's rows bear, and such as users give their own.
std::set<std::string> ids() {
  std::set<std::string> all{"my-run", "zb-mine", "tr11-", "0", "-", "unknown"};
  for (const tools::ListedRecord& record : published()) all.insert(tools::record_id(record.settings));
  return all;
}

sim::Settings called(const sim::Settings& document, const std::string& key, const std::string& name) {
  sim::Settings out = document;
  out.set(key, sim::Settings::scalar(name, document.place(), true));
  return out;
}

/// All of a brief run that could hang on a name, bit by bit.
std::string answer(const scenarios::Scenario& scenario, workloads::StepCache& cache) {
  workloads::Question options;
  options.parts = workloads::Question::Parts::times;
  options.cache = &cache;
  const workloads::StepReport report = workloads::simulate_step(scenario.job, options);
  return fmt::format("{} {} {} {}", report.iteration.value(), report.effort.events, report.rates.mfu_pct,
                     fmt::join(scenario.job.assumptions, "|"));
}

}  // namespace

TEST_CASE("a scenario gives the same answer under the ids and names of all published rows") {
  // Everything that could be seeded or remembered by a name: noise on kernels and messages, a measurement, no citation.
  const std::string text = tests::small_scenario() +
                           "perturb: {jitter: {sigma: 0.05, seed: 3}, message_jitter: {sigma: 0.1, seed: 4}}\n"
                           "measured: {iteration_s: 1, memory_gb: 3}\n";
  const sim::Settings document = scenarios::parse_yaml(text, "small.yaml");
  workloads::StepCache cache;
  const std::string unnamed = answer(scenarios::load_scenario(document), cache);
  std::size_t seen = 0, tried = 0;
  for (const std::string& id : ids()) {
    if (seen++ % kOneIdOf != 0) continue;
    for (const char* key : {"id", "name"}) {
      INFO(key << ": " << id);
      const scenarios::Scenario scenario = scenarios::load_scenario(called(document, key, id));
      REQUIRE(answer(scenario, cache) == unnamed);
      CHECK(scenario.measured->memory.kind == "device");
      ++tried;
    }
  }
  CHECK(tried > 2700 * 2 / kOneIdOf);
}

TEST_CASE("a row of a published table is read alike under any id, in validate as in a run") {
  std::set<std::string> lists;
  workloads::Question options;
  options.parts = workloads::Question::Parts::times;
  for (const tools::ListedRecord& record : published()) {
    if (!lists.insert(record.list).second) continue;  // the first of every list
    INFO(record.list);
    const sim::Settings renamed = called(record.settings, "id", "my-run");
    const auto row = tools::validate_record(record, {}, options);
    const auto again = tools::validate_record({record.list, renamed}, {}, options);
    CHECK(row.status != tools::RowStatus::error);
    CHECK(row.predicted == again.predicted);
  }
  CHECK(lists.size() == 44);
}

TEST_CASE("a user's own row is taken at its word, though it is called like a published one") {
  // Each is given the id of a published row, two of them of rows that a number was fitted on, and cites nothing.
  const tests::Folder folder;
  std::string text;
  for (const char* id : {"zb-1.5B-1F1B-m24", "tr11-059", "mtnlg-280nodes", "vtrain-single-0004"}) {
    text += fmt::format("- id: {}\n", id);
    std::istringstream lines(tests::small_scenario("name: small\n", ""));
    for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";
    text += "  measured: {iteration_s: 1}\n";
  }
  std::set<std::string> predicted;
  for (const tools::ListedRecord& record : tools::read_lists({folder.write("zero-bubble.yaml", text)})) {
    INFO(tools::record_id(record.settings));
    const auto row = tools::validate_record(record, tools::fitted_records());
    INFO(row.message);
    REQUIRE(row.predicted.has_value());
    CHECK_FALSE(row.fitted);
    predicted.insert(fmt::format("{}", *row.predicted));
  }
  CHECK(predicted.size() == 1);
}

TEST_CASE("run --explain leaves a published row's own measurement out, whatever the row is called") {
  const std::vector<tools::KnownRow> known = tools::shipped_known_rows();
  std::size_t found = 0;
  for (const tools::ListedRecord& record : published()) {
    scenarios::Scenario scenario;
    try {
      scenario = scenarios::load_scenario(called(record.settings, "id", "my-run"));
    } catch (const sim::UserError&) {
      continue;  // a row that the language refuses: published_test.cc
    }
    const tools::Metric metric = tools::compare(*scenario.measured, {});
    const tools::KnownRow* row = tools::same_measurement(tools::features_of(scenario.job, {}), metric, known);
    if (row == nullptr) continue;
    INFO(tools::record_id(record.settings));
    CHECK(row->list == record.list);
    ++found;
  }
  CHECK(found == known.size());
  // A figure of one's own is nobody else's.
  tools::Features features = known.front().features;
  const tools::Metric other{known.front().metric, known.front().measured * 1.01, 1};
  CHECK(tools::same_measurement(features, other, known) == nullptr);
  features.gpus += 1;
  CHECK(tools::same_measurement(features, {known.front().metric, known.front().measured, 1}, known) == nullptr);
}
