// Does everything that ships load, and does every command of the catalogue have its file?
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/laws/tree.h"
#include "tests/paths.h"
#include "tools/commands/commands.h"
#include "topology/cluster.h"

using namespace orrery;

namespace {

bool in_folder(const laws::SourceFile& file, const std::string& folder) {
  return file.suffix == ".yaml" && file.path.starts_with(folder) &&
         file.path.find('/', folder.size()) == std::string::npos;
}

}  // namespace

TEST_CASE("every shipped scenario loads, and is named as its file") {
  std::size_t count = 0;
  for (const laws::SourceFile& file : laws::source_files()) {
    if (!in_folder(file, "scenarios/")) continue;
    INFO(file.path);
    ++count;
    const scenarios::Scenario scenario =
        scenarios::load_scenario(scenarios::read_scenario(std::string(tests::kSourceDir) + "/" + file.path));
    CHECK(scenario.id + ".yaml" == file.path.substr(std::string("scenarios/").size()));
    CHECK_FALSE(scenario.job.description.empty());
  }
  CHECK(count >= 3);
}

TEST_CASE("GPUs of every fleet differ, and where nothing is known of it by as much as those that were fitted") {
  const std::string folder = std::string(tests::kSourceDir) + "/scenarios/fabrics/";
  const double fitted = scenarios::read_yaml(folder + "ndr-rail.yaml").get_number("gpu_spread", 0);
  CHECK(fitted > 0);
  std::size_t count = 0;
  for (const laws::SourceFile& file : laws::source_files()) {
    if (!in_folder(file, "scenarios/fabrics/")) continue;
    INFO(file.path);
    ++count;
    const sim::Settings fabric = scenarios::read_yaml(std::string(tests::kSourceDir) + "/" + file.path);
    // Stated, so that an explanation can move it; what inherits has that of its kin.
    CHECK((fabric.find("inherits") != nullptr || fabric.get_number("gpu_spread", 0) == fitted));
  }
  CHECK(count >= 20);
  const sim::Settings nothing_known = scenarios::parse_yaml("kind: none", "node.yaml");
  CHECK(topology::load_fabric_spec(nothing_known, "h100-sxm-80gb").gpus.spread == fitted);
}

TEST_CASE("every published table names shipped scenarios and cites its sources") {
  std::size_t rows = 0;
  for (const laws::SourceFile& file : laws::source_files()) {
    if (!in_folder(file, "scenarios/reproduce/")) continue;
    INFO(file.path);
    const sim::Settings table = scenarios::read_yaml(std::string(tests::kSourceDir) + "/" + file.path);
    if (const sim::Settings* curves = table.find("curves")) {
      for (const sim::Settings& curve : curves->items()) CHECK(curve.at("source").text().size() > 20);
      continue;
    }
    if (const sim::Settings* milestones = table.find("milestones")) {
      for (const sim::Settings& milestone : milestones->items()) CHECK(milestone.at("source").text().size() > 20);
      continue;
    }
    if (table.find("layers") != nullptr) {
      CHECK(table.at("source").text().size() > 20);
      continue;
    }
    if (const sim::Settings* figures = table.find("figures")) {
      CHECK(table.at("source").text().size() > 20);
      for (const sim::Settings& row : figures->items()) {
        const sim::Settings* scenario = row.find("scenario");
        if (scenario == nullptr || scenario->is_mapping()) continue;
        const std::string name = "/scenarios/" + scenario->text() + ".yaml";
        CHECK(laws::fs::is_regular_file(std::string(tests::kSourceDir) + name));
      }
      continue;
    }
    if (const sim::Settings* list = table.find("list")) {
      CHECK(laws::fs::is_regular_file(std::string(tests::kSourceDir) + "/tests/published/" + list->text() + ".yaml"));
      CHECK(table.at("source").text().size() > 20);
      continue;
    }
    const sim::Settings* trainings = table.find("trainings");
    if (trainings == nullptr) trainings = table.find("placements");
    if (trainings != nullptr) {
      for (const sim::Settings& training : trainings->items()) {
        const std::string scenario = training.at("scenario").text();
        CHECK(laws::fs::is_regular_file(std::string(tests::kSourceDir) + "/" + scenario.substr(0, scenario.find('#'))));
        CHECK(training.at("source").text().size() > 20);
      }
      continue;
    }
    const sim::Settings* campaigns = table.find("campaigns");
    for (const sim::Settings& system : campaigns != nullptr ? campaigns->items() : table.at("systems").items()) {
      ++rows;
      const std::string scenario = std::string(tests::kSourceDir) + "/scenarios/" + system.at("scenario").text();
      CHECK(laws::fs::is_regular_file(scenario));
      CHECK(system.at("source").text().size() > 20);
    }
  }
  CHECK(rows >= 3);
}

TEST_CASE("every command is one file of its name") {
  for (const tools::Command& command : tools::commands()) {
    INFO(command.name);
    CHECK(laws::fs::is_regular_file(std::string(tests::kSourceDir) + "/tools/commands/" + std::string(command.name) +
                                    ".cc"));
    CHECK_FALSE(command.summary.empty());
  }
}
