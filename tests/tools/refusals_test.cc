// Does every mistake of the user end with status 2 and one line that says where, what was read and what was expected?
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"

using namespace orrery;
using tests::check_refused;
using tests::Folder;
using tests::Outcome;
using tests::small_scenario;

namespace {

Outcome run_text(const Folder& folder, const std::string& text) {
  return tests::orrery({"run", folder.write("case.yaml", text)});
}

/// As check_refused, in the form FILE:LINE:COLUMN: key: message.
void check_refused_at(const Outcome& outcome, int line, const std::string& key) {
  check_refused(outcome, {fmt::format("case.yaml:{}:", line), fmt::format(": {}: ", key)});
  CHECK(std::regex_search(outcome.err, std::regex("^[^:]+:[0-9]+:[0-9]+: [^:]+: .+\n$")));
}

}  // namespace

TEST_CASE("the small scenario itself is accepted") {
  const Folder folder;
  const Outcome outcome = run_text(folder, small_scenario());
  CHECK(outcome.err == "");
  CHECK(outcome.status == 0);
}

TEST_CASE("files that are not there or are not YAML") {
  const Folder folder;
  check_refused(tests::orrery({"run", folder.file("missing.yaml")}), {"missing.yaml"});
  check_refused(tests::orrery({"run", folder.path().string()}), {});
  check_refused(run_text(folder, "a: [1, 2\nb: }"), {"case.yaml:"});
  check_refused(run_text(folder, ""), {"case.yaml"});
  check_refused(run_text(folder, "just words"), {"case.yaml"});
  check_refused(run_text(folder, std::string(4096, '\0')), {"case.yaml"});
}

TEST_CASE("keys and values that the language does not know") {
  const Folder folder;
  check_refused_at(run_text(folder, small_scenario("global:", "globl:")), 5, "batch.globl");
  check_refused(run_text(folder, small_scenario("global:", "globl:")), {"global"});
  check_refused_at(run_text(folder, small_scenario("tensor: 2", "tensor: two")), 4, "parallelism.tensor");
  check_refused_at(run_text(folder, small_scenario("fabric: ndr-rail", "fabric: ndr-rial")), 2, "cluster.fabric");
  check_refused(run_text(folder, small_scenario("fabric: ndr-rail", "fabric: ndr-rial")), {"ndr-rail"});
  check_refused_at(run_text(folder, small_scenario("precision: bf16", "precision: bf17")), 6, "precision");
}

TEST_CASE("a quantity without its unit") {
  const Folder folder;
  const std::string text = small_scenario("fabric: ndr-rail", "fabric: {inherits: ndr-rail, nic_latency: 5}");
  check_refused(run_text(folder, text), {"case.yaml:2:", "5", "us"});
}

TEST_CASE("a library that wants switches to add, on switches that cannot") {
  const Folder folder;
  std::string sharp = small_scenario("nemo-23.09", "{inherits: nemo-23.09, collective_algorithms: [ring, sharp]}");
  CHECK(run_text(folder, sharp).status == 0);
  sharp.replace(sharp.find("ndr-rail"), 8, "tomahawk4-200g");
  check_refused_at(run_text(folder, sharp), 8, "software");
}

TEST_CASE("a layout that does not multiply, and sizes that no cluster has") {
  const Folder folder;
  check_refused(run_text(folder, small_scenario("data: 4", "data: 5")), {"case.yaml:", "16"});
  check_refused_at(run_text(folder, small_scenario("tensor: 2", "tensor: 0")), 4, "parallelism.tensor");
  check_refused_at(run_text(folder, small_scenario("tensor: 2", "tensor: -2")), 4, "parallelism.tensor");
  check_refused(run_text(folder, small_scenario("gpus: 16", "gpus: 99999999999999999999")), {"case.yaml:2:"});
  check_refused(run_text(folder, small_scenario("layers: 8", "layers: 1000000000000")), {"case.yaml:3:"});
  check_refused(run_text(folder, small_scenario("global: 16", "global: 17")), {"case.yaml:", "17"});
}

TEST_CASE("hostile documents: nesting, aliases") {
  const Folder folder;
  check_refused(run_text(folder, "a: " + std::string(10000, '[') + std::string(10000, ']')), {"case.yaml:"});
  std::string braces;
  for (int i = 0; i < 10000; ++i) braces += "{a: ";
  check_refused(run_text(folder, braces), {"case.yaml"});
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string name = fmt::format("a{}", i), below = fmt::format("*a{}", i - 1);
    laughs += name + ": &" + name + " [";
    for (int k = 0; k < 10; ++k) laughs += (k > 0 ? ", " : "") + below;
    laughs += "]\n";
  }
  check_refused(run_text(folder, laughs), {"case.yaml"});
}

TEST_CASE("outputs that cannot be written, before and after the simulation") {
  const Folder folder;
  const std::string scenario = folder.write("case.yaml", small_scenario());
  for (const std::string option : {"--json", "--trace"}) {
    check_refused(tests::orrery({"run", scenario, option, folder.file("no/such/folder.json")}),
                  {"no/such/folder.json"});
    check_refused(tests::orrery({"run", scenario, option, folder.path().string()}), {folder.path().string()});
    check_refused(tests::orrery({"run", scenario, option, "/dev/full"}), {"/dev/full"});
  }
  check_refused(tests::orrery({"run", scenario}, "/dev/full"), {"standard output"});
}

TEST_CASE("the command line itself") {
  check_refused(tests::orrery({}), {"orrery: "});
  check_refused(tests::orrery({"rum", "x.yaml"}), {"orrery: ", "'run'"});
  check_refused(tests::orrery({"run"}), {"orrery: ", "scenario"});
  check_refused(tests::orrery({"run", "x.yaml", "--rank", "full"}), {"orrery: "});
  check_refused(tests::orrery({"run", "x.yaml", "--ranks", "some"}), {"orrery: ", "folded"});
  check_refused(tests::orrery({"reproduce", "nothing"}), {"orrery: ", "orrery list tables"});
  check_refused(tests::orrery({"help", "parallelism.tensr"}), {"parallelism.tensor"});
  check_refused(tests::orrery({"topology", "ndr-rial"}), {"ndr-rail"});
  const Folder folder;
  const std::string scenario = folder.write("case.yaml", small_scenario());
  check_refused(tests::orrery({"run", scenario, "--set", "batch.global"}), {"--set"});
  check_refused(tests::orrery({"run", scenario, "--set", "batch.globl=4"}), {"--set", "batch.globl"});
  check_refused(tests::orrery({"validate", folder.file("missing.yaml")}), {"missing.yaml"});
}
