// The `campaign` section of a scenario, read and checked.
#pragma once

#include <optional>

#include "sim/settings.h"
#include "workloads/runs/campaign/spec.h"

namespace orrery::scenarios {

/// What the scenario says of a campaign, the fleet that it names resolved; nothing where it has no such section. Throws
/// UserError.
std::optional<campaign::Spec> load_campaign(const sim::Settings& document);

}  // namespace orrery::scenarios
