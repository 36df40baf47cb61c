// Does `orrery fit` find back what made the rows, say what they do not tell, write only when asked, and refuse what it
// cannot use?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/tools/program.h"
#include "tools/fit/step_fit.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::Folder;

namespace {

constexpr const char* kSoftware = R"(name: made-up
kernel_issue: 5 us  # of the host
transfer_issue: 5 us
step_host: 1 ms
)";

/// A job of one GPU, small enough that the host decides its step; `software` is a file.
std::string record(const std::string& id, int layers, const std::string& software, double measured_s) {
  return fmt::format(
      "- id: {}\n"
      "  cluster: {{device: a100-sxm-80gb, gpus: 1, fabric: single-node}}\n"
      "  model: {{kind: gpt, layers: {}, hidden: 256, heads: 4, ffn_hidden: 1024, vocab: 1024, seq: 128}}\n"
      "  parallelism: {{tensor: 1, pipeline: 1}}\n"
      "  batch: {{global: 2, micro: 1}}\n"
      "  software: {}\n"
      "  measured: {{iteration_s: {:.9f}}}\n",
      id, layers, software, measured_s);
}

/// Rows "measured" by the simulator itself with a launch of 12 us.
std::string rows(const Folder& folder) {
  const std::string software = folder.write("made-up.yaml", kSoftware);
  std::string list;
  for (const int layers : {2, 4, 8, 16}) {
    sim::Settings one = scenarios::parse_yaml(record("x", layers, software, 1), "x.yaml").items().front();
    sim::Settings document = sim::Settings::mapping(one.place());
    for (const auto& [name, member] : one.members()) document.set(name, member);
    scenarios::apply_set(document, "software.kernel_issue=12 us");
    const auto report = workloads::simulate_step(scenarios::load_scenario(document).job);
    list += record(fmt::format("made-{}", layers), layers, software, sim::to_seconds(report.iteration));
  }
  return folder.write("list.yaml", list);
}

std::string fit_file(const Folder& folder, const std::string& parameters) {
  return folder.write("fit.yaml", fmt::format("parameters:\n{}rows: [{{list: list.yaml}}]\n", parameters));
}

}  // namespace

TEST_CASE("the parameter that made the rows is found back, one without effect is said to be undetermined") {
  const Folder folder;
  rows(folder);
  const std::string software = folder.file("made-up.yaml");
  const std::string file = fit_file(
      folder, fmt::format("- {{document: '{0}', key: software.kernel_issue, low: 1 us, high: 30 us}}\n"
                          "- {{document: '{0}', key: software.tensor_overlap_slowdown, low: 1, high: 2, start: 1.5}}\n",
                          software));
  const tools::StepFit fit = tools::read_step_fit(file);
  CHECK(fit.parameters[0].start == Approx(5));
  const tools::FitOutcome outcome = tools::run_step_fit(fit, 1);
  const auto verdicts = tools::verdicts(fit, outcome);
  CHECK(verdicts[0].value == Approx(12).epsilon(0.01));
  CHECK(verdicts[0].determined);
  CHECK_FALSE(verdicts[0].at_bound);
  CHECK(verdicts[1].value == 1.5);
  CHECK_FALSE(verdicts[1].determined);
  // Every row was left out once, and the other three predict it.
  for (const auto& held : outcome.held) {
    REQUIRE(held.has_value());
    CHECK(std::abs(*held) < 0.01);
  }
  CHECK(std::abs(outcome.before[0]) > 0.2);
}

TEST_CASE("of several descents the best is shown, wherever it began") {
  const Folder folder;
  rows(folder);
  const auto text = [&](int starts) {
    return fmt::format(
        "parameters: [{{document: '{}', key: software.kernel_issue, low: 0.5 us, high: 30 us, start: 30 us}}]\n"
        "rows: [{{list: list.yaml}}]\nstarts: {}\nhold_out: {{folds: 0}}\n",
        folder.file("made-up.yaml"), starts);
  };
  const tools::StepFit fit = tools::read_step_fit(folder.write("fit.yaml", text(3)));
  const tools::FitOutcome outcome = tools::run_step_fit(fit, 1);
  REQUIRE(outcome.optima.size() == 3);
  CHECK(outcome.fit.cost == *std::min_element(outcome.optima.begin(), outcome.optima.end()));
  CHECK(tools::verdicts(fit, outcome).front().value == Approx(12).epsilon(0.01));
  CHECK(outcome.held == std::vector<std::optional<double>>(4));
  CHECK_THROWS_AS(tools::read_step_fit(folder.write("none.yaml", text(0))), sim::UserError);
}

