// The types in which a checkpoint holds its weights, as config.json (quantization_config) or ModelOpt's
// hf_quant_config.json say it: of linear layers, of attention's among them, and of routed experts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

struct CheckpointTypes {
  std::string weights = "bf16", attention = "bf16", experts = "bf16";  // as `precision` of a served scenario has them
  std::string kv_cache;                                                // empty: it says none
  std::vector<std::string> told;                                       // what of it is not taken over
  /// As a scenario writes it.
  std::string text() const;
};

/// `config`: the quantization_config, or the whole of hf_quant_config.json. `layers`: of the model, whose middle one is
/// looked at, since ends are often left as they are. Nothing where its form is not known.
std::optional<CheckpointTypes> checkpoint_types(const sim::Settings& config, std::int64_t layers);

}  // namespace orrery::tools
