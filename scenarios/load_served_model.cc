// See load_served_model.h. Blocks of operators run one by one; those whose products of two activations hang on how long
// sequences are, or leave a state that their lines do not say (Mamba-1's), are trained alone.
#include "scenarios/load_served_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/load.h"
#include "workloads/model/mixers/mixers.h"
#include "workloads/model/served_pass.h"

namespace orrery::scenarios {

using sim::Settings;

namespace {

bool is_served(const workloads::Operators& operators) {
  using Kind = workloads::Operator::Kind;
  return std::all_of(operators.run.begin(), operators.run.end(), [](const workloads::Operator& op) {
    const bool answers = op.kind != Kind::attention || op.causal;
    return op.kind != Kind::matmul && answers && op.share == 1;
  });
}

}  // namespace

void check_served_model(const Settings& document, const workloads::Model& model) {
  const auto refuse = [&](bool what, const char* why) {
    if (what) document.at("model").fail(why);
  };
  refuse(model.encoder.any(), "has an encoder of images, which is trained here, expected a model of text");
  refuse(model.source > 0, "has a decoder behind an encoder of text, which is trained here, expected either alone");
  bool encodes = false, decodes = false;
  for (const workloads::Model::Block& block : model.pattern.kinds) {
    refuse(!is_served(block.operators) || !is_served(block.behind),
           "has blocks of operators with products of two activations, or of a share of the tokens, which are trained "
           "here, expected products, norms and kernels bound by memory");
    if (block.attends || block.state.any()) (block.encodes() ? encodes : decodes) = true;
  }
  refuse(encodes && decodes, "has attention that sees what comes later in some blocks, expected it in all or none");
}

void check_answers(const Settings& document, const ServingScenario& scenario) {
  if (!workloads::answers_with_states(scenario.replica.model)) return;
  const serving::Length& output = scenario.traffic.output;
  const bool one = output.spread == serving::Spread::constant && output.mean == 1;
  if (!scenario.trace_file.empty() || !one)
    document.at("traffic").fail("asks an encoder for tokens, expected output: 1, the state that it answers with");
  if (scenario.answers) document.at("serving").fail("has a pool for answers of an encoder, expected one for all");
  if (scenario.chunked_prefill || scenario.prefix_caching)
    document.at("serving").fail(
        "has prompts of an encoder in parts, expected chunked_prefill: false and "
        "prefix_caching: false: every token sees all of its prompt");
}

void say_served_mixers(workloads::Job& job) {
  const std::vector<workloads::Model::Block>& kinds = job.model.pattern.kinds;
  std::erase_if(job.assumptions, [](const std::string& text) { return text.starts_with("model.mixers:"); });
  const auto scans = [&](const workloads::MixerKind* kind) {
    return std::any_of(kinds.begin(), kinds.end(),
                       [&](const workloads::Model::Block& b) { return b.state.any() && b.state.kind == kind; });
  };
  for (const workloads::MixerKind* kind : workloads::mixer_kinds())
    if (!kind->scan->served.timed && scans(kind))
      job.assumptions.push_back(fmt::format(
          "model.mixers: scans of {} take what they move and multiply at the shares that gated delta nets reach under "
          "this engine: no table times them.",
          kind->name));
}

}  // namespace orrery::scenarios
