// Experts under groups that share out a state (HSDP): whichever way the ranks of a mixture are cut, the step is
// computed or refused in one line. No quotient is cut to a whole number in silence.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "workloads/step/step.h"

using namespace orrery;

namespace {

struct Cut {
  std::int64_t tensor, context, data, group, expert, expert_tensor;
  std::string sharding;
};

std::string text_of(const Cut& cut) {
  return fmt::format(
      "cluster: {{device: h100-sxm-80gb, gpus: {}, fabric: ndr-rail}}\n"
      "model: {{kind: moe, layers: 2, hidden: 512, heads: 8, vocab: 1024, seq: 256, experts: 16, expert_ffn_hidden: "
      "512, "
      "top_k: 2}}\n"
      "parallelism: {{tensor: {}, context: {}, data: {}, shard_group: {}, expert: {}, expert_tensor: {}, sharding: {}, "
      "sequence_parallel: {}}}\n"
      "batch: {{global: {}, micro: 1}}\n",
      cut.tensor * cut.context * cut.data, cut.tensor, cut.context, cut.data, cut.group, cut.expert, cut.expert_tensor,
      cut.sharding, cut.tensor > 1, 2 * cut.data);
}

std::vector<Cut> cuts() {
  std::vector<Cut> out;
  for (const std::int64_t tensor : {1, 2})
    for (const std::int64_t context : {1, 2})
      for (const std::int64_t data : {4, 6, 8})
        for (const std::int64_t group : {1, 2, 3, 4, 6, 8})
          for (const std::int64_t expert : {1, 2, 4, 8, 16})
            for (const std::int64_t expert_tensor : {1, 2})
              for (const char* sharding : {"optimizer", "gradients", "parameters"})
                out.push_back({tensor, context, data, group, expert, expert_tensor, sharding});
  return out;
}

}  // namespace

TEST_CASE("experts under shard groups are computed or refused in one line") {
  std::size_t computed = 0, refused = 0;
  std::vector<std::string> wrong;
  for (const Cut& cut : cuts()) {
    const std::string text = text_of(cut);
    try {
      const workloads::Job job = scenarios::load_scenario(scenarios::parse_yaml(text, "cut.yaml")).job;
      const workloads::StepReport report = workloads::simulate_step(job);
      ++computed;
      if (!(sim::to_seconds(report.iteration) > 0)) wrong.push_back(text);
    } catch (const sim::UserError& error) {
      ++refused;
      if (std::string(error.what()).find('\n') != std::string::npos) wrong.push_back(error.what());
    } catch (const std::exception& error) {
      wrong.push_back(fmt::format("{}: {}", text, error.what()));
    }
  }
  CHECK(computed > 200);
  CHECK(refused > 200);
  CHECK(wrong == std::vector<std::string>{});
}
