// Did a compiled program move? Small ones are pinned in tests/golden/, each line derived there: NAME.yaml is the
// scenario, NAME.STAGE.txt the program of a stage, behind comments.
#include "workloads/compile/program_text.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "workloads/job/step_plan.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(tests::kSourceDir) / "tests" / "golden";

/// The file without its comments.
std::string golden(const fs::path& file) {
  std::ifstream in(file);
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("#")) text += line + "\n";
  }
  return text;
}

struct Compiled {
  Job job;
  StepPlan plan;
};

Compiled compiled(const fs::path& scenario, const std::vector<std::string>& sets = {}, bool folded = false) {
  Compiled out;
  out.job = scenarios::load_scenario(scenarios::read_scenario(scenario.string(), sets)).job;
  const topology::Cluster cluster = cluster_of(site_of(out.job));
  out.plan = make_plan(out.job, cluster, make_groups(group_inputs_of(out.job), cluster, true),
                       {Workload::training_step, folded});
  return out;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("programs are those of tests/golden") {
  constexpr std::int64_t kAll = 1'000'000;
  std::size_t pinned = 0;
  for (const auto& entry : fs::directory_iterator(kGolden)) {
    if (entry.path().extension() != ".txt") continue;
    const fs::path stem = entry.path().stem();  // NAME.STAGE
    INFO(entry.path().filename().string());
    const Compiled one = compiled(kGolden / (stem.stem().string() + ".yaml"));
    const std::int64_t stage = std::stoll(stem.extension().string().substr(1));
    CHECK(program_text(one.plan.stages, stage, {kAll, false}) == golden(entry.path()));
    ++pinned;
  }
  CHECK(pinned >= 5);
}

TEST_CASE("a program is shown in short, and what is left out is counted") {
  // A layer of 20 operations and more in each of 24 passes of two kinds.
  const Compiled one =
      compiled(kGolden / "tensor.yaml", {"model.layers=8", "batch.global=12", "parallelism.sequence_parallel=true"});
  const std::string text = program_text(one.plan.stages, 0);
  const std::size_t operations = one.plan.stages.programs[0].size();
  std::size_t shown = 0, left_out = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t open = line.find('('), first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.substr(first).starts_with("... "))
      left_out += std::stoul(line.substr(open + 1));
    if (first != std::string::npos && line[first] >= '0' && line[first] <= '9') ++shown;
  }
  CHECK(shown + left_out == operations);
  CHECK(shown < 100);
  CHECK(operations > 500);
  CHECK(text.find("and 8 more") != std::string::npos);  // 16 of 24 passes are named
  // As many passes as are asked for, whole.
  const std::string three = program_text(one.plan.stages, 0, {3, false});
  for (const char* pass : {"F0", "B0", "F1"}) CHECK(count(three, fmt::format("  {}  ", pass)) > 40);
  CHECK(count(three, "  B1  ") == 0);
}

TEST_CASE("kernels add up to their operation, and a folded run takes a pass as one operation") {
  const Compiled one = compiled(kGolden / "tensor.yaml");
  const std::string text = program_text(one.plan.stages, 0, {2, true});
  CHECK(text.find("  attention forward ") != std::string::npos);
  CHECK(text.size() > program_text(one.plan.stages, 0, {2, false}).size());
  // Tensor groups inside nodes, whose collectives no other traffic can slow down.
  const Compiled plain = compiled("gpt3-6.7b-a100"), folded = compiled("gpt3-6.7b-a100", {}, true);
  CHECK(count(program_text(plain.plan.stages, 0), "the whole pass") == 0);
  CHECK(count(program_text(folded.plan.stages, 0), "the whole pass") >= 1);
  CHECK(folded.plan.stages.programs[0].size() < plain.plan.stages.programs[0].size());
}
