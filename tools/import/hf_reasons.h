// Why keys of a config.json have no part in a scenario.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace orrery::tools {

/// Reason -> keys. Keys that are not here and that nothing reads are named as unknown.
const std::vector<std::pair<const char*, std::vector<std::string>>>& hf_reasons();

}  // namespace orrery::tools
