// Does `orrery list` name everything that ships, and say in one line what each is?
#include <algorithm>
#include <map>
#include <sstream>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/shipped_names.h"
#include "workloads/collectives/catalogue.h"
#include "workloads/schedules/catalogue.h"

using namespace orrery;
using tests::Outcome;

namespace {

/// What the command prints, by name: names are followed by at least two spaces.
std::map<std::string, std::string> listed(const std::string& kind) {
  const Outcome outcome = tests::orrery({"list", kind});
  INFO(kind << ": " << outcome.err);
  REQUIRE(outcome.status == 0);
  std::map<std::string, std::string> lines;
  std::istringstream text(outcome.out);
  for (std::string line; std::getline(text, line);) {
    const std::size_t gap = line.find("  ");
    REQUIRE(gap != std::string::npos);
    lines[line.substr(0, gap)] = line.substr(line.find_first_not_of(' ', gap));
  }
  return lines;
}

}  // namespace

TEST_CASE("list names every document that ships, with what it is") {
  for (const char* kind : {"devices", "fabrics", "models", "software", "scenarios", "tables", "failures"}) {
    const auto lines = listed(kind);
    const std::vector<std::string> names = scenarios::shipped(kind);
    CHECK(lines.size() == names.size());
    CHECK(names.size() >= 3);
    for (const std::string& name : names) {
      INFO(kind << " " << name);
      REQUIRE(lines.contains(name));
      CHECK(lines.at(name).size() > 8);
    }
  }
}

TEST_CASE("list names every schedule and every algorithm of a collective") {
  const auto schedules = listed("schedules");
  CHECK(schedules.size() == workloads::kSchedules.size());
  for (const workloads::Schedule* schedule : workloads::kSchedules) {
    const std::string name(schedule->name);
    REQUIRE(schedules.contains(name));
    CHECK(schedules.at(name).find(schedule->paper) != std::string::npos);
  }
  const auto collectives = listed("collectives");
  CHECK(collectives.size() == workloads::algorithms().size());
  for (const workloads::Algorithm& algorithm : workloads::algorithms()) {
    REQUIRE(collectives.contains(std::string(algorithm.name)));
    CHECK(collectives.at(std::string(algorithm.name)).size() > 20);
  }
}

TEST_CASE("a document is what it says of itself, else the first sentence of its opening comment") {
  CHECK(scenarios::about("scenarios", "eos-gpt3-175b") ==
        "GPT-3 175B on 10752 H100 GPUs of NVIDIA Eos, MLPerf Training v3.1");
  CHECK(scenarios::about("tables", "megascale-eos") == "GPT-3 175B on more than ten thousand GPUs");
  // Full stops of abbreviations and numbers end no sentence, nor do lines.
  CHECK(scenarios::about("models", "gpt3-13b") == "GPT-3 13B: Brown et al. (arXiv 2005.14165), table 2.1");
  CHECK(
      scenarios::about("fabrics", "a100-800g-node") ==
      "Clusters of DGX-like A100 nodes with 800 Gb/s per node, as in vTrain's measurements (Bang et al., MICRO 2024)");
}

TEST_CASE("list refuses what it does not know, and says what it does") {
  const Outcome outcome = tests::orrery({"list", "topologies"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("fabrics") != std::string::npos);
}

TEST_CASE("list alone says what it can list, and how many of each there are") {
  const Outcome outcome = tests::orrery({"list"});
  REQUIRE(outcome.status == 0);
  for (const char* kind :
       {"devices", "fabrics", "models", "software", "schedules", "collectives", "scenarios", "tables"})
    CHECK(outcome.out.find(std::string("  ") + kind) != std::string::npos);
  CHECK(outcome.out.find(std::to_string(scenarios::shipped("devices").size())) != std::string::npos);
  const Outcome help = tests::orrery({"help"});
  REQUIRE(help.status == 0);
  CHECK(std::count(help.out.begin(), help.out.end(), '\n') <= 80);  // a page, and every section is on it
  for (const char* key : {"cluster", "parallelism", "batch", "campaign"})
    CHECK(help.out.find(std::string("\n  ") + key) != std::string::npos);
}

TEST_CASE("list takes other words for its kinds, and part of a name for all that has it") {
  CHECK(tests::orrery({"list", "gpus"}).out == tests::orrery({"list", "devices"}).out);
  CHECK(tests::orrery({"list", "model"}).out == tests::orrery({"list", "models"}).out);
  const Outcome named = tests::orrery({"list", "Llama3.1"});
  REQUIRE(named.status == 0);
  std::istringstream text(named.out);
  std::size_t lines = 0;
  for (std::string line; std::getline(text, line); ++lines) CHECK(line.find("llama3.1") < line.find("  ", 14));
  std::size_t with = 0;  // of documents; schedules and collectives have no such name
  for (const char* kind : {"devices", "fabrics", "models", "software", "scenarios", "tables", "failures", "engines",
                           "rl", "served", "trained"}) {
    for (const std::string& name : scenarios::shipped(kind)) with += name.find("llama3.1") != std::string::npos ? 1 : 0;
  }
  CHECK(lines == with);
  CHECK(tests::orrery({"completion", "bash"}).out.find("devices fabrics models") != std::string::npos);
  CHECK(tests::orrery({"help", "search"}).out.find("orrery search --help") != std::string::npos);
}

TEST_CASE("help knows every name that ships: what it is, what it is another name of, and where it is written") {
  for (const std::string& kind : tools::shipped_kinds()) {
    const std::vector<tools::ShippedName> names = tools::shipped_names(kind);
    CHECK(names.size() >= 3);
    for (const tools::ShippedName& name : names) {
      INFO(kind << " " << name.name);
      const std::string about = tools::about_shipped(name.name);
      CHECK(about.starts_with(name.name + " ("));
      CHECK(about.find("as in: ") != std::string::npos);
      CHECK(about.find("{{") == std::string::npos);
      CHECK(about.find("{}") == std::string::npos);
    }
  }
  const Outcome other = tests::orrery({"help", "nemo-26.08"});
  REQUIRE(other.status == 0);
  CHECK(other.out.find("another name of nemo-26.06") != std::string::npos);
  CHECK(other.out.find("software: nemo-26.08") != std::string::npos);
  CHECK(tests::orrery({"help", "nemo-26.06"}).out.find("another name") == std::string::npos);
  // What it is short for, and what it may be short for.
  CHECK(tests::orrery({"help", "h100"}).out.starts_with("h100-sxm-80gb (device)"));
  CHECK(tests::orrery({"help", "ring"}).out.starts_with("ring LL (algorithm"));
  CHECK(tests::orrery({"help", "zb_v"}).out.starts_with("zb_v (pipeline schedule)"));
  CHECK(tests::orrery({"help", "nemo-27.01"}).status == 2);
}
