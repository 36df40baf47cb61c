// Rows of the scenario language for what waits in the host's memory. See schema_offload.h.
#include "scenarios/schema_offload.h"

namespace orrery::scenarios {

std::vector<Key> offload_keys() {
  return {
      {"offload",
       "mapping",
       "",
       "-",
       {},
       "What waits in the host's memory, on a model of one pipeline stage; its way there and back is taken to hide."},
      {"offload.activation_layers",
       "integer",
       "",
       "0",
       {},
       "Layers whose activations are sent to the host behind their forward pass and fetched ahead of their backward "
       "pass.",
       {"0", "1e6"}},
      {"offload.activations_layers",
       "integer",
       "",
       "activation_layers",
       {},
       "Another spelling of activation_layers.",
       {"0", "1e6"}},
      {"offload.optimizer",
       "boolean",
       "",
       "false",
       {},
       "Whether optimizer states wait with the host; not modelled, so that true is refused."},
  };
}

}  // namespace orrery::scenarios
