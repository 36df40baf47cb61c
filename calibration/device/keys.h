// The keys of this room's documents, for their readers, the schema and help.
#pragma once

#include "sim/keys.h"

namespace orrery::calibration {

/// Every key of calibration/software/<name>.yaml, flat or as it is written there.
const sim::KeyTable& software_keys();
/// Every key of calibration/profiles/<device>.yaml, except those below `node`, which the topology room owns.
const sim::KeyTable& profile_keys();
/// What Settings::checked_as() says of a profile that holds no other keys.
inline constexpr const char* kCheckedProfile = "device profile";

}  // namespace orrery::calibration
