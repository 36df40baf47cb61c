// What layers run, line by line, adds up to what a step computes, and names the recipes that it comes from.
#include "tools/report/layer_lines.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/groups/streams.h"
#include "workloads/job/step_plan.h"
#include "workloads/step/step.h"

using namespace orrery;

namespace {

tools::LayerLines lines_of(const workloads::Job& job) {
  const topology::Cluster cluster = workloads::cluster_of(workloads::site_of(job));
  const auto groups = workloads::make_groups(workloads::group_inputs_of(job), cluster, true);
  const workloads::StepPlan plan =
      workloads::make_plan(job, cluster, groups, {workloads::Workload::training_step, false});
  return tools::layer_lines(plan.stages, workloads::network_of(job), 0);
}

}  // namespace

TEST_CASE("lines of layers add up to the compute of the step", "[layers]") {
  // Nothing that lies beside compute, so that all of it is exposed.
  const std::vector<std::string> base{"parallelism={tensor: 2, pipeline: 1, data: 8}", "software.kernel_issue='1 ns'"};
  for (const std::vector<std::string>& more : {std::vector<std::string>{},
                                               {"recompute=full"},
                                               {"model.positions=rotary", "software.recipe.rotary=in_steps"},
                                               {"software.recipe.loss=compiled", "attention=unfused"}}) {
    std::vector<std::string> sets = base;
    sets.insert(sets.end(), more.begin(), more.end());
    const workloads::Job job = tests::small_job(sets);
    const tools::LayerLines lines = lines_of(job);
    double seconds = 0;
    for (const tools::LayerLine& line : lines.lines) {
      CHECK(line.calls > 0);
      CHECK(line.launches >= line.calls);
      seconds += line.seconds;
    }
    CHECK(seconds == Approx(lines.seconds));
    CHECK(lines.seconds ==
          Approx(workloads::simulate_step(job).breakdown_s[static_cast<std::size_t>(workloads::Category::compute)])
              .epsilon(1e-6));
  }
}

TEST_CASE("a line names the recipe that it is of", "[layers]") {
  const tools::LayerLines lines =
      lines_of(tests::small_job({"model.positions=rotary", "software.recipe.rotary=in_steps"}));
  std::set<std::string> parts;
  bool turned = false;
  for (const tools::LayerLine& line : lines.lines) {
    if (line.recipe == nullptr) continue;
    parts.insert(std::string(calibration::name_of(line.recipe->part)));
    turned = turned || (line.kernel == "rotate in fp32" && line.recipe->variant == "in_steps");
  }
  CHECK(turned);
  CHECK(parts.contains("activation"));
  CHECK(parts.contains("norm"));
}