TEST_CASE("no file changes unless asked; asked, the value is written in place and the rows are marked") {
  const Folder folder;
  rows(folder);
  // A home of its own, so that the rows are marked there.
  const Folder home;
  const std::string tree = tests::kSourceDir;
  for (const char* part : {"calibration/profiles", "calibration/recipes", "calibration/software", "scenarios"}) {
    tests::fs::create_directories(home.path() / part);
    tests::fs::copy(tests::fs::path(tree) / part, home.path() / part, tests::fs::copy_options::recursive);
  }
  tests::fs::copy(tests::fs::path(tree) / "calibration/fitted.yaml", home.path() / "calibration/fitted.yaml");
  const std::string software = folder.file("made-up.yaml");
  const std::string file = fit_file(
      folder, fmt::format("- {{document: '{}', key: software.kernel_issue, low: 1 us, high: 30 us}}\n", software));
  ::setenv("ORRERY_HOME", home.path().c_str(), 1);
  const tests::Outcome looked = tests::orrery({"fit", file, "--json", "-", "--jobs", "1"});
  const std::string after_looking = tests::read_file(software);
  const tests::Outcome wrote = tests::orrery({"fit", file, "--write", "--jobs", "1"});
  ::unsetenv("ORRERY_HOME");
  INFO(looked.err << wrote.err);
  REQUIRE(looked.status == 0);
  REQUIRE(wrote.status == 0);
  CHECK(nlohmann::json::parse(looked.out)["parameters"][0]["determined"] == true);
  CHECK(after_looking == kSoftware);
  const sim::Settings changed = scenarios::read_yaml(software);
  CHECK(changed.at("kernel_issue").as_duration().value() == Approx(12e6).epsilon(0.01));  // picoseconds
  CHECK(tests::read_file(software).find("us  # of the host\ntransfer_issue: 5 us\n") != std::string::npos);
  CHECK(tests::read_file(home.path() / "calibration/fitted.yaml").find("\n  - made-16\n") != std::string::npos);
}

TEST_CASE("a value is replaced in block and flow mappings, added at the end, and nothing else moves") {
  CHECK(tools::with_value("a: 1 us  # why\nb: 2\n", "f", "a", "3 us") == "a: 3 us  # why\nb: 2\n");
  CHECK(tools::with_value("s: {a: 1 us, b: 2}\n", "f", "s.b", "7") == "s: {a: 1 us, b: 7}\n");
  CHECK(tools::with_value("s:\n  a: 1\n", "f", "s.a", "9 GB/s") == "s:\n  a: 9 GB/s\n");
  CHECK(tools::with_value("a: 1", "f", "b", "2 us") == "a: 1\nb: 2 us\n");
  CHECK_THROWS_AS(tools::with_value("a: 1\n", "f", "s.b", "2"), sim::UserError);
  CHECK_THROWS_AS(tools::with_value("a: [1, 2]\n", "f", "a", "2"), sim::UserError);
}

TEST_CASE("a parameter reaches the rows that read it from its document, not those that a nearer document decides") {
  const Folder folder;
  const std::string old = folder.write("old.yaml", kSoftware);
  const std::string kept = folder.write("kept.yaml", "inherits: old.yaml\nname: kept\n");
  const std::string own = folder.write("own.yaml", "inherits: old.yaml\nname: own\nkernel_issue: 3 us\n");
  const scenarios::DocumentKey key{"software", "host.kernel_issue"};
  const auto reads = [&](const std::string& software) {
    return scenarios::reads_from(scenarios::parse_yaml("software: " + software + "\n", "s.yaml"), key, old);
  };
  CHECK(reads(old));
  CHECK(reads(kept));
  CHECK_FALSE(reads(own));
  CHECK(reads("{inherits: '" + kept + "', step_host: 2 ms}"));
  CHECK_FALSE(reads("{inherits: '" + kept + "', kernel_issue: 2 us}"));
  CHECK_FALSE(reads("megatron-2023"));
}

