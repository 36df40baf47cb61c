// See load_sampling.h. A request's own key comes first, then the model's generation_config where the engine reads it,
// then a draw from all tokens.
#include "scenarios/load_sampling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "scenarios/library.h"
#include "scenarios/load.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Sampling;

namespace {

/// Keys of such a section; what it leaves out stays as it is.
void take_sampling(const Settings& section, Sampling& sampling) {
  sampling.temperature = number(&section, "temperature", sampling.temperature);
  sampling.top_p = number(&section, "top_p", sampling.top_p);
  sampling.top_k = integer(&section, "top_k", sampling.top_k);
  sampling.min_p = number(&section, "min_p", sampling.min_p);
  if (const Settings* repeated = given(&section, "repetition_penalty"); repeated != nullptr)
    sampling.penalty = std::abs(repeated->as_number(0.01, 100) - 1);
  for (const char* key : {"frequency_penalty", "presence_penalty"})
    if (const Settings* penalty = given(&section, key); penalty != nullptr)
      sampling.penalty += std::abs(penalty->as_number(-2, 2));
  sampling.logprobs = integer(&section, "logprobs", sampling.logprobs);
}

std::string sampling_text(const Sampling& s) {
  if (!s.draws()) return s.penalty > 0 ? "the greatest logit, with penalties" : "the greatest logit";
  std::vector<std::string> parts{fmt::format("temperature {:g}", s.temperature)};
  if (s.top_p < 1) parts.push_back(fmt::format("top_p {:g}", s.top_p));
  if (s.top_k > 0) parts.push_back(fmt::format("top_k {}", s.top_k));
  if (s.min_p > 0) parts.push_back(fmt::format("min_p {:g}", s.min_p));
  if (s.penalty > 0) parts.emplace_back("penalties");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

void load_sampling(const Settings& document, ServingScenario& s) {
  using calibration::SamplingDefaults;
  Sampling sampling;
  sampling.temperature = 1;
  const SamplingDefaults defaults = s.replica.engine.sampler.defaults;
  const std::string engine = s.replica.engine.name;
  std::string why = fmt::format("the default of {}", engine);
  const Resolved model = resolve(shelf_of("models"), required(document, "model"));
  const Settings* generation = given(&model.document, "generation");
  if (defaults == SamplingDefaults::model && generation != nullptr) {
    if (!generation->is_mapping()) generation->expected("a mapping, as in {temperature: 0.6, top_p: 0.9}");
    take_sampling(*generation, sampling);
    why = fmt::format("the model's generation_config, which {} reads", engine);
  }
  const Settings* asked = given(&document.at("traffic"), "sampling");
  if (asked != nullptr && asked->is_scalar() && asked->as_choice({"greedy", "model"}) == "greedy") sampling = {};
  if (asked != nullptr && !asked->is_scalar()) {
    if (!asked->is_mapping()) asked->expected("greedy, model or a mapping, as in {temperature: 0.6, top_p: 0.9}");
    take_sampling(*asked, sampling);
  }
  const bool left_open = asked == nullptr || (asked->is_scalar() && asked->text() == "model");
  if (defaults == SamplingDefaults::greatest) {
    const Sampling least;
    if (!left_open && sampling.draws())
      s.assumptions.push_back(
          fmt::format("traffic.sampling is not looked at: {} takes the greatest logit whatever is asked for.", engine));
    sampling = least;
  } else if (left_open && !workloads::answers_with_states(s.replica.model)) {
    s.assumptions.push_back(fmt::format("traffic.sampling is not given: {}, {}.", sampling_text(sampling), why));
  }
  if (workloads::answers_with_states(s.replica.model)) sampling = {};
  s.replica.sampling = sampling;
  if (s.answers) s.answers->replica.sampling = sampling;
}

}  // namespace orrery::scenarios
