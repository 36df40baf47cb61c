// The flags of Megatron-LM that a scenario takes, and those that it knowingly leaves out, with the reason.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace orrery::tools {

/// Flags, without dashes, that import reads.
const std::set<std::string>& taken_flags();
/// Reason -> flags that change no answer of a scenario.
const std::vector<std::pair<std::string, std::vector<std::string>>>& skipped_flags();

}  // namespace orrery::tools