TEST_CASE("a fit that cannot be is refused at its place") {
  const Folder folder;
  rows(folder);
  const std::string software = folder.file("made-up.yaml");
  const auto refused = [&](const std::string& parameter, const std::string& expected) {
    const tests::Outcome outcome = tests::orrery({"fit", fit_file(folder, "- {" + parameter + "}\n")});
    INFO(parameter << "\n" << outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(folder.file("fit.yaml") + ":2:") == 0);
    CHECK(outcome.err.find(expected) != std::string::npos);
  };
  const std::string document = "document: '" + software + "', ";
  refused(document + "key: software.kernel_isue, low: 1 us, high: 2 us", "did you mean \"software.host.kernel_issue\"");
  refused(document + "key: model.layers, low: 1, high: 2", "no key of a software generation");
  refused(document + "key: software.kernel_issue, low: 2 us, high: 1 us", "more than low");
  refused(document + "key: software.kernel_issue, low: 1 us, high: 1 ms", "unit of low");
  refused(document + "key: software.kernel_issue, low: 1 us, high: 9 us, start: 10 us", "outside of the bounds");
  refused(document + "key: software.kernel_issue, low: -5 us, high: 9 us", "is no value of software.kernel_issue");
  refused("document: megascale, key: software.kernel_issue, low: 1 us, high: 9 us", "no row reads");
  refused("document: megascal, key: software.kernel_issue, low: 1 us, high: 9 us", "did you mean \"megascale\"");
  refused(document + "key: software.kernel_issue, low: 1 us, hihg: 9 us", "hihg");
}

TEST_CASE("a generation is fitted as a whole: what the rows tell moves, the rest stays, a strong ridge holds all") {
  const Folder folder;
  const std::string list = rows(folder), software = folder.file("made-up.yaml"), out = folder.file("fitted.yaml");
  const auto fit_with = [&](const std::string& ridge) {
    const tests::Outcome outcome = tests::orrery(
        {"fit", list, "--framework", software, "--ridge", ridge, "--out", out, "--json", "-", "--jobs", "2"});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.out)["summary"];
  };
  const auto us = [&](const char* key) {
    return sim::to_seconds(scenarios::read_yaml(out).at("fitted").at(key).as_duration()) * 1e6;
  };
  // The rows were made with launches of 12 us; nothing of them crosses a network.
  const nlohmann::json weak = fit_with("0.1");
  CHECK(weak["before"]["mape_pct"] > 20.0);
  CHECK(weak["fitted"]["mape_pct"] < 3.0);
  CHECK(us("kernel_issue") > 6);
  CHECK(us("collective_base") == Approx(0).margin(1e-3));
  CHECK(scenarios::read_yaml(out).at("inherits").text() == software);
  const nlohmann::json strong = fit_with("1000");
  CHECK(strong["fitted"]["mape_pct"] > 20.0);
  CHECK(us("kernel_issue") == Approx(5).epsilon(0.01));
  CHECK(tests::orrery({"fit", list, "--framework", "megascale"}).err.find("no row") != std::string::npos);
  CHECK(tests::orrery({"fit", list, "--framework", software, "--write"}).status == 2);
  CHECK(tests::orrery({"fit", list, list}).status == 2);
}

TEST_CASE("a fit says whether it carries to rows held out") {
  const Folder folder;
  const std::string list = rows(folder), software = folder.file("made-up.yaml");
  const auto fitted = [&](const std::string& file, const std::string& out) {
    std::vector<std::string> words{"fit", file, "--framework", software, "--ridge", "0.1", "--jobs", "2"};
    if (!out.empty()) words.insert(words.end(), {"--json", out});
    const tests::Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return outcome.out;
  };
  // The rows have one cause, launches of 12 us, which three of them tell of the fourth.
  CHECK(nlohmann::json::parse(fitted(list, "-"))["held_out_better"] == true);
  CHECK(fitted(list, "").find("come out no better") == std::string::npos);
  // Three rows as the generation has them and one that took twelve times as long, as a disturbed step does: whoever
  // leaves one of the three out leans on the disturbed one, and before the fit the median row was right.
  std::string disturbed;
  for (const int layers : {2, 4, 8, 16}) {
    sim::Settings document = scenarios::parse_yaml(record("x", layers, software, 1), "x.yaml").items().front();
    const auto report = workloads::simulate_step(scenarios::load_scenario(document).job);
    disturbed += record(fmt::format("made-{}", layers), layers, software,
                        sim::to_seconds(report.iteration) * (layers == 2 ? 12 : 1));
  }
  const std::string file = folder.write("disturbed.yaml", disturbed);
  const nlohmann::json aside = nlohmann::json::parse(fitted(file, "-"));
  CHECK(aside["held_out_better"] == false);
  CHECK(aside["set_aside"] == nlohmann::json::array({"made-2"}));
  CHECK(aside["summary"]["fitted"]["median_ape_pct"] < 1.0);  // it did not pull the others away
  CHECK(fitted(file, "").find("come out no better") != std::string::npos);
}
