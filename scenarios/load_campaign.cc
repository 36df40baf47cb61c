// The section `campaign`: the document that `failures` names, and what holds between it and the rest.
#include "scenarios/campaign.h"
#include "scenarios/library.h"
#include "scenarios/load.h"

namespace orrery::scenarios {

using sim::Settings;

namespace {

campaign::Fleet load_failures(const Settings& section) {
  const Settings* reference = given(&section, "failures");
  if (reference == nullptr) return {};
  const Resolved resolved = resolve(shelf_of("failures"), *reference);
  campaign::Fleet fleet = campaign::load_fleet(resolved.document);
  fleet.name = resolved.name.empty() ? "inline" : resolved.name;
  return fleet;
}

}  // namespace

std::optional<campaign::Spec> load_campaign(const Settings& document) {
  const Settings* section = given(&document, "campaign");
  if (section == nullptr) return std::nullopt;
  if (!section->is_mapping()) section->expected("a mapping, as in {tokens: 15e12, failures: llama3-2024}");
  campaign::Spec spec = campaign::load_spec(*section, load_failures(*section));
  const Settings* training = given(&document, "training");
  const bool tokens = training != nullptr && given(training, "tokens") != nullptr;
  if (!tokens && spec.tokens == 0 && spec.steps == 0 && spec.window_s == 0)
    section->fail("says not how long it trains, expected tokens, steps, window, or training.tokens");
  return spec;
}

}  // namespace orrery::scenarios
