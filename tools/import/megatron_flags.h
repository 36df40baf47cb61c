// The flags of Megatron-LM that a scenario takes, and those that it knowingly leaves out, with the reason; and what its
// words for recomputed modules mean.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace orrery::tools {

/// Flags, without dashes, that import reads.
const std::set<std::string>& taken_flags();
/// Reason -> flags that change no answer of a scenario.
const std::vector<std::pair<std::string, std::vector<std::string>>>& skipped_flags();
/// Reason -> flags that change a step's work or memory and are not taken over, to be said first. A name that ends with
/// * stands for all that begin with it; in both of these.
const std::vector<std::pair<std::string, std::vector<std::string>>>& unmodelled_flags();
/// As skipped_flags(), of which these are a part.
const std::vector<std::pair<std::string, std::vector<std::string>>>& further_skipped_flags();
/// Flags that tell the oldest release that has them, the newest first.
const std::vector<std::pair<const char*, const char*>>& software_since();

/// The layers of a pattern as Python reads it, ([0]*3+[1]*58) or [0, 1, 1]: lists of 0 and 1, repeated and joined.
/// Nothing where it is anything else, or has more than `most` layers.
std::optional<std::vector<bool>> layers_of(const std::string& pattern, std::size_t most);
/// Dense layers, behind which the last of every so many has experts; nothing where layers follow no such rule.
struct ExpertLayers {
  std::int64_t dense = 0, every = 1;
};
std::optional<ExpertLayers> expert_layers(const std::vector<bool>& layers);

class Draft;
/// Sets `recompute` to the selective kind of these modules, by Megatron-Core's names (megatron/core/transformer/
/// transformer_config.py, recompute_modules). What has no name here is remarked on as not taken over, under `option`.
void take_recomputed_modules(const std::vector<std::string>& modules, const std::string& option, Draft& draft);

}  // namespace orrery::tools
