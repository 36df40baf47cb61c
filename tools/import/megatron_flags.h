// The flags of Megatron-LM that a scenario takes, and those that it knowingly leaves out, with the reason; and what its
// words for recomputed modules mean.
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

class Draft;
/// Sets `recompute` to the selective kind of these modules, by Megatron-Core's names (megatron/core/transformer/
/// transformer_config.py, recompute_modules). What has no name here is remarked on as not taken over, under `option`.
void take_recomputed_modules(const std::vector<std::string>& modules, const std::string& option, Draft& draft);

}  // namespace orrery::tools
