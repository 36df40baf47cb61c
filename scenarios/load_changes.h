// Internal to the room: how the replicas of served pools come and go, and fail. Each throws UserError.
#pragma once

#include <string_view>

#include "scenarios/serving.h"

namespace orrery::scenarios {

/// Who has the GPUs that its pools may take.
std::string_view owner_of(const ServingScenario& s);

/// What a pool says of itself; `apart`: beside another.
void load_changes(const sim::Settings& pool, ServingScenario& s, ServedPool& p, bool apart);
/// What the section says, of its only pool or of both.
void load_changes_of_all(const sim::Settings& section, ServingScenario& s);

}  // namespace orrery::scenarios
